package qmgr

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// Mail that waits for look-ups that take long would fill the core, and then no other
// mail comes in: with an active limit of 200, a thousand messages for domains whose name
// servers do not answer kept good mail waiting for four and a half minutes. So while less
// than half of the core is free, only an eighth of what is still free may be occupied by
// such mail (see stuck.go, for destinations of which nothing gets on). What is more is
// parked: it leaves the core as it came, with no change in the spool, and is opened
// again when its look-ups have ended.
//
// A message that cannot be parked, since it has recipients in the spool that have not
// been read, or some that are to be tried again, or because it was parked before, has
// those deferred that wait for slow look-ups.
//
// How the look-up ended is in the memory of silent names by then (silence.go), or in
// that of the resolver.

const (
	// parkedAtOnce bounds how many are looked at in one Step.
	parkedAtOnce = 64
	// parkedNamesMost bounds how many may be parked: some 10 MB.
	parkedNamesMost = 100_000
)

// parked is the messages that are parked until look-ups have ended.
type parked struct {
	known map[mail.QueueID]*absentee
	back  [lines]ilist.List[absentee] // those whose look-ups have ended, in that order
}

// An absentee is one of them.
type absentee struct {
	id     mail.QueueID
	from   origin
	waits  int // look-ups that have not ended
	inBack ilist.Link[absentee]
}

// stalls tells whether a look-up is one that takes long, or is likely to.
func (s *lookups) stalls(l *lookup) bool { return l.quiet || l.inAge.On(&s.slow) }

// parkStalled lets mail leave the core that waits for slow look-ups and is too much.
func (q *Qmgr) parkStalled() {
	q.ageLookups()
	s := &q.lookups
	leaving := 0 // what is put off leaves when that is recorded
	for n := min(s.stalled.Len(), parkedAtOnce); n > 0 && q.scarce() > leaving && s.stalled.Len() > (q.unused()+leaving)/stuckPart; n-- {
		j := s.stalled.Front()
		s.stalled.MoveToBack(&j.inLine)
		leaving += q.makeWay(j.message)
	}
}

// makeWay parks a message that waits for a slow look-up, or puts off what of it does. It
// returns how many messages leave for that, but not at once.
func (q *Qmgr) makeWay(m *message) (leaving int) {
	switch {
	case m.stage != stageRunning || m.order != orderNone || m.awaits != 0 || m.Entries > 0:
		return 0
	case m.More || m.retry || m.unreported || m.returned || len(q.lookups.parked.known) >= parkedNamesMost:
		q.putOffStalled(m)
		return 1
	}
	for j := range m.routing.jobs.All() {
		if !q.lookups.stalls(j.lookup) {
			return 0 // it may be answered in a moment
		}
	}
	q.parkForLookups(m)
	q.leftover = true // there may be more of it, and there is room now
	return 0
}

// putOffStalled defers the recipients of a message that wait for slow look-ups.
func (q *Qmgr) putOffStalled(m *message) {
	for j := m.routing.jobs.Front(); j != nil; {
		next := m.routing.jobs.Next(&j.inMessage)
		if l := j.lookup; q.lookups.stalls(l) {
			q.lookups.leave(j)
			q.lookups.unneed(l)
			q.bindJob(j, l.unanswered("too much mail waits for such answers"))
		}
		j = next
	}
	m.AllRead()
	q.advance(m)
}

// parkForLookups takes a message out of core that waits for nothing but slow look-ups.
func (q *Qmgr) parkForLookups(m *message) {
	assert.That(len(m.outcomes) == 0, "message %v is parked with %d outcomes that are not durable", m.ID, len(m.outcomes))
	a := &absentee{id: m.ID, from: m.from}
	for j := m.routing.jobs.PopFront(); j != nil; j = m.routing.jobs.PopFront() {
		q.lookups.leave(j)
		j.lookup.parked = append(j.lookup.parked, a)
		a.waits++
	}
	q.hold(m, -m.routing.count)
	m.Unbound -= m.routing.count
	m.routing.count = 0
	q.lookups.parked.known[m.ID] = a
	q.forget(m)
}

// letBack has those come back in their turn who have waited for a look-up, and for no other.
func (s *lookups) letBack(l *lookup) {
	for _, a := range l.parked {
		if a.waits--; a.waits == 0 {
			s.parked.back[a.from.line()].PushBack(&a.inBack, a)
		}
	}
	l.parked = nil
}

// unpark opens parked messages whose look-ups have ended.
func (q *Qmgr) unpark() {
	p := &q.lookups.parked
	for l, scan := range [lines]Scan{lineNew: ScanIncoming, lineRetries: ScanDeferred} {
		for !p.back[l].Empty() && !q.halt && q.roomFor(scan) && q.mayStart() {
			a := p.back[l].PopFront()
			delete(p.known, a.id)
			if !q.free(a.id) {
				continue // an operator's change of it is under way, after which it is found again
			}
			m := q.newMessage(a.id, a.from)
			m.returned = true
			m.await(awaitsOpen)
			q.emit(Open{ID: a.id, Max: q.firstRead(m)})
		}
	}
}

// check panics where an invariant does not hold; waits is in how many look-ups each
// message is named.
func (p *parked) check(messages map[mail.QueueID]*message, waits map[*absentee]int) {
	back := 0
	for l := range p.back {
		p.back[l].Check()
		back += p.back[l].Len()
	}
	for id, a := range p.known { //archtest:anyorder assertions
		assert.That(a.id == id && messages[id] == nil, "message %v is parked and in core", id)
		assert.That(a.waits == waits[a], "message %v is parked for %d look-ups, counted %d", id, waits[a], a.waits)
		assert.That(a.inBack.Listed() == (a.waits == 0), "message %v is parked for %d look-ups and comes back: %t", id, a.waits, a.inBack.Listed())
		if a.waits == 0 {
			back--
		}
	}
	assert.That(back == 0, "%d messages come back that are not parked", back)
}
