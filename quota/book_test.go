package quota

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

func rates(t testing.TB, text string) rate.Limits {
	t.Helper()
	l, err := rate.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var (
	acme  = mail.Flow{Class: "bulk", Tenant: "acme", Flow: "news@acme.example"}
	start = mail.Instant(1_000_000 * time.Hour)
)

// Each limit at each moment: what is refused, from where on, and with which words.
func TestReplies(t *testing.T) {
	all := Known{true, true, true}
	waiting := func(u mail.Usage) mail.Waiting { return mail.Waiting{Known: true, Class: u, Tenant: u, Flow: u} }
	limits := Limits{Messages: 10, Octets: 1000, Recipients: 3}
	tenants := Config{Tenants: map[string]Limits{"acme": limits}}
	for _, c := range []struct {
		name string
		cfg  Config
		msg  Message
		w    mail.Waiting
		want string
	}{
		{"room", tenants, Message{Octets: 1, Known: all}, waiting(mail.Usage{Messages: 9, Octets: 999}), ""},
		{"messages", tenants, Message{Octets: 1, Known: all}, waiting(mail.Usage{Messages: 10, Octets: 9}),
			"452 4.3.1 Too much mail of tenant acme waits here: 10 of 10 messages; try again later"},
		{"bytes", tenants, Message{Octets: 2, Known: all}, waiting(mail.Usage{Messages: 9, Octets: 999}),
			"452 4.3.1 Too much mail of tenant acme waits here: 999 of 1000 bytes and 2 in this message; try again later"},
		{"no size announced", tenants, Message{Known: all}, waiting(mail.Usage{Messages: 9, Octets: 999}), ""},
		{"no size announced, full", tenants, Message{Known: all}, waiting(mail.Usage{Messages: 9, Octets: 1000}),
			"452 4.3.1 Too much mail of tenant acme waits here: 1000 of 1000 bytes; try again later"},
		{"just fits alone", tenants, Message{Octets: 1000, Known: all}, waiting(mail.Usage{}), ""},
		{"does not fit alone", tenants, Message{Octets: 1001, Known: all}, waiting(mail.Usage{}),
			"552 5.3.4 Message too large for the quota of tenant acme: the limit is 1000 bytes"},
		{"counting", tenants, Message{Octets: 2, Known: all}, mail.Waiting{}, ""},
		{"counting, does not fit alone", tenants, Message{Octets: 1001, Known: all}, mail.Waiting{},
			"552 5.3.4 Message too large for the quota of tenant acme: the limit is 1000 bytes"},
		{"tenant not certain", tenants, Message{Known: Known{Class: true, Flow: true}}, waiting(mail.Usage{Messages: 99}), ""},
		{"recipients", tenants, Message{Recipients: 3, Moment: AtRecipient, Known: all}, waiting(mail.Usage{}), ""},
		{"one recipient more", tenants, Message{Recipients: 4, Moment: AtRecipient, Known: all}, waiting(mail.Usage{}),
			"452 4.5.3 Too many recipients for one message of tenant acme: the limit is 3"},
		{"known too late", tenants, Message{Recipients: 4, Moment: AtEnd, Known: all}, waiting(mail.Usage{}),
			"554 5.5.3 Too many recipients for one message of tenant acme: the limit is 3"},
		{"class", Config{Classes: map[string]Limits{"bulk": limits}}, Message{Octets: 1, Known: all}, waiting(mail.Usage{Messages: 10, Octets: 9}),
			"452 4.3.1 Too much mail of class bulk waits here; try again later"},
		{"class not certain", Config{Classes: map[string]Limits{"bulk": limits}}, Message{Known: Known{Tenant: true, Flow: true}}, waiting(mail.Usage{Messages: 99}), ""},
		{"each tenant", Config{EachTenant: limits, Tenants: map[string]Limits{"acme": {Recipients: 9}}}, Message{Octets: 1, Known: all}, waiting(mail.Usage{Messages: 11, Octets: 9}),
			"452 4.3.1 Too much mail of tenant acme waits here: 11 of 10 messages; try again later"},
		{"its own instead of each", Config{EachTenant: limits, Tenants: map[string]Limits{"acme": {Messages: 12}}}, Message{Octets: 1, Known: all}, waiting(mail.Usage{Messages: 11, Octets: 9}), ""},
		{"each flow", Config{EachFlow: limits}, Message{Octets: 1, Known: all}, waiting(mail.Usage{Messages: 10, Octets: 9}),
			"452 4.3.1 Too much mail of flow news@acme.example waits here: 10 of 10 messages; try again later"},
		{"flow of a tenant that is not certain", Config{EachFlow: limits}, Message{Known: Known{Class: true, Flow: true}}, waiting(mail.Usage{Messages: 99}), ""},
		{"more recipients than any hour has", Config{EachTenant: Limits{RecipientRate: rates(t, "5/h")}}, Message{Recipients: 6, Moment: AtEnd, Known: all}, mail.Waiting{},
			"554 5.5.3 Too many recipients for one message of tenant acme: the limit is 5"},
		{"the same at RCPT", Config{EachTenant: Limits{RecipientRate: rates(t, "5/h")}}, Message{Recipients: 6, Moment: AtRecipient, Known: all}, mail.Waiting{},
			"452 4.5.3 Too many recipients for one message of tenant acme: the limit is 5"},
	} {
		c.msg.Flow = acme
		b := New(c.cfg)
		got := ""
		if r := b.Check(start, &c.msg, c.w); r != nil {
			got = r.Reply().String()
			if n := b.Refused(r.Kind, r.Resource); n != 1 {
				t.Errorf("%s: %d refusals are counted", c.name, n)
			}
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// Of several limits the client hears of the one that holds out longest, whichever order they
// are in; and only that one counts as having refused.
//
// Seen failing: the first limit was returned, so that a message that could never be sent was
// tried for days as long as its class was full.
func TestGravestRefusal(t *testing.T) {
	never := Limits{Octets: 100}
	full := Limits{Messages: 5}
	minute := Limits{MessageRate: rates(t, "2/min")}
	day := Limits{MessageRate: rates(t, "2/d")}
	few := Limits{Recipients: 1}
	for _, c := range []struct {
		name                string
		class, tenant, flow Limits
		moment              Moment
		want                string
	}{
		{"for good before full", full, never, full, AtEnd, "552 5.3.4 Message too large for the quota of tenant acme: the limit is 100 bytes"},
		{"for good before a rate", minute, full, never, AtMail, "552 5.3.4 Message too large for the quota of flow news@acme.example: the limit is 100 bytes"},
		{"full before a rate", minute, full, day, AtMail, "452 4.3.1 Too much mail of tenant acme waits here: 5 of 5 messages; try again later"},
		{"the longer wait", minute, day, minute, AtMail, "450 4.7.1 Too many messages from tenant acme: 2 in the last day, the limit is 2; try again in 25 hours"},
		{"the longer wait, of the class", day, minute, minute, AtMail, "450 4.7.1 Too many messages from class bulk; try again in 25 hours"},
		{"too many recipients", few, few, never, AtEnd, "552 5.3.4 Message too large for the quota of flow news@acme.example: the limit is 100 bytes"},
		{"too many recipients before full", full, few, full, AtEnd, "554 5.5.3 Too many recipients for one message of tenant acme: the limit is 1"},
		{"another transaction would be refused as well", few, few, minute, AtRecipient, "450 4.7.1 Too many messages from flow news@acme.example: 2 in the last minute, the limit is 2; try again in 64 seconds"},
		{"another transaction", few, Limits{}, Limits{}, AtRecipient, "452 4.5.3 Too many recipients for one message of class bulk: the limit is 1"},
		{"its own mail before others'", full, full, full, AtMail, "452 4.3.1 Too much mail of flow news@acme.example waits here: 5 of 5 messages; try again later"},
		{"its own tenant's before others'", full, full, minute, AtMail, "452 4.3.1 Too much mail of tenant acme waits here: 5 of 5 messages; try again later"},
	} {
		b := New(Config{Classes: map[string]Limits{"bulk": c.class}, Tenants: map[string]Limits{"acme": c.tenant}, EachFlow: c.flow})
		for range 2 {
			if r := b.Admit(start, &Message{Flow: acme, Octets: 1, Recipients: 1}, mail.Waiting{Known: true}); r != nil {
				t.Fatalf("%s: %s", c.name, r.Reply())
			}
		}
		u := mail.Usage{Messages: 5, Octets: 5}
		r := b.Check(start, &Message{Flow: acme, Known: Known{true, true, true}, Moment: c.moment, Octets: 101, Recipients: 2},
			mail.Waiting{Known: true, Class: u, Tenant: u, Flow: u})
		if got := r.Reply().String(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		refused := uint64(0)
		for _, k := range Kinds() {
			for _, of := range Resources() {
				refused += b.Refused(k, of)
			}
		}
		if refused != 1 || b.Refused(r.Kind, r.Resource) != 1 {
			t.Errorf("%s: %d refusals are counted", c.name, refused)
		}
	}
}

// Rates name the limit that keeps the message waiting longest, and for how long.
func TestRateReplies(t *testing.T) {
	b := New(Config{Tenants: map[string]Limits{"acme": {MessageRate: rates(t, "3/min, 5/h"), RecipientRate: rates(t, "20/d")}},
		Classes: map[string]Limits{"bulk": {MessageRate: rates(t, "100/d")}}})
	now := start
	send := func(recipients int, want string) {
		t.Helper()
		got := ""
		if r := b.Admit(now, &Message{Flow: acme, Octets: 1, Recipients: recipients}, mail.Waiting{}); r != nil {
			got = r.Reply().String()
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for range 3 {
		send(1, "")
	}
	send(1, "450 4.7.1 Too many messages from tenant acme: 3 in the last minute, the limit is 3; try again in 64 seconds")
	now = now.Add(2 * time.Minute)
	send(1, "")
	send(1, "")
	now = now.Add(2 * time.Minute)
	send(1, "450 4.7.1 Too many messages from tenant acme: 5 in the last hour, the limit is 5; try again in 60 minutes")
	now = now.Add(2 * time.Hour)
	send(16, "450 4.7.1 Too many recipients from tenant acme: 5 in the last day and 16 in this message, the limit is 20; try again in 23 hours")
	send(15, "")
	send(1, "450 4.7.1 Too many recipients from tenant acme: 20 in the last day, the limit is 20; try again in 23 hours")
	if u := b.View(now, Class, "", "bulk").Messages; len(u) != 1 || u[0].Used != 6 {
		t.Errorf("the class has %+v: what is refused must not count", u)
	}
	if v := b.View(now, Tenant, "", "acme"); v.Refused != 4 {
		t.Errorf("%+v", v)
	}
}

// Names in replies are short and printable.
func TestNamesInReplies(t *testing.T) {
	for name, want := range map[string]string{
		"acme": "acme", "": "-", "bücher": "b?cher", "\x7f\x1b[31m": "??[31m", "\xff\xfe": "??",
		strings.Repeat("x", 65): strings.Repeat("x", 64) + "...",
	} {
		r := Refusal{Kind: Tenant, Name: name, Resource: Messages, Limit: 1}
		if got := r.Reply().Text; !strings.HasPrefix(got, "Too much mail of tenant "+want+" waits here") {
			t.Errorf("%q: %s", name, got)
		}
		if n := len(r.Reply().Text); n > 200 {
			t.Errorf("%d bytes", n)
		}
	}
}

// A twin is the log of all that was accepted.
type twin struct{ log []sent }

type sent struct {
	at         mail.Instant
	flow       mail.Flow
	recipients int
}

// used returns what counts under a limit now: that of the last 17 slices of a sixteenth of
// its time.
func (w *twin) used(now mail.Instant, per time.Duration, of func(sent) int) (n int) {
	slice := int64((per + 15) / 16)
	for _, s := range w.log {
		if int64(now)/slice-int64(s.at)/slice <= 16 {
			n += of(s)
		}
	}
	return n
}

// allows is the obvious decision.
func (w *twin) allows(cfg *Config, now mail.Instant, m *Message, wait mail.Waiting) bool {
	for _, kind := range Kinds() {
		limits, same, u := cfg.Classes[m.Flow.Class], func(f mail.Flow) bool { return f.Class == m.Flow.Class }, wait.Class
		switch kind {
		case Tenant:
			limits, u = cfg.EachTenant, wait.Tenant
			if own, ok := cfg.Tenants[m.Flow.Tenant]; ok {
				limits = own.over(limits)
			}
			same = func(f mail.Flow) bool { return f.Tenant == m.Flow.Tenant }
		case Flow:
			limits, u = cfg.EachFlow, wait.Flow
			same = func(f mail.Flow) bool { return f.Tenant == m.Flow.Tenant && f.Flow == m.Flow.Flow }
		}
		if limits.Messages > 0 && u.Messages+1 > int64(limits.Messages) || limits.Octets > 0 && u.Octets+m.Octets > limits.Octets ||
			limits.Recipients > 0 && m.Recipients > limits.Recipients {
			return false
		}
		count := func(s sent) int {
			if same(s.flow) {
				return 1
			}
			return 0
		}
		for _, l := range limits.MessageRate.All() {
			if w.used(now, l.Per, count)+1 > l.N {
				return false
			}
		}
		for _, l := range limits.RecipientRate.All() {
			if w.used(now, l.Per, func(s sent) int { return s.recipients * count(s) })+m.Recipients > l.N {
				return false
			}
		}
	}
	return true
}

// A Book decides like a log of all that was accepted, also after it was saved and
// restored, and says truly when there is room again.
func TestAgainstTwin(t *testing.T) {
	for seed := range uint64(10 * golden.Runs(1)) {
		rng := rand.New(rand.NewPCG(seed, 0))
		pick := func(list ...string) string { return list[rng.IntN(len(list))] }
		some := func() Limits {
			return Limits{Messages: rng.IntN(3) * 20, Octets: rng.Int64N(2) * 900, Recipients: rng.IntN(2) * 9,
				MessageRate: rates(t, pick("", "7/h", "9/h, 30/d", "5/2h")), RecipientRate: rates(t, pick("", "20/h", "12/3h, 60/d"))}
		}
		cfg := Config{Classes: map[string]Limits{"a": some(), "b": some()}, Tenants: map[string]Limits{"0": some(), "1": some()}, EachTenant: some(), EachFlow: some()}
		b, w := New(cfg), twin{}
		now := start
		refused := 0
		for range 600 {
			now = now.Add(time.Duration(rng.Int64N(int64(20 * time.Minute))))
			if rng.IntN(50) == 0 {
				b = saved(t, b, cfg, now)
			}
			m := Message{Flow: mail.Flow{Class: pick("a", "b", "c"), Tenant: fmt.Sprint(rng.IntN(4)), Flow: fmt.Sprint(rng.IntN(3))},
				Octets: rng.Int64N(300), Recipients: 1 + rng.IntN(10)}
			usage := func() mail.Usage { return mail.Usage{Messages: rng.Int64N(25), Octets: rng.Int64N(800)} }
			wait := mail.Waiting{Known: true, Class: usage(), Tenant: usage(), Flow: usage()}
			want := w.allows(&cfg, now, &m, wait)
			r := b.Admit(now, &m, wait)
			checkMeters(t, b)
			if (r == nil) != want {
				t.Fatalf("seed %d: %+v: refusal %+v, want admission %v", seed, m, r, want)
			}
			if r == nil {
				w.log = append(w.log, sent{now, m.Flow, m.Recipients})
				continue
			}
			refused++
			if again := now.Add(r.Wait); r.Wait > 0 {
				later := b.Check(again, &m, wait)
				if later != nil && later.Kind == r.Kind && later.Resource == r.Resource && later.Per == r.Per {
					t.Fatalf("seed %d: %+v, and then %+v", seed, r, later)
				}
				sooner := b.Check(again-1, &m, wait)
				if sooner == nil || sooner.Resource != r.Resource {
					t.Fatalf("seed %d: %+v, but before that %+v", seed, r, sooner)
				}
			}
		}
		if refused == 0 || refused == 600 {
			t.Errorf("seed %d: %d refusals", seed, refused)
		}
		now = now.Add(1000 * time.Hour)
		for range 100 {
			b.sweep(now)
		}
		if len(b.meters)+b.tenants+b.flows+len(b.ofOne) > 0 || !b.order.Empty() {
			t.Errorf("seed %d: %d meters, %d tenants, %d flows remain", seed, len(b.meters), b.tenants, b.flows)
		}
	}
}

// saved returns a Book that goes on where another has stopped.
func saved(t *testing.T, b *Book, cfg Config, now mail.Instant) *Book {
	kept := make(map[string]Saved)
	for _, m := range b.meters { // all of them, as if there had been no earlier Save
		b.mark(m)
	}
	for more := true; more; {
		var list []Saved
		list, more = b.Save(now, 3)
		for _, s := range list {
			again, err := Parse(s.Key, s.Text())
			if err != nil || !reflect.DeepEqual(again, s) {
				t.Fatalf("%+v is read back as %+v: %v", s, again, err)
			}
			if kept[s.Key] = s; len(s.Messages)+len(s.Recipients) == 0 {
				delete(kept, s.Key)
			}
		}
	}
	next := New(cfg)
	for _, s := range kept {
		next.Restore(s, now)
	}
	return next
}

// What is retracted counts nowhere, whatever was sent since, and for names that share a meter.
func TestRetract(t *testing.T) {
	limits := Limits{MessageRate: rates(t, "3/h"), RecipientRate: rates(t, "12/h, 20/d")}
	b := New(Config{Classes: map[string]Limits{"bulk": limits}, EachTenant: limits, EachFlow: limits})
	m := Message{Flow: acme, Octets: 1, Recipients: 4}
	for n := range 40 {
		at := start.Add(time.Duration(n) * time.Minute)
		if r := b.Admit(at, &m, mail.Waiting{}); r != nil {
			t.Fatalf("message %d: %+v", n, r)
		}
		if n%20 > 0 {
			b.Retract(at, &m)
		}
	}
	now := start.Add(40 * time.Minute)
	for _, v := range []View{b.View(now, Class, "", "bulk"), b.View(now, Tenant, "", "acme"), b.View(now, Flow, "acme", acme.Flow)} {
		if v.Messages[0].Used != 2 || v.Recipients[0].Used != 8 || v.Recipients[1].Used != 8 {
			t.Errorf("%+v", v)
		}
	}

	b = New(Config{EachTenant: limits})
	for n := range metersMax + 1000 {
		b.Admit(start, &Message{Flow: mail.Flow{Tenant: fmt.Sprint(n)}, Recipients: 1}, mail.Waiting{})
	}
	m = Message{Flow: mail.Flow{Tenant: "another"}, Recipients: 1}
	shared := b.find(name{kind: Tenant, name: "another"})
	used := shared.recipients.Uses(start)[0].Used
	b.Retract(start, &m)
	if now := shared.recipients.Uses(start)[0].Used; now != max(used-1, 0) || used == 0 {
		t.Errorf("a shared meter has %d after %d", now, used)
	}
}

// Only what has changed is saved, what counts no more is deleted, and nothing is saved of
// limits for a short time.
func TestSave(t *testing.T) {
	b := New(Config{EachTenant: Limits{MessageRate: rates(t, "5/min, 5/h")}, EachFlow: Limits{MessageRate: rates(t, "5/min")}})
	list, _ := b.Save(start, 10)
	if len(list) != 0 {
		t.Errorf("%+v", list)
	}
	b.Admit(start, &Message{Flow: acme, Recipients: 1}, mail.Waiting{})
	list, _ = b.Save(start, 10)
	if len(list) != 1 || len(list[0].Messages) != 1 || list[0].Messages[0].Per != time.Hour {
		t.Errorf("%+v", list)
	}
	if again, more := b.Save(start, 10); len(again) != 0 || more {
		t.Errorf("%+v", again)
	}
	b.Unsaved(list)
	if again, _ := b.Save(start, 10); len(again) != 1 {
		t.Errorf("%+v", again)
	}
	later := start.Add(3 * time.Hour)
	b.sweep(later)
	gone, _ := b.Save(later, 10)
	if len(gone) != 1 || gone[0].Key != list[0].Key || gone[0].Messages != nil {
		t.Errorf("%+v", gone)
	}
	next := New(b.cfg)
	if next.Restore(list[0], later) || len(next.meters) > 0 {
		t.Error("what does not count any more is restored")
	}
	if !next.Restore(list[0], start) {
		t.Error("what counts is not restored")
	}
	for range 4 {
		next.sweep(later)
	}
	if gone, _ := next.Save(later, 10); len(gone) != 1 || gone[0].Key != list[0].Key {
		t.Errorf("%+v is not deleted by the process after", gone)
	}
	for _, bad := range []string{"", "1", "9=x\x00y", "1=x", "1#", "1#ab", "1!x\x00"} {
		if next.Restore(Saved{Key: bad, Used: start, Messages: list[0].Messages}, start) {
			t.Errorf("key %q is taken", bad)
		}
	}
}

// A client that invents senders and tenants gets no more than the limits, and the memory
// is bounded; who has limits of his own, or was counted before, is not affected.
func TestInventedNames(t *testing.T) {
	one := Limits{MessageRate: rates(t, "2/h")}
	b := New(Config{EachTenant: Limits{MessageRate: rates(t, "1000000/h")}, EachFlow: one, Tenants: map[string]Limits{"own": {MessageRate: rates(t, "9/h")}}})
	send := func(tenant, flow string) bool {
		return b.Admit(start, &Message{Flow: mail.Flow{Class: "normal", Tenant: tenant, Flow: flow}, Recipients: 1}, mail.Waiting{}) == nil
	}
	send("honest", "a@example.com")
	accepted := 0
	for n := range min(200_000*golden.Runs(1), 1_000_000) {
		if send("attacker", fmt.Sprintf("%d@example.com", n)) {
			accepted++
		}
	}
	// Each of his flows, and each meter that the others share, has two at most.
	if most := flowsMax + 2*slots; accepted > most || len(b.meters) > flowsMax+slots+10 {
		t.Errorf("%d messages, at most %d; %d meters", accepted, most, len(b.meters))
	}
	if !send("honest", "a@example.com") || send("honest", "a@example.com") || !send("honest", "b@example.com") {
		t.Error("others are affected")
	}
	for n := range metersMax {
		send(fmt.Sprint("tenant", n), fmt.Sprint(n, "@example.com"))
	}
	if b.flows > metersMax || b.flows < metersMax/2 {
		t.Errorf("%d flows", b.flows)
	}

	b = New(Config{EachTenant: one, Tenants: map[string]Limits{"own": {MessageRate: rates(t, "9/h")}}})
	accepted = 0
	for n := range metersMax + 10*slots {
		if send(fmt.Sprint("tenant", n), "") {
			accepted++
		}
	}
	if most := metersMax + 2*slots; accepted > most || len(b.meters) > metersMax+slots {
		t.Errorf("%d messages, at most %d; %d meters", accepted, most, len(b.meters))
	}
	checkMeters(t, b)
	b.Configure(Config{EachTenant: one, Tenants: map[string]Limits{"tenant0": {MessageRate: rates(t, "9/h")}}}, start)
	checkMeters(t, b)
	b.Configure(Config{EachTenant: one, Tenants: map[string]Limits{"own": {MessageRate: rates(t, "9/h")}}}, start)
	checkMeters(t, b)
	if b.crowded(name{kind: Tenant, name: "own"}) || !b.crowded(name{kind: Tenant, name: "other"}) {
		t.Error("a tenant with limits of its own shares a meter")
	}
}

// A reload changes limits at once, and what was sent counts.
func TestConfigure(t *testing.T) {
	b := New(Config{EachTenant: Limits{MessageRate: rates(t, "5/h")}})
	send := func() bool { return b.Admit(start, &Message{Flow: acme, Recipients: 1}, mail.Waiting{}) == nil }
	for range 5 {
		send()
	}
	if send() {
		t.Error("a sixth is accepted")
	}
	b.Configure(Config{EachTenant: Limits{MessageRate: rates(t, "5/h")}, Tenants: map[string]Limits{"acme": {MessageRate: rates(t, "6/h")}}}, start)
	if !send() || send() {
		t.Error("not one more under the new limit")
	}
	b.Configure(Config{}, start)
	if !send() {
		t.Error("refused without limits")
	}
	if (&Config{}).Any() || (&Config{}).Counts() != mail.CountNothing {
		t.Error("no limits are some")
	}
}

// Limits on what waits are what the spool must count for.
func TestCounts(t *testing.T) {
	waits, sends := Limits{Octets: 1}, Limits{MessageRate: rates(t, "1/h")}
	for _, c := range []struct {
		cfg  Config
		want mail.CountLevel
	}{
		{Config{EachTenant: sends, EachFlow: sends}, mail.CountNothing},
		{Config{EachTenant: waits}, mail.CountTenants},
		{Config{Classes: map[string]Limits{"a": waits}}, mail.CountTenants},
		{Config{Tenants: map[string]Limits{"a": waits}, EachFlow: sends}, mail.CountTenants},
		{Config{EachTenant: waits, EachFlow: waits}, mail.CountFlows},
	} {
		if got := c.cfg.Counts(); got != c.want || !c.cfg.Any() {
			t.Errorf("%+v: %d, want %d", c.cfg, got, c.want)
		}
	}
	if err := (Config{EachFlow: Limits{Octets: -1}, Classes: map[string]Limits{"a": {Messages: -1}}}).Validate(); err == nil || strings.Count(err.Error(), "quota of") != 2 {
		t.Error(err)
	}
}

// What is damaged is not taken for something else.
func TestParseDamaged(t *testing.T) {
	b := New(Config{EachTenant: Limits{MessageRate: rates(t, "5/h"), RecipientRate: rates(t, "50/d")}})
	b.Admit(start, &Message{Flow: acme, Recipients: 3}, mail.Waiting{})
	list, _ := b.Save(start, 10)
	text := list[0].Text()
	for _, bad := range []string{"", "x", "1 q", text + " m", text + " m 5", "-" + text, strings.Replace(text, " m ", " m x", 1), text[:strings.LastIndexByte(text, ' ')]} {
		if _, err := Parse("1=x\x00y", bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// What counts is not forgotten as long as it does, whoever else sends meanwhile.
func TestIsRemembered(t *testing.T) {
	b := New(Config{EachTenant: Limits{MessageRate: rates(t, "1/3h")}})
	send := func(tenant string, after time.Duration) bool {
		return b.Admit(start.Add(after), &Message{Flow: mail.Flow{Class: "normal", Tenant: tenant}, Recipients: 1}, mail.Waiting{}) == nil
	}
	send("acme", 0)
	for n := range 100 {
		send(fmt.Sprint(n), 3*time.Hour)
	}
	if send("acme", 3*time.Hour) {
		t.Error("it was forgotten")
	}
	for n := range 100 {
		send(fmt.Sprint(n), 4*time.Hour)
	}
	if !send("acme", 4*time.Hour) || len(b.meters) > 101 {
		t.Errorf("%d meters", len(b.meters))
	}
}

// checkMeters compares what limits the number of meters with the meters.
func checkMeters(t *testing.T, b *Book) {
	t.Helper()
	tenants, flows, ofOne := 0, 0, make(map[string]int)
	for n := range b.meters {
		switch {
		case n.slot > 0:
		case n.kind == Flow:
			flows++
			ofOne[n.tenant]++
		case n.kind == Tenant && b.cfg.Tenants[n.name] == (Limits{}):
			tenants++
		}
	}
	if b.tenants != tenants || b.flows != flows || !maps.Equal(b.ofOne, ofOne) || b.order.Len() != len(b.meters) {
		t.Fatalf("counted are %d tenants and %d flows, of tenants %v, and %d in order; there are %d, %d, %v, and %d",
			b.tenants, b.flows, b.ofOne, b.order.Len(), tenants, flows, ofOne, len(b.meters))
	}
	for m := range b.dirty.All() {
		if b.meters[m.name] != m || !m.lasting && !m.saved {
			t.Fatalf("%q has nothing to be saved", m.key())
		}
	}
}

// What was deleted or counts no more is deleted from what was saved, in as many parts as the
// caller takes.
func TestSaveDeletes(t *testing.T) {
	each := Config{EachTenant: Limits{MessageRate: rates(t, "5/h")}}
	b := New(each)
	send := func(tenant string) {
		b.Admit(start, &Message{Flow: mail.Flow{Class: "normal", Tenant: tenant, Flow: "x"}, Recipients: 1}, mail.Waiting{})
	}
	for n := range 5 {
		send(fmt.Sprint(n))
	}
	if list, more := b.Save(start, 5); len(list) != 5 || more {
		t.Fatalf("%d saved, more: %v", len(list), more)
	}
	b.Configure(Config{EachTenant: Limits{MessageRate: rates(t, "5/min")}}, start)
	send("0")
	if list, _ := b.Save(start, 9); len(list) != 1 || list[0].Messages != nil {
		t.Errorf("under a limit for a shorter time: %+v", list)
	}
	later := start.Add(3 * time.Hour)
	for range 2 {
		b.sweep(later)
	}
	checkMeters(t, b)
	for i, want := range []struct {
		n    int
		more bool
	}{{3, true}, {1, false}, {0, false}} { // that of 0 is deleted already
		list, more := b.Save(later, 3)
		if len(list) != want.n || more != want.more {
			t.Errorf("part %d: %+v, more: %v", i, list, more)
		}
	}
}

// What was saved is restored within the bounds on memory, and a use that is said to be in
// the future is one that is now.
func TestRestoreIsBounded(t *testing.T) {
	b := New(Config{EachFlow: Limits{MessageRate: rates(t, "5/h")}})
	b.Admit(start, &Message{Flow: acme, Recipients: 1}, mail.Waiting{})
	list, _ := b.Save(start, 1)
	next := New(b.cfg)
	restored := 0
	for n := range flowsMax + 10 {
		s := list[0]
		s.Key, s.Used = name{kind: Flow, tenant: "acme", name: fmt.Sprint(n)}.key(), start.Add(1000*time.Hour)
		if next.Restore(s, start) {
			restored++
		}
	}
	checkMeters(t, next)
	if restored != flowsMax {
		t.Errorf("%d flows of one tenant are restored, want %d", restored, flowsMax)
	}
	for range flowsMax {
		next.sweep(start.Add(3 * time.Hour))
	}
	if len(next.meters) > 0 {
		t.Errorf("%d meters are never forgotten", len(next.meters))
	}
}

// A meter that is in use does not keep one behind it that is not.
func TestOneInUseKeepsNoOther(t *testing.T) {
	b := New(Config{EachTenant: Limits{MessageRate: rates(t, "9/h")}})
	send := func(tenant string, minutes int) {
		now := start.Add(time.Duration(minutes) * time.Minute)
		b.Admit(now, &Message{Flow: mail.Flow{Class: "normal", Tenant: tenant}, Recipients: 1}, mail.Waiting{})
	}
	send("busy", 0)
	send("once", 1)
	for _, minutes := range []int{30, 60, 90} {
		send("busy", minutes)
	}
	if len(b.meters) != 1 {
		t.Errorf("%d meters remain", len(b.meters))
	}
}

// Hand-computed windows. Slices of an hour are 3m45s; start is at the beginning of one, and a
// message counts until the end of the seventeenth slice behind its own.
func TestWindowsByHand(t *testing.T) {
	at := func(minutes, seconds int) time.Duration {
		return time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second
	}
	type step struct {
		at         time.Duration
		recipients int
		wait       time.Duration // 0: accepted
		never      bool
	}
	for _, c := range []struct {
		name   string
		limits Limits
		steps  []step
	}{
		{"two at the start of a slice", Limits{MessageRate: rates(t, "2/h")}, []step{
			{at: 0, recipients: 1}, {at: 0, recipients: 1}, {at: 0, recipients: 1, wait: at(63, 45)}, {at: at(63, 44), recipients: 1, wait: at(0, 1)}, {at: at(63, 45), recipients: 1}}},
		{"two in different slices", Limits{MessageRate: rates(t, "2/h")}, []step{
			{at: at(3, 0), recipients: 1}, {at: at(4, 0), recipients: 1}, {at: at(50, 0), recipients: 1, wait: at(13, 45)}, {at: at(63, 45), recipients: 1}, {at: at(63, 45), recipients: 1, wait: at(3, 45)}}},
		{"recipients", Limits{RecipientRate: rates(t, "10/h")}, []step{
			{at: 0, recipients: 6}, {at: at(10, 0), recipients: 4}, {at: at(10, 0), recipients: 1, wait: at(53, 45)}, {at: at(10, 0), recipients: 7, wait: at(61, 15)}, {at: at(10, 0), recipients: 11, never: true}, {at: at(63, 45), recipients: 6}}},
		{"two limits", Limits{MessageRate: rates(t, "1/min, 3/h")}, []step{
			{at: 0, recipients: 1}, {at: at(0, 30), recipients: 1, wait: 33750 * time.Millisecond}, {at: at(2, 0), recipients: 1}, {at: at(4, 0), recipients: 1}, {at: at(6, 0), recipients: 1, wait: at(57, 45)}}},
		{"a refusal does not count", Limits{MessageRate: rates(t, "1/h"), Recipients: 2}, []step{
			{at: 0, recipients: 3, never: true}, {at: 0, recipients: 2}, {at: at(1, 0), recipients: 2, wait: at(62, 45)}}},
	} {
		b := New(Config{EachTenant: c.limits})
		for i, s := range c.steps {
			r := b.Admit(start.Add(s.at), &Message{Flow: acme, Recipients: s.recipients}, mail.Waiting{})
			var got Refusal
			if r != nil {
				got = *r
			}
			if (r == nil) != (s.wait == 0 && !s.never) || got.Wait != s.wait || got.Never != s.never {
				t.Errorf("%s, step %d: %+v, want %v, never: %v", c.name, i+1, r, s.wait, s.never)
			}
		}
	}
}

// A reload that adds a limit for a longer time has what counts under it saved, though nothing
// is sent after it.
//
// Seen failing: what was sent was saved only after the next message.
func TestSaveAfterConfigure(t *testing.T) {
	b := New(Config{EachTenant: Limits{MessageRate: rates(t, "5/min")}})
	b.Admit(start, &Message{Flow: acme, Recipients: 1}, mail.Waiting{})
	if list, more := b.Save(start, 9); len(list) > 0 || more || !b.dirty.Empty() {
		t.Errorf("under a short limit: %+v, more: %v", list, more)
	}
	b.Configure(Config{EachTenant: Limits{MessageRate: rates(t, "5/min, 5/h")}}, start)
	checkMeters(t, b)
	if list, more := b.Save(start, 9); len(list) != 1 || len(list[0].Messages) != 1 || more {
		t.Errorf("after a reload: %+v, more: %v", list, more)
	}
}

// What could not be deleted is deleted later, also if it still has a meter.
//
// Seen failing: it stayed in the store until the next start.
func TestDeletionIsRepeated(t *testing.T) {
	b := New(Config{EachTenant: Limits{MessageRate: rates(t, "5/h")}})
	m := Message{Flow: acme, Recipients: 1}
	b.Admit(start, &m, mail.Waiting{})
	if list, _ := b.Save(start, 9); len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	b.Retract(start, &m)
	for range 2 {
		list, _ := b.Save(start, 9)
		if len(list) != 1 || list[0].Messages != nil {
			t.Fatalf("%+v", list)
		}
		b.Unsaved(list)
	}
	b.Save(start, 9)
	if list, more := b.Save(start, 9); len(list) > 0 || more {
		t.Errorf("%+v is deleted twice, more: %v", list, more)
	}
}

// A page of what is saved takes as long with very many senders as with few, since all of
// inbound waits meanwhile.
func BenchmarkSavePage(b *testing.B) {
	l, _ := rate.Parse("5/h")
	for _, n := range []int{256, 60_000} {
		book := New(Config{EachTenant: Limits{MessageRate: l}})
		sent := func(tenants int) {
			for n := range tenants {
				book.Admit(start, &Message{Flow: mail.Flow{Class: "normal", Tenant: fmt.Sprint(n), Flow: "x"}, Recipients: 1}, mail.Waiting{})
			}
		}
		sent(n)
		for more := true; more; {
			_, more = book.Save(start, 4096)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				book.Configure(book.cfg, start) // so that there is room again
				for m := range book.order.All() {
					m.messages = rate.New(l)
				}
				for more := true; more; {
					_, more = book.Save(start, 4096)
				}
				sent(256)
				b.StartTimer()
				book.Save(start, 256)
				book.Save(start, 256)
			}
		})
	}
}
