package intake

import (
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
)

// Mail that waits for lookups that take long would fill the core, and then no other mail
// comes in: with an active limit of 200, a thousand messages for domains whose name
// servers do not answer kept good mail waiting for four and a half minutes. So a message
// that waits for such lookups alone can be parked: it leaves the core as it came, with no
// change in the spool, and is opened again when its lookups have ended. Which messages
// are parked, and when, is decided where the room in core is known.
//
// How the lookup ended is in the memory of silent names by then (silence.go), or in that
// of the resolver.

const (
	// parkedAtOnce bounds how many lookups are made to wait at once for it.
	parkedAtOnce = 64
	// parkedNamesMost bounds how many messages may be parked: some 10 MB.
	parkedNamesMost = 100_000
)

// parking is the messages that are parked until lookups have ended.
type parking struct {
	known map[mail.QueueID]*absentee
	back  [lines]ilist.List[absentee] // those whose lookups have ended, in that order
}

// An absentee is one of them.
type absentee struct {
	id     mail.QueueID
	from   Origin
	waits  int // lookups that have not ended
	inBack ilist.Link[absentee]
}

// stalls reports whether a lookup is one that takes long, or is likely to.
func (s *Lookups) stalls(l *Lookup) bool { return l.quiet || l.inAge.On(&s.slow) }

// Stalled returns how many jobs wait for lookups that take long, or are likely to.
func (s *Lookups) Stalled() int { return s.stalled.Len() }

// RotateStalled returns the first of these jobs, which becomes the last; there must be
// one.
func (s *Lookups) RotateStalled() *Job {
	j := s.stalled.Front()
	s.stalled.MoveToBack(&j.inLine)
	return j
}

// MayPark reports whether all that a message waits for are such lookups, and there is
// room for the note that it is parked. Other lookups may be answered in a moment.
func (s *Lookups) MayPark(r *Routing) bool {
	for j := range r.jobs.All() {
		if !s.stalls(j.lookup) {
			return false
		}
	}
	return s.HasParking()
}

// HasParking reports whether one more message may be parked.
func (s *Lookups) HasParking() bool { return len(s.parked.known) < parkedNamesMost }

// Park has a message leave the core until its lookups have ended, and returns how many
// of its recipients wait for them.
func (s *Lookups) Park(r *Routing, from Origin) (n int) {
	n = r.count
	a := &absentee{id: r.message.ID, from: from}
	for j := r.jobs.Front(); j != nil; j = r.jobs.Front() {
		s.leave(j)
		j.lookup.parked = append(j.lookup.parked, a)
		a.waits++
	}
	s.parked.known[a.id] = a
	return n
}

// TakeStalled takes back a job of a message that waits for a lookup that takes long; nil
// if there is none left.
func (s *Lookups) TakeStalled(r *Routing) *Job {
	for j := range r.jobs.All() {
		if s.stalls(j.lookup) {
			s.leave(j)
			s.unneed(j.lookup)
			return j
		}
	}
	return nil
}

// letBack has messages come back in their turn that have waited for a lookup, and for no
// other.
func (p *parking) letBack(l *Lookup) {
	for _, a := range l.parked {
		if a.waits--; a.waits == 0 {
			p.back[a.from.Line()].PushBack(&a.inBack, a)
		}
	}
	l.parked = nil
}

// Returning reports whether a parked message of a line may be opened again.
func (s *Lookups) Returning(l Line) bool { return !s.parked.back[l].Empty() }

// Return takes a parked message that may be opened again, of a line that has one.
func (s *Lookups) Return(l Line) (mail.QueueID, Origin) {
	a := s.parked.back[l].PopFront()
	delete(s.parked.known, a.id)
	return a.id, a.from
}

// Parked returns how many messages are parked.
func (s *Lookups) Parked() int { return len(s.parked.known) }

// IsParked reports whether a message is parked.
func (s *Lookups) IsParked(id mail.QueueID) bool { return s.parked.known[id] != nil }

// RetryParked has a message, if it is parked, looked up again when it comes back,
// whatever its name servers were like: an operator wants it tried.
func (s *Lookups) RetryParked(id mail.QueueID) {
	if a := s.parked.known[id]; a != nil {
		a.from = FromRetry
	}
}

// check panics where an invariant does not hold; waits is in how many lookups each
// message is named.
func (p *parking) check(inCore func(mail.QueueID) bool, waits map[*absentee]int) {
	back := 0
	for l := range p.back {
		p.back[l].Check()
		back += p.back[l].Len()
	}
	for id, a := range p.known { //archtest:anyorder assertions
		assert.That(a.id == id && !inCore(id), "message %v is parked and in core", id)
		assert.That(a.waits == waits[a], "message %v is parked for %d lookups, counted %d", id, waits[a], a.waits)
		assert.That(a.inBack.Listed() == (a.waits == 0), "message %v is parked for %d lookups and comes back: %t", id, a.waits, a.inBack.Listed())
		if a.waits == 0 {
			back--
		}
	}
	assert.That(back == 0, "%d messages come back that are not parked", back)
}
