package cluster

// A Pending is the queue of a subscription: at most one register of each node and
// topic, at most GossipPending of them, oldest first. The zero Pending is empty. It
// belongs to one goroutine.
type Pending struct {
	order   []registerKey
	latest  map[registerKey]Register
	dropped uint64
}

// Push adds a register. If there are too many, the oldest is dropped.
func (p *Pending) Push(r Register) {
	k := registerKey{r.Topic, r.Node}
	if p.latest == nil {
		p.latest = map[registerKey]Register{}
	}
	if old, ok := p.latest[k]; ok {
		if r.Version.After(old.Version) {
			p.latest[k] = r
		}
		return
	}
	if len(p.latest) >= GossipPending {
		p.Pop()
		p.dropped++
	}
	p.latest[k] = r
	p.order = append(p.order, k)
}

// Pop removes the oldest register.
func (p *Pending) Pop() (Register, bool) {
	if len(p.order) == 0 {
		p.order = nil
		return Register{}, false
	}
	k := p.order[0]
	p.order = p.order[1:]
	r := p.latest[k]
	delete(p.latest, k)
	return r, true
}

// Lost returns the number of registers that were dropped.
func (p *Pending) Lost() uint64 { return p.dropped }
