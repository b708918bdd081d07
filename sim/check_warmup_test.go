package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	pools "github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// The checker of warm-ups complains of a message too many, of an allowance that grew after a
// day that was not used or not good, and of mail that waits while a source may send; and of
// nothing else.
func TestWarmingChecker(t *testing.T) {
	const day = 24 * time.Hour
	to := &destination{name: "a.test", transport: "smtp"}
	for _, c := range []struct {
		name, want string
		play       func(send func(n int, result mail.Result), pass func(), putOff func())
	}{
		{"the allowance", "", func(send func(int, mail.Result), pass func(), putOff func()) { send(10, mail.Delivered); putOff() }},
		{"one too many", "begins message 11", func(send func(int, mail.Result), pass func(), putOff func()) { send(11, mail.Delivered) }},
		{"what was never begun", "", func(send func(int, mail.Result), pass func(), putOff func()) {
			send(9, mail.Untried)
			send(10, mail.Delivered)
		}},
		{"a good day before", "", func(send func(int, mail.Result), pass func(), putOff func()) {
			send(10, mail.Delivered)
			pass()
			send(20, mail.Delivered)
			pass()
			send(50, mail.Delivered)
		}},
		{"an unused day before", "on day 1", func(send func(int, mail.Result), pass func(), putOff func()) {
			send(7, mail.Delivered)
			pass()
			send(11, mail.Delivered)
		}},
		{"a bad day before", "on day 1", func(send func(int, mail.Result), pass func(), putOff func()) {
			send(7, mail.Delivered)
			send(3, mail.Deferred)
			pass()
			send(11, mail.Delivered)
		}},
		{"two bad days before", "on day 1", func(send func(int, mail.Result), pass func(), putOff func()) {
			send(10, mail.Delivered)
			pass()
			send(20, mail.Failed)
			pass()
			send(20, mail.Failed)
			pass()
			send(11, mail.Delivered)
		}},
		{"mail waits for nothing", "may send 1 more today", func(send func(int, mail.Result), pass func(), putOff func()) { send(9, mail.Delivered); putOff() }},
		{"mail waits beside a warm source", "has no limit", func(send func(int, mail.Result), pass func(), putOff func()) {
			send(10, mail.Delivered)
			pass()
			send(20, mail.Delivered)
			pass()
			putOff()
		}},
	} {
		cfg := qmgr.Config{
			Sources: pools.Config{Pools: []pools.Pool{{Name: "main", Members: []pools.Member{{Source: "new", Weight: 1}}}}},
			Warmup:  warmup.Config{Sources: []warmup.Source{{Name: "new", Plan: warmup.Plan{Name: "p", Allowances: []int{10, 20}}}}},
		}
		core, err := qmgr.New(qmgr.Config{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{scenario: &Scenario{}, run: &Run{Core: cfg}, core: core, now: epoch, start: epoch}
		k := newWarming(w)
		from := &session{opening: mail.Opening{Source: "new"}}
		c.play(func(n int, result mail.Result) {
			for range n {
				e := task{session: from, to: to, begun: w.now}
				k.started(w, &e)
				k.finished(w, &e, []mail.Outcome{{Result: result, Reply: mail.Reply{By: "mx"}}})
			}
		}, func() { w.now = w.now.Add(day) }, func() {
			k.putOff(w, &mail.Delivery{Nexthop: "4.3.0 " + qmgr.WarmupPrefix + "new: 10 of 10 to a.test today", Origin: mail.Origin{Transport: "smtp", Nexthop: "a.test"}})
		})
		if got := k.violation(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: the checker says %q, want %q", c.name, got, c.want)
		}
	}
}

// After an order that allows more, the checker complains of mail that still waits for the next
// day although its source may send, and of nothing else: not of what a receiver deferred, of
// what was tried since, or of mail beyond the allowance.
func TestWarmingCheckerAfterAnOrder(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(m *message, now mail.Instant)
		site       string
		day, sent  int
		later      time.Duration
	}{
		{name: "it waits", day: 2, later: time.Minute, want: "mail to a.test still waits for tomorrow 1m0s after an order, and source new may send more"},
		{name: "it waits, and the order was for its site", site: "a.test", day: 3, later: time.Minute, want: "mail to a.test still waits"},
		{name: "the order was for another site", site: "b.test", day: 2, later: time.Minute},
		{name: "it has some time", day: 2, later: 20 * time.Second},
		{name: "nothing more is allowed", day: 1, later: time.Minute},
		{name: "what is allowed was sent since", day: 2, sent: 10, later: time.Minute},
		{name: "all but one of what is allowed was sent since", day: 2, sent: 9, later: time.Minute, want: "still waits"},
		{name: "the day is over", day: 2, later: 24 * time.Hour},
		{name: "a receiver deferred it", day: 2, later: time.Minute, change: func(m *message, now mail.Instant) { m.place.Due = now.Add(time.Hour) }},
		{name: "it was tried since", day: 2, later: time.Minute, change: func(m *message, now mail.Instant) { m.last = now.Add(time.Second) }},
		{name: "it is being tried", day: 2, later: time.Minute, change: func(m *message, _ mail.Instant) { m.busy = 1 }},
		{name: "it is delivered", day: 2, later: time.Minute, change: func(m *message, _ mail.Instant) { m.states[0] = stateSettled }},
	} {
		core, err := qmgr.New(qmgr.Config{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		cfg := qmgr.Config{
			Sources: pools.Config{Pools: []pools.Pool{{Name: "main", Members: []pools.Member{{Source: "new", Weight: 1}}}}},
			Warmup:  warmup.Config{Sources: []warmup.Source{{Name: "new", Plan: warmup.Plan{Name: "p", Allowances: []int{10, 20}}}}},
		}
		w := &world{scenario: &Scenario{}, run: &Run{Core: cfg}, core: core, now: epoch.Add(time.Hour), start: epoch}
		k := newWarming(w)
		to := &destination{name: "a.test", transport: "smtp"}
		send := func(n int) {
			for range n {
				e := task{session: &session{opening: mail.Opening{Source: "new"}}, to: to, begun: w.now}
				k.started(w, &e)
				k.finished(w, &e, []mail.Outcome{{Result: mail.Delivered, Reply: mail.Reply{By: "mx"}}})
			}
		}
		send(10)
		m := &message{id: 1, source: &source{table: []tableEntry{{to: to}}}, last: w.now, states: make([]recipientState, 1),
			place: mail.Place{Area: mail.AreaDeferred, Due: warmup.DayOf(w.now).End()}}
		k.changed(w.now, m, &mail.Change{Op: mail.ChangeDefer})
		w.now = w.now.Add(time.Hour)
		if c.change != nil {
			c.change(m, w.now)
		}
		k.ordered(w, &warmup.Order{Key: warmup.Key{Source: "new", Site: c.site}, Day: c.day})
		send(c.sent)
		w.now = w.now.Add(c.later)
		k.stepped(w)
		if got := k.violation(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: the checker says %q, want %q", c.name, got, c.want)
		}
	}
}

// A receiver takes from a source that it does not know what it tolerates, and more on the
// next day; from the one that it knows it takes everything.
func TestTolerance(t *testing.T) {
	r := &receiver{now: Behaviour{Tolerance: 10, ToleranceGrowth: 1.5, KnownSource: "old"}}
	taken := func(source string, n int, at mail.Instant) (k int) {
		for range n {
			if r.tolerates(source, at) {
				k++
			}
		}
		return k
	}
	at := epoch
	for i, want := range []int{10, 15, 22, 10, 33} {
		n := 1000
		if i == 3 {
			n = 10
		}
		if got := taken("new", n, at); got != want {
			t.Errorf("day %d: %d are taken, want %d", i+1, got, want)
		}
		if got := taken("old", 500, at); got != 500 {
			t.Errorf("day %d: %d are taken from the known source", i+1, got)
		}
		at = at.Add(24 * time.Hour)
	}
}
