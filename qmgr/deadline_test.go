package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// A mailing with a deadline waits for one slow host. When the time is over a Step deals with as many messages as it
// may start things, and the core asks to be stepped again at once; nothing is started meanwhile, though the host has room.
func TestDeadlineOfMany(t *testing.T) {
	const messages, most = 500, 10
	cfg := qmgr.Config{ActionsPerStep: most}
	cfg.DefaultTransport.Window.Initial, cfg.DefaultTransport.Window.Limit = 1, 1
	f := newFlood(t, cfg)
	f.By, f.Within = mail.ByReturn, time.Hour
	for i := range messages {
		f.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address(fmt.Sprintf("u%d@home.test", i))}}) // which takes nothing yet
		f.settle()
	}
	f.Now = f.Now.Add(time.Hour)
	f.Deliver(f.Take(0).(qmgr.Deliver), qmgrtest.Accepted) // in the Step in which the deadline passes
	expired := 0
	for steps := 0; ; steps++ {
		n := 0
		for _, a := range f.Actions {
			switch a := a.(type) {
			case qmgr.Deliver:
				t.Fatalf("after %d steps %v is tried", steps, a.Delivery.Envelope.ID)
			case qmgr.Change:
				if a.Change.Op == mail.ChangeExpire {
					n++
				}
			}
		}
		if expired += n; n > most {
			t.Fatalf("%d messages are given up in one step", n)
		}
		if wake, ok := f.Core.NextWake(); !ok || wake > f.Now {
			break
		}
		if steps > 10*messages {
			t.Fatal("the core never comes to rest")
		}
		f.Step(qmgr.Wake{})
	}
	if expired != messages-1 {
		t.Errorf("%d messages are given up, want %d", expired, messages-1)
	}
	f.open = true
	f.pass(time.Minute)
	if v := f.Core.View(0); v.Messages != 0 || v.Counts.Expired != messages-1 || len(f.Messages) != 0 {
		t.Errorf("%d messages are in core and %d in the spool, %d were given up", v.Messages, len(f.Messages), v.Counts.Expired)
	}
	for _, v := range f.Violations {
		t.Error(v)
	}
}

// The senders of many messages are to hear of a delay at the same time, and their own host takes no reports. They take turns as
// the reports on failures do, while the messages stay where they are.
func TestReportsOfLateMailTakeTurns(t *testing.T) {
	const messages = 200
	cfg := qmgr.Config{ActiveLimit: 1000}
	f := newFlood(t, cfg)
	f.By, f.Within = mail.ByNotify, time.Hour
	var all []*qmgrtest.Message
	for i := range messages {
		all = append(all, f.Arrive("s@home.test", []mail.Recipient{{Address: mail.Address(fmt.Sprintf("u%d@home.test", i))}}))
		f.settle()
	}
	f.By = mail.ByNone // of the reports
	f.Now = f.Now.Add(time.Hour)
	f.Step(qmgr.Wake{})
	reported := func() (n int) {
		for _, m := range all {
			if len(m.Reported) > 1 {
				t.Fatalf("%v is reported on %d times", m.Envelope.ID, len(m.Reported))
			}
			n += len(m.Reported)
		}
		return n
	}
	f.settle()
	if n, want := reported(), 1000/20; n < want || n > want+1 {
		t.Errorf("%d reports are made at once, want %d", n, want)
	}
	f.pass(200 * 20 * time.Millisecond)
	if n := reported(); n != messages {
		t.Errorf("%d reports are made, want %d", n, messages)
	}
	if v := f.Core.View(0); v.Messages < messages {
		t.Errorf("%d messages are in core", v.Messages)
	}
	f.open = true
	f.pass(time.Hour)
	if v := f.Core.View(0); v.Messages != 0 || len(f.Messages) != 0 {
		t.Errorf("%d messages are in core, and %d in the spool", v.Messages, len(f.Messages))
	}
}

// The same of mail that is returned: what has nothing left but its report leaves the core until its turn comes.
func TestReportsOfReturnedMailTakeTurns(t *testing.T) {
	const messages = 200
	cfg := qmgr.Config{ActiveLimit: 1000}
	cfg.DefaultTransport.Window.Initial, cfg.DefaultTransport.Window.Limit = 1, 1
	f := newFlood(t, cfg)
	f.By, f.Within = mail.ByReturn, time.Hour
	var all []*qmgrtest.Message
	for i := range messages {
		all = append(all, f.Arrive("s@home.test", []mail.Recipient{{Address: mail.Address(fmt.Sprintf("u%d@home.test", i))}}))
		f.settle()
	}
	f.By = mail.ByNone // of the reports
	f.Now = f.Now.Add(time.Hour)
	f.Step(qmgr.Wake{})
	f.settle()
	reported := func() (n int) {
		for _, m := range all {
			n += len(m.Reported)
		}
		return n
	}
	if n, want := reported(), 1000/20; n < want || n > want+1 {
		t.Errorf("%d reports are made at once, want %d", n, want)
	}
	if v := f.Core.View(0); v.Messages > 2*1000/20 {
		t.Errorf("%d messages are in core", v.Messages)
	}
	f.pass(messages * 20 * time.Millisecond)
	f.open = true
	f.pass(time.Hour)
	if v := f.Core.View(0); v.Messages != 0 || len(f.Messages) != 0 || reported() != messages-1 { // one was under way, and is taken
		t.Errorf("%d messages are in core and %d in the spool, %d are reported", v.Messages, len(f.Messages), reported())
	}
}

// Of a message to more recipients than fit into core, those in the spool are given up with the others, without being read.
func TestDeadlineOfALongList(t *testing.T) {
	f := newFlood(t, qmgr.Config{RecipientLimit: 100, DefaultTransport: qmgr.TransportConfig{RecipientPool: 50, RecipientLimit: 5, ProcessLimit: 2}})
	f.By, f.Within = mail.ByReturn, time.Minute
	var rcpts []mail.Recipient
	for i := range 3000 {
		rcpts = append(rcpts, mail.Recipient{Address: mail.Address(fmt.Sprintf("u%d@home.test", i))})
	}
	m := f.Arrive("s@x.test", rcpts)
	f.settle()
	f.Now = f.Now.Add(time.Minute)
	f.Step(qmgr.Wake{})
	f.settle()
	under := 0
	for _, a := range f.Outstanding {
		under += len(a.(qmgr.Deliver).Delivery.Recipients)
	}
	if got := m.Unsettled(); got != under || under == 0 || len(m.Reported) != 3000-under {
		t.Errorf("%d recipients are left and %d deliveries under way, %d are reported", got, under, len(m.Reported))
	}
	f.open = true
	f.pass(time.Minute)
	if f.Gone[m.Envelope.ID] == nil || f.taken["home.test"] == 0 || len(m.Reported) != 3000-under {
		t.Errorf("it is at %v; %d reports", m.Place, len(m.Reported))
	}
}

// No timer finds mail that is parked for lookups; so what has a deadline is put off instead, until then at the latest.
func TestDeadlineIsNotParked(t *testing.T) {
	for by, want := range map[mail.ByMode]mail.Area{mail.ByNone: mail.AreaIncoming, mail.ByReturn: mail.AreaDeferred, mail.ByNotify: mail.AreaDeferred} {
		w, err := qmgrtest.New(qmgr.Config{ActiveLimit: 4}, 1)
		if err != nil {
			t.Fatal(err)
		}
		w.Lookups["*"] = mail.Route{Reply: mail.Reply{Code: 451, Text: "no answer"}}
		w.By, w.Within = by, time.Minute
		answer := func() {
			for i := 0; i < len(w.Outstanding); {
				if _, is := w.Outstanding[i].(qmgr.Lookup); is {
					i++
				} else if d, is := w.Outstanding[i].(qmgr.Deliver); is {
					w.Take(i)
					w.Deliver(d, qmgrtest.Later)
				} else {
					w.Answer(w.Take(i))
				}
			}
		}
		answer()
		var all []*qmgrtest.Message
		for i := range 3 {
			all = append(all, w.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address(fmt.Sprintf("u@%d.test", i))}}))
			answer()
		}
		w.Now, _ = w.Core.NextWake()
		w.Step(qmgr.Wake{})
		answer()
		left := 0
		for _, m := range all {
			if !w.Core.InCore(m.Envelope.ID) {
				left++
				if m.Place.Area != want || want == mail.AreaDeferred && m.Place.Due != m.Envelope.By.At {
					t.Errorf("with mode %q it is at %+v", by, m.Place)
				}
			}
		}
		if left == 0 {
			t.Errorf("with mode %q none has left the core", by)
		}
	}
}

// However little is done in a Step, none begins with a delivery of mail whose deadline has passed: neither when an agent is offered, nor
// when a transport has waited since its last delivery.
func TestDeadlineComesFirst(t *testing.T) {
	for _, cfg := range []qmgr.TransportConfig{{Agents: qmgr.AgentsOffered}, {TransportRateDelay: time.Minute}} {
		w, err := qmgrtest.New(qmgr.Config{ActionsPerStep: 1, DefaultTransport: cfg}, 1)
		if err != nil {
			t.Fatal(err)
		}
		rest := func() {
			for len(w.Outstanding) > 0 {
				w.Answer(w.Take(0))
			}
		}
		rest()
		w.By, w.Within = mail.ByReturn, time.Minute
		for range 3 {
			w.Arrive("s@x.test", []mail.Recipient{{Address: "u@a.test"}})
			rest()
		}
		w.Now = w.Now.Add(time.Minute)
		if cfg.Agents == qmgr.AgentsOffered {
			w.Step(qmgr.AgentReady{Transport: "smtp"})
		} else {
			w.Step(qmgr.Wake{})
		}
		for _, a := range w.Actions {
			if d, is := a.(qmgr.Deliver); is {
				t.Errorf("%+v: %v is tried", cfg, d.Delivery.Envelope.ID)
			}
		}
		for _, v := range w.Violations {
			t.Error(v)
		}
	}
}

// calm answers everything but deliveries, and returns those.
func calm(w *qmgrtest.World) (under []qmgr.Deliver) {
	for i := 0; i < len(w.Outstanding); {
		if d, is := w.Outstanding[i].(qmgr.Deliver); is {
			under = append(under, d)
			i++
			continue
		}
		w.Answer(w.Take(i))
	}
	return under
}

// newDue returns a world with a message to three people, whose deadline is in a minute: a is being delivered to, b and c wait.
func newDue(t *testing.T, cfg qmgr.TransportConfig) (*qmgrtest.World, *qmgrtest.Message) {
	t.Helper()
	cfg.RecipientLimit, cfg.Window.Initial, cfg.Window.Limit = 1, 1, 1
	w, err := qmgrtest.New(qmgr.Config{DefaultTransport: cfg}, 1)
	if err != nil {
		t.Fatal(err)
	}
	calm(w)
	w.By, w.Within = mail.ByReturn, time.Minute
	m := w.Arrive("s@x.test", []mail.Recipient{{Address: "a@a.test"}, {Address: "b@a.test"}, {Address: "c@a.test"}})
	calm(w)
	return w, m
}

// pass lets time pass, and the core be woken once at its end.
func pass(w *qmgrtest.World, d time.Duration) []qmgr.Deliver {
	w.Now = w.Now.Add(d)
	w.Step(qmgr.Wake{})
	return calm(w)
}

func expect(t *testing.T, w *qmgrtest.World, m *qmgrtest.Message, what string, results [3]mail.Result, reported int) {
	t.Helper()
	if got := [3]mail.Result(m.Results); got != results || len(m.Reported) != reported {
		t.Errorf("%s: %v and %d reports, want %v and %d", what, got, len(m.Reported), results, reported)
	}
	for _, v := range w.Violations {
		t.Error(v)
	}
}

// An operator has given up one recipient, without a report, while another one is being delivered to. The deadline does not make that a
// failure to be reported, and the third does not wait.
func TestDeadlineAfterAnOrder(t *testing.T) {
	w, m := newDue(t, qmgr.TransportConfig{})
	w.GiveUp(m, mail.ReportNone, 1)
	calm(w)
	expect(t, w, m, "ordered", [3]mail.Result{}, 0)
	under := pass(w, time.Minute)
	expect(t, w, m, "at the deadline", [3]mail.Result{mail.Pending, mail.Failed, mail.Failed}, 1)
	w.Outstanding = nil
	w.Deliver(under[0], qmgrtest.Accepted)
	calm(w)
	expect(t, w, m, "in the end", [3]mail.Result{mail.Delivered, mail.Failed, mail.Failed}, 1)
	if w.Gone[m.Envelope.ID] == nil {
		t.Errorf("it is at %v", m.Place)
	}
}

// A held message is opened for the report on a recipient who was given up. Its deadline, which has passed, does not count as long as it is held.
func TestDeadlineOfHeldMailThatIsReportedOn(t *testing.T) {
	w, m := newDue(t, qmgr.TransportConfig{})
	w.Step(qmgr.Hold{IDs: []mail.QueueID{m.Envelope.ID}})
	w.Deliver(w.Take(0).(qmgr.Deliver), qmgrtest.Later)
	calm(w)
	pass(w, time.Hour)
	w.GiveUp(m, mail.ReportFailed, 1)
	calm(w)
	if m.Place.Area != mail.AreaHold {
		t.Errorf("it is at %v", m.Place)
	}
	expect(t, w, m, "held", [3]mail.Result{mail.Deferred, mail.Failed, mail.Pending}, 1)
}

// Some server may have the message, and the operator wants to decide on such mail: the others are not tried after the deadline, and all are held.
func TestDeadlineInDoubt(t *testing.T) {
	for _, late := range []bool{false, true} {
		w, m := newDue(t, qmgr.TransportConfig{UnknownOutcome: qmgr.UnknownHold})
		want := [3]mail.Result{mail.Deferred, mail.Failed, mail.Failed} // the doubt came when these had been given up
		if late {
			pass(w, time.Minute)
		}
		w.Deliver(w.Take(0).(qmgr.Deliver), qmgrtest.Unknown)
		if !late {
			want = [3]mail.Result{mail.Deferred, mail.Pending, mail.Pending}
			for _, d := range pass(w, time.Minute) { // b had its turn
				w.Outstanding = nil
				w.Deliver(d, qmgrtest.Later)
				want[1] = mail.Deferred
			}
			calm(w)
		}
		calm(w)
		if m.Place.Area != mail.AreaHold {
			t.Errorf("late: %t: it is at %v", late, m.Place)
		}
		expect(t, w, m, fmt.Sprintf("late: %t", late), want, map[bool]int{true: 2}[late])
	}
}

// A core that is to stop gives up nothing.
func TestDeadlineAtTheEnd(t *testing.T) {
	w, m := newDue(t, qmgr.TransportConfig{})
	w.Step(qmgr.Halt{})
	if wake, ok := w.Core.NextWake(); ok && wake <= m.Envelope.By.At {
		t.Errorf("it wants to be woken at %v", wake)
	}
	w.Now = w.Now.Add(time.Hour)
	w.Deliver(w.Take(0).(qmgr.Deliver), qmgrtest.Accepted)
	calm(w)
	expect(t, w, m, "after the end", [3]mail.Result{mail.Delivered}, 0)
}

// Recipients are being routed when the deadline passes: one change gives them up, when that has ended.
func TestDeadlineWhileRouting(t *testing.T) {
	w, err := qmgrtest.New(qmgr.Config{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	calm(w)
	w.By, w.Within = mail.ByReturn, time.Minute
	m := w.Arrive("s@x.test", []mail.Recipient{{Address: "a@a.test"}, {Address: "b@b.test"}, {Address: "c@c.test"}})
	if wake, ok := w.Core.NextWake(); !ok || wake != m.Envelope.By.At {
		t.Errorf("the core wants to be woken at %v, %t", wake, ok)
	}
	w.Now = w.Now.Add(time.Minute)
	w.Step(qmgr.Wake{})
	expired := 0
	for len(w.Outstanding) > 0 {
		a := w.Take(0)
		if c, is := a.(qmgr.Change); is && c.Change.Op == mail.ChangeExpire {
			expired++
		}
		w.Answer(a)
	}
	expect(t, w, m, "at the deadline", [3]mail.Result{mail.Failed, mail.Failed, mail.Failed}, 3)
	if expired != 1 {
		t.Errorf("%d changes give it up", expired)
	}
}
