package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// selectEntry returns the entry of a transport to deliver next, started, or nil
// if there is none, or if recipients must be read first: then the transport is
// paused.
//
// Jobs are taken in order, starting with the current one or a job that goes
// first at its expense. Within a job, destinations take turns. A job none of
// whose destinations has room is marked as blocked and passed by; one that has
// nothing to select is retired until it gets more. Those that need only be
// marked are not even looked at.
func (q *Qmgr) selectEntry(t *transport) *entry {
	switch {
	case t.cfg.Scheduler == RoundRobin:
		return q.nextInTurn(t)
	case t.cfg.Scheduler == Runner:
		return q.nextInRun(t)
	case t.current == nil:
		return nil
	}
	return q.walk(t, q.first(t), visitStart)
}

// walk looks at jobs, from one on, until an entry is found.
func (q *Qmgr) walk(t *transport, j *job, at visit) *entry {
	for ; j != nil; j, at = t.find.nextVisit(t), visitStart {
		t.pass(j)
		p, wait := q.visit(j, at)
		switch {
		case wait:
			return nil
		case p != nil:
			return q.pick(j, p)
		case j.waiting() > 0:
			t.block(j)
		default:
			j.retire()
		}
	}
	if last := t.jobs.Back(); last != nil && last.label >= t.passed {
		t.passUpTo(last)
	}
	t.setCurrent(nil)
	return nil
}

// first returns the job with which a selection begins.
func (q *Qmgr) first(t *transport) *job {
	current := t.current
	j := t.preempt(current, q.now)
	if j != current && q.cfg.Debug {
		q.emit(Preempted{Transport: t.name, Current: current.message.id, By: j.message.id, Level: j.stack.level})
	}
	if t.blocked(j) {
		return t.find.nextVisit(t)
	}
	return j
}

// visit looks at one job: it asks for more recipients if enough of them fit,
// and returns a peer that has an entry to start. If no peer has, it asks for as
// many recipients as fit at all and looks again. wait says that the selection
// is paused for them.
func (q *Qmgr) visit(j *job, at visit) (p *peer, wait bool) {
	m := j.message
	if at == visitStart {
		if q.worthReading(j) && q.readFor(j, visitPeers) {
			return nil, true
		}
		at = visitPeers
	}
	if p := j.selectPeer(); p != nil || at == visitPeersAgain {
		return p, false
	}
	if m.more && m.entries > 0 && m.limit > m.inCore && q.readFor(j, visitPeersAgain) {
		return nil, true
	}
	if !q.cfg.AsPostfix {
		return nil, false
	}
	return j.selectPeer(), false
}

// worthReading tells whether so many recipients of the job's message fit that a
// read is worth while, or whether the last one was long ago.
func (q *Qmgr) worthReading(j *job) bool {
	m, cfg := j.message, &j.transport.cfg
	if !m.more || m.entries == 0 {
		return false
	}
	room := m.limit - m.inCore
	return room >= cfg.RefillLimit || room > 0 && q.now.Sub(m.refilled) >= cfg.RefillDelay
}

// readFor asks for recipients while a job is being looked at, and tells whether
// the selection waits for them.
func (q *Qmgr) readFor(j *job, then visit) bool {
	if !q.read(j.message) || !q.cfg.AsPostfix {
		return false
	}
	q.paused = pause{job: j, visit: then}
	return true
}

// resume goes on with a selection that waits for recipients of m.
func (q *Qmgr) resume(m *message) {
	j, at := q.paused.job, q.paused.visit
	if j == nil || j.message != m || m.awaits&(awaitsRead|awaitsRoute) != 0 {
		return
	}
	q.paused.job = nil
	t := j.transport
	if next := t.find.nextVisit(t); !j.listed || next != nil && next.label < j.label {
		q.offer(t) // the host has not answered at once, and things have changed
	} else if e := q.walk(t, j, at); e != nil {
		q.start(t, e)
	}
	q.endLull(t)
}

// offer starts the next delivery of a transport.
func (q *Qmgr) offer(t *transport) {
	if e := q.selectEntry(t); e != nil {
		q.start(t, e)
	}
}

// pick starts the next entry of a peer. The job becomes the current one, so that
// the blocked ones before it need not be passed again.
func (q *Qmgr) pick(j *job, p *peer) *entry {
	t, e := j.transport, p.todo.Front()
	q.stagger(e)
	q.lastEntry++
	e.start(q.lastEntry)
	j.stack.earned()
	if t.cache.current != j {
		t.cache.reset()
	}
	t.setCurrent(j)
	switch {
	case j.waiting() > 0:
	case j.message.more:
		t.attend(j)
	default:
		j.retire()
	}
	return e
}

// start hands a taken entry to the host.
func (q *Qmgr) start(t *transport, e *entry) {
	q.busy[e.id] = e
	if e.message.callout == nil {
		q.counts.Started++
	}
	defer q.counted(e)
	if t.group != nil {
		q.send(t, e)
		return
	}
	q.emit(Deliver{Entry: e.id, Delivery: e.delivery(t)})
}

// delivery is what the host has to know of an entry.
func (e *entry) delivery(t *transport) mail.Delivery {
	return mail.Delivery{
		Transport:  t.name,
		Nexthop:    e.queue().nexthop,
		Envelope:   e.message.env,
		Recipients: append([]mail.Recipient(nil), e.recipients...),
		Origin:     e.queue().instead,
		Said:       e.queue().said,
		Callout:    e.message.callout != nil,
	}
}

// schedule starts deliveries as long as there is something that may start.
// Transports take turns.
func (q *Qmgr) schedule() {
	for !q.halt && q.paused.job == nil {
		t := q.nextReady()
		if t == nil {
			// Connections that are taken over make room; mail whose destination
			// cannot be reached is deferred, which is a delivery, too.
			taken := q.connect()
			if t = q.nextReady(); t == nil && taken {
				continue
			}
		}
		if t == nil || !q.mayStart() {
			return
		}
		q.serve(t)
	}
}

// nextReady returns the next transport, in turn, that could start a delivery.
// The turn goes to the one behind it.
func (q *Qmgr) nextReady() *transport {
	for t := range q.ring.All() {
		if t.ready() {
			q.ring.RotateAfter(&t.inRing)
			return t
		}
	}
	return nil
}

// agentReady gives an offered agent something to do.
func (q *Qmgr) agentReady(name string) {
	t := q.transports[name]
	if t == nil || q.halt {
		return
	}
	assert.That(t.cfg.Agents == AgentsOffered, "an agent of %s is offered, which has its own", name)
	if q.paused.job != nil || t.dead() {
		return
	}
	q.serve(t)
}

// selectTransport says which transport should be given an agent: the first, in
// turn, that has more entries to start than agents on their way.
func (q *Qmgr) selectTransport(pending map[string]int) {
	for t := range q.ring.All() {
		if t.mayAsk(pending[t.name]) && t.offers(pending[t.name], q.cfg.AsPostfix) {
			q.ring.RotateAfter(&t.inRing)
			if t.cfg.TransportRateDelay > 0 {
				t.lull.state = lullAsked
			}
			q.emit(Selected{Transport: t.name})
			return
		}
	}
	q.emit(Selected{})
}

// mayAsk tells whether one more agent may be asked for.
func (t *transport) mayAsk(pending int) bool {
	switch t.lull.state {
	case lullFree:
		return pending < maxPending
	case lullAsked:
		return pending == 0 // the one that was asked for does not come
	}
	return false
}

// maxPending is how many agents of a transport are on their way at most.
const maxPending = 2

// offers tells whether the transport has an entry to start for one more agent.
//
// In Postfix a destination that has more deliveries under way than its window
// allows now counts against the others, if it came about before them, so that it
// may hide their work.
func (t *transport) offers(pending int, asPostfix bool) bool {
	switch {
	case t.paused:
		return false
	case t.cfg.Scheduler == Runner:
		return pending == 0 && t.canRun()
	case !asPostfix:
		return t.startable > pending
	}
	need := pending + 1
	for d := range t.order.All() {
		if d.ready() {
			need -= min(d.window.Size()-d.busy, d.todo.Len())
		}
		if need <= 0 {
			return true
		}
	}
	return false
}
