package qmgr_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// relayed is the life of a message (newLife) that keeps what was tried where: "0 at bad.test".
type relayed struct {
	*life
	tried []string
}

func newRelayed(t *testing.T, cfg qmgr.Config) *relayed { return &relayed{life: newLife(t, cfg)} }

func (l *relayed) step() bool {
	if len(l.Outstanding) > 0 {
		if d, is := l.Outstanding[0].(qmgr.Deliver); is && d.Delivery.Transport == "smtp" {
			for _, r := range d.Delivery.Recipients {
				l.tried = append(l.tried, fmt.Sprintf("%d at %s", r.Index, d.Delivery.Nexthop))
			}
		}
		if d, is := l.Outstanding[0].(qmgr.Deliver); is && d.Delivery.Nexthop == "relay.test" {
			l.Take(0)
			l.Deliver(d, qmgrtest.Accepted)
			return true
		}
	}
	return l.life.step()
}

// settle goes on until nothing can happen without time passing, and returns what was tried, sorted.
func (l *relayed) settle() []string {
	l.tried = nil
	for len(l.Outstanding) > 0 {
		l.step()
	}
	slices.Sort(l.tried)
	return l.tried
}

func (l *relayed) end(t *testing.T) { l.endBy(t, l.step) }

// An order to send the recipients at one domain through a relay, at every moment of a message's life, and another order
// while the first is under way: each recipient gets the mail once; the recipients of the order only from the relay once the order is
// durable, which the world checks, and the others never from there.
func TestRerouteAtEveryMoment(t *testing.T) {
	const moments = 24
	for _, lookups := range []bool{false, true} {
		for moment := range moments {
			for _, behind := range []qmgr.Event{nil, qmgr.Retry{}, qmgr.RetryAll{}, qmgr.Hold{}, qmgr.Drop{}, qmgr.Settle{}, qmgr.Split{}, qmgr.SetRoute{}, qmgr.Reroute{}} {
				t.Run(fmt.Sprintf("%v %d %T", lookups, moment, behind), func(t *testing.T) {
					l := newRelayed(t, qmgr.Config{})
					if lookups {
						l.Lookups["good.test"] = mail.Route{Transport: "smtp", Nexthop: "good.test"}
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
					l.tried = nil
					l.Reroute(l.m, "relay.test", 0, 2)
					var part mail.QueueID
					switch behind.(type) {
					case qmgr.Retry:
						l.Step(qmgr.Retry{IDs: []mail.QueueID{id}})
					case qmgr.Hold:
						l.Step(qmgr.Hold{IDs: []mail.QueueID{id}})
					case qmgr.Drop:
						l.Step(qmgr.Drop{IDs: []mail.QueueID{id}})
					case qmgr.Settle:
						l.GiveUp(l.m, mail.ReportNone, 1, 3)
					case qmgr.Split:
						part = l.HoldSome(l.m, 1, 2)
					case qmgr.SetRoute:
						l.Reroute(l.m, "", 2)
					case qmgr.Reroute, qmgr.RetryAll:
						l.Step(behind)
					}
					l.end(t)
					if _, held := behind.(qmgr.Hold); held {
						l.Step(qmgr.Release{IDs: []mail.QueueID{id}})
					}
					if part != 0 {
						l.Step(qmgr.Release{IDs: []mail.QueueID{part}})
					}
					l.end(t)
					l.checkRelayed(t, behind)
				})
			}
		}
	}
}

func (l *relayed) checkRelayed(t *testing.T, behind qmgr.Event) {
	t.Helper()
	if len(l.Violations) > 0 || len(l.Messages) > 0 {
		t.Fatalf("%d messages are left; %v", len(l.Messages), l.Violations)
	}
	_, dropped := behind.(qmgr.Drop)
	_, settled := behind.(qmgr.Settle)
	_, split := behind.(qmgr.Split)
	_, cleared := behind.(qmgr.SetRoute)
	for i, n := range l.m.Accepted {
		moved := l.m.Results[i] == mail.Moved
		if n > 1 || n == 0 && !dropped && !moved && !(settled && i%2 == 1) {
			t.Errorf("recipient %d was delivered %d times, and is %v", i, n, l.m.Results[i])
		}
		byRelay := slices.Contains(l.tried, fmt.Sprintf("%d at relay.test", i))
		if byRelay && i%2 == 1 && !split { // of a message that was split off, indexes are others
			t.Errorf("recipient %d was sent to the relay", i)
		}
		if i%2 == 0 && !byRelay && n == 1 && !l.going[i] && !(cleared && i == 2) {
			t.Errorf("recipient %d was not sent to the relay: %v", i, l.tried)
		}
		if byRelay && cleared && i == 2 && l.m.Recipients[2].Ordered == nil && l.m.Results[2] != mail.Delivered {
			t.Errorf("recipient %d: %v", i, l.tried)
		}
	}
}

// deferred goes on until all recipients of the message were deferred.
func (l *relayed) deferred(t *testing.T) {
	t.Helper()
	for l.m.Place.Area != mail.AreaDeferred || len(l.Outstanding) > 0 {
		l.step()
	}
	l.tried = nil
}

// What is deferred is tried at once by its new route, and the other recipients are not: they are due when they were
// before, and the message has had no further attempt.
func TestRerouteOfDeferred(t *testing.T) {
	l := newRelayed(t, qmgr.Config{})
	l.deferred(t)
	due, attempts := l.m.Place.Due, l.m.Envelope.Attempts
	l.Now = l.Now.Add(time.Second)
	l.Reroute(l.m, "relay.test", 2, 0, 2)
	if got := l.settle(); !slices.Equal(got, []string{"0 at relay.test", "2 at relay.test"}) {
		t.Errorf("tried %v", got)
	}
	if l.m.Place.Area != mail.AreaDeferred || l.m.Place.Due != due || l.m.Envelope.Attempts != attempts {
		t.Errorf("%v after %d attempts, before %v after %d", l.m.Place, l.m.Envelope.Attempts, due, attempts)
	}
	l.end(t)
	l.checkRelayed(t, nil)
	if l.Now < due {
		t.Errorf("the others were tried at %v, and were due at %v", l.Now, due)
	}
}

// Where the new route does not work either, the message is due no later than before: its other recipients do not wait
// for the relay. Taken back, the order leads to the receiver again, at once.
func TestRerouteToARelayThatIsDown(t *testing.T) {
	l := newRelayed(t, qmgr.Config{})
	l.deferred(t)
	due := l.m.Place.Due
	l.Now = due.Add(-time.Second)
	l.Reroute(l.m, "down.test", 0, 2)
	if got := l.settle(); !slices.Equal(got, []string{"0 at down.test", "2 at down.test"}) {
		t.Errorf("tried %v", got)
	}
	if l.m.Place.Due != due {
		t.Errorf("due at %v, before at %v", l.m.Place.Due, due)
	}
	l.Reroute(l.m, "", 0)
	if got := l.settle(); !slices.Equal(got, []string{"0 at bad.test"}) {
		t.Errorf("taken back, tried %v", got)
	}
	l.Now = due
	l.Step(qmgr.Wake{})
	if got := l.settle(); !slices.Equal(got, []string{"0 at bad.test", "1 at good.test", "2 at down.test", "3 at good.test"}) {
		t.Errorf("when it is due, tried %v", got)
	}
}

// What waits in core leaves it for a moment and goes the new way; what others of the message wait for is as before.
func TestRerouteOfWaiting(t *testing.T) {
	l := newRelayed(t, qmgr.Config{DefaultTransport: qmgr.TransportConfig{ProcessLimit: 1}})
	for n := 0; ; n++ {
		if _, is := l.Outstanding[0].(qmgr.Deliver); is {
			break
		}
		l.step()
	}
	going := l.Outstanding[0].(qmgr.Deliver).Delivery.Recipients[0].Index // the two at its domain are going
	l.calm = true
	l.Reroute(l.m, "relay.test", 0, 1, 2, 3)
	got := l.settle()
	want := []string{"0 at relay.test", "1 at good.test", "2 at relay.test", "3 at good.test"}
	if going%2 == 0 {
		want = []string{"0 at bad.test", "1 at relay.test", "2 at bad.test", "3 at relay.test"}
	}
	if !slices.Equal(got, want) || len(l.Violations) > 0 {
		t.Errorf("recipient %d was going; tried %v; %v", going, got, l.Violations)
	}
}

// Held mail stays held, with its route; what is tried at its release goes there.
func TestRerouteOfHeld(t *testing.T) {
	l := newRelayed(t, qmgr.Config{})
	l.deferred(t)
	l.Step(qmgr.Hold{IDs: []mail.QueueID{l.m.Envelope.ID}, Reason: "x"})
	l.Reroute(l.m, "relay.test", 0) // while that change is under way
	l.settle()
	l.Reroute(l.m, "relay.test", 2)
	opened := false
	for len(l.Outstanding) > 0 {
		_, is := l.Outstanding[0].(qmgr.Open)
		opened = opened || is
		l.step()
	}
	if l.m.Place.Area != mail.AreaHold || opened {
		t.Fatalf("it is in %v; opened: %t", l.m.Place, opened)
	}
	l.Step(qmgr.Release{IDs: []mail.QueueID{l.m.Envelope.ID}})
	if got := l.settle(); !slices.Equal(got, []string{"0 at relay.test", "1 at good.test", "2 at relay.test", "3 at good.test"}) {
		t.Errorf("tried %v", got)
	}
}

// A retry of the whole message is not lost at whatever moment of a reroute it comes, nor is a reroute
// behind a retry.
func TestRerouteAndRetry(t *testing.T) {
	for moment := range 9 {
		for _, all := range []bool{false, true} {
			for _, first := range []bool{false, true} {
				l := newRelayed(t, qmgr.Config{})
				l.deferred(t)
				due := l.m.Place.Due
				l.Now = l.Now.Add(time.Second)
				retry := func() {
					if all {
						l.Step(qmgr.RetryAll{})
					} else {
						l.Step(qmgr.Retry{IDs: []mail.QueueID{l.m.Envelope.ID}})
					}
				}
				if first {
					retry()
				} else {
					l.Reroute(l.m, "relay.test", 0, 2)
				}
				for range moment {
					if len(l.Outstanding) > 0 {
						l.step()
					}
				}
				if l.calm = true; first {
					if l.Gone[l.m.Envelope.ID] == nil {
						l.Reroute(l.m, "relay.test", 0, 2)
					}
				} else {
					retry()
				}
				l.settle()
				if len(l.Violations) > 0 || l.Now >= due || l.Gone[l.m.Envelope.ID] == nil && !first {
					t.Errorf("all %t, first %t, moment %d: it is %v and the message was due at %v; it is in %v: %v; %v", all, first, moment, l.Now, due, l.m.Place, l.m.Results, l.Violations)
				}
			}
		}
	}
}

// Where there is no room in core, recipients of the same message that several orders have chosen are tried together, and
// those of a message that has gone meanwhile are forgotten.
func TestRerouteWithoutRoom(t *testing.T) {
	l := newRelayed(t, qmgr.Config{ActiveLimit: 1})
	l.deferred(t)
	other := l.Arrive("s@home.test", []mail.Recipient{{Address: "x@slow.test"}})
	var slow qmgr.Action
	for slow == nil {
		if d, is := l.Outstanding[0].(qmgr.Deliver); is && d.Delivery.Envelope.ID == other.Envelope.ID {
			slow = l.Take(0)
			break
		}
		l.step()
	}
	l.settle()
	l.Reroute(l.m, "relay.test", 0)
	l.settle()
	l.Reroute(l.m, "relay.test", 2)
	if got := l.settle(); len(got) > 0 {
		t.Fatalf("there is no room, and %v was tried", got)
	}
	l.Deliver(slow.(qmgr.Deliver), qmgrtest.Accepted)
	if got := l.settle(); !slices.Equal(got, []string{"0 at relay.test", "2 at relay.test"}) {
		t.Errorf("tried %v", got)
	}
}

// Of a message with more recipients than are read at once, only the chosen ones are tried, and nothing behind the last
// of them is read.
func TestRerouteOfALongMessage(t *testing.T) {
	w, err := qmgrtest.New(qmgr.Config{RecipientLimit: 100, RecipientMinimum: 10, DefaultTransport: qmgr.TransportConfig{RecipientPool: 10}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	const n, read = 2000, 300
	var to []mail.Recipient
	for i := range n {
		to = append(to, mail.Recipient{Address: mail.Address(fmt.Sprintf("u%d@bad.test", i))})
	}
	m := w.Store("s@home.test", to)
	m.Place = mail.Place{Area: mail.AreaDeferred, Due: w.Now.Add(time.Hour), Chunks: 1, Touched: true}
	var farthest uint32
	rest := func() {
		for len(w.Outstanding) > 0 {
			switch a := w.Take(0).(type) {
			case qmgr.Deliver:
				w.Deliver(a, qmgrtest.Accepted)
			case qmgr.Read:
				farthest = max(farthest, a.From)
				w.Answer(a)
			default:
				w.Answer(a)
			}
		}
	}
	rest()
	w.Reroute(m, "relay.test", 3, 150, read-1)
	rest()
	accepted := 0
	for _, k := range m.Accepted {
		accepted += k
	}
	if accepted != 3 || m.Accepted[3] != 1 || m.Accepted[150] != 1 || m.Accepted[read-1] != 1 || len(w.Violations) > 0 {
		t.Errorf("%d recipients got the mail; %v", accepted, w.Violations)
	}
	if farthest == 0 || farthest > read {
		t.Errorf("read from recipient %d", farthest)
	}
	if m.Place.Area != mail.AreaDeferred || m.Place.Due != w.Now.Add(time.Hour) || m.Envelope.Attempts != 0 {
		t.Errorf("%v after %d attempts", m.Place, m.Envelope.Attempts)
	}
}

// The time of an order is the core's, unless the host knows it. An order without recipients does nothing, and the core keeps none of the host's
// slices and values.
func TestRerouteTime(t *testing.T) {
	l := newRelayed(t, qmgr.Config{})
	l.deferred(t)
	before := len(l.Outstanding)
	l.Step(qmgr.SetRoute{ID: l.m.Envelope.ID, Reroute: mail.Reroute{To: &mail.OrderedRoute{Target: "relay.test"}}})
	if len(l.Outstanding) != before {
		t.Errorf("an order for nobody: %v", l.Outstanding)
	}
	to := mail.OrderedRoute{Target: "relay.test", By: "bob"}
	list := []uint32{2, 0}
	l.Step(qmgr.SetRoute{ID: l.m.Envelope.ID, Reroute: mail.Reroute{Recipients: list, To: &to}})
	if list[0] != 2 || to.At != 0 {
		t.Errorf("the host's values are %v, %v", list, to)
	}
	list[0], list[1] = 1, 1
	l.settle()
	if got := l.m.Recipients[0].Ordered; got == nil || got.At != l.Now || got.By != "bob" || l.m.Recipients[1].Ordered != nil {
		t.Errorf("%+v", got)
	}
	l.Step(qmgr.SetRoute{ID: l.m.Envelope.ID, Reroute: mail.Reroute{Recipients: []uint32{1}, To: &mail.OrderedRoute{Target: "relay.test", At: 5}}})
	l.settle()
	if got := l.m.Recipients[1].Ordered; got == nil || got.At != 5 {
		t.Errorf("%+v", got)
	}
}

// opening goes on until the message is about to be opened for the recipients of an order.
func (l *relayed) opening(t *testing.T) {
	t.Helper()
	for len(l.Outstanding) > 0 {
		if _, is := l.Outstanding[0].(qmgr.Open); is {
			return
		}
		l.step()
	}
	t.Fatal("it is not opened")
}

// Another order ends the round of the recipients that were rerouted before their turn: they are tried all the same.
func TestRerouteInterrupted(t *testing.T) {
	l := newRelayed(t, qmgr.Config{})
	l.deferred(t)
	l.Reroute(l.m, "relay.test", 0, 2)
	l.opening(t)
	l.GiveUp(l.m, mail.ReportNone, 0)
	if got := l.settle(); !slices.Equal(got, []string{"2 at relay.test"}) || len(l.Violations) > 0 {
		t.Errorf("tried %v; %v", got, l.Violations)
	}
}

// Recipients that are settled before their turn cost no change: the message rests as it did.
func TestRerouteOfSettled(t *testing.T) {
	l := newRelayed(t, qmgr.Config{})
	l.deferred(t)
	place := l.m.Place
	l.Reroute(l.m, "relay.test", 0, 2)
	l.opening(t)
	l.m.Results[0], l.m.Results[2] = mail.Failed, mail.Failed
	for len(l.Outstanding) > 0 {
		if c, is := l.Outstanding[0].(qmgr.Change); is {
			t.Errorf("it is changed: %+v", c)
		}
		l.step()
	}
	if l.m.Place.Due != place.Due || l.Core.InCore(l.m.Envelope.ID) {
		t.Errorf("%v, before %v", l.m.Place, place)
	}
}
