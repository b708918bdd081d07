package sched

import "github.com/posthaste-mta/posthaste/mail"

// A Probe makes single decisions of a lane and puts everything back, so that the same
// decision can be made again. Only benchmarks and tests of hosts use it.
type Probe struct{ Lane *Lane }

// Decide selects and starts an entry, and puts it back. With void the marks of blocked jobs
// are void before it, as after every delivery that makes room for one of them. It returns
// the entry's message, 0 if there is none.
func (p *Probe) Decide(s *Selection, void bool) mail.QueueID {
	if void {
		p.Lane.voidMarks()
	}
	e := s.Next()
	if e == nil {
		return 0
	}
	p.Lane.Start(e)
	p.PutBack(e)
	p.Lane.Refresh()
	return e.Message.ID
}

// PutBack has an entry that was started wait again, last at its destination. What follows for
// others is found out when the lane is refreshed.
func (p *Probe) PutBack(e *Entry) {
	of, j, d := e.peer, e.peer.job, e.Destination()
	e.state = entryWaiting
	d.add(Load{Waiting: 1, Busy: -1})
	if of.Todo.Empty() {
		of.wait()
	}
	of.Todo.PushBack(&e.inPeer, e)
	d.Todo.PushBack(&e.inQueue, e)
	d.Touch()
	j.selected--
	j.stack.available--
	if !j.listed {
		j.list()
	}
	j.touch()
}

// Candidate searches for who may overtake the current job if that can pay for so many
// entries; 0 if none may.
func (p *Probe) Candidate(slots int, now mail.Instant) mail.QueueID {
	l := p.Lane
	l.Refresh()
	if j := l.find.candidate(l, l.current, slots, now); j != nil {
		return j.message.ID
	}
	return 0
}

// Relist takes a message's job off the lists and lists it again, as when further
// recipients of it have been read.
func (p *Probe) Relist(m *Message) {
	j := m.job(p.Lane)
	j.retire()
	j.list()
}

// PassOnSlots has the first job give up its claim to free slots, and puts it back. It
// returns the message that has it then, 0 if none has.
func (p *Probe) PassOnSlots() mail.QueueID {
	l := p.Lane
	unread := l.pool.unread
	l.pool.moveSlots(l, unread)
	next := l.pool.unread
	l.pool.unread = unread
	if next == nil {
		return 0
	}
	return next.message.ID
}

// Current reports whether the lane has a current job.
func (p *Probe) Current() bool { return p.Lane.current != nil }
