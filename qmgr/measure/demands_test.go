package measure

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// enough counts a reply of a rule to which domains do not matter.
func enough(d *Demands, m *mail.Measure, now mail.Instant) bool {
	v, _ := d.Count(m, now)
	return v == EnoughForAll
}

// A rule that wants three replies in an hour gets them, or starts anew; after that it wants as many again. Of more rules than
// are counted, the oldest count is lost.
func TestEnough(t *testing.T) {
	var d Demands
	m := &mail.Measure{Rule: "r", Times: 3, Within: time.Hour}
	var got []bool
	for _, minute := range []int{0, 1, 2, 3, 4, 30, 91, 92, 93} {
		got = append(got, enough(&d, m, at(time.Duration(minute)*time.Minute)))
	}
	if want := "[false false true false false true false false true]"; fmt.Sprint(got) != want {
		t.Errorf("enough: %v, want %s", got, want)
	}
	if !enough(&d, &mail.Measure{Rule: "once", Times: 1}, at(0)) {
		t.Error("a rule that wants one reply does not get it")
	}
	d = Demands{}
	two := func(rule string) bool {
		return enough(&d, &mail.Measure{Rule: rule, Times: 2, Within: time.Hour}, at(0))
	}
	for i := range sightingsMost + 1 {
		two(fmt.Sprint(i))
	}
	if len(d.seen) != sightingsMost || two("0") || !two(fmt.Sprint(sightingsMost)) {
		t.Errorf("%d rules are counted", len(d.seen))
	}
}

// A rule wants mail of several parties to be refused. What was refused before a party was known counts for all, and each
// message once.
func TestParties(t *testing.T) {
	of := func(id mail.QueueID, sender, tenant, recipient string) mail.Refused {
		return mail.Refused{Message: id, Sender: sender, Tenant: tenant, Recipient: recipient}
	}
	for _, row := range []struct {
		name   string
		wanted mail.Measure
		said   []mail.Refused
		want   bool // of the last one; the earlier ones are not enough
	}{
		{"three messages of one sender", mail.Measure{Times: 3, Senders: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "a", "t", "r"), of(3, "a", "t", "r")}, false},
		{"two senders", mail.Measure{Times: 3, Senders: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "b", "t", "r"), of(3, "a", "t", "r")}, true},
		{"two tenants, not enough replies", mail.Measure{Times: 3, Tenants: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "b", "u", "r")}, false},
		{"one tenant", mail.Measure{Times: 2, Tenants: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "b", "t", "s")}, false},
		{"two tenants", mail.Measure{Times: 2, Tenants: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "a", "u", "r")}, true},
		{"mail without a tenant", mail.Measure{Times: 2, Tenants: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "a", "", "r")}, true},
		{"one recipient", mail.Measure{Times: 2, Recipients: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "b", "u", "r")}, false},
		{"two recipients", mail.Measure{Times: 2, Recipients: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "a", "t", "s")}, true},
		{"refused before RCPT", mail.Measure{Times: 2, Recipients: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "a", "t", "")}, true},
		{"one message that is tried again", mail.Measure{Times: 2, Recipients: 2}, []mail.Refused{of(1, "a", "t", "r"), of(1, "a", "t", "s")}, false},
		{"no message yet", mail.Measure{Times: 2, Recipients: 2}, []mail.Refused{{}, {}}, true},
		{"one of two is wanted", mail.Measure{Times: 2, Senders: 2, Tenants: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "b", "t", "r")}, false},
		{"both are", mail.Measure{Times: 2, Senders: 2, Tenants: 2}, []mail.Refused{of(1, "a", "t", "r"), of(2, "b", "u", "r")}, true},
	} {
		var d Demands
		for i, r := range row.said {
			m := row.wanted
			m.Rule, m.Within, m.Refused = "r", time.Hour, r
			if got, want := enough(&d, &m, at(0)), row.want && i == len(row.said)-1; got != want {
				t.Errorf("%s: reply %d: %v, want %v", row.name, i+1, got, want)
			}
		}
	}
	// Where it does not matter whose mail is refused, one message that is tried again counts again.
	var again Demands
	for i, want := range []bool{false, true} {
		m := mail.Measure{Rule: "r", Within: time.Hour, Times: 2, Refused: of(1, "a", "t", "r")}
		if got := enough(&again, &m, at(0)); got != want {
			t.Errorf("the same message, reply %d: %v", i+1, got)
		}
	}
	// After a measure, the parties are counted anew.
	again = Demands{}
	for i, want := range []bool{false, true, false, true} {
		m := mail.Measure{Rule: "r", Within: time.Hour, Times: 2, Senders: 2, Refused: of(mail.QueueID(i+1), string("ab"[i%2]), "t", "r")}
		if got := enough(&again, &m, at(time.Duration(i)*time.Minute)); got != want {
			t.Errorf("after a measure, reply %d: %v", i+1, got)
		}
	}
	// More are wanted than are known: as many as are known are enough.
	var d Demands
	for i := range partiesMost {
		m := mail.Measure{Rule: "r", Within: time.Hour, Times: 1, Recipients: partiesMost + 5, Refused: mail.Refused{Message: mail.QueueID(i + 1), Recipient: fmt.Sprint(i)}}
		if got := enough(&d, &m, at(0)); got != (i == partiesMost-1) {
			t.Errorf("recipient %d: %v", i, got)
		}
	}
	// The last messages are known, however many there were.
	d = Demands{}
	for i := range 3 * messagesMost {
		m := mail.Measure{Rule: "r", Within: time.Hour, Times: 1000, Senders: 2, Refused: mail.Refused{Message: mail.QueueID(i + 1), Sender: "a"}}
		enough(&d, &m, at(0))
		enough(&d, &m, at(0))
	}
	if s := &d.seen[0]; s.times != 3*messagesMost || len(s.messages) != messagesMost {
		t.Errorf("%d replies were counted, %d messages are known", s.times, len(s.messages))
	}
}

// Counts are forgotten one after the other.
func TestForget(t *testing.T) {
	var d Demands
	enough(&d, &mail.Measure{Rule: "a", Times: 2, Within: time.Hour}, at(0))
	enough(&d, &mail.Measure{Rule: "b", Times: 2, Within: time.Minute}, at(0))
	for _, c := range []struct{ now, next time.Duration }{{0, time.Minute}, {time.Minute, time.Hour}} {
		if next := d.Forget(at(c.now)); next != at(c.next) {
			t.Errorf("after %v the next is forgotten at %v", c.now, next)
		}
	}
	if d.Forget(at(time.Hour)) != mail.Never {
		t.Error("something is counted for ever")
	}
}

// A shorter rest changes nothing. Limits of the same rule last longer; those of another rule come in their place.
func TestWith(t *testing.T) {
	var r Record
	r, _ = r.WithRest(&mail.Measure{Rule: "long", Rest: time.Hour}, at(0))
	if _, longer := r.WithRest(&mail.Measure{Rule: "short", Rest: time.Minute}, at(0)); longer || !r.Resting(at(time.Minute)) || r.Resting(at(time.Hour)) {
		t.Errorf("a shorter rest: %+v", r)
	}
	if _, longer := r.WithRest(&mail.Measure{Rule: "as long", Rest: time.Hour}, at(0)); longer {
		t.Error("a rest that ends at the same time takes the place of the first")
	}
	low := &mail.Measure{Rule: "low", For: time.Hour, Concurrency: 2, RateCount: 5, RatePer: time.Minute}
	r, first := r.WithLowering(low, at(0))
	if !first || !r.Lowers(at(0)) {
		t.Errorf("the first: %+v", r)
	}
	if r, first = r.WithLowering(low, at(time.Minute)); first || r.Lower.Until != at(time.Hour+time.Minute) {
		t.Errorf("the same rule again: %+v", r)
	}
	if _, first = r.WithLowering(&mail.Measure{Rule: "other", For: time.Hour, Concurrency: 1}, at(0)); !first {
		t.Error("another rule is not told of")
	}
	if _, first = r.WithLowering(low, at(3*time.Hour)); !first {
		t.Error("the rule is not told of when it had ended")
	}
}

// Lowered limits are below the destination's own, and never above.
func TestBelow(t *testing.T) {
	for _, c := range []struct{ lowered, initial, limit, wantInitial, wantLimit int }{
		{0, 5, 20, 5, 20}, {2, 5, 20, 2, 2}, {10, 5, 20, 5, 10}, {30, 5, 20, 5, 20}, {2, 5, 0, 2, 2},
	} {
		l := Lowering{Concurrency: c.lowered}
		if initial, limit := l.Concurrencies(c.initial, c.limit); initial != c.wantInitial || limit != c.wantLimit {
			t.Errorf("%+v: %d, %d", c, initial, limit)
		}
	}
	own, _ := rate.Of(rate.Limit{N: 100, Per: time.Hour})
	same, _ := rate.Of(rate.Limit{N: 100, Per: time.Minute})
	l := Lowering{Count: 5, Per: time.Minute}
	if got := l.Rates(own).String(); got != "5/1m, 100/1h" && got != "100/1h, 5/1m" && len(l.Rates(own).All()) != 2 {
		t.Errorf("beside another: %s", got)
	}
	if got := l.Rates(same).All(); len(got) != 1 || got[0].N != 5 {
		t.Errorf("in place of one for the same time: %v", got)
	}
	if none := (&Lowering{Concurrency: 1}); none.Rates(own) != own {
		t.Error("limits by time change without a count")
	}
}

// What rules have demanded ends with them; before it is known which there are, all count.
func TestRules(t *testing.T) {
	r := rest(0, time.Hour)
	r.Rest.Rule = "b"
	r.Lower = lower(0, time.Hour).Lower
	r.Lower.Rule = "a"
	var all Rules
	if all.Leave(r) != r || !all.Has("x") {
		t.Error("rules are missed before they are known")
	}
	some := NewRules([]string{"c", "a"})
	if left := some.Leave(r); left.Rest != (Rest{}) || left.Lower != r.Lower || some.Has("b") || !some.Has("c") {
		t.Errorf("left is %+v", left)
	}
}

// A rule distinguishes recipients' domains: replies about one of them are enough for that one only, and replies about several for
// all mail. What a receiver says before RCPT is about all.
func TestDomains(t *testing.T) {
	m := mail.Measure{Rule: "r", Within: time.Hour, Times: 3, Domains: 4, InARow: true}
	id := mail.QueueID(0)
	said := func(d *Demands, domain string) Verdict {
		id++
		m.Refused = mail.Refused{Message: id, Recipient: fmt.Sprint("u", id), Domain: domain}
		v, _ := d.Count(&m, at(0))
		return v
	}
	for _, row := range []struct {
		name    string
		domains []string // "+x" is a message to x that is accepted
		want    []Verdict
	}{
		{"one", []string{"a", "a", "a", "a", "a", "a"}, []Verdict{0, 0, EnoughForDomain, 0, 0, EnoughForDomain}},
		{"two in turn", []string{"a", "b", "a", "b", "a", "b"}, []Verdict{0, 0, 0, 0, EnoughForDomain, EnoughForDomain}},
		{"four", []string{"a", "b", "c", "d"}, []Verdict{0, 0, 0, EnoughForAll}},
		{"four, one of them accepts", []string{"a", "b", "c", "+x", "d", "a", "a"}, []Verdict{0, 0, 0, 0, 0, 0, EnoughForDomain}},
		{"one that accepts", []string{"a", "a", "+a", "a", "a", "a"}, []Verdict{0, 0, 0, 0, 0, EnoughForDomain}},
		{"before RCPT", []string{"", "", ""}, []Verdict{0, 0, EnoughForAll}},
		{"before RCPT counts for itself", []string{"", "a", "", "b", "b", "a", ""}, []Verdict{0, 0, 0, 0, 0, 0, EnoughForAll}},
	} {
		var d Demands
		for i, domain := range row.domains {
			if domain[:min(len(domain), 1)] == "+" {
				d.Accepted(domain[1:])
			} else if got := said(&d, domain); got != row.want[i] {
				t.Errorf("%s: reply %d: %v, want %v", row.name, i+1, got, row.want[i])
			}
		}
	}
	// Of too many domains the oldest is forgotten, and never the account of all.
	var d Demands
	m.Domains, m.Times = partiesMost, 3*sightingsMost
	for i := range 2 * sightingsMost {
		said(&d, fmt.Sprint("d", i))
	}
	if d.seen[0].of != ofDomains || d.seen[0].times != 2*sightingsMost || len(d.seen) != sightingsMost || d.seen[1].domain != fmt.Sprint("d", sightingsMost+1) {
		t.Errorf("%d accounts, the first two %+v", len(d.seen), d.seen[:2])
	}
}

// How often a rule has had enough is known for as long as its longest suspension after the last one, and until a message
// is accepted.
func TestBefore(t *testing.T) {
	m := &mail.Measure{Rule: "r", Times: 1, Within: time.Minute, InARow: true, Suspend: time.Hour, SuspendFirst: 10 * time.Minute}
	var d Demands
	for i, minute := range []int{0, 10, 30, 129, 248, 249, 400} {
		now := at(time.Duration(minute) * time.Minute)
		v, before := d.Count(m, now)
		if want := []int{0, 1, 2, 3, 4, 5, 0}[i]; v != EnoughForAll || before != want {
			t.Errorf("after %d minutes: %v, %d before, want %d", minute, v, before, want)
		}
	}
	if next := d.Forget(at(400 * time.Minute)); next != at(470*time.Minute) {
		t.Errorf("it is known until %v", next)
	}
	d.Accepted("x")
	if _, before := d.Count(m, at(401*time.Minute)); before != 0 {
		t.Errorf("after a message was accepted: %d", before)
	}
}

// Where the length of the next suspension is known, replies are counted as long as those of other rules.
func TestWithinAfterEnough(t *testing.T) {
	m := &mail.Measure{Rule: "r", Times: 2, Within: time.Minute, Suspend: time.Hour, SuspendFirst: 10 * time.Minute}
	var d Demands
	var got []Verdict
	for _, second := range []int{0, 30, 700, 770, 800} {
		v, _ := d.Count(m, at(time.Duration(second)*time.Second))
		got = append(got, v)
	}
	if want := []Verdict{NotEnough, EnoughForAll, NotEnough, NotEnough, EnoughForAll}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The messages that were enough for a suspension are refused again after it. That is not enough for the next one: other messages
// have to be refused.
func TestMessagesAreKnownAfterEnough(t *testing.T) {
	m := mail.Measure{Rule: "r", Times: 2, Within: 10 * time.Minute, Recipients: 2, Suspend: time.Hour, SuspendFirst: 5 * time.Minute}
	var d Demands
	var got []bool
	for i, id := range []mail.QueueID{1, 2, 1, 2, 1, 2, 3, 4} {
		m.Refused = mail.Refused{Message: id, Recipient: fmt.Sprint(id)}
		v, _ := d.Count(&m, at(time.Duration(i)*3*time.Minute))
		got = append(got, v == EnoughForAll)
	}
	if want := "[false true false false false false false true]"; fmt.Sprint(got) != want {
		t.Errorf("enough: %v, want %s", got, want)
	}
}

// What is accepted begins the count anew, and with other messages.
func TestMessagesAreKnownAfterAccepted(t *testing.T) {
	m := mail.Measure{Rule: "r", Times: 2, Within: 10 * time.Minute, Recipients: 2, InARow: true, Suspend: time.Hour, SuspendFirst: 5 * time.Minute}
	var d Demands
	var got []Verdict
	for i, id := range []mail.QueueID{1, 0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4} {
		if id == 0 {
			d.Accepted("x")
			continue
		}
		m.Refused = mail.Refused{Message: id, Recipient: fmt.Sprint(id)}
		v, before := d.Count(&m, at(time.Duration(i)*time.Minute))
		if got = append(got, v); before != 0 {
			t.Errorf("reply %d: %d suspensions before", i, before)
		}
	}
	if want := []Verdict{0, 0, 0, 0, 0, 0, EnoughForAll, 0, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Messages that are tried again and again stay known.
	d = Demands{}
	for i := range 100 {
		m.Refused = mail.Refused{Message: mail.QueueID(i%2 + 1), Recipient: fmt.Sprint(i % 2)}
		if v, _ := d.Count(&m, at(time.Duration(i)*50*time.Minute)); v != NotEnough && i > 1 {
			t.Fatalf("reply %d of two messages is enough", i)
		}
	}
}
