package qmgr

import "github.com/posthaste-mta/posthaste/mail"

// linear is the definition of what quick finds: it walks.
type linear struct {
	last map[*lane]*job // that nextVisit has returned
}

func (linear) place(t *lane, j *job) *job {
	at := t.jobs.Back()
	for at != nil && (at.stack.parent != nil || at.after(j)) {
		at = t.jobs.Prev(&at.inOrder)
	}
	return at
}

func (linear) nextUnread(j *job) *job {
	next := j.inTime.next()
	for next != nil && !next.elem.message.more {
		next = next.next()
	}
	return next.element()
}

func (l linear) nextVisit(t *lane) *job {
	j := t.jobs.Front()
	if last := l.last[t]; last != nil && last.listed && last.lane == t && last.label < t.passed && t.open.Empty() {
		j = last // all before it are blocked
	}
	for ; j != nil && t.blocked(j); j = t.jobs.Next(&j.inOrder) {
	}
	l.last[t] = j
	return j
}

func (linear) nextPeer(j *job) *peer { return firstPeer(j) }

func (linear) nextQueue(t *lane) *dest {
	for d := range t.order.All() {
		if d.startable > 0 {
			return d
		}
	}
	return nil
}

func (linear) candidate(t *lane, current *job, slots int, now mail.Instant) *job {
	return scanForCandidate(t, current, slots, now)
}

// NewLinear returns a queue manager that decides by the definitions.
func NewLinear(cfg Config, seed uint64) (*Qmgr, error) {
	q, err := New(cfg, seed)
	if err == nil {
		q.find = linear{make(map[*lane]*job)}
	}
	return q, err
}

// NewCrowded returns one in which hardly any job can be put between two others
// before all must be labelled anew.
func NewCrowded(cfg Config, seed uint64) (*Qmgr, error) {
	q, err := New(cfg, seed)
	if err == nil {
		q.labelGap = 2
	}
	return q, err
}

// Decide selects an entry of a transport and puts everything back, so that the
// same decision can be made again. With void the marks of blocked jobs are void
// before it, as after every delivery that makes room for one of them.
func (q *Qmgr) Decide(name string, void bool) mail.QueueID {
	t := q.transports[name]
	if void {
		t.voidMarks()
	}
	e := q.selection(t).next()
	if e == nil {
		return 0
	}
	p, j, d := e.peer, e.peer.job, e.queue()
	e.start()
	t.started(j)
	e.state = entryWaiting
	d.busy--
	t.busy--
	if p.todo.Empty() {
		p.wait()
	}
	p.todo.PushBack(&e.inPeer, e)
	d.todo.PushBack(&e.inQueue, e)
	d.touch()
	j.selected--
	j.stack.available--
	if !j.listed {
		j.list()
	}
	j.touch()
	t.refresh()
	return e.message.id
}

// FindCandidate searches for who may overtake the current job of a transport if
// that can pay for so many entries.
func (q *Qmgr) FindCandidate(name string, slots int, now mail.Instant) mail.QueueID {
	t := q.transports[name]
	t.refresh()
	if j := t.find.candidate(&t.lane, t.current, slots, now); j != nil {
		return j.message.id
	}
	return 0
}

// Relist takes a message's job on a transport off its lists and lists it again,
// as when further recipients of it have been read.
func (q *Qmgr) Relist(name string, id mail.QueueID) {
	j := q.messages[id].job(&q.transports[name].lane)
	j.retire()
	j.list()
}

// PassOnSlots has the first job of a transport give up its claim to free slots, and
// puts it back. It returns the message that has it then.
func (q *Qmgr) PassOnSlots(name string) mail.QueueID {
	t := q.transports[name]
	unread := t.pool.unread
	t.pool.moveSlots(&t.lane, unread)
	next := t.pool.unread
	t.pool.unread = unread
	if next == nil {
		return 0
	}
	return next.message.id
}

// OpenedFor returns the message on whose behalf a connection is being opened.
func (q *Qmgr) OpenedFor(id ConnID) mail.QueueID { return q.conns.Conn(id).Message() }

// Current reports whether a transport has a current job.
func (q *Qmgr) Current(name string) bool {
	t := q.transports[name]
	return t != nil && t.current != nil
}
