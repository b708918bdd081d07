package sim

import (
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

// A receiver is one host: an address that connections are made to, and what is
// behind it.
type receiver struct {
	event      // the next change of its behavior
	name       string
	addr       netip.AddrPort
	index      int // among all receivers
	preference uint16
	changes    []Change
	outages    []Outage
	rng        prng.Source
	now        Behaviour // in force
	changed    int       // changes in force

	open    int // connections that it counts: those past the handshake
	serving int // processes in use
	waiting ilist.List[call]
	idle    ilist.List[connection] // of agents; the one that has waited longest in front
	turn    int                    // the server that gets the next connection

	volumes map[string]*volume // of mail, by source

	sessions ilist.List[session] // established, the oldest first
	frozen   mail.Instant        // until when nothing comes through on these
}

// A connection is an open one of an agent, in use or idle.
type connection struct {
	event   // the end of its idleness
	to      *receiver
	client  *Client
	rtt     time.Duration
	opened  mail.Instant
	carried int // deliveries
	inIdle  ilist.Link[connection]
}

// happen puts the next behavior into force.
func (r *receiver) happen(w *world) {
	r.now = r.changes[r.changed].Behaviour
	r.changed++
	r.schedule(w)
	r.admit(w)
	r.shed(w)
}

// crowded reports whether more connections are open than it allows, as when its limit
// has fallen.
func (r *receiver) crowded() bool { return r.now.ConnectionLimit > 0 && r.open > r.now.ConnectionLimit }

// shed closes surplus connections that carry nothing. The others it closes when it has
// answered what is under way.
func (r *receiver) shed(w *world) {
	for c := r.idle.Front(); c != nil && r.crowded(); c = r.idle.Front() {
		r.idle.Remove(&c.inIdle)
		w.cancel(&c.event)
		r.close(w, c)
	}
	var idle []*session
	for s := range r.sessions.All() {
		if len(s.letters) == 0 && !s.hung {
			idle = append(idle, s)
		}
	}
	for _, s := range idle {
		if r.crowded() && s.up && len(s.letters) == 0 {
			s.drop(w, mail.Closing{Why: mail.CloseIdle, Reply: replyBusy})
		}
	}
}

func (r *receiver) schedule(w *world) {
	if r.changed < len(r.changes) {
		w.at(&r.event, r, w.start.Add(r.changes[r.changed].At))
	}
}

// fault returns how a new connection from a source fails, if it does.
func (r *receiver) fault(w *world, source string) (Fault, bool) {
	since := w.now.Sub(w.start)
	for i := range r.outages {
		if o := &r.outages[i]; since >= o.From && since < o.Until {
			return o.Fault, true
		}
	}
	if source != "" && source == r.now.RefusedSource {
		return FaultBusy, true
	}
	if r.now.BadServers == 0 {
		return 0, false
	}
	servers := max(r.now.Servers, 1)
	pick := r.turn % servers
	if r.now.Random {
		pick = r.rng.IntN(servers)
	}
	r.turn = pick + 1
	return r.now.Bad, pick < r.now.BadServers
}

// hasProcess reports whether a connection would be served at once.
func (r *receiver) hasProcess() bool { return r.now.Processes == 0 || r.serving < r.now.Processes }

// hasRoom reports whether the kernel would let a connection wait.
func (r *receiver) hasRoom() bool { return r.waiting.Len() < r.now.Backlog }

// admit serves connections that wait, as long as there are processes.
func (r *receiver) admit(w *world) {
	for r.hasProcess() {
		c := r.waiting.Front()
		if c == nil {
			return
		}
		r.waiting.Remove(&c.inWaiting)
		w.cancel(&c.event)
		r.serving++
		c.greeted(w)
	}
}

// close ends a connection, and lets in who waits.
func (r *receiver) close(w *world, c *connection) {
	w.spareConnections.Give(c)
	r.leave(w)
}

// leave ends a connection that it counts.
func (r *receiver) leave(w *world) {
	w.connected(r, -1)
	r.open--
	r.release(w)
}

// release lets go of a process.
func (r *receiver) release(w *world) {
	if r.serving > 0 {
		r.serving--
	}
	r.admit(w)
}

// keep keeps a connection for the next delivery if the client does that, or
// closes it.
func (r *receiver) keep(w *world, c *connection) {
	c.carried++
	old := c.client.ReuseTime > 0 && w.now.Sub(c.opened) >= c.client.ReuseTime
	used := c.client.ReuseCount > 0 && c.carried >= c.client.ReuseCount
	if c.client.CacheTime <= 0 || old || used || r.crowded() {
		r.close(w, c)
		return
	}
	r.idle.PushBack(&c.inIdle, c)
	w.at(&c.event, c, w.now.Add(c.client.CacheTime))
}

// happen closes a connection that was idle for too long.
func (c *connection) happen(w *world) {
	c.to.idle.Remove(&c.inIdle)
	c.to.close(w, c)
}

// reuse returns an idle connection, nil if there is none.
func (r *receiver) reuse(w *world) *connection {
	c := r.idle.Front()
	if c != nil {
		r.idle.Remove(&c.inIdle)
		w.cancel(&c.event)
	}
	return c
}

// connect makes an agent's connection of an established one.
func (r *receiver) connect(w *world, client *Client) *connection {
	c := w.spareConnections.Take()
	*c = connection{to: r, client: client, opened: w.now}
	return c
}

// retransmit returns the wait before packet n of a handshake is repeated; false
// if it is not repeated any more.
func (b *Behaviour) retransmit(n int) (time.Duration, bool) {
	if b.Retransmit == nil {
		return time.Second << n, n < 5
	}
	if n >= len(b.Retransmit) {
		return 0, false
	}
	return b.Retransmit[n], true
}

// A volume is how many messages a receiver has had from a source.
type volume struct {
	day   int64 // since the epoch
	today int   // taken
	most  int   // taken on a day before
}

// tolerates reports whether the receiver takes one more message from a source, and counts it
// if it does.
func (r *receiver) tolerates(source string, now mail.Instant) bool {
	b := &r.now
	if b.Tolerance == 0 || source == b.KnownSource {
		return true
	}
	v := r.volumes[source]
	if v == nil {
		if r.volumes == nil {
			r.volumes = make(map[string]*volume)
		}
		v = &volume{}
		r.volumes[source] = v
	}
	if day := now.Seconds() / 86400; day > v.day {
		v.day, v.today, v.most = day, 0, max(v.most, v.today)
	}
	if v.today >= max(b.Tolerance, int(float64(v.most)*b.ToleranceGrowth)) {
		return false
	}
	v.today++
	return true
}
