package qmgr_test

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// A message with one recipient that comes after a mailing goes first once the mailing has earned a slot, and the
// list of jobs says so while it stands on the stack.
func TestJobs(t *testing.T) {
	var cfg qmgr.Config
	cfg.DefaultTransport.ProcessLimit, cfg.DefaultTransport.RecipientLimit = 1, 1
	cfg.DefaultTransport.Window.Initial, cfg.DefaultTransport.Window.Limit = 1, 1
	w, err := qmgrtest.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	answer := func() (deliveries []qmgr.Deliver) {
		for i := 0; i < len(w.Outstanding); {
			if d, ok := w.Outstanding[i].(qmgr.Deliver); ok {
				deliveries = append(deliveries, d)
				i++
				continue
			}
			w.Answer(w.Take(i))
			deliveries, i = nil, 0
		}
		return deliveries
	}
	var many []mail.Recipient
	for range 100 {
		many = append(many, mail.Recipient{Address: "u@a.test"})
	}
	mailing := w.Arrive("s@x.test", many)
	answer()
	small := w.Arrive("s@x.test", []mail.Recipient{{Address: "v@a.test"}, {Address: "w@a.test"}})
	list, known := w.Core.Jobs("smtp", 5, 5)
	if !known || len(list.Lanes) != 1 || list.Lanes[0].Known == 0 || list.Lanes[0].Jobs[0].ID != mailing.Envelope.ID || list.Lanes[0].Jobs[0].Level != 0 {
		t.Fatalf("%v %+v", known, list)
	}
	for range 60 {
		for _, d := range answer() {
			w.Take(index(w, d))
			w.Deliver(d, qmgrtest.Accepted)
		}
		list, _ = w.Core.Jobs("smtp", 5, 5)
		if jobs := list.Lanes[0].Jobs; jobs[0].ID == small.Envelope.ID {
			if jobs[0].Level != 1 || jobs[0].Parent != mailing.Envelope.ID || len(jobs) != 2 || jobs[1].ID != mailing.Envelope.ID || list.Lanes[0].SlotCost != 5 {
				t.Errorf("%+v", list)
			}
			if short, _ := w.Core.Jobs("smtp", 0, 1); len(short.Lanes) != 0 || short.More != 1 {
				t.Errorf("no lanes: %+v", short)
			}
			return
		}
	}
	t.Errorf("nothing was preempted: %+v", list)
}

func index(w *qmgrtest.World, d qmgr.Deliver) int {
	for i, a := range w.Outstanding {
		if one, ok := a.(qmgr.Deliver); ok && one.Entry == d.Entry {
			return i
		}
	}
	return -1
}
