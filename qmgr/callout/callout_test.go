package callout

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/addrdb"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
)

const start = mail.Instant(1_000_000 * time.Second)

func after(d time.Duration) mail.Instant { return start.Add(d) }

func newDesk(cfg Config) *Desk {
	cfg.Addresses = cfg.Addresses.WithDefaults()
	return New(cfg)
}

// call opens a question about a recipient, whose receiver will be asked.
func call(t *testing.T, d *Desk, id VerificationID, client string, to mail.Address, now mail.Instant) *Verification {
	t.Helper()
	v := d.Open(Verification{ID: id, Client: netip.MustParseAddr(client), Recipient: to}, now)
	d.CallOut(v, mail.Route{Transport: "smtp", Nexthop: to.Domain()})
	return v
}

// begin begins all call-outs that may begin, and returns whom they ask.
func begin(d *Desk, inCore map[mail.QueueID]*Callout, now mail.Instant) (asked string) {
	for o := d.Next(); o != nil; o = d.Next() {
		d.Begin(o, now)
		inCore[o.ID] = o
		asked += string(o.Recipient) + " "
	}
	d.Check(inCore)
	return asked
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

// All wait for the deadline, in the order in which they have asked, and hears what
// is not known by then. More than ten thousand do not wait.
func TestDeadline(t *testing.T) {
	d := newDesk(Config{Limit: 1, NetworkLimit: 1, Deadline: 5 * time.Second})
	if d.Deadline() != mail.Never || d.Oldest() != nil {
		t.Errorf("no client has asked, and the deadline is %v", d.Deadline())
	}
	lookups := intake.NewLookups()
	lookups.Configure(intake.Limits{Lookups: 1, Message: 1, Clients: 1, Network: 1})
	looking := d.Open(Verification{ID: 1, Recipient: "a@slow.test"}, start)
	lookups.Ask(&looking.Question, netip.Addr{}, intake.Key{Transport: "smtp", Nexthop: "slow.test"}, start)
	calling := call(t, d, 2, "192.0.2.1", "b@test", after(time.Second))
	d.Check(nil)
	for i, c := range []struct {
		v     *Verification
		at    time.Duration
		reply string
	}{
		{looking, 5 * time.Second, "450 4.4.3 DNS lookup of slow.test failed: no answer in time"},
		{calling, 6 * time.Second, "450 4.1.1 address verification in progress"},
	} {
		if d.Deadline() != after(c.at) || d.Oldest() != c.v || d.Len() != 2-i {
			t.Fatalf("%d wait, the first until %v, want %d until %v", d.Len(), d.Deadline().Sub(start), 2-i, c.at)
		}
		if got := c.v.Unanswered().String(); got != c.reply {
			t.Errorf("the client hears %q, want %q", got, c.reply)
		}
		if c.v == looking {
			mustPanic(t, "a question that waits for a lookup is closed", func() { d.Close(c.v) })
			lookups.WithdrawQuestion(&c.v.Question)
		}
		d.Close(c.v)
		d.Check(nil)
	}
	for i := range 10_000 {
		if d.Open(Verification{}, start) == nil {
			t.Fatalf("a question is not taken when %d wait", i)
		}
	}
	if d.Open(Verification{}, start) != nil {
		t.Error("one question more is taken")
	}
	d.Close(d.Oldest())
	if v := d.Open(Verification{ID: 7}, start); v == nil || Of(&v.Question) != v {
		t.Errorf("the place of a question that was closed is not taken by %v", v)
	}
}

// Call-outs come into core in turn, as many as there are slots, and of one network fewer.
// All who ask for one recipient wait for one call-out, whatever the case of its domain.
func TestTurns(t *testing.T) {
	d := newDesk(Config{Limit: 3, NetworkLimit: 2})
	inCore := make(map[mail.QueueID]*Callout)
	for i, to := range []mail.Address{"a1@test", "a2@test", "a3@test", "A1@test", "a1@TEST"} {
		call(t, d, VerificationID(i), "192.0.2.1", to, start)
	}
	call(t, d, 10, "198.51.100.1", "b1@test", start)
	call(t, d, 11, "198.51.100.1", "a2@test", start)
	if v := d.View(); (v != View{Waiting: 5}) {
		t.Errorf("%+v", v)
	}
	if got := begin(d, inCore, start); got != "a1@test b1@test a2@test " {
		t.Errorf("asked are %s", got)
	}
	if v := d.View(); (v != View{Waiting: 2, InCore: 3}) || d.InCore() != 3 {
		t.Errorf("%+v, %d in core", v, d.InCore())
	}
	for i := range uint32(3) {
		if o := inCore[mail.CalloutID(i+1)]; o == nil || o.To != (mail.Route{Transport: "smtp", Nexthop: "test"}) || !o.InTime() {
			t.Errorf("call-out %d is %+v", i+1, o)
		}
	}
	// The next of the first network waits for one of its own.
	end := func(id uint32) (asked string) {
		o := inCore[mail.CalloutID(id)]
		d.End(o, nil, start)
		delete(inCore, o.ID)
		for v := o.NextAsker(); v != nil; v = o.NextAsker() {
			asked += fmt.Sprint(v.ID, " ")
			d.Close(v)
		}
		return asked
	}
	if got := end(2); got != "10 " {
		t.Errorf("the answer about b1 is for %s", got)
	}
	if got := begin(d, inCore, start); got != "" {
		t.Errorf("asked are %s, of a network with two", got)
	}
	if got := end(1); got != "0 4 " {
		t.Errorf("the answer about a1 is for %s", got)
	}
	if got := begin(d, inCore, start); got != "a3@test " {
		t.Errorf("asked are %s", got)
	}
	if got := end(3); got != "1 11 " {
		t.Errorf("the answer about a2 is for %s", got)
	}
	d.Configure(Config{Limit: 1, NetworkLimit: 1, Addresses: addrdb.Config{}.WithDefaults()})
	if got := begin(d, inCore, start); got != "" {
		t.Errorf("asked are %s, beside the only slot", got)
	}
	call(t, d, 12, "192.0.2.1", "c@test", start)
	if d.View().Known != 3 {
		t.Errorf("the answers about %d addresses are remembered, want 3", d.View().Known)
	}
	d.Configure(Config{Limit: 1, NetworkLimit: 1, Addresses: addrdb.Config{Limit: 2}.WithDefaults()})
	if d.View().Known != 2 {
		t.Errorf("the answers about %d addresses are remembered, want 2", d.View().Known)
	}
}

// A call-out that has not begun is forgotten with the last who waits for it. One that has
// begun goes on, so that its answer is there for the next.
func TestNobodyWaits(t *testing.T) {
	d := newDesk(Config{Limit: 1, NetworkLimit: 1})
	inCore := make(map[mail.QueueID]*Callout)
	first := call(t, d, 1, "192.0.2.1", "a@test", start)
	second, third := call(t, d, 2, "192.0.2.1", "b@test", start), call(t, d, 3, "198.51.100.1", "b@test", start)
	begin(d, inCore, start)
	d.Close(second)
	d.Check(inCore)
	if v := d.View(); v.Waiting != 1 {
		t.Errorf("%+v: a question waits for the call-out", v)
	}
	d.Close(third)
	d.Close(first)
	d.Check(inCore)
	if v := d.View(); (v != View{InCore: 1}) {
		t.Errorf("%+v: no question waits, and one has begun", v)
	}
	o := inCore[mail.CalloutID(1)]
	if got := call(t, d, 4, "192.0.2.1", "a@test", start); got.callout != o {
		t.Error("who asks meanwhile does not wait for the call-out under way")
	}
	d.End(o, &mail.Outcome{Result: mail.Delivered}, start)
	if reply, known, again := d.Find("a@test", start); !reply.IsZero() || !known || again {
		t.Errorf("%v, known %t, asked again %t", reply, known, again)
	}
	delete(inCore, o.ID)
	d.Close(o.NextAsker())
	d.Check(inCore)
	if d.Wake() != mail.Never {
		t.Errorf("no call-out is in core, and one is late after %v", d.Wake().Sub(start))
	}
	mustPanic(t, "a call-out ends twice", func() { d.End(o, nil, start) })
	mustPanic(t, "a call-out begins twice", func() { d.Begin(o, start) })
}

// A call-out keeps its slot for a minute. Then the slot is for others, and the call-out goes
// on as long as it takes; but its network has no more call-outs in core for that.
func TestLate(t *testing.T) {
	d := newDesk(Config{Limit: 2, NetworkLimit: 1})
	inCore := make(map[mail.QueueID]*Callout)
	if d.Wake() != mail.Never || d.Late(after(time.Hour)) != nil {
		t.Errorf("nothing has begun, and is late at %v", d.Wake())
	}
	call(t, d, 1, "192.0.2.1", "a@test", start)
	call(t, d, 2, "192.0.2.1", "b@test", start)
	begin(d, inCore, start)
	call(t, d, 3, "198.51.100.1", "c@test", start)
	begin(d, inCore, after(time.Second))
	a, c := inCore[mail.CalloutID(1)], inCore[mail.CalloutID(2)]
	if d.Wake() != after(time.Minute) || d.Late(after(time.Minute-1)) != nil {
		t.Fatalf("the first is late after %v", d.Wake().Sub(start))
	}
	if o := d.Late(after(time.Minute)); o != a || o.InTime() || !c.InTime() {
		t.Fatalf("late is %+v", o)
	}
	if o := d.Late(after(time.Minute)); o != nil || d.Wake() != after(time.Minute+time.Second) {
		t.Errorf("late is %+v, the next after %v", o, d.Wake().Sub(start))
	}
	d.Check(inCore)
	if got := begin(d, inCore, after(time.Minute)); got != "b@test " {
		t.Errorf("the slot is taken by %s", got)
	}
	if v := d.View(); (v != View{InCore: 3, Late: 1}) {
		t.Errorf("%+v", v)
	}
	if status, reply := d.End(a, &mail.Outcome{Result: mail.Failed, Reply: mail.Reply{Code: 550, By: "mx"}}, after(2*time.Minute)); status != addrdb.Bad || reply.Code != 550 {
		t.Errorf("a late answer is %v, %v", status, reply)
	}
	delete(inCore, a.ID)
	d.Close(a.NextAsker())
	d.Check(inCore)
	if v := d.View(); (v != View{InCore: 2, Known: 1}) {
		t.Errorf("%+v", v)
	}
}

// What each outcome is remembered as, what the clients hear who wait, and the next who
// asks.
func TestOutcomes(t *testing.T) {
	said := func(code uint16, class uint16) mail.Reply {
		return mail.Reply{Code: code, Status: mail.Status{Class: class, Subject: 2, Detail: 1}, Text: "no", By: "mx.test[192.0.2.1]"}
	}
	ours := func(code uint16, class uint16) mail.Reply {
		r := said(code, class)
		r.By = ""
		return r
	}
	const bad, unsure = "550 5.1.1 undeliverable address", "450 4.1.1 the address cannot be verified now"
	for _, c := range []struct {
		what     string
		outcome  *mail.Outcome
		status   addrdb.Status
		reply    string // without reasons of the operator's
		reasoned string // with
	}{
		{"taken", &mail.Outcome{Result: mail.Delivered}, addrdb.Good, "", ""},
		{"refused", &mail.Outcome{Result: mail.Failed, Reply: said(550, 5)}, addrdb.Bad,
			"550 5.2.1 undeliverable address: mx.test[192.0.2.1] said: 550 5.2.1 no", "550 5.1.1 rejected"},
		{"refused with another class", &mail.Outcome{Result: mail.Failed, Reply: said(550, 4)}, addrdb.Bad,
			bad + ": mx.test[192.0.2.1] said: 550 4.2.1 no", "550 5.1.1 rejected"},
		{"no host", &mail.Outcome{Result: mail.Failed, Reply: ours(550, 5)}, addrdb.Bad, "550 5.2.1 undeliverable address: no", "550 5.1.1 rejected"},
		{"no host, and no words", &mail.Outcome{Result: mail.Failed}, addrdb.Bad, bad, "550 5.1.1 rejected"},
		{"refused for now", &mail.Outcome{Result: mail.Deferred, Reply: said(450, 4)}, addrdb.Unsure,
			"450 4.2.1 the address cannot be verified now: mx.test[192.0.2.1] said: 450 4.2.1 no", "450 4.1.1 deferred"},
		{"no answer", &mail.Outcome{Result: mail.Deferred, Reply: ours(450, 4)}, addrdb.Unsure, unsure, "450 4.1.1 deferred"},
		{"not asked, the destination is busy", nil, addrdb.Unsure, unsure, "450 4.1.1 deferred"},
		{"the sender is refused for good", &mail.Outcome{Result: mail.Deferred, Unknown: true, Reply: said(550, 5)}, addrdb.Mute, "", ""},
		{"the sender is refused for now", &mail.Outcome{Result: mail.Deferred, Unknown: true, Reply: said(450, 4)}, addrdb.Unsure,
			"450 4.2.1 the address cannot be verified now: mx.test[192.0.2.1] said: 450 4.2.1 no", "450 4.1.1 deferred"},
		{"refused for good, and not known of whom", &mail.Outcome{Result: mail.Deferred, Reply: said(550, 5)}, addrdb.Unsure,
			unsure + ": mx.test[192.0.2.1] said: 550 5.2.1 no", "450 4.1.1 deferred"},
	} {
		for _, want := range []struct{ reject, defers, reply string }{{"", "", c.reply}, {"rejected", "deferred", c.reasoned}} {
			d := newDesk(Config{Limit: 1, NetworkLimit: 1, RejectReason: want.reject, DeferReason: want.defers})
			if reply, known, again := d.Find("a@test", start); !reply.IsZero() || known || !again {
				t.Fatalf("nothing is known, and the reply is %v, known %t, asked again %t", reply, known, again)
			}
			call(t, d, 1, "192.0.2.1", "a@test", start)
			o := d.Next()
			d.Begin(o, start)
			status, reply := d.End(o, c.outcome, start)
			text := func(r mail.Reply) string {
				if r.IsZero() {
					return ""
				}
				return r.String()
			}
			if status != c.status || text(reply) != want.reply {
				t.Errorf("%s: %v, %q, want %v, %q", c.what, status, text(reply), c.status, want.reply)
			}
			if reply, known, _ := d.Find("a@test", start); !known || text(reply) != want.reply {
				t.Errorf("%s: the next hears %q, known %t, want %q", c.what, text(reply), known, want.reply)
			}
		}
	}
}

// An invalid answer does not replace one that is believed: who waits hears that, and
// the outcome is counted as what it is.
func TestNoAnswerReplacesNone(t *testing.T) {
	d := newDesk(Config{Limit: 1, NetworkLimit: 1})
	for i, outcome := range []*mail.Outcome{{Result: mail.Failed, Reply: mail.Reply{Code: 550, By: "mx"}}, nil} {
		call(t, d, 1, "192.0.2.1", "a@test", start)
		o := d.Next()
		d.Begin(o, start)
		status, reply := d.End(o, outcome, start)
		if status != []addrdb.Status{addrdb.Bad, addrdb.Unsure}[i] || reply.Code != 550 {
			t.Errorf("%v: %v", status, reply)
		}
	}
}

func TestMisuse(t *testing.T) {
	d := newDesk(Config{Limit: 1, NetworkLimit: 1})
	v := call(t, d, 1, "192.0.2.1", "a@test", start)
	mustPanic(t, "a question waits for two call-outs", func() { d.CallOut(v, mail.Route{}) })
	mustPanic(t, "a call-out about no recipient", func() { d.CallOut(d.Open(Verification{ID: 2}, start), mail.Route{}) })
	mustPanic(t, "a call-out ends that has not begun", func() { d.End(v.callout, nil, start) })
	mustPanic(t, "a call-out in core that is not known", func() { d.Check(map[mail.QueueID]*Callout{1: {}}) })
}
