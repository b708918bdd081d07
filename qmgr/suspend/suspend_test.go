package suspend

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

const start = mail.Instant(1e18)

// mailTo is what goes by smtp to a domain that is served by a site.
func mailTo(domain string) *Mail {
	return &Mail{Way: Way{Transport: "smtp", Name: "{mx}", Reach: "{mx}"}, Nexthop: domain, To: mail.Address("u@" + domain), Flow: &mail.Flow{Class: "bulk", Tenant: "t1"}}
}

// Each scope concerns the mail that it names, and no other. What waits for its deferral is never kept.
func TestWhatEachScopeConcerns(t *testing.T) {
	other := &Mail{Way: Way{Transport: "relay", Name: "b.test", Reach: "b.test"}, Nexthop: "b.test", To: "u@b.test", Flow: &mail.Flow{Class: "normal", Tenant: "t2"}}
	late := mailTo("a.test")
	late.Transport = "retry"
	for _, c := range []struct {
		scope measure.Scope
		value string
	}{
		{measure.Site, "{mx}"}, {measure.Site, "A.test"}, {measure.Domain, "A.Test"}, {measure.Destination, "smtp:{MX}"},
		{measure.Transport, "smtp"}, {measure.Tenant, "t1"}, {measure.Class, "bulk"},
	} {
		b := New("retry")
		if _, done := b.Order(Key(c.scope, c.value), measure.Order{}, time.Hour, start); !done {
			t.Fatalf("%v %s is refused", c.scope, c.value)
		}
		s, is := b.Of(mailTo("a.test"))
		if !is || s.Until < start.Add(time.Hour) {
			t.Errorf("%v %s: %t until %v", c.scope, c.value, is, s.Until)
		}
		if named, is := Named(s.Reply().String()); !is || !strings.EqualFold(named, c.scope.String()+" "+c.value) {
			t.Errorf("%v %s is given as %q", c.scope, c.value, s.Reply())
		}
		if s, is := b.Of(other); is {
			t.Errorf("%v %s keeps other mail: %v", c.scope, c.value, s.Reply())
		}
		if _, is := b.Of(late); is {
			t.Errorf("%v %s keeps what waits for its deferral", c.scope, c.value)
		}
	}
}

// A source is suspended altogether, or for a destination; neither keeps mail that can leave from others.
func TestSources(t *testing.T) {
	to := mailTo("a.test").Way
	b := New()
	b.Order(Key(measure.Destination, "smtp:{mx} from s1"), measure.Order{}, time.Hour, start)
	b.Order(Key(measure.Source, "s2"), measure.Order{}, time.Hour, start)
	for source, want := range map[string]bool{"s1": true, "s2": true, "s3": false} {
		if got := b.OfSource(source, to, "").Until != 0; got != want {
			t.Errorf("%s is suspended: %t", source, got)
		}
	}
	if b.OfSource("s1", Way{Transport: "smtp", Name: "b.test", Reach: "b.test"}, "").Until != 0 {
		t.Error("s1 is suspended for another destination")
	}
	if _, is := b.Of(mailTo("a.test")); is {
		t.Error("a suspended source keeps all mail")
	}
	if b.OfDestination(to, "", "s1").Until == 0 || b.OfDestination(to, "", "s2").Until != 0 || b.OfDestination(to, "", "").Until != 0 {
		t.Error("the destination is suspended from s1, and from no other source")
	}
}

// Of several suspensions the longest keeps mail, whatever the order in which they came, and end.
func TestLongestAgainstTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := New()
	type order struct {
		until mail.Instant
		rule  bool
	}
	in := map[measure.Key]order{}
	keys := []measure.Key{Key(measure.Domain, "a.test"), Key(measure.Site, "{mx}"), Key(measure.Class, "bulk"), Key(measure.Destination, "smtp:{mx}"), Key(measure.Domain, "b.test")}
	found := 0
	now := start
	for range 20_000 {
		k := keys[r.IntN(len(keys))]
		switch r.IntN(6) {
		case 0:
			after := time.Duration(r.IntN(100)) * time.Minute // 0: no end
			b.Order(k, measure.Order{By: "jo"}, after, now)
			until := mail.Never
			if after > 0 {
				until = intake.MarkFrom(now.Add(after))
			}
			in[k] = order{until: until}
		case 1:
			b.Revoke(k, measure.Order{}, now)
			delete(in, k)
		case 2:
			b.OrderByRule(DestinationKey(Way{Transport: "smtp", Name: "{mx}", Reach: "{mx}"}, ""), &mail.Measure{Rule: "r"}, time.Hour, now)
			in[Key(measure.Destination, "smtp:{mx}")] = order{intake.MarkFrom(now.Add(time.Hour)), true}
		case 3:
			if r.IntN(10) == 0 {
				b.Leave(func(string) bool { return false }, now)
				for k, o := range in {
					if o.rule {
						delete(in, k)
					}
				}
			}
		default:
			now = now.Add(time.Duration(r.IntN(10)) * time.Minute)
		}
		ended := 0
		for k, o := range in {
			if o.until <= now {
				delete(in, k)
				ended++
			}
		}
		if all := b.End(now); len(all) != ended {
			t.Fatalf("%d have ended, want %d", len(all), ended)
		}
		var want mail.Instant
		for k, o := range in {
			if k != Key(measure.Domain, "b.test") {
				want = max(want, o.until)
			}
		}
		if s, is := b.Of(mailTo("a.test")); s.Until != want || is != (want != 0) {
			t.Fatalf("kept until %v, want %v", s.Until, want)
		}
		if want != 0 {
			found++
		}
		if len(b.All()) != len(in) {
			t.Fatalf("%d are in force, want %d", len(b.All()), len(in))
		}
		b.Check(false, func(func(*Stay) bool) {})
	}
	if found == 0 {
		t.Error("nothing was suspended")
	}
}

// Operators have a limit, and rules one of their own.
func TestLimits(t *testing.T) {
	b := New()
	for i := range measure.OrderLimit {
		b.Order(Key(measure.Domain, fmt.Sprintf("d%d.test", i)), measure.Order{}, 0, start)
		b.OrderByRule(DestinationKey(Way{Transport: "smtp", Name: fmt.Sprintf("d%d.test", i)}, ""), &mail.Measure{Rule: "r"}, time.Hour, start)
	}
	if n, done := b.Order(Key(measure.Domain, "more.test"), measure.Order{}, 0, start); done || !strings.Contains(n.Text, "refused") {
		t.Errorf("one more of operators: %+v", n)
	}
	if _, done := b.OrderByRule(DestinationKey(Way{Transport: "smtp", Name: "more.test"}, ""), &mail.Measure{Rule: "r"}, time.Hour, start); done {
		t.Error("one more of rules")
	}
	if n, done := b.Order(Key(measure.Destination, "smtp:d1.test"), measure.Order{}, time.Hour, start); done {
		t.Errorf("a rule's becomes an operator's, of which there are too many: %+v", n)
	}
	if _, done := b.Order(Key(measure.Domain, "d1.test"), measure.Order{}, time.Hour, start); !done {
		t.Error("one that is in force cannot be changed")
	}
}

// What names nothing, or what the core itself sends mail to, cannot be suspended.
func TestCannotBeSuspended(t *testing.T) {
	for value, scope := range map[string]measure.Scope{"": measure.Domain, "retry": measure.Transport, "retry:a.test": measure.Destination, "a.test": measure.Destination, "x": measure.Resumed} {
		b := New("retry")
		if n, done := b.Order(Key(scope, value), measure.Order{}, 0, start); done || b.Any() || !strings.HasSuffix(n.Text, ": cannot be suspended") {
			t.Errorf("%v %q: %+v", scope, value, n)
		}
	}
}

// An end before its time makes a scan necessary, which is remembered until what it has found has left the core.
func TestScan(t *testing.T) {
	b := New()
	k := Key(measure.Domain, "a.test")
	b.Order(k, measure.Order{}, time.Hour, start)
	s, _ := b.Of(mailTo("a.test"))
	if b.WakeAt() != mail.Never {
		t.Error("a scan is wanted before anything has ended")
	}
	b.Revoke(k, measure.Order{}, start)
	if b.WakeAt() > start || b.Orders().Len() != 1 {
		t.Fatalf("the scan begins at %v, and %d records remember it", b.WakeAt(), b.Orders().Len())
	}
	b.Over()
	if b.Orders().Len() != 1 {
		t.Error("a scan that has not begun is forgotten")
	}
	b.Begin(start)
	var stay Stay
	at := mail.Place{Area: mail.AreaDeferred, Due: s.Until}
	b.Comes(&stay, at, start)
	b.Over()
	if b.Orders().Len() != 1 {
		t.Error("what was found is in core, and the scan is forgotten")
	}
	b.Check(false, func(yield func(*Stay) bool) { yield(&stay) })
	b.Leaves(&stay, mail.Place{}, start)
	b.Over()
	if b.Orders().Len() != 0 || b.WakeAt() != mail.Never {
		t.Error("the scan goes on for ever")
	}
	b.Again(start)
	if b.WakeAt() != start.Add(time.Second) {
		t.Errorf("the next scan begins at %v", b.WakeAt())
	}
}

// A message is due when the first suspension of its recipients ends, at once if one has ended since, and then it is looked for
// again where the scan may have missed it.
func TestStay(t *testing.T) {
	b := New()
	b.Order(Key(measure.Domain, "a.test"), measure.Order{}, time.Hour, start)
	var s Stay
	b.Keep(&s, start.Add(2*time.Hour))
	b.Keep(&s, start.Add(time.Hour))
	b.Keep(&s, start.Add(3*time.Hour))
	if due := b.Due(&s, start.Add(24*time.Hour), start); due != start.Add(time.Hour) {
		t.Errorf("due after %v", due.Sub(start))
	}
	if due := b.Due(&s, start.Add(time.Minute), start); due != intake.MarkFrom(start.Add(time.Minute)) {
		t.Errorf("its age matters at %v", due)
	}
	b.End(start.Add(2 * time.Hour))
	if due := b.Due(&s, start.Add(24*time.Hour), start.Add(2*time.Hour)); due != start.Add(2*time.Hour) {
		t.Errorf("due at %v although a suspension has ended", due)
	}
	b.Leaves(&s, mail.Place{Area: mail.AreaDeferred, Due: start.Add(3 * time.Hour)}, start.Add(2*time.Hour))
	if b.WakeAt() == mail.Never {
		t.Error("it waits for what has ended, and there is no search for it")
	}
	b.Check(false, func(func(*Stay) bool) {})
}

// A restart takes the orders, and makes the scan again that was not completed. What a clock ahead of time has made lasts as
// long as it was to.
func TestLoad(t *testing.T) {
	was := New()
	was.Order(Key(measure.Domain, "a.test"), measure.Order{By: "jo"}, time.Hour, start.Add(100*time.Hour))
	b := New()
	var known []measure.Known
	for _, c := range was.Orders().Changed(nil, 10) {
		known = append(known, measure.Known{Key: c.Key, Record: c.Record})
	}
	if !b.Load(known, start) {
		t.Fatal("nothing was loaded")
	}
	if v := b.View(measure.Domain, "A.test"); v.Until != intake.MarkFrom(start.Add(time.Hour)) && v.Until != intake.MarkFrom(start.Add(time.Hour+time.Millisecond)) || v.By != "jo" {
		t.Errorf("loaded as %+v", v)
	}
	if b.WakeAt() == mail.Never {
		t.Error("what was deferred until the old end is not looked for")
	}
	again := New()
	known = nil
	for _, c := range b.Orders().Changed(nil, 10) {
		known = append(known, measure.Known{Key: c.Key, Record: c.Record})
	}
	if again.Load(known, start); again.WakeAt() == mail.Never || len(again.All()) != 1 {
		t.Errorf("the scan is forgotten, or there are %d", len(again.All()))
	}
	again.Check(false, func(func(*Stay) bool) {})
}

// A domain in another script is one domain with U-labels and with A-labels, in an order and in a recipient's address.
func TestDomainsInOtherScripts(t *testing.T) {
	const uLabels, aLabels = "Bücher.test", "xn--bcher-kva.test"
	for _, ordered := range []string{uLabels, aLabels} {
		for scope, value := range map[measure.Scope]string{measure.Domain: ordered, measure.Site: ordered, measure.Destination: "smtp:" + ordered} {
			b := New()
			b.Order(Key(scope, value), measure.Order{By: "jo"}, time.Hour, start)
			for _, domain := range []string{uLabels, aLabels} {
				m := mailTo(domain)
				m.Nexthop = aLabels // as every route has it
				m.Name, m.Reach = aLabels, aLabels
				if _, is := b.Of(m); !is {
					t.Errorf("%v %s does not keep mail for %s", scope, value, domain)
				}
				if v := b.View(scope, strings.ReplaceAll(value, ordered, domain)); v.By != "jo" {
					t.Errorf("%v %s is not shown as %s", scope, value, domain)
				}
			}
		}
	}
	if k := Key(measure.Site, "unix:/Bücher"); k.Name != "unix:/Bücher" {
		t.Errorf("a socket is named %q", k.Name)
	}
}

// What an earlier version has saved under the letters that the operator wrote goes on, can be resumed, and leaves nothing
// in the store that would come back.
func TestLoadOtherSpelling(t *testing.T) {
	as := func(value string, until mail.Instant) measure.Known {
		return measure.Known{Key: measure.OrderKey(measure.Domain, value), Record: measure.Record{Order: measure.Order{By: value, Since: start, Until: until}}}
	}
	long, short := intake.MarkFrom(start.Add(2*time.Hour)), intake.MarkFrom(start.Add(time.Hour))
	for _, c := range []struct {
		saved   []measure.Known
		ordered time.Duration // after the start, for the A-labels; 0: not
		want    mail.Instant
	}{
		{[]measure.Known{as("bücher.test", long)}, 0, long},
		{[]measure.Known{as("bücher.test", mail.Never)}, 0, mail.Never},
		{[]measure.Known{as("bücher.test", long), as("xn--bcher-kva.test", short)}, 0, long},
		{[]measure.Known{as("bücher.test", short), as("xn--bcher-kva.test", long)}, 0, long},
		{[]measure.Known{as("bücher.test", long)}, time.Hour, short},
	} {
		b := New()
		if c.ordered > 0 {
			b.Order(Key(measure.Domain, "xn--bcher-kva.test"), measure.Order{}, c.ordered, start)
		}
		b.Load(c.saved, start)
		if s, is := b.Of(mailTo("xn--bcher-kva.test")); !is || s.Until != c.want || len(b.All()) != 1 {
			t.Errorf("%v: until %v, want %v; in force are %v", c.saved, s.Until, c.want, b.All())
		}
		b.Check(false, func(func(*Stay) bool) {})
		if b.Revoke(Key(measure.Domain, "bücher.test"), measure.Order{}, start); len(b.All()) != 0 {
			t.Errorf("%v is not resumed", c.saved)
		}
		store := map[measure.Key]bool{c.saved[0].Key: true}
		for _, change := range b.Orders().Changed(nil, 10) {
			store[change.Key] = !change.Gone
		}
		if store[c.saved[0].Key] {
			t.Errorf("%v is still in the store", c.saved)
		}
	}
}

// Reasons that are not a suspension's are not taken for one.
func TestNamed(t *testing.T) {
	for why, want := range map[string]string{
		"451 4.3.2 suspended by an operator: domain a.test": "domain a.test", "4.3.2 suspended by an operator: domain a.test": "domain a.test",
		"suspended by a rule: destination smtp:x; 421 later": "destination smtp:x", "4.3.2 try later": "", "": "",
		"451 suspended by an operators: x": "",
	} {
		if got, is := Named(why); got != want || is != (want != "") || IsReason(why) != is {
			t.Errorf("%q is of %q, %t", why, got, is)
		}
	}
}

// A rule suspends what goes to one domain over one destination from one source: that mail may not leave from it, and all else may. A
// queue that has nothing but mail to that domain waits because of it.
func TestDomainOfDestination(t *testing.T) {
	to := mailTo("a.test").Way
	other := Way{Transport: "relay", Name: "relay.test", Reach: "relay.test"}
	b := New()
	if _, done := b.OrderByRule(DomainKey(to, "a.test", "s1"), &mail.Measure{Rule: "r"}, time.Hour, start); !done {
		t.Fatal("refused")
	}
	for _, c := range []struct {
		source, domain string
		to             Way
		want           bool
	}{{"s1", "a.test", to, true}, {"s1", "b.test", to, false}, {"s1", "", to, false}, {"s2", "a.test", to, false}, {"", "a.test", to, false}, {"s1", "a.test", other, false}} {
		for what, s := range map[string]Suspension{"mail": b.OfSource(c.source, c.to, c.domain), "the destination": b.OfDestination(c.to, c.domain, c.source), "the queue": b.OfQueue(c.to, c.domain, c.source)} {
			if got := s.Until != 0; got != c.want {
				t.Errorf("%s to %q over %s from %q is suspended: %t", what, c.domain, c.to.Name, c.source, got)
			}
		}
	}
	if _, is := b.Of(mailTo("a.test")); is {
		t.Error("what is suspended from one source is so from all")
	}
	b = New()
	b.OrderByRule(DomainKey(to, "a.test", ""), &mail.Measure{Rule: "r"}, time.Hour, start)
	if s, is := b.Of(mailTo("a.test")); !is || !strings.HasPrefix(s.Reply().Text, "suspended by a rule: destination smtp:{mx} to a.test; r: ") {
		t.Errorf("from all sources: %t, %v", is, s.Reply())
	}
	elsewhere := mailTo("a.test")
	elsewhere.Way = other
	if _, is := b.Of(elsewhere); is {
		t.Error("mail that an operator has rerouted waits")
	}
	b.Order(Key(measure.Source, "s2"), measure.Order{}, 2*time.Hour, start)
	b.Order(Key(measure.Domain, "a.test"), measure.Order{}, 3*time.Hour, start)
	if s := b.OfQueue(to, "a.test", "s2"); s.Until < start.Add(3*time.Hour) {
		t.Errorf("a queue waits until %v", s.Until)
	}
	if s := b.OfQueue(to, "b.test", "s2"); s.Until < start.Add(2*time.Hour) || s.Until > start.Add(3*time.Hour) {
		t.Errorf("a queue for another domain from s2 waits until %v", s.Until)
	}
}
