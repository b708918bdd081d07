package intake

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// Name servers that do not answer keep each lookup for as long as its host has patience,
// nearly a minute. A message has its share of lookups, but a thousand messages with one
// such domain each had all of them, and those behind them waited for nearly a minute,
// too.
//
// Only asking shows which name servers do not answer, so the slots of Limits.Lookups are
// for asking: a lookup that has taken longer than lookupPatience gives its slot back and
// goes on among the slow ones, of which there may be slowLookups times as many. A thousand
// silent domains are found out in half a second, at the default limit. If there are too
// many slow ones, the one that has gone on for longest is given up after slowPatience:
// those who wait for it are deferred as if it had failed, and its answer is ignored.
// (unbound does so with its own questions: jostle-timeout.) Either way the name is
// remembered (silence.go).
//
// A slow lookup still counts for the share of its message: a large one may have no more
// than its part of Limits.Lookups, which an operator sets to what the name server can
// handle. It does not count for what many have in common: the share of all retries, and the
// slots of a network of clients. Of slow ones a network may have slowLookups times as
// many as it has slots; then it waits for its own.

const (
	// lookupPatience is the time for which a lookup may keep its slot.
	lookupPatience = 50 * time.Millisecond
	// slowPatience is the time for which a lookup goes on in any case. One that ends after that
	// without an answer shows that its name is silent.
	slowPatience = 2 * time.Second
	// slowLookups is how many times as many as with a slot there may be without one.
	slowLookups = 10
	// quietenedAtOnce bounds how many lookups one call of Age makes quiet.
	quietenedAtOnce = 64
)

// Age has lookups that take long give their slots back. It returns one that must be
// given up so that others can, or nil: the caller has it Abandoned and Ended, and calls
// Age again.
// scarce is the number of messages that would have to leave for half of core to be free; 0 or less
// if half of it is.
func (s *Lookups) Age(now mail.Instant, scarce int) *Lookup {
	for l := s.young.Front(); l != nil && now >= l.begun.Add(lookupPatience); l = s.young.Front() {
		if s.slow.Len() >= s.slowMost() {
			oldest := s.slow.Front()
			if now >= oldest.begun.Add(slowPatience) && len(s.abandoned) < s.slowMost() {
				return oldest
			}
			s.quieten(scarce)
			return nil
		}
		s.slowDown(l)
	}
	return nil
}

// slowDown takes a lookup's slot back.
func (s *Lookups) slowDown(l *Lookup) {
	s.young.Remove(&l.inAge)
	s.slow.PushBack(&l.inAge, l)
	s.leaveRetries(l)
	if l.network != nil {
		s.clients.SlowDown(l.network)
	}
	if l.quiet { // its jobs are stalled already
		s.silent.young--
		return
	}
	for j := range l.jobs.All() {
		s.stall(j)
	}
}

// quieten makes lookups quiet that cannot begin because all others take long, so that mail
// can be parked that waits for them: it would fill the core until there is an answer. They
// are those that messages have waited for longest, of new mail before retries.
func (s *Lookups) quieten(scarce int) {
	for n := quietenedAtOnce; n > 0 && s.jammed(scarce); n-- {
		waiting := s.lines[LineNew].Front()
		if waiting == nil {
			waiting = s.lines[LineRetries].Front()
		}
		l := waiting.waiting.Front().lookup
		l.quiet = true
		s.silent.waiting.PushBack(&l.inAge, l)
		for j := range l.jobs.All() {
			s.leaveLine(j)
			s.stall(j)
		}
		for c := range l.questions.All() {
			s.leaveNetwork(c)
		}
	}
}

// jammed reports whether mail waits for lookups that cannot begin, and what could be
// parked is less than the core is short of.
func (s *Lookups) jammed(scarce int) bool {
	return s.young.Len() >= s.limits.Lookups && s.slow.Len() >= s.slowMost() && scarce > s.stalled.Len() &&
		!(s.lines[LineNew].Empty() && s.lines[LineRetries].Empty())
}

// slowMost is how many slow lookups there may be, and how many that were given up and
// that the host still works on.
func (s *Lookups) slowMost() int { return slowLookups * s.limits.Lookups }

// Abandon notes that a lookup is given up, which Age has returned. The caller ends it with
// the reply of the route that Abandon returns; its answer will be ignored.
func (s *Lookups) Abandon(l *Lookup) mail.Route {
	assert.That(l.inAge.On(&s.slow), "lookup %d of %s is given up, and is not slow", l.id, l.Nexthop)
	s.abandoned[l.id] = l.Nexthop
	return l.Unanswered("no answer within 2 seconds, and other lookups wait")
}

// Unanswered returns the route of mail that waits for the lookup no longer: it is
// deferred, as if the lookup had failed. why is a clause for the reply.
func (l *Lookup) Unanswered(why string) mail.Route {
	return mail.Route{Transport: l.Transport, Nexthop: l.Nexthop, Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 3},
		Text: "DNS lookup of " + l.Nexthop + " failed: " + why}}
}

// Wake returns when a lookup gives its slot back to one that waits, or becomes so old
// that mail may be parked that waits for it; Never if only an answer changes anything.
// scarce is as for Age.
func (s *Lookups) Wake(scarce int) mail.Instant {
	l := s.young.Front()
	wanted := len(s.known) > len(s.busy)
	if l == nil || !wanted && scarce <= 0 {
		return mail.Never
	}
	at := l.begun.Add(lookupPatience)
	if s.jammed(scarce) {
		return at
	}
	if oldest := s.slow.Front(); oldest != nil && s.slow.Len() >= s.slowMost() {
		if len(s.abandoned) >= s.slowMost() {
			return mail.Never // an answer makes room
		}
		at = max(at, oldest.begun.Add(slowPatience))
	}
	return at
}
