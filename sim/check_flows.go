package sim

import (
	"cmp"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// turns: where room is scarce all the time, no class, tenant or flow starts more often
// between two starts of another that has mail waiting than the ratio of their weights,
// rounded up. With equal weights they alternate, and so never differ by more than one
// (bounds (a) and (d) of package fair).
type turns struct{ safety }

func (*turns) name() string { return "turns" }

// started compares a contender that has started something with those beside it.
func (t *turns) started(w *world, k *contest, n *contender) {
	for _, m := range n.parent.members { //archtest:anyorder at most a different text
		if m == n || m.waiting == 0 {
			continue
		}
		allowed := (n.weight + m.weight - 1) / m.weight
		if first := len(n.recent) - 1 - allowed; first >= 0 && n.recent[first] > m.since {
			t.found(w.now, "%s of weight %d has had %d turns at %s since %s of weight %d had the last", n.path(), n.weight, allowed+1, k.to.name, m.path(), m.weight)
		}
	}
}

// sparse: where room is scarce, a class, tenant or flow that has nothing to pay starts after
// at most one start for each other that came before it and had nothing to pay either (bound
// (b) of package fair).
type sparse struct{ safety }

func (*sparse) name() string { return "sparse flows" }

func (s *sparse) started(w *world, k *contest, n *contender) {
	for _, m := range n.parent.members { //archtest:anyorder each by itself
		if m == n || m.waiting == 0 || !m.sparse {
			continue
		}
		if m.passed++; m.passed > m.ahead {
			s.found(w.now, "%s has little mail for %s and waits for %d starts of others, of which %d came before it", m.path(), k.to.name, m.passed, m.ahead)
		}
	}
}

// path returns the names of a contender.
func (n *contender) path() string {
	if n.parent == nil || n.parent.parent == nil {
		return n.name
	}
	return n.parent.path() + "/" + n.name
}

// crowds: a tenant takes turns at a destination as a bounded number of flows, whatever senders
// it invents (qmgr.Config.TenantFlows). With that, each of them has a bounded part of its tenant's
// starts (bound 5 of docs/fairness.md).
type crowds struct{ safety }

func (*crowds) name() string { return "crowds" }

// joined looks at the tenant of a flow that has begun to wait.
func (c *crowds) joined(w *world, all *claims, k *contest, leaf *contender) {
	if len(leaf.parent.members) <= all.most {
		return
	}
	n := 0
	for _, m := range leaf.parent.members { //archtest:anyorder a sum
		if m.waiting > 0 {
			n++
		}
	}
	if n > all.most {
		c.found(w.now, "%d flows of %s have mail waiting for %s; there may be %d", n, leaf.parent.path(), k.to.name, all.most)
	}
}

// idle: no slot of a destination stays free while mail waits for it (bound (c) of package
// fair). It leaves out where the core has a reason to wait: for a read, or for a time
// between deliveries. Where the core decides on connections it spreads starts, so that a
// slot may be free for spreadMost from the last start on.
type idle struct {
	safety
	touched  []*contest
	suspects []*contest // at which a slot was free at the end of the last Step
}

// spreadMost is the longest pause between two starts by which the core spreads them.
const spreadMost = 50 * time.Millisecond

func (*idle) name() string { return "idle slots" }

// touch has a contest looked at when the Step is over.
func (i *idle) touch(k *contest) {
	if !k.touched {
		k.touched = true
		i.touched = append(i.touched, k)
	}
}

// stepped finds out where a slot is free, and complains if time has passed since then.
func (i *idle) stepped(w *world, c *claims) {
	for _, k := range i.suspects {
		since := k.free
		if c.limits.usage(k.to.transport).cfg.Agents == qmgr.AgentsConnections {
			since = max(since, k.last).Add(spreadMost)
		}
		if w.now > since {
			i.found(k.free, "a slot of %s is free for %v while %d recipients wait", k.to.name, w.now.Sub(k.free), k.was)
		}
		i.touch(k)
	}
	i.suspects = i.suspects[:0]
	for _, k := range i.touched {
		k.touched = false
		if k.was = len(k.queued); k.was > 0 && k.hasFree(w, c) {
			k.free = cmp.Or(k.free, w.now)
			i.suspects = append(i.suspects, k)
		} else {
			k.free = 0
		}
	}
	i.touched = i.touched[:0]
}

// hasFree reports whether the destination has a slot that the core should use.
func (k *contest) hasFree(w *world, c *claims) bool {
	cfg := &c.limits.usage(k.to.transport).cfg
	if cfg.RateDelay > 0 || !w.scenario.Disk.Read.IsZero() {
		return false
	}
	if cfg.Agents != qmgr.AgentsConnections {
		q, _ := w.core.Peek(k.to.transport, k.to.name, "", "")
		return q.State == window.Ready && k.busy < q.Window && c.busy[k.to.transport] < cfg.ProcessLimit
	}
	for _, s := range w.listed {
		if s.up && !s.hung && s.loss.at == 0 && len(s.letters) == 0 && s.serves == k.to && s.opening.Transport == k.to.transport {
			return true
		}
	}
	return false
}
