package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A host is asked and told while a selection goes on.
type host interface {
	// readFor asks for as many recipients of a message as fit, and reports whether it
	// did.
	readFor(m *load) bool
	// preempted is told that a job goes first at the expense of another.
	preempted(current, by *job)
}

// A refill says how much must fit for recipients of a message to be read between two
// looks at it.
type refill struct {
	limit int           // so many recipients, or
	delay time.Duration // any at all, if the last were read so long ago
}

// A pause is where a selection waits for recipients to be read
// (Config.AsPostfix).
type pause struct {
	job   *job // nil: none waits
	visit visit
}

// A visit is how far the look at one job has come: recipients may be read
// before its peers are looked at, and once more if none of them has room.
type visit uint8

const (
	visitStart visit = iota
	visitPeers
	visitPeersAgain
)

// A selection looks for the next entry of a lane.
type selection struct {
	lane   *lane
	now    mail.Instant
	host   host
	paused pause // where it waits for recipients (lane.exact)
}

// next returns the entry to start next, which still waits; nil if there is
// none, or if recipients must be read first: then the selection is paused.
//
// Jobs are taken in order, starting with the current one or a job that goes
// first at its expense. Within a job, destinations take turns. A job none of
// whose destinations has room is marked as blocked and passed by; one that has
// nothing to select is retired until it gets more. Those that need only be
// marked are not even looked at.
func (s *selection) next() *entry {
	l := s.lane
	l.refresh()
	switch {
	case l.scheduler == RoundRobin:
		return l.nextInTurn()
	case l.scheduler == Runner:
		return l.nextInRun()
	case l.current == nil:
		return nil
	}
	return s.walk(s.first(), visitStart)
}

// resume goes on where a selection waited for recipients. The host may not have
// answered at once, and things have changed: then it begins anew.
func (s *selection) resume(at pause) *entry {
	l := s.lane
	l.refresh()
	if next := l.find.nextVisit(l); !at.job.listed || next != nil && next.label < at.job.label {
		return s.next()
	}
	return s.walk(at.job, at.visit)
}

// walk looks at jobs, from one on, until an entry is found.
func (s *selection) walk(j *job, at visit) *entry {
	l := s.lane
	for ; j != nil; j, at = l.find.nextVisit(l), visitStart {
		l.pass(j)
		p := s.visit(j, at)
		switch {
		case s.paused.job != nil:
			return nil
		case p != nil:
			return p.todo.Front()
		case j.waiting() > 0:
			l.block(j)
		default:
			j.retire()
		}
		l.refresh()
	}
	if last := l.jobs.Back(); last != nil && last.label >= l.passed {
		l.passUpTo(last)
	}
	l.setCurrent(nil)
	return nil
}

// first returns the job with which a selection begins.
func (s *selection) first() *job {
	l := s.lane
	current := l.current
	j := l.preempt(current, s.now)
	if j != current {
		s.host.preempted(current, j)
		l.refresh() // it stands elsewhere now
	}
	if l.blocked(j) {
		return l.find.nextVisit(l)
	}
	return j
}

// visit looks at one job: it asks for more recipients if enough of them fit,
// and returns a peer that has an entry to start. If no peer has, it asks for as
// many recipients as fit at all and looks again.
func (s *selection) visit(j *job, at visit) *peer {
	m := j.message
	if at == visitStart {
		if j.worthReading(s.now) && s.readFor(j, visitPeers) {
			return nil
		}
		at = visitPeers
	}
	if p := j.selectPeer(); p != nil || at == visitPeersAgain {
		return p
	}
	if m.more && m.entries > 0 && m.limit > m.inCore && s.readFor(j, visitPeersAgain) {
		return nil
	}
	if !s.lane.exact {
		return nil
	}
	return j.selectPeer()
}

// readFor asks for recipients while a job is being looked at, and reports whether
// the selection waits for them.
func (s *selection) readFor(j *job, then visit) bool {
	if !s.host.readFor(j.message) || !s.lane.exact {
		return false
	}
	s.paused = pause{job: j, visit: then}
	return true
}

// worthReading reports whether so many recipients of the job's message fit that a
// read is worth while, or whether the last one was long ago.
func (j *job) worthReading(now mail.Instant) bool {
	m, refill := j.message, &j.lane.rules.refill
	if !m.more || m.entries == 0 {
		return false
	}
	room := m.limit - m.inCore
	return room >= refill.limit || room > 0 && now.Sub(m.refilled) >= refill.delay
}

// started notes that an entry of a job has been started. The job becomes the current
// one, so that the blocked ones before it need not be passed again.
func (l *lane) started(j *job) {
	switch l.scheduler {
	case RoundRobin, Runner:
		return
	}
	j.stack.earned()
	if l.cache.current != j {
		l.cache.reset()
	}
	l.setCurrent(j)
	if j.waiting() == 0 && !j.message.more {
		j.retire()
	}
}
