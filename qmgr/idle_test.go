package qmgr_test

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// A host that wants to end when all is done must not end too early: not before the
// spool has been read, not while something is under way or waits for its time. And
// it must end: neither held mail nor a dead destination keeps it.
func TestIdle(t *testing.T) {
	w, err := qmgrtest.New(qmgr.Config{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	is := func(when string, want bool) {
		t.Helper()
		if got := w.Core.Idle(); got != want {
			t.Errorf("%s: idle is %v", when, got)
		}
	}
	// settle answers everything but deliveries.
	settle := func() {
		for i := 0; i < len(w.Outstanding); {
			if _, ok := w.Outstanding[i].(qmgr.Deliver); ok {
				i++
				continue
			}
			w.Answer(w.Take(i))
		}
	}
	deliver := func(how qmgrtest.Ending) {
		t.Helper()
		w.Deliver(w.Take(0).(qmgr.Deliver), how)
	}
	to := []mail.Recipient{{Address: "u@a.test"}}

	is("before the spool is read", false)
	settle()
	is("with an empty spool", true)
	m := w.Arrive("s@x.test", to)
	is("with a message that is being routed", false)
	settle()
	is("with a delivery under way", false)
	deliver(qmgrtest.Later)
	is("with a change under way", false)
	settle()
	is("with deferred mail", false)
	w.Now = m.Place.Due
	w.Step(qmgr.Wake{})
	settle()
	is("with a second delivery under way", false)
	deliver(qmgrtest.Accepted)
	settle()
	is("when all is done", true)

	m = w.Arrive("s@x.test", to)
	w.Step(qmgr.Hold{IDs: []mail.QueueID{m.Envelope.ID}})
	settle()
	if len(w.Outstanding) > 0 { // the delivery began before the order came
		deliver(qmgrtest.Later)
		settle()
	}
	if m.Place.Area != mail.AreaHold {
		t.Fatalf("held mail is in %v", m.Place.Area)
	}
	is("with held mail", true)
}
