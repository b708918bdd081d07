package intake

import (
	"iter"

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

// parkedMost bounds how many messages may be parked: some 10 MB.
const parkedMost = 100_000

// parking is the messages that are parked until lookups have ended.
type parking struct {
	known map[mail.QueueID]*absentee
	back  [lines]ilist.List[absentee] // those whose lookups have ended, in that order
}

// An absentee is one of them.
type absentee struct {
	id     mail.QueueID
	from   Origin
	waits  int                  // in how many Lookup.parked it is
	inBack ilist.Link[absentee] // on parking.back if waits is 0
}

// stalls reports whether a lookup stalls those who wait for it: it is slow, or quiet, and
// so likely to be.
func (s *Lookups) stalls(l *Lookup) bool { return l.quiet || l.inAge.On(&s.slow) }

// stall notes that a job waits for a lookup that stalls it.
func (s *Lookups) stall(j *Job) {
	s.stalled.PushBack(&j.inLine, j)
	j.routing.stalled++
}

// Stalled returns how many jobs wait for lookups that are slow, or quiet.
func (s *Lookups) Stalled() int { return s.stalled.Len() }

// RotateStalled returns the first of these jobs, which becomes the last; there must be
// one.
func (s *Lookups) RotateStalled() *Job {
	assert.That(!s.stalled.Empty(), "no job is stalled")
	j := s.stalled.Front()
	s.stalled.MoveToBack(&j.inLine)
	return j
}

// MayPark reports whether a message waits for nothing but such lookups. Others may be
// answered in a moment.
func (r *Routing) MayPark() bool { return r.count > 0 && r.stalled == r.jobs.Len() }

// HasParking reports whether one more message may be parked.
func (s *Lookups) HasParking() bool { return len(s.parked.known) < parkedMost }

// Park has a message, which MayPark, leave the core until its lookups have ended, if it
// HasParking. It returns how many of its recipients wait for them.
func (s *Lookups) Park(r *Routing, from Origin) (n int) {
	assert.That(r.MayPark() && s.HasParking(), "a message with %d recipients waiting is parked", r.count)
	assert.That(!s.IsParked(r.message.ID), "message %v is parked twice", r.message.ID)
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

// TakeStalled yields the jobs of a message that wait for such lookups, each taken off its
// lookup.
func (s *Lookups) TakeStalled(r *Routing) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for j := range r.jobs.All() {
			if !s.stalls(j.lookup) {
				continue
			}
			s.leave(j)
			s.unneed(j.lookup)
			if !yield(j) {
				return
			}
		}
	}
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

// Return takes the parked message of a line whose lookups ended first. There must be one
// that is Returning. The message is parked no more.
func (s *Lookups) Return(l Line) (mail.QueueID, Origin) {
	assert.That(s.Returning(l), "no message of line %d comes back", l)
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
