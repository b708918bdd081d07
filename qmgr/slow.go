package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Name servers that do not answer keep each question for as long as its host has
// patience, nearly a minute. A message has its share of look-ups, but a thousand
// messages with one such domain each had all of them, and those behind them waited for
// nearly a minute, too.
//
// Who will not answer can only be found out by asking, so the places of LookupLimit are
// for asking: a look-up that has taken longer than lookupPatience gives its place back
// and goes on among the slow ones, of which there may be slowLookups times as many. A
// thousand silent domains are found out in half a second, at the default limit. If there
// are too many slow ones, the one that has gone on for longest is given up after
// slowPatience: those who wait for it are deferred as if it had failed, and its answer
// is ignored. (unbound does so with its own questions: jostle-timeout.) Either way the
// name is remembered (silence.go).
//
// A slow look-up still counts for the share of its message: a large one may have no more
// than its part of LookupLimit, which an operator sets so that the name server can bear
// it. It does not count for what many have in common: the share of all retries, and the
// places of a network of clients. Of slow ones a network may have slowLookups times as
// many as it has places; then it waits for its own.

const (
	lookupPatience = 50 * time.Millisecond
	slowPatience   = 2 * time.Second
	slowLookups    = 10
)

// ageLookups lets look-ups that take long give their places back.
func (q *Qmgr) ageLookups() {
	s := &q.lookups
	for l := s.young.Front(); l != nil && q.now >= l.begun.Add(lookupPatience); l = s.young.Front() {
		if s.slow.Len() >= q.slowMost() {
			oldest := s.slow.Front()
			if q.now < oldest.begun.Add(slowPatience) || len(s.abandoned) >= q.slowMost() {
				q.quieten()
				return
			}
			q.abandon(oldest)
		}
		s.young.Remove(&l.inAge)
		s.slow.PushBack(&l.inAge, l)
		s.leaveRetries(l)
		if l.network != nil {
			s.verifying.roster.slowDown(l.network)
		}
		if l.quiet {
			s.quietYoung--
			continue
		}
		for j := range l.jobs.All() {
			s.stalled.PushBack(&j.inLine, j)
		}
	}
}

// quieten makes look-ups wait that cannot begin because all others take long, as those of
// silent names do, so that mail can be parked that waits for them: it would fill the core
// until there is an answer.
func (q *Qmgr) quieten() {
	s := &q.lookups
	for n := parkedAtOnce; n > 0 && q.jammed(); n-- {
		waiting := s.lines[lineNew].Front()
		if waiting == nil {
			waiting = s.lines[lineRetries].Front()
		}
		l := waiting.routing.waiting.Front().lookup
		l.quiet = true
		s.quiet.PushBack(&l.inAge, l)
		for j := range l.jobs.All() {
			s.leaveLine(j)
			s.stalled.PushBack(&j.inLine, j)
		}
		for c := range l.checks.All() {
			s.verifying.leaveLine(c)
		}
	}
}

// jammed tells whether mail waits for look-ups that cannot begin, and the core is short
// of room.
func (q *Qmgr) jammed() bool {
	s := &q.lookups
	return s.young.Len() >= q.cfg.LookupLimit && s.slow.Len() >= q.slowMost() && q.scarce() > s.stalled.Len() &&
		!(s.lines[lineNew].Empty() && s.lines[lineRetries].Empty())
}

// slowMost is how many slow look-ups there may be, and how many that were given up and
// that the host still works on.
func (q *Qmgr) slowMost() int { return slowLookups * q.cfg.LookupLimit }

// abandon ends a look-up whose answer takes too long while others need its place.
func (q *Qmgr) abandon(l *lookup) {
	q.lookups.abandoned[l.id] = l.key.nexthop
	q.endLookup(l, l.unanswered("many others wait for one"))
}

// unanswered is where mail goes if there is no answer, while others need the room.
func (l *lookup) unanswered(while string) mail.Route {
	return mail.Route{Transport: l.key.transport, Nexthop: l.key.nexthop, Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 3},
		Text: "no answer from the DNS about " + l.key.nexthop + " while " + while}}
}

// lookupWake is when a look-up gives its place back to somebody who waits, or becomes
// so old that mail may be parked that waits for it.
func (q *Qmgr) lookupWake() mail.Instant {
	s := &q.lookups
	l := s.young.Front()
	wanted := len(s.known) > len(s.busy)
	if q.halt || l == nil || !wanted && q.scarce() <= 0 {
		return mail.Never
	}
	at := l.begun.Add(lookupPatience)
	if q.jammed() {
		return at
	}
	if oldest := s.slow.Front(); oldest != nil && s.slow.Len() >= q.slowMost() {
		if len(s.abandoned) >= q.slowMost() {
			return mail.Never // an answer makes room
		}
		at = max(at, oldest.begun.Add(slowPatience))
	}
	return at
}
