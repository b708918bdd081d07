package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// A message that is parked because the DNS does not answer says so, and the core is not
// idle as long as there is one.
func TestParkedForLookups(t *testing.T) {
	w, err := qmgrtest.New(qmgr.Config{ActiveLimit: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.Lookups["*"] = mail.Route{Reply: mail.Reply{Code: 451, Text: "no answer"}}
	w.Answer(w.Take(0))
	w.Answer(w.Take(0))
	var ids []mail.QueueID
	for i := range 3 {
		m := w.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address(fmt.Sprintf("u@%d.test", i))}})
		ids = append(ids, m.Envelope.ID)
		w.Answer(w.Take(len(w.Outstanding) - 1))
	}
	wake, _ := w.Core.NextWake()
	if wake != w.Now.Add(50*time.Millisecond) {
		t.Fatalf("the core wants to be woken after %v", wake.Sub(w.Now))
	}
	w.Now = wake
	w.Step(qmgr.Wake{})
	for i, want := range []qmgr.WaitKind{qmgr.WaitLookups, qmgr.WaitNone, qmgr.WaitNone} {
		if v := w.Core.Explain(ids, 1)[i]; v.Parked != want || v.Held == (want == qmgr.WaitLookups) {
			t.Errorf("message %d is explained by %+v", i, v)
		}
	}
	w.Step(qmgr.Drop{IDs: ids[1:]})
	for range 2 {
		w.Answer(w.Take(len(w.Outstanding) - 1))
	}
	if w.Core.Idle() || w.Core.View(0).Messages != 0 {
		t.Errorf("idle %v with %d messages in core, want one that is parked", w.Core.Idle(), w.Core.View(0).Messages)
	}
}
