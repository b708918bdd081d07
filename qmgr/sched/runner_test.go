package sched_test

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// When a run goes on to an older message, whose job stands before that of the message it
// has come from, the latter gives back its recipient slots although some of its recipients
// are still in the spool.
func TestRunLeavesNoSlotsBehind(t *testing.T) {
	l, d := lane(sched.Runner, sched.Rules{RecipientPool: 10})
	younger := message(2, true)
	add(younger, d, 3)
	e := l.next(t)
	older := message(1, true)
	add(older, d, 1)
	if younger.Limit != 3 || older.Limit != 7 {
		t.Fatalf("the messages have %d and %d slots of 10, want 3 and 7", younger.Limit, older.Limit)
	}
	end(e)
	if of := l.next(t).Message; of != older {
		t.Fatalf("the run goes on to message %d", of.ID)
	}
	if younger.Limit != 0 || older.Limit != 10 || l.Listed() != 1 {
		t.Errorf("the messages have %d and %d slots of 10, want 0 and 10; %d jobs are listed, want 1", younger.Limit, older.Limit, l.Listed())
	}
}

// A testLane is a lane whose messages are put together by hand.
type testLane struct {
	sched.Lane
	sum sched.Load
}

// A noOwner does not care.
type noOwner struct{}

func (noOwner) Refreshed() {}

// lane returns one with a destination that has room for everything.
func lane(s sched.Scheduler, r sched.Rules) (*testLane, *outlet) {
	l := &testLane{}
	l.SetUp("lane", noOwner{}, &l.sum, r, s, sched.Options{Spares: &sched.Spares{}, Stale: &sched.Stale{}})
	return l, l.destination("d", 100)
}

func (l *testLane) destination(name string, window int) *outlet {
	d := &outlet{window: window}
	d.Lane, d.Name, d.Outlet, d.Sum = &l.Lane, name, d, &d.sum
	d.Join()
	return d
}

// next starts the next entry.
func (l *testLane) next(t *testing.T) *sched.Entry {
	t.Helper()
	e := (&sched.Selection{Lane: &l.Lane, Now: 1e18, Host: noHost{}}).Next()
	if e == nil {
		t.Fatal("nothing is selected")
	}
	l.Start(e)
	return e
}

// A noHost reads no recipients.
type noHost struct{}

func (noHost) ReadFor(*sched.Message) bool                       { return false }
func (noHost) Preempted(l *sched.Lane, _, _ mail.QueueID, _ int) {}

// message returns a message that was admitted so many seconds after the first.
func message(second mail.Instant, more bool) *sched.Message {
	return &sched.Message{ID: mail.QueueID(second), Queued: second * 1e9, More: more}
}

// add puts recipients of a message into an entry.
func add(m *sched.Message, d *outlet, n int) {
	m.InCore += n
	a := sched.Assignment{Message: m}
	for i := range n {
		a.Add(&d.Destination, mail.Recipient{Index: uint32(i)}, "", 0)
	}
	a.Done()
}

// end ends a delivery.
func end(e *sched.Entry) {
	e.Leave()
	e.Message.InCore -= len(e.Recipients)
	e.Release()
	e.Destination().Ended()
	e.Free()
}
