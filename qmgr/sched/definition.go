package sched

import "github.com/posthaste-mta/posthaste/mail"

// walker is the definition of what quick finds: it walks. It is what the tests
// compare with, and what to read first.
type walker struct {
	last *Job // that nextVisit has returned
}

func (*walker) place(l *Lane, j *Job) *Job {
	at := l.jobs.Back()
	for at != nil && (at.stack.parent != nil || at.after(j)) {
		at = l.jobs.Prev(&at.inOrder)
	}
	return at
}

func (*walker) nextUnread(j *Job) *Job {
	next := j.inTime.next()
	for next != nil && !next.elem.message.More {
		next = next.next()
	}
	return next.element()
}

func (w *walker) nextVisit(l *Lane) *Job {
	j := l.jobs.Front()
	if last := w.last; last != nil && last.listed && last.lane == l && last.label < l.passed && l.open.Empty() {
		j = last // all before it are blocked
	}
	for ; j != nil && l.blocked(j); j = l.jobs.Next(&j.inOrder) {
	}
	w.last = j
	return j
}

func (*walker) nextPeer(j *Job) *Peer { return firstPeer(j) }

func (*walker) nextQueue(l *Lane) *Destination {
	for d := range l.order.All() {
		if d.Startable > 0 {
			return d
		}
	}
	return nil
}

func (*walker) candidate(l *Lane, current *Job, slots int, now mail.Instant) *Job {
	return scanForCandidate(l, current, slots, now)
}
