package sched_test

import (
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// Recipients of two domains never share an entry where they share a destination, whatever
// becomes of the entry: what is cut off, moved or put back stays one of its domain, so that
// recipients of another that come later do not join it.
func TestDomainsStayApart(t *testing.T) {
	two := func(m *sched.Message, d *outlet, domain string, from uint32) {
		m.InCore += 2
		a := sched.Assignment{Message: m}
		for i := range uint32(2) {
			a.Add(&d.Destination, mail.Recipient{Index: from + i}, domain, 0)
		}
		a.Done()
	}
	for what, do := range map[string]func(l *testLane, e *sched.Entry, to *outlet) *outlet{
		"cut": func(_ *testLane, e *sched.Entry, _ *outlet) *outlet {
			e.Cut(1)
			return nil
		},
		"moved": func(_ *testLane, e *sched.Entry, to *outlet) *outlet {
			e.MoveTo(&to.Destination)
			end(e)
			return to
		},
		"put back": func(l *testLane, e *sched.Entry, _ *outlet) *outlet {
			l.Start(e)
			e.Message.InCore += 2
			e.PutBack(slices.Clone(e.Recipients))
			end(e)
			return nil
		},
	} {
		l, d := lane(sched.Preemptive, sched.Rules{RecipientPool: 100})
		at, m := d, message(1, false)
		two(m, d, "a.test", 0)
		if to := do(l, d.Todo.Front(), l.destination("other", 100)); to != nil {
			at = to
		}
		two(m, at, "b.test", 2)
		two(m, at, "a.test", 4)
		for e := range at.Todo.All() {
			for _, r := range e.Recipients {
				if want := []string{"a.test", "b.test", "a.test"}[r.Index/2]; e.Domain != want {
					t.Errorf("%s: recipient %d is in an entry of %q", what, r.Index, e.Domain)
				}
			}
		}
		l.Refresh()
		m.Check(0, make(map[*sched.Lane]int))
		l.Check()
	}
}

// A destination that leaves with mail that was withdrawn in the same moment has no turn
// any more, and a lane without mail has nothing to start.
func TestPartingHasNoTurn(t *testing.T) {
	for _, s := range []sched.Scheduler{sched.Preemptive, sched.RoundRobin} {
		l, d := lane(s, sched.Rules{RecipientPool: 100})
		m := message(1, false)
		add(m, d, 1)
		if !l.Ready() || l.Startable != 1 {
			t.Fatalf("scheduler %v: ready %v, %d startable", s, l.Ready(), l.Startable)
		}
		end(d.Todo.Front())
		d.Part()
		m.RetireIdle()
		m.Free()
		if l.Ready() || l.Startable != 0 {
			t.Errorf("scheduler %v: ready %v, %d startable", s, l.Ready(), l.Startable)
		}
		other := l.destination("other", 1)
		m = message(2, false)
		add(m, other, 1)
		if of := l.next(t).Message; of != m {
			t.Errorf("scheduler %v: message %d is selected", s, of.ID)
		}
		l.Refresh()
		l.Check()
	}
}
