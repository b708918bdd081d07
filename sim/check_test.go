package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// searches shows a checker lookups that begin for these messages.
func searches(w *world, ids ...mail.QueueID) checker {
	w.run.Core.LookupLimit, w.run.Core.MessageConcurrency, w.run.Core.ConcurrencyScale = 4, 1, 2
	c := newShares(w)
	for i, id := range ids {
		c.searching(epoch, &qmgr.Lookup{Lookup: qmgr.LookupID(i + 1), For: id})
	}
	return c
}

// reported shows the checker of conservation a message that is removed, and what the
// report has of it.
func reported(w *world, m *message, t tally) checker {
	c := &conservation{}
	c.accepted(m)
	m.place.Area = mail.AreaNone
	c.changed(epoch, m, &mail.Change{Op: mail.ChangeRemove})
	w.measure.tallies = []tally{t}
	c.end(w)
	w.measure.tallies = nil
	return c
}

// A checker that never complains is worth nothing: here each of them is shown
// what it is there for, and must say so; and what is all right, and must not.
func TestCheckersFindWhatTheyAreFor(t *testing.T) {
	letters, bounces := &source{sender: defaultSender, cfg: &Arrivals{}}, &source{cfg: &Arrivals{}}
	letter := func() *message {
		m := &message{id: 7, number: 3, source: letters, states: make([]recipientState, 2), place: mail.Place{Area: mail.AreaIncoming}}
		return m
	}
	site := func() *destination { return &destination{name: "a.test", transport: "smtp"} }
	cfg := qmgr.Config{DefaultTransport: qmgr.TransportConfig{ProcessLimit: 3, RecipientLimit: 1, SlotCost: -1, RateDelay: 0,
		Window: window.Config{Limit: 2}}}
	core, err := qmgr.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{scenario: &Scenario{}, run: &Run{Core: cfg}, core: core, now: epoch, start: epoch, spool: spool{messages: map[mail.QueueID]*message{}}}
	start := func(c startWatcher, m *message, to *destination, recipients int) {
		c.started(w, &task{message: m, to: to, recipients: make([]mail.Recipient, recipients)})
	}
	settled := func(m *message) *message {
		for i := range m.states {
			m.states[i] = stateTried | stateDelivered | stateSettled
		}
		return m
	}
	for _, c := range []struct {
		name, want string
		watch      func() checker
	}{
		{"a message is removed that is not done", "neither delivered nor failed", func() checker {
			c := &conservation{}
			m := letter()
			m.place.Area = mail.AreaNone
			c.changed(epoch, m, &mail.Change{Op: mail.ChangeRemove})
			return c
		}},
		{"a message disappears", "1 are done and 0", func() checker {
			c := &conservation{recipients: 3, gone: 1}
			c.end(w)
			return c
		}},
		{"all is done", "", func() checker { return reported(w, settled(letter()), tally{delivered: 1, expired: 1}) }},
		{"the report has lost one", "1 were delivered, failed or have expired", func() checker { return reported(w, settled(letter()), tally{failed: 1}) }},
		{"a lookup too many", "the limit is 4", func() checker { return searches(w, 1, 2, 3, 4, 5) }},
		{"a lookup beyond a message's share", "which has 3, while 1 are free", func() checker { return searches(w, 7, 7, 7, 7) }},
		{"a message's share", "", func() checker { return searches(w, 7, 7, 7, 8) }},
		{"two changes at a time", "while another one", func() checker {
			c, m := &durability{}, letter()
			m.changing = true
			c.change(epoch, m, &mail.Change{Op: mail.ChangeRecord, Place: m.place})
			return c
		}},
		{"a change of a message that is elsewhere", "it is in incoming", func() checker {
			c, m := &durability{}, letter()
			c.change(epoch, m, &mail.Change{Op: mail.ChangeRecord, Place: mail.Place{Area: mail.AreaDeferred}})
			return c
		}},
		{"removal in the middle of a delivery", "1 deliveries of it", func() checker {
			c, m := &durability{}, letter()
			m.busy = 1
			c.change(epoch, m, &mail.Change{Op: mail.ChangeRemove, Place: m.place})
			return c
		}},
		{"removal before the report", "a report is owed for 1", func() checker {
			c, m := &durability{}, letter()
			m.owe(0)
			c.change(epoch, m, &mail.Change{Op: mail.ChangeRemove, Place: m.place})
			return c
		}},
		{"an orderly removal", "", func() checker {
			c, m := &durability{}, letter()
			c.change(epoch, m, &mail.Change{Op: mail.ChangeRemove, Place: m.place})
			return c
		}},
		{"a recipient is tried again", "although it is settled", func() checker {
			c := &duplicates{}
			start(c, settled(letter()), site(), 1)
			return c
		}},
		{"a first try", "", func() checker {
			c := &duplicates{}
			start(c, letter(), site(), 1)
			return c
		}},
		{"a report to the null sender", "from the null sender", func() checker {
			c, m := &reporting{}, letter()
			m.source = bounces
			m.owe(0)
			c.report(epoch, m)
			return c
		}},
		{"a report to the postmaster", "", func() checker {
			c, m := &reporting{doubleBounce: qmgr.DoubleBounceReport}, letter()
			m.source = bounces
			m.owe(0)
			c.report(epoch, m)
			return c
		}},
		{"a report about nothing", "but none is owed", func() checker {
			c := &reporting{}
			c.report(epoch, letter())
			return c
		}},
		{"more deliveries than the limit", "3 deliveries to a.test at once; the limit is 2", func() checker {
			c, to := newLimits(w), site()
			for range 3 {
				start(c, letter(), to, 1)
			}
			return c
		}},
		{"as many deliveries as the limit, one after the other", "", func() checker {
			c, to := newLimits(w), site()
			for range 5 {
				start(c, letter(), to, 1)
				start(c, letter(), to, 1)
				c.finished(w, &task{to: to}, nil)
				c.finished(w, &task{to: to}, nil)
			}
			return c
		}},
		{"more deliveries than processes", "over smtp at once; the limit is 3", func() checker {
			c := newLimits(w)
			for range 4 {
				start(c, letter(), site(), 1)
			}
			return c
		}},
		{"too many recipients", "2 recipients in a transaction", func() checker {
			c := newLimits(w)
			start(c, letter(), site(), 2)
			return c
		}},
		{"no rest between deliveries", "the delay is 5s", func() checker {
			c, to := newLimits(w), site()
			c.usage("smtp").cfg.RateDelay = 5 * time.Second
			to.lastDone = epoch - mail.Instant(4*time.Second)
			start(c, letter(), to, 1)
			return c
		}},
		{"no pause before a delivery over the transport", "4s after the one before, 1 at once; the delay is 5s", func() checker {
			c, at := newLimits(w), *w
			c.usage("smtp").cfg.TransportRateDelay = 5 * time.Second
			at.now = epoch - mail.Instant(4*time.Second)
			start(c, letter(), site(), 1)
			c.finished(&at, &task{to: site()}, nil)
			start(c, letter(), site(), 1)
			return c
		}},
		{"an attempt before its time", "before its time", func() checker {
			c, m := newTiming(), letter()
			m.place = mail.Place{Area: mail.AreaDeferred, Due: epoch + 1}
			start(c, m, site(), 1)
			return c
		}},
		{"a dead destination is tried", "which is dead", func() checker {
			c := newTiming()
			c.note(epoch, &qmgr.Note{Kind: qmgr.NoteDead, Transport: "smtp", Nexthop: "a.test"})
			start(c, letter(), site(), 1)
			return c
		}},
		{"a revived destination is tried", "", func() checker {
			c := newTiming()
			c.note(epoch, &qmgr.Note{Kind: qmgr.NoteDead, Transport: "smtp", Nexthop: "a.test"})
			c.note(epoch, &qmgr.Note{Kind: qmgr.NoteAlive, Transport: "smtp", Nexthop: "a.test"})
			start(c, letter(), site(), 1)
			return c
		}},
		{"a younger message goes first", "message 2 is tried at a.test behind message 3, which came later", func() checker {
			c, to, older := newOrdering(w), site(), letter()
			older.number = 2
			for i, m := range []*message{letter(), older} {
				m.states, m.entered = m.states[:1], uint64(5-i)
				start(c, m, to, 1)
			}
			return c
		}},
		{"a message waits for days", "has waited 48h", func() checker {
			c, m := newPatience(w), letter()
			m.arrived = epoch - mail.Instant(48*time.Hour)
			start(c, m, site(), 1)
			return c
		}},
	} {
		k := c.watch()
		if got := k.violation(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s says %q, want %q", c.name, k.name(), got, c.want)
		}
	}
}

// What is in core is bounded; exceeding a bound is reported.
func TestMemoryChecker(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(second)}, Arrivals{Messages: 100})
	w, err := newWorld(s, &s.Runs[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	w.play()
	for range 100 { // the core has them, the checker believes in a smaller limit
		w.accept(w.sources[0], 0, 1)
	}
	w.sources[0].made = 0
	w.sources[0].happen(w)
	for w.answering < len(w.answers) {
		w.answerNext()
	}
	small := *w.run
	small.Core.ActiveLimit = 10
	w.run = &small
	c := &memory{}
	c.rested(w)
	if !strings.Contains(c.violation(), "messages in core; the limit is 10") {
		t.Errorf("a hundred messages in core, ten allowed: %q", c.violation())
	}
	none := small.Core.DefaultTransport
	none.RecipientPool, none.ExtraRecipients = -1, -1
	small.Core.Transports = map[string]qmgr.TransportConfig{"smtp": none, "retry": none, "error": none}
	small.Core.RecipientMinimum, small.Core.RecipientLimit = 1, 10
	c = &memory{}
	c.stepped(w)
	if !strings.Contains(c.violation(), "100 recipients in core; the bound is 10") {
		t.Errorf("a hundred recipients in core, ten allowed: %q", c.violation())
	}
}

// The canary: a model that loses mail, one in which deliveries never end, and
// one that is not decided by its seed must each be found out, each as what it
// is. If this test passes without them, no other run of the simulator means
// anything.
func TestCanary(t *testing.T) {
	for _, c := range []struct {
		sabotage Sabotage
		want     Verdict
		rule     string
	}{
		{SabotageLose, VerdictUnsafe, "conservation"},
		{SabotageHang, VerdictStuck, "progress"},
		{SabotageRandom, VerdictNondeterministic, checkDeterminism},
		{SabotageNone, VerdictOK, ""},
	} {
		s := oneSite(Behaviour{Recipient: Exponential(second)}, Arrivals{Messages: 300})
		s.Sabotage = c.sabotage
		r, err := Simulate(s, Options{Twice: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Verdict(); got != c.want {
			t.Errorf("sabotage %d: verdict %d, want %d; %v", c.sabotage, got, c.want, r.Runs[0].Checks)
		}
		if c.rule != "" && r.Runs[0].Checks[c.rule] == ok {
			t.Errorf("sabotage %d: nothing violates %q: %v", c.sabotage, c.rule, r.Runs[0].Checks)
		}
	}
}
