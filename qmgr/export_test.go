package qmgr

import "github.com/posthaste-mta/posthaste/mail"

// linear is the definition of what quick finds: it walks.
type linear struct {
	last map[*transport]*job // that nextVisit has returned
}

func (linear) place(t *transport, j *job) *job {
	at := t.jobs.Back()
	for at != nil && (at.stack.parent != nil || at.after(j)) {
		at = t.jobs.Prev(&at.inOrder)
	}
	return at
}

func (l linear) nextVisit(t *transport) *job {
	j := t.jobs.Front()
	if last := l.last[t]; last != nil && last.listed && last.transport == t && last.label < t.passed && t.open.Empty() {
		j = last // all before it are blocked
	}
	for ; j != nil && t.blocked(j); j = t.jobs.Next(&j.inOrder) {
	}
	l.last[t] = j
	return j
}

func (linear) nextPeer(j *job) *peer {
	for p := range j.peers.All() {
		if p.todo.Len() > 0 && p.queue.hasRoom() {
			return p
		}
	}
	return nil
}

func (linear) candidate(t *transport, current *job, slots int, now mail.Instant) *job {
	return scanForCandidate(t, current, slots, now)
}

// NewLinear returns a queue manager that decides by the definitions.
func NewLinear(cfg Config, seed uint64) (*Qmgr, error) {
	q, err := New(cfg, seed)
	if err == nil {
		q.find = linear{make(map[*transport]*job)}
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
	e := q.selectEntry(t)
	if e == nil {
		return 0
	}
	q.lastEntry--
	p, j, d := e.peer, e.peer.job, e.queue()
	e.id = 0
	d.busy--
	t.busy--
	if p.todo.Empty() {
		p.wait()
	}
	p.todo.PushBack(&e.inPeer, e)
	d.todo.PushBack(&e.inQueue, e)
	d.changed()
	j.selected--
	j.stack.available--
	if !j.listed {
		j.list()
	}
	t.refile(j)
	t.attend(j)
	return e.message.id
}

// FindCandidate searches for who may overtake the current job of a transport if
// that can pay for so many entries.
func (q *Qmgr) FindCandidate(name string, slots int, now mail.Instant) mail.QueueID {
	t := q.transports[name]
	if j := t.find.candidate(t, t.current, slots, now); j != nil {
		return j.message.id
	}
	return 0
}
