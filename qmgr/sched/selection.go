package sched

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Host answers a selection's requests while it goes on.
type Host interface {
	// ReadFor asks for as many recipients of a message as fit, and reports whether it
	// did.
	ReadFor(m *Message) bool
	// Preempted is called when a message overtakes another, the current one; level is the
	// depth of the stack of messages that have overtaken each other, at least 1.
	Preempted(l *Lane, current, by mail.QueueID, level int)
}

// A Refill is how many recipients of a message must fit before more of them are read.
type Refill struct {
	Limit int           // this number
	Delay time.Duration // if the last were read as long ago: one suffices
}

// A Pause is where a selection waits for recipients to be read
// (Config.AsPostfix).
type Pause struct {
	job   *Job // nil: none waits
	visit visit
}

// Pending reports whether a selection waits.
func (p *Pause) Pending() bool { return p.job != nil }

// Of reports whether it waits for recipients of a message.
func (p *Pause) Of(m *Message) bool { return p.job != nil && p.job.message == m }

// Lane returns that of the selection, nil if none waits.
func (p *Pause) Lane() *Lane {
	if p.job == nil {
		return nil
	}
	return p.job.lane
}

// A visit is how far the look at one job has come: recipients may be read
// before its peers are looked at, and once more if none of them has room.
type visit uint8

const (
	visitStart visit = iota
	visitPeers
	visitPeersAgain
)

// A Selection looks for the next entry of a lane.
type Selection struct {
	Lane   *Lane
	Now    mail.Instant
	Host   Host
	Paused Pause // where it waits for recipients (lane.exact)
}

// Next returns the entry to start next, which still waits; nil if there is
// none, or if recipients must be read first: then the selection is paused.
//
// Jobs are taken in order, starting with the current one or a job that goes
// first at its expense. Within a job, destinations take turns. A job none of
// whose destinations has room is marked as blocked and passed by; one that has
// nothing to select is retired until it gets more. Those that need only be
// marked are not even looked at.
func (s *Selection) Next() *Entry {
	l := s.Lane
	l.Refresh()
	switch {
	case l.Scheduler == RoundRobin:
		return l.nextInTurn()
	case l.Scheduler == Runner:
		return l.nextInRun()
	case l.current == nil:
		return nil
	}
	return s.walk(s.first(), visitStart)
}

// Resume goes on where a selection waited for recipients. The host may not have
// answered at once, and things have changed: then it begins anew.
func (s *Selection) Resume(at Pause) *Entry {
	l := s.Lane
	l.Refresh()
	if next := l.find.nextVisit(l); !at.job.listed || next != nil && next.label < at.job.label {
		return s.Next()
	}
	return s.walk(at.job, at.visit)
}

// walk looks at jobs, from one on, until an entry is found.
func (s *Selection) walk(j *Job, at visit) *Entry {
	l := s.Lane
	for ; j != nil; j, at = l.find.nextVisit(l), visitStart {
		l.pass(j)
		p := s.visit(j, at)
		switch {
		case s.Paused.job != nil:
			return nil
		case p != nil:
			return p.Todo.Front()
		case j.waiting() > 0:
			l.block(j)
		default:
			j.retire()
		}
		l.Refresh()
	}
	if last := l.jobs.Back(); last != nil && last.label >= l.passed {
		l.passUpTo(last)
	}
	l.setCurrent(nil)
	return nil
}

// first returns the job with which a selection begins.
func (s *Selection) first() *Job {
	l := s.Lane
	current := l.current
	j := l.preempt(current, s.Now)
	if j != current {
		s.Host.Preempted(l, current.message.ID, j.message.ID, j.stack.level)
		l.Refresh() // it stands elsewhere now
	}
	if l.blocked(j) {
		return l.find.nextVisit(l)
	}
	return j
}

// visit looks at one job: it asks for more recipients if enough of them fit,
// and returns a peer that has an entry to start. If no peer has, it asks for as
// many recipients as fit at all and looks again.
func (s *Selection) visit(j *Job, at visit) *Peer {
	m := j.message
	if at == visitStart && j.worthReading(s.Now) && s.readFor(j, visitPeers) {
		return nil
	}
	p := j.selectPeer()
	if p == nil && at != visitPeersAgain && m.More && m.Entries > 0 && m.Limit > m.InCore {
		s.readFor(j, visitPeersAgain)
	}
	return p
}

// readFor asks for recipients while a job is being looked at, and reports whether
// the selection waits for them.
func (s *Selection) readFor(j *Job, then visit) bool {
	if !s.Host.ReadFor(j.message) || !s.Lane.exact {
		return false
	}
	s.Paused = Pause{job: j, visit: then}
	return true
}

// worthReading reports whether so many recipients of the job's message fit that a
// read is worth while, or whether the last one was long ago.
func (j *Job) worthReading(now mail.Instant) bool {
	m, refill := j.message, &j.lane.rules.Refill
	if !m.More || m.Entries == 0 {
		return false
	}
	room := m.Limit - m.InCore
	return room >= refill.Limit || room > 0 && now.Sub(m.Refilled) >= refill.Delay
}

// Start takes an entry that a selection has found: it is busy from now on. Its job
// becomes the current one, so that the blocked ones before it need not be passed again.
func (l *Lane) Start(e *Entry) {
	j := e.peer.job
	e.start()
	switch l.Scheduler {
	case RoundRobin, Runner:
		return
	}
	j.stack.earned()
	if l.cache.current != j {
		l.cache.reset()
	}
	l.setCurrent(j)
	if j.waiting() == 0 && !j.message.More {
		j.retire()
	}
}
