package qmgr

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// NewLinear returns a queue manager that decides by the definitions.
func NewLinear(cfg Config, seed uint64) (*Qmgr, error) {
	q, err := New(cfg, seed)
	if err == nil {
		q.flows.Lanes.ByDefinition = true
	}
	return q, err
}

// NewCrowded returns one in which hardly any job can be put between two others
// before all must be labelled anew.
func NewCrowded(cfg Config, seed uint64) (*Qmgr, error) {
	q, err := New(cfg, seed)
	if err == nil {
		q.flows.Lanes.LabelGap = 2
	}
	return q, err
}

// Decide selects an entry of a transport and puts everything back (sched.Probe).
func (q *Qmgr) Decide(name string, void bool) mail.QueueID {
	t := q.transports[name]
	return (&sched.Probe{Lane: &t.First().Lane}).Decide(q.selection(t.First()), void)
}

// StartNext decides which flow goes next at a transport and which entry of it, starts that as
// far as the scheduler is concerned, and finds out what follows for others.
func (q *Qmgr) StartNext(name string) *sched.Entry {
	l := q.transports[name].Next()
	e := q.selection(l).Next()
	l.Start(e)
	l.Served(e)
	q.stale.Refresh()
	return e
}

// PutBack has entries that StartNext has returned wait again. What their flows were charged
// stays.
func (q *Qmgr) PutBack(entries []*sched.Entry) {
	for _, e := range entries {
		(&sched.Probe{Lane: e.Destination().Lane}).PutBack(e)
		q.stale.Refresh()
	}
}

// FindCandidate searches for who may overtake the current job of a transport if
// that can pay for so many entries.
func (q *Qmgr) FindCandidate(name string, slots int, now mail.Instant) mail.QueueID {
	return (&sched.Probe{Lane: &q.transports[name].First().Lane}).Candidate(slots, now)
}

// Relist takes a message's job on a transport off its lists and lists it again,
// as when further recipients of it have been read.
func (q *Qmgr) Relist(name string, id mail.QueueID) {
	(&sched.Probe{Lane: &q.transports[name].First().Lane}).Relist(&q.messages[id].Message)
}

// PassOnSlots has the first job of a transport give up its claim to free slots, and
// puts it back. It returns the message that has it then.
func (q *Qmgr) PassOnSlots(name string) mail.QueueID {
	return (&sched.Probe{Lane: &q.transports[name].First().Lane}).PassOnSlots()
}

// OpenedFor returns the message on whose behalf a connection is being opened.
func (q *Qmgr) OpenedFor(id ConnID) mail.QueueID { return q.conns.Dialing(id).Message() }

// Current reports whether a transport has a current job.
func (q *Qmgr) Current(name string) bool {
	t := q.transports[name]
	return t != nil && (&sched.Probe{Lane: &t.First().Lane}).Current()
}

// Paced returns of each queue of a name whether flows take turns there because starts are limited by time.
func (q *Qmgr) Paced(transport, name string) (all []bool) {
	for d := range q.transports[transport].queues.Named(name) {
		all = append(all, d.Paced())
	}
	return all
}
