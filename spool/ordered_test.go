package spool

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

var relay = mail.OrderedRoute{Target: "smtp:[relay.example]:587", By: "bob", Reason: "the receiver is down", At: 77}

// orderedOf returns where an operator has the recipients of a message go, "" where the configuration says, and checks
// that all ways of reading agree.
func orderedOf(t *testing.T, s *Spool, id mail.QueueID) map[uint32]mail.OrderedRoute {
	t.Helper()
	got := make(map[uint32]mail.OrderedRoute)
	list, _, err := s.Outcomes(ctxTest, id, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if r.Outcome.Ordered != r.Recipient.Ordered {
			t.Errorf("recipient %d: outcome and recipient have different routes", r.Recipient.Index)
		}
		if to := r.Outcome.Ordered; to != nil {
			got[r.Recipient.Index] = *to
		}
	}
	if err := s.Sweep(ctxTest, id, Interest{}, func(m *Sight) bool {
		for i := range m.Recipients {
			r := &m.Recipients[i]
			if to, is := got[r.Recipient.Index]; r.Outcome.Ordered != r.Recipient.Ordered || is != (r.Outcome.Ordered != nil) || is && *r.Outcome.Ordered != to {
				t.Errorf("a sweep shows recipient %d with the route %v", r.Recipient.Index, r.Recipient.Ordered)
			}
		}
		return false
	}); err != nil {
		t.Fatal(err)
	}
	_, _, batch, err := s.Open(ctxTest, id, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range batch.Recipients {
		if to, is := got[r.Index]; is != (r.Ordered != nil) || is && *r.Ordered != to {
			t.Errorf("recipient %d is opened with the route %v, listed with %v", r.Index, r.Ordered, to)
		}
	}
	return got
}

// An operator's route stays with its recipients, and with no others, whatever becomes of them: over deferrals, a restart,
// a delay warning, and in a message that is split off. Another order replaces it, and one takes it back. Recipients
// that are settled, or do not exist, are left alone.
func TestOrderedRoute(t *testing.T) {
	for _, n := range []int{4, 600} {
		cfg := small(vfs.NewMem())
		s := mustOpen(t, cfg)
		a := accept(t, s, mail.Envelope{Sender: "bob@example.com"}, addresses(n), text(10))
		id := a.Envelope.ID
		last := uint32(n - 1)
		apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: id, At: 1, Outcomes: []mail.Outcome{sent(2, 1)},
			Reroutes: []mail.Reroute{{Recipients: []uint32{last, 2, 1, 5000}, To: &relay}}})
		if got := orderedOf(t, s, id); len(got) != 2 || got[1] != relay || got[last] != relay {
			t.Fatalf("of %d recipients: %v", n, got)
		}
		deferred := busy(1, 5)
		deferred.Via = mail.Via{Transport: "smtp", Nexthop: "[relay.example]:587"}
		apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, At: 5, Due: 9, Outcomes: []mail.Outcome{busy(0, 5), deferred}},
			mail.Change{Op: mail.ChangeWarn, ID: id, At: 5})
		mustClose(t, s)
		s = open(t, cfg)
		if got := orderedOf(t, s, id); len(got) != 2 || got[1] != relay || got[last] != relay {
			t.Fatalf("of %d recipients, after a deferral and a restart: %v", n, got)
		}
		if list, _, err := s.Outcomes(ctxTest, id, 1, 1); err != nil || list[0].Outcome.Via != deferred.Via || list[0].Outcome.Report != mail.ReportDelayed || list[0].Outcome.Reply != deferred.Reply {
			t.Errorf("%+v %v", list, err)
		}
		into, err := s.Reserve(10)
		if err != nil {
			t.Fatal(err)
		}
		other := mail.OrderedRoute{Target: "discard:"}
		apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: id, At: 6, Reroutes: []mail.Reroute{{Recipients: []uint32{last}, To: &other}, {Recipients: []uint32{0}, To: &relay}, {Recipients: []uint32{0}}},
			Splits: []mail.Split{{Into: into, Recipients: []uint32{last}, Reason: "a test"}}})
		if got := orderedOf(t, s, into); len(got) != 1 || got[0] != other {
			t.Errorf("split off: %v", got)
		}
		if got := orderedOf(t, s, id); len(got) != 1 || got[1] != relay {
			t.Errorf("the rest: %v", got)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: id, At: 7, Reroutes: []mail.Reroute{{Recipients: []uint32{0, 1}}}})
		if got := orderedOf(t, s, id); len(got) != 0 {
			t.Errorf("taken back: %v", got)
		}
	}
}

// An order that changes nothing writes nothing: it can be repeated for a million messages at the cost of reading them.
func TestOrderedRouteAgain(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	id := accept(t, s, mail.Envelope{}, addresses(3), text(10)).Envelope.ID
	order := mail.Change{Op: mail.ChangeRecord, ID: id, At: 1, Reroutes: []mail.Reroute{{Recipients: []uint32{1}, To: &relay}}}
	apply(t, s, order)
	e := s.newEdits([]mail.Change{order})
	defer e.release()
	again := relay
	order.Reroutes[0].To = &again
	if _, failed, err := e.all(ctxTest, []mail.Change{order}); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	if e.byID[id].dirty {
		t.Error("the same order is written again")
	}
}

// What is in the corrupt area keeps its routes, and so does a message whose state was lost, of which it is not known who waits.
func TestOrderedRouteOfDamaged(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	id := accept(t, s, mail.Envelope{}, addresses(2), text(10)).Envelope.ID
	apply(t, s, mail.Change{Op: mail.ChangeCorrupt, ID: id, At: 1, Reason: "a test"})
	apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: id, At: 2, Reroutes: []mail.Reroute{{Recipients: []uint32{0, 1}, To: &relay}}})
	list, _, err := s.Outcomes(ctxTest, id, 0, 9)
	if err != nil || len(list) != 2 || list[0].Outcome.Ordered != nil {
		t.Errorf("%+v %v", list, err)
	}
}

// Earlier versions would send such mail where the configuration says, so these values have a version that they refuse.
// Values without an operator's route have the version that they had before.
func TestOrderedVersion(t *testing.T) {
	o := busy(0, 1)
	o.Via.Source = "s1"
	routed := busy(1, 1)
	routed.Ordered = &relay
	for _, list := range []outcomes{{o, routed}, {routed, o}, {routed}} {
		if v := (&state{late: true, outcomes: list}).version(); v != valueOrdered {
			t.Errorf("version %d", v)
		}
		again, err := decodeOutcomes(string(appendOutcomes(nil, list, 0)), 0)
		if err != nil || len(again) != len(list) || !same(again[0], list[0]) || !same(again[len(list)-1], list[len(list)-1]) {
			t.Errorf("%+v became %+v, %v", list, again, err)
		}
	}
	if v := (outcomes{o}).version(); v != valueVia {
		t.Errorf("without an operator's route, version %d", v)
	}
}
