package qmgr_test

import (
	"fmt"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// accepted counts how often each address has got the mail, in whatever message.
func (l *life) accepted() map[mail.Address]int {
	n := make(map[mail.Address]int)
	for _, all := range []map[mail.QueueID]*qmgrtest.Message{l.Messages, l.Gone} {
		for _, m := range all {
			for i, r := range m.Recipients {
				n[r.Address] += m.Accepted[i]
			}
		}
	}
	return n
}

// An order to requeue a message, or its recipients at one domain, at every moment of its life, and another order while that is
// under way: a, who has become two others, gets the mail under his old address or under both new ones, and
// each other recipient of the message gets it once. The original goes, and the new message needs no other event to be tried.
func TestRequeueAtEveryMoment(t *testing.T) {
	const moments = 24
	for _, lookups := range []bool{false, true} {
		for moment := range moments {
			for _, some := range [][]uint32{{0, 1, 2, 3}, {0, 2}} {
				for _, behind := range []qmgr.Event{nil, qmgr.Retry{}, qmgr.Split{}, qmgr.SetRoute{}} {
					t.Run(fmt.Sprintf("%v %d %v %T", lookups, moment, some, behind), func(t *testing.T) {
						l := newLife(t, qmgr.Config{})
						if lookups {
							l.Lookups["*"] = mail.Route{}
							l.Lookups["bad.test"] = mail.Route{Transport: "smtp", Nexthop: "bad.test"}
						}
						for range moment {
							l.step()
						}
						id := l.m.Envelope.ID
						if l.Gone[id] != nil {
							return
						}
						l.underWay()
						l.Stepped = func(_ qmgr.Event, actions []qmgr.Action) {
							for _, a := range actions {
								if n, is := a.(qmgr.Note); is && n.Kind == qmgr.NoteDropped {
									t.Errorf("the log says that %v was dropped", n.ID)
								}
							}
						}
						into := l.Requeue(l.m, []mail.Replacement{{Of: 0, Address: "a@new.test"}, {Of: 0, Address: "z@new.test"}}, some...)
						switch behind.(type) {
						case qmgr.Retry:
							l.Step(qmgr.Retry{IDs: []mail.QueueID{id}})
						case qmgr.Split:
							l.Requeue(l.m, nil, some...)
						case qmgr.SetRoute:
							l.Reroute(l.m, "relay.test", 1, 2)
						}
						l.end(t)
						l.checkRequeue(t, into, len(some) == 4)
					})
				}
			}
		}
	}
}

func (l *life) checkRequeue(t *testing.T, into mail.QueueID, whole bool) {
	t.Helper()
	if len(l.Messages) > 0 || len(l.Violations) > 0 {
		t.Fatalf("%d messages are left; %v", len(l.Messages), l.Violations)
	}
	got := l.accepted()
	for _, a := range []mail.Address{"b@good.test", "c@bad.test", "d@good.test"} {
		if got[a] != 1 {
			t.Errorf("%s has got the mail %d times", a, got[a])
		}
	}
	old := got["a@bad.test"]
	if fresh := got["a@new.test"]; old+fresh != 1 || fresh != got["z@new.test"] {
		t.Errorf("a has got the mail %d times under his old address and %d times under the new one, z %d times", old, fresh, got["z@new.test"])
	}
	if old == 1 && !l.going[0] {
		t.Error("a got the mail under his old address after the order")
	}
	made := l.Gone[into]
	if made == nil {
		if old == 0 {
			t.Error("there was no new message")
		}
		return
	}
	if e := made.Envelope; e.Requeued != l.m.Envelope.ID || e.Arrived != l.m.Envelope.Arrived || e.Sender != l.m.Envelope.Sender {
		t.Errorf("the new message is %+v", e)
	}
	for i, r := range l.m.Results {
		if moved := r == mail.Moved; moved && !whole && i%2 == 1 {
			t.Errorf("recipient %d was requeued without an order", i)
		}
	}
}

// A message that is held is requeued: the new one is held as well, until it is released, and the order tries
// nothing.
func TestRequeueHeld(t *testing.T) {
	l := newLife(t, qmgr.Config{})
	id := l.m.Envelope.ID
	l.Step(qmgr.Hold{IDs: []mail.QueueID{id}})
	for len(l.Outstanding) > 0 {
		l.step()
	}
	into := l.Requeue(l.m, []mail.Replacement{{Of: 1, Address: "new@good.test"}}, 0, 1, 2, 3)
	for n := 0; n < 10 && len(l.Outstanding) > 0; n++ {
		if d, is := l.Outstanding[0].(qmgr.Deliver); is {
			t.Fatalf("%v is tried", d.Delivery.Envelope.ID)
		}
		l.step()
	}
	m := l.Messages[into]
	if l.Gone[id] == nil || m == nil || m.Place.Area != mail.AreaHold {
		t.Fatalf("the original is in %v, the new one is %+v", l.m.Place, m)
	}
	l.Step(qmgr.Release{IDs: []mail.QueueID{into}})
	l.end(t)
	if got := l.accepted(); got["new@good.test"] != 1 || got["b@good.test"] != 0 || len(l.Messages) > 0 || len(l.Violations) > 0 {
		t.Errorf("%v; %d messages are left, %v", got, len(l.Messages), l.Violations)
	}
}

// The sender wants to know of a recipient that has failed when the rest is requeued: the report is made, and
// then the original goes.
func TestRequeueOwing(t *testing.T) {
	for _, deferred := range []bool{false, true} {
		l := newLife(t, qmgr.Config{})
		if deferred {
			for range 100 {
				l.step()
				if l.m.Place.Area == mail.AreaDeferred && len(l.Outstanding) == 0 {
					break
				}
			}
		}
		l.GiveUp(l.m, mail.ReportFailed, 3)
		l.Requeue(l.m, nil, 0, 1, 2, 3)
		l.end(t)
		got := l.accepted()
		reports := 0
		for _, k := range l.m.Reported {
			if k == mail.ReportFailed {
				reports++
			}
		}
		if reports != 1 || got["a@bad.test"] != 1 || got["b@good.test"] != 1 || got["c@bad.test"] != 1 || got["d@good.test"] != 0 || len(l.Messages) > 0 || len(l.Violations) > 0 {
			t.Errorf("deferred %v: %d reports, %v; %d messages are left, %v", deferred, reports, got, len(l.Messages), l.Violations)
		}
	}
}
