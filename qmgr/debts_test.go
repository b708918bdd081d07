package qmgr_test

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
)

// A flood is a world in which bad.test refuses every recipient and the senders' host,
// home.test, takes no report until it is allowed to.
type flood struct {
	*qmgrtest.World
	t       *testing.T
	bounced []*qmgrtest.Message
	taken   map[string]int // deliveries by nexthop
	open    bool           // home.test takes reports
}

func newFlood(t *testing.T, cfg qmgr.Config) *flood {
	t.Helper()
	w, err := qmgrtest.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.CheckEvery = checkOfMany()
	return &flood{World: w, t: t, taken: make(map[string]int)}
}

// settle answers everything, except that reports for home.test stay under way while
// that is closed.
func (f *flood) settle() {
	for i := 0; i < len(f.Outstanding); {
		d, is := f.Outstanding[i].(qmgr.Deliver)
		if !is {
			a := f.Take(i)
			f.Answer(a)
			if _, is := a.(qmgr.Report); is {
				m := f.Store("", []mail.Recipient{{Address: "s@home.test", Notify: mail.NotifyNever}})
				m.Envelope.Client.Proto = mail.ProtoLocal
				f.Announce(m)
			}
			continue
		}
		if d.Delivery.Nexthop == "home.test" && !f.open {
			i++
			continue
		}
		how := qmgrtest.Accepted
		if d.Delivery.Nexthop == "bad.test" {
			how = qmgrtest.Rejected
		}
		f.taken[d.Delivery.Nexthop]++
		f.Deliver(f.Take(i).(qmgr.Deliver), how)
	}
}

// pass lets time go by, with all wakes that the core asks for. A core that asks to be
// woken again and again at one instant fails the test instead of running for ever.
func (f *flood) pass(span time.Duration) {
	f.t.Helper()
	const wakesMost = 100
	wakes, at := 0, f.Now
	for end := f.Now.Add(span); ; {
		f.settle()
		if wakes++; f.Now != at {
			wakes, at = 0, f.Now
		}
		if wakes > wakesMost {
			f.t.Fatalf("the core was woken %d times at one instant", wakesMost)
		}
		wake, ok := f.Core.NextWake()
		if !ok || wake > end {
			f.Now = end
			return
		}
		f.Now = max(wake, f.Now)
		f.Step(qmgr.Wake{})
	}
}

func (f *flood) bounce(n int) {
	for range n {
		f.bounced = append(f.bounced, f.Arrive("s@home.test", []mail.Recipient{{Address: "u@bad.test"}}))
		f.settle()
	}
}

// Bounces whose reports no host takes leave the core to other mail, and the line
// that they form to the spool; some go on being reported; and once reports are
// taken again, every sender gets one report.
func TestBouncesLeaveRoom(t *testing.T) {
	const active, bounces = 400, 1000
	f := newFlood(t, qmgr.Config{ActiveLimit: active})
	f.settle()
	f.bounce(bounces)
	if n := f.Core.View(0).Messages; n > active/10 {
		t.Errorf("%d messages are in core, want at most %d", n, active/10)
	}
	if f.Core.Idle() {
		t.Error("the core is idle although reports are owed")
	}
	last := f.bounced[bounces-1].Envelope.ID
	if v := f.Core.Explain([]mail.QueueID{last, 1}, 1); v[0].Held || v[0].Parked != qmgr.WaitReportTurn || v[1].Parked != qmgr.WaitNone {
		t.Errorf("a parked message is explained by %+v, one that does not exist by %+v", v[0], v[1])
	}
	f.Arrive("friend@x.test", []mail.Recipient{{Address: "u@good.test"}})
	f.settle()
	if f.taken["good.test"] != 1 || f.Core.Behind() {
		t.Errorf("good mail: delivered %d, want 1 at once; behind %v", f.taken["good.test"], f.Core.Behind())
	}
	reported := func() (n int) {
		for _, m := range f.bounced {
			n += len(m.Reported)
		}
		return n
	}
	before := reported()
	f.pass(time.Second)
	if n := reported() - before; n < 20 || n > 100 {
		t.Errorf("%d reports in a second in which none was taken, want some 50", n)
	}
	f.open = true
	f.pass(time.Minute)
	for _, m := range f.bounced {
		if len(m.Reported) != 1 || f.Gone[m.Envelope.ID] == nil {
			t.Fatalf("%v was reported on %d times, and is gone: %v", m.Envelope.ID, len(m.Reported), f.Gone[m.Envelope.ID] != nil)
		}
	}
	if f.taken["home.test"] != bounces || len(f.Violations) > 0 {
		t.Errorf("%d reports delivered, want %d; violations %v", f.taken["home.test"], bounces, f.Violations)
	}
}

// Mail from the null sender that is relayed for others is none of our reports: however much
// of it waits, ours are made at once.
func TestRelayedReportsAreNotOurs(t *testing.T) {
	f := newFlood(t, qmgr.Config{ActiveLimit: 400})
	f.settle()
	for range 100 {
		f.Arrive("", []mail.Recipient{{Address: "u@home.test"}})
	}
	f.bounce(15)
	for _, m := range f.bounced {
		if len(m.Reported) != 1 {
			t.Fatalf("%v was reported on %d times, want once", m.Envelope.ID, len(m.Reported))
		}
	}
}

// What waits for its report is found again after a crash, and an operator's order
// for it is carried out.
func TestParkedDebtsSurvive(t *testing.T) {
	cfg := qmgr.Config{ActiveLimit: 400}
	f := newFlood(t, cfg)
	f.settle()
	f.bounce(300)
	last := f.bounced[len(f.bounced)-1].Envelope.ID
	f.Step(qmgr.Drop{IDs: []mail.QueueID{last}})
	f.settle()
	if f.Gone[last] == nil {
		t.Error("a dropped message that owes a report is still there")
	}
	if err := f.Restart(cfg, 2); err != nil {
		t.Fatal(err)
	}
	f.open = true
	f.pass(time.Minute)
	for _, m := range f.bounced[:len(f.bounced)-1] {
		if len(m.Reported) != 1 || f.Gone[m.Envelope.ID] == nil {
			t.Fatalf("%v was reported on %d times, and is gone: %v", m.Envelope.ID, len(m.Reported), f.Gone[m.Envelope.ID] != nil)
		}
	}
}

// A message has failed for one recipient, and then been taken for another, when it is to
// wait for its report. What it leaves the core with is durable first: what was delivered
// last is not delivered again when its turn comes.
func TestParkedMailIsRecorded(t *testing.T) {
	f := newFlood(t, qmgr.Config{ActiveLimit: 400})
	f.settle()
	f.bounce(300)
	f.bounced = append(f.bounced, f.Arrive("s@home.test", []mail.Recipient{{Address: "u@bad.test"}, {Address: "u@good.test"}}))
	f.settle()
	f.open = true
	f.pass(time.Minute)
	if f.taken["good.test"] != 1 || len(f.Violations) > 0 {
		t.Errorf("delivered %d times, want once; violations %v", f.taken["good.test"], f.Violations)
	}
	for _, m := range f.bounced {
		if len(m.Reported) != 1 || f.Gone[m.Envelope.ID] == nil {
			t.Fatalf("%v was reported on %d times, and is gone: %v", m.Envelope.ID, len(m.Reported), f.Gone[m.Envelope.ID] != nil)
		}
	}
}

// A parked message that is opened for its report is retried before it is there. The
// report is all that it has left, and it still counts among those that are opened for
// one.
func TestRetryOfDebtThatIsOpened(t *testing.T) {
	f := newFlood(t, qmgr.Config{ActiveLimit: 400})
	f.settle()
	f.bounce(30)
	f.open = true
	var opened mail.QueueID
	for opened == 0 {
		wake, ok := f.Core.NextWake()
		if !ok {
			t.Fatal("no parked message is opened")
		}
		f.Now = max(wake, f.Now)
		f.Step(qmgr.Wake{})
		for _, a := range f.Outstanding {
			if o, is := a.(qmgr.Open); is {
				opened = o.ID
			}
		}
	}
	f.Step(qmgr.Retry{IDs: []mail.QueueID{opened}})
	f.pass(time.Minute)
	for _, m := range f.bounced {
		if len(m.Reported) != 1 || f.Gone[m.Envelope.ID] == nil {
			t.Fatalf("%v was reported on %d times, and is gone: %v", m.Envelope.ID, len(m.Reported), f.Gone[m.Envelope.ID] != nil)
		}
	}
}

// A backlog that comes back at once does not take the room that new mail needs.
func TestRetriesLeaveRoom(t *testing.T) {
	const active = 40
	f := newFlood(t, qmgr.Config{ActiveLimit: active})
	f.settle()
	for range 2 * active {
		m := f.Store("s@x.test", []mail.Recipient{{Address: "u@home.test"}})
		m.Place = mail.Place{Area: mail.AreaDeferred, Due: f.Now, Chunks: 1, Touched: true}
		m.Envelope.LastAttempt = 1
	}
	f.Step(qmgr.RetryAll{})
	f.settle()
	if n := f.Core.View(0).Messages; n != active*3/4 {
		t.Errorf("%d messages of the backlog are in core, want %d", n, active*3/4)
	}
	f.Arrive("friend@x.test", []mail.Recipient{{Address: "u@good.test"}})
	f.settle()
	if f.taken["good.test"] != 1 || f.Core.Behind() {
		t.Errorf("good mail: delivered %d, want 1 at once; behind %v", f.taken["good.test"], f.Core.Behind())
	}
}

// A retry that an operator orders for what waits for its report changes nothing: its
// turn comes, and it stands in line once.
func TestRetryOfParkedDebts(t *testing.T) {
	f := newFlood(t, qmgr.Config{ActiveLimit: 400})
	f.settle()
	f.bounce(300)
	var ids []mail.QueueID
	for _, m := range f.bounced {
		ids = append(ids, m.Envelope.ID)
	}
	before := f.Core.View(0).Messages
	for range 3 {
		f.Step(qmgr.Retry{IDs: ids})
		f.Step(qmgr.RetryAll{})
		for _, a := range f.Outstanding {
			if open, is := a.(qmgr.Open); is && f.Gone[open.ID] == nil {
				t.Fatalf("%v is opened before its turn", open.ID)
			}
		}
		f.settle()
	}
	if n := f.Core.View(0).Messages; n != before {
		t.Errorf("%d messages are in core, want %d as before", n, before)
	}
	f.open = true
	f.pass(time.Minute)
	for _, m := range f.bounced {
		if len(m.Reported) != 1 || f.Gone[m.Envelope.ID] == nil {
			t.Fatalf("%v was reported on %d times, and is gone: %v", m.Envelope.ID, len(m.Reported), f.Gone[m.Envelope.ID] != nil)
		}
	}
}
