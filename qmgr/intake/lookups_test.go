package intake

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

const start = mail.Instant(1_000_000 * time.Second)

// A router is a Lookups, and what a test says to it.
type router struct {
	t   *testing.T
	s   Lookups
	now mail.Instant
}

// A letter is a message whose recipients wait for lookups.
type letter struct {
	sched.Message
	routing Routing
	from    Origin
}

func newRouter(t *testing.T, l Limits) *router {
	r := &router{t: t, s: NewLookups(), now: start}
	r.s.Configure(l)
	return r
}

func name(n string) Key { return Key{Transport: "smtp", Nexthop: n} }

// send has a message with a recipient in each domain wait.
func (r *router) send(id mail.QueueID, from Origin, domains ...string) *letter {
	m := &letter{from: from}
	m.ID = id
	r.add(m, domains...)
	return m
}

func (r *router) add(m *letter, domains ...string) {
	for _, d := range domains {
		r.s.Add(&m.routing, &m.Message, m.from, mail.Recipient{}, name(d), r.now)
	}
}

func (r *router) ask(client, domain string) *Question {
	q := new(Question)
	r.s.Ask(q, netip.MustParseAddr(client), name(domain), r.now)
	return q
}

// begin begins every lookup that may begin, and returns their names and for whom.
func (r *router) begin() string {
	var begun []string
	for turn, ok := r.s.Next(); ok; turn, ok = r.s.Next() {
		l := r.s.Begin(turn, r.now)
		begun = append(begun, fmt.Sprintf("%s/%d", l.Nexthop, uint64(l.For())))
	}
	return strings.Join(begun, " ")
}

func (r *router) wantBegun(want string) {
	r.t.Helper()
	if got := r.begin(); got != want {
		r.t.Errorf("after %v begin %q, want %q", r.now.Sub(start), got, want)
	}
}

// end ends the lookup of a name, with a code that is 0 if there is a route.
func (r *router) end(domain string, code uint16) *Lookup {
	r.t.Helper()
	l := r.s.known[name(domain)]
	if l == nil || l.ID() == 0 {
		r.t.Fatalf("%s is not being looked up", domain)
	}
	r.s.End(l, mail.Reply{Code: code, Text: domain}, r.now)
	for r.s.NextQuestion(l) != nil {
	}
	for r.s.NextJob(l) != nil {
	}
	return l
}

// silence looks a name up for a message of its own, which takes so long, and gets no answer
// while another name does.
func (r *router) silence(domain string, took time.Duration) {
	r.t.Helper()
	r.send(1000, FromRetry, domain)
	r.begin()
	r.s.silent.heard("other.example", r.now)
	r.now = r.now.Add(took)
	r.end(domain, 451)
}

func (r *router) wantSilent(domain string, want bool) {
	r.t.Helper()
	if got := r.s.silent.is(domain, r.now); got != want {
		r.t.Errorf("after %v %s is silent: %t, want %t", r.now.Sub(start), domain, got, want)
	}
}

var wide = Limits{Lookups: 100, Message: 100, Clients: 10, Network: 2}

// A lookup keeps its slot for 50 ms if another lookup waits for one. Then it goes on without,
// and ten times as many may.
func TestSlowLookupsGiveTheirSlotsBack(t *testing.T) {
	r := newRouter(t, Limits{Lookups: 1, Message: 100, Clients: 1, Network: 1})
	r.send(1, FromIncoming, "0.test")
	r.wantBegun("0.test/1")
	if at := r.s.Wake(0); at != mail.Never {
		t.Errorf("nothing waits for the slot, and it is given back after %v", at.Sub(r.now))
	}
	if at := r.s.Wake(1); at != r.now.Add(50*time.Millisecond) {
		t.Errorf("the core is short of room, and mail can be parked after %v", at.Sub(r.now))
	}
	for i := range 10 {
		r.send(mail.QueueID(2+i), FromIncoming, fmt.Sprint(i+1, ".test"))
		r.wantBegun("")
		if at := r.s.Wake(0); at != r.now.Add(50*time.Millisecond) {
			t.Fatalf("the slot is given back after %v", at.Sub(r.now))
		}
		r.now = r.now.Add(50*time.Millisecond - 1)
		r.s.Age(r.now, 0)
		r.wantBegun("")
		r.now++
		if l := r.s.Age(r.now, 0); l != nil {
			t.Errorf("%s is given up", l.Nexthop)
		}
		r.wantBegun(fmt.Sprintf("%d.test/%d", i+1, i+2))
	}
	// Ten are slow: the oldest is given up two seconds after it began, and no sooner.
	r.send(50, FromIncoming, "last.test")
	for r.now = r.now.Add(50 * time.Millisecond); r.now < start.Add(2*time.Second); r.now = r.s.Wake(0) {
		if l := r.s.Age(r.now, 0); l != nil {
			t.Fatalf("%s is given up after %v", l.Nexthop, r.now.Sub(start))
		}
	}
	r.wantBegun("")
	l := r.s.Age(r.now, 0)
	if r.now != start.Add(2*time.Second) || l == nil || l.Nexthop != "0.test" {
		t.Fatalf("%v is given up after %v", l, r.now.Sub(start))
	}
	r.s.silent.heard("other.example", r.now)
	to := r.s.Abandon(l)
	if to.Nexthop != "0.test" || to.Transport != "smtp" || to.Reply.String() != "451 4.4.3 DNS lookup of 0.test failed: no answer within 2 seconds, and other lookups wait" {
		t.Errorf("its mail goes to %+v: %s", to, to.Reply)
	}
	r.s.End(l, to.Reply, r.now)
	if l := r.s.Age(r.now, 0); l != nil {
		t.Errorf("%s is given up, too", l.Nexthop)
	}
	r.wantBegun("last.test/50")
	// Its answer shows that its name is not silent, and nothing else.
	r.wantSilent("0.test", true)
	if l, known := r.s.Answered(1, mail.Reply{Code: 451}, r.now); l != nil || !known {
		t.Errorf("the late answer is one to %v, known %t", l, known)
	}
	r.wantSilent("0.test", true)
	if _, known := r.s.Answered(1, mail.Reply{}, r.now); known {
		t.Error("it is answered twice")
	}
}

// The late answer to a lookup that was given up, be it that there is no such domain, is
// the end of its name's silence.
func TestLateAnswersEndSilence(t *testing.T) {
	for code, silent := range map[uint16]bool{0: false, 550: false, 451: true} {
		r := newRouter(t, wide)
		r.silence("a.test", 3*time.Second)
		r.s.abandoned[7] = "a.test"
		r.s.Answered(7, mail.Reply{Code: code}, r.now)
		r.wantSilent("a.test", silent)
	}
}

// As many as were given up and are not answered yet the host works on still: no more are
// given up than slow ones may be.
func TestFewAreGivenUp(t *testing.T) {
	r := newRouter(t, Limits{Lookups: 1, Message: 100, Clients: 1, Network: 1})
	for i := range 40 {
		r.send(mail.QueueID(i+1), FromIncoming, fmt.Sprint(i, ".test"))
	}
	given := 0
	for range 100 {
		r.now = r.now.Add(2 * time.Second)
		for l := r.s.Age(r.now, 0); l != nil; l = r.s.Age(r.now, 0) {
			given++
			r.s.End(l, r.s.Abandon(l).Reply, r.now)
			for r.s.NextJob(l) != nil {
			}
		}
		r.begin()
	}
	if given != 10 || r.s.slow.Len() != 10 || r.s.young.Len() != 1 || r.s.Wake(0) != mail.Never {
		t.Errorf("%d are given up, %d slow, %d not; to wake at %v", given, r.s.slow.Len(), r.s.young.Len(), r.s.Wake(0))
	}
	r.s.Answered(1, mail.Reply{}, r.now)
	if l := r.s.Age(r.now, 0); l == nil {
		t.Error("none is given up after an answer has made room")
	}
}

// A name is silent when its lookup has taken two seconds or more and ended without an
// answer, while another name was answered. For a minute its mail is deferred with that
// reply; for an hour it is looked up among the silent ones; an answer ends it.
func TestSilenceOfAName(t *testing.T) {
	r := newRouter(t, wide)
	r.silence("quick.test", 2*time.Second-1)
	r.wantSilent("quick.test", false)
	r.silence("slow.test", 2*time.Second)
	since := r.now
	r.wantSilent("slow.test", true)
	if got := r.s.Remembered("slow.test", since.Add(time.Minute-1)); got.Text != "slow.test" || got.Code != 451 {
		t.Errorf("its mail is deferred with %v", got)
	}
	for _, c := range []struct {
		name string
		at   time.Duration
	}{{"slow.test", time.Minute}, {"other.test", 0}} {
		if got := r.s.Remembered(c.name, since.Add(c.at)); !got.IsZero() {
			t.Errorf("mail for %s is deferred with %v after %v", c.name, got, c.at)
		}
	}
	r.now = since.Add(time.Hour - 1)
	r.wantSilent("slow.test", true)
	r.now++
	r.wantSilent("slow.test", false)

	for _, domain := range []string{"again.test", "sub.again.test"} {
		r.silence(domain, time.Minute)
		r.wantSilent(domain, true)
		r.send(1, FromRetry, domain)
		r.wantBegun(domain + "/1")
		r.end(domain, 550)
		r.wantSilent(domain, false)
		if got := r.s.Remembered(domain, r.now); !got.IsZero() {
			t.Errorf("its mail is deferred with %v", got)
		}
	}
}

// As long as no name is answered it may be our own resolver that is silent: no name is
// taken for it.
func TestSilenceOfAll(t *testing.T) {
	r := newRouter(t, wide)
	r.now = r.now.Add(time.Second)
	r.send(1, FromIncoming, "b.test")
	r.begin()
	r.end("b.test", 0)
	r.now++
	r.send(1, FromIncoming, "a.test")
	r.begin()
	r.now = r.now.Add(time.Minute)
	r.end("a.test", 451)
	r.wantSilent("a.test", false)
	r.send(2, FromIncoming, "c.test", "d.test", "e.test")
	r.begin()
	r.now = r.now.Add(3 * time.Second)
	r.end("d.test", 0)
	r.end("c.test", 451)
	r.wantSilent("c.test", true)
	r.now++
	r.end("e.test", 451)
	r.wantSilent("e.test", true)
}

// Three names of a zone in a row that are silent have its other names wait among the
// silent ones, though their mail is not deferred. One that stays silent shows nothing new;
// one that is answered ends it for the zone.
func TestSilenceOfAZone(t *testing.T) {
	r := newRouter(t, wide)
	hear := func(domain string) {
		r.send(1, FromRetry, domain)
		r.begin()
		r.end(domain, 0)
	}
	silence := func(names ...string) {
		for _, n := range names {
			r.send(2, FromRetry, n)
			r.begin()
			r.now = r.now.Add(2 * time.Second)
			hear("other.example")
			r.end(n, 451)
		}
	}
	silence("1.zone.test", "2.zone.test", "2.zone.test", "1.zone.test")
	r.wantSilent("4.zone.test", false)
	silence("3.zone.test")
	r.wantSilent("4.zone.test", true)
	r.wantSilent("a.b.zone.test", true)
	r.wantSilent("zone.test", true)
	r.wantSilent("1.zone2.test", false)
	if got := r.s.Remembered("4.zone.test", r.now); !got.IsZero() {
		t.Errorf("mail for another name of the zone is deferred with %v", got)
	}
	r.now = r.now.Add(time.Hour - 1)
	r.wantSilent("4.zone.test", true)
	r.now++
	r.wantSilent("4.zone.test", false)

	silence("1.zone.test", "2.zone.test", "3.zone.test")
	hear("5.zone.test")
	r.wantSilent("4.zone.test", false)
	r.wantSilent("3.zone.test", true)
	silence("6.zone.test", "7.zone.test")
	r.wantSilent("4.zone.test", false)
	silence("zone.test") // a zone's own name is one of it
	r.wantSilent("4.zone.test", true)
	silence("1.top", "2.top", "3.top")
	r.wantSilent("top", false)
	for n, want := range map[string]string{"a.b.c": "b.c", "b.c": "b.c", "c": "c", "a.b.c.d": "c.d", "": ""} {
		if got := zone(n); got != want {
			t.Errorf("the zone of %q is %q", n, got)
		}
	}
}

// What is remembered of silent names is bounded: what is oldest is forgotten.
func TestFewSilencesAreRemembered(t *testing.T) {
	s := silences{known: make(map[string]*silence)}
	for i := range silencesMost {
		s.entry(fmt.Sprint(i, ".test"), start)
	}
	s.entry("0.test", start) // again: it is the youngest now
	s.entry("new.test", start)
	if len(s.known) != silencesMost || s.byAge.Len() != silencesMost || s.known["1.test"] != nil || s.known["0.test"] == nil {
		t.Errorf("%d names are remembered, listed %d", len(s.known), s.byAge.Len())
	}
	s.entry("late.test", start.Add(time.Hour))
	if len(s.known) != 1 {
		t.Errorf("%d names are remembered after an hour", len(s.known))
	}
}

// Names that were silent are looked up first, on no account, and by as many as half
// of the slots; mail for other names finds the rest. An operator's retry looks up as usual.
func TestSilentNamesHaveHalf(t *testing.T) {
	r := newRouter(t, Limits{Lookups: 4, Message: 100, Clients: 1, Network: 1})
	for i := range 6 {
		r.send(mail.QueueID(i+1), FromRetry, fmt.Sprintf("a.%d.test", i))
		r.now = r.now.Add(time.Millisecond)
	}
	for i := 0; i < 6; i += 2 {
		r.begin()
		r.now = r.now.Add(2 * time.Second)
		r.s.silent.heard("other.example", r.now)
		r.end(fmt.Sprintf("a.%d.test", i), 451)
		r.end(fmt.Sprintf("a.%d.test", i+1), 451)
	}
	m := r.send(10, FromIncoming, "good1.test", "a.0.test", "a.1.test", "a.2.test", "good2.test")
	r.wantBegun("a.0.test/0 a.1.test/0 good1.test/10 good2.test/10")
	if r.s.Stalled() != 3 || m.routing.MayPark() {
		t.Errorf("%d jobs are stalled", r.s.Stalled())
	}
	r.end("good1.test", 0)
	r.end("good2.test", 0)
	r.wantBegun("")
	r.send(11, FromRetry, "a.4.test")
	r.wantBegun("a.4.test/11")
	r.end("a.1.test", 0)
	r.wantBegun("a.2.test/0")
	// Slow ones are as many as half of the slow ones that there may be.
	r = newRouter(t, Limits{Lookups: 2, Message: 100, Clients: 1, Network: 1})
	for i := range 30 {
		e := r.s.silent.entry(fmt.Sprintf("a.%d.test", i), r.now)
		e.reply, e.said = mail.Reply{Code: 451}, r.now
		r.send(mail.QueueID(i+1), FromIncoming, fmt.Sprintf("a.%d.test", i))
	}
	for range 30 {
		r.begin()
		r.now = r.now.Add(50 * time.Millisecond)
		r.s.Age(r.now, 0)
	}
	if r.s.silent.busy != 10 || r.s.slow.Len() != 10 {
		t.Errorf("%d of %d slow lookups are of silent names, want 10", r.s.silent.busy, r.s.slow.Len())
	}
}

// What several wait for is looked up once. It counts for the message on whose account it
// was begun, and for no other; and for none when that has gone.
func TestFreeRides(t *testing.T) {
	r := newRouter(t, Limits{Lookups: 4, Message: 1, Clients: 1, Network: 1})
	a := r.send(1, FromIncoming, "a.test", "b.test", "c.test")
	b := r.send(2, FromIncoming, "a.test", "d.test")
	r.wantBegun("a.test/1 d.test/2")
	l := r.s.known[name("a.test")]
	if a.routing.owned.Len() != 1 || b.routing.owned.Len() != 1 || a.Unbound != 3 || b.routing.Len() != 2 {
		t.Errorf("%d and %d lookups are on account of the messages", a.routing.owned.Len(), b.routing.owned.Len())
	}
	if got := r.s.Withdraw(&a.routing); got != 3 || a.Unbound != 0 || a.routing.Len() != 0 || l.For() != 0 {
		t.Errorf("%d recipients are withdrawn, %d left; the lookup is for %v", got, a.Unbound, l.For())
	}
	if busy, waiting, messages := r.s.Count(); busy != 2 || waiting != 0 || messages != 0 {
		t.Errorf("%d lookups are under way, %d wait, of %d messages", busy, waiting, messages)
	}
	r.s.End(l, mail.Reply{}, r.now)
	if j := r.s.NextJob(l); j.Message() != &b.Message || r.s.NextJob(l) != nil {
		t.Error("the route is not that of who waits still")
	}
	c := r.send(3, FromIncoming, "e.test", "f.test")
	r.wantBegun("e.test/3")
	c.routing.Disown()
	r.wantBegun("f.test/3")
}

// Clients come before mail, at most so many of them and half of all, and of one network
// fewer; networks take turns. A question that is withdrawn frees nothing of what has begun.
func TestClientsComeFirst(t *testing.T) {
	r := newRouter(t, Limits{Lookups: 6, Message: 10, Clients: 5, Network: 2})
	r.send(1, FromIncoming, "m1.test", "m2.test", "m3.test", "m4.test")
	var asked []*Question
	for _, d := range []string{"a1", "a2", "a3", "b1", "c1"} {
		client := map[byte]string{'a': "192.0.2.1", 'b': "198.51.100.1", 'c': "203.0.113.1"}[d[0]]
		asked = append(asked, r.ask(client, d+".test"))
	}
	r.wantBegun("a1.test/0 b1.test/0 c1.test/0 m1.test/1 m2.test/1 m3.test/1")
	if l := asked[2].Lookup(); l == nil || l.ID() != 0 {
		t.Errorf("the third of a network waits for %+v", l)
	}
	r.s.WithdrawQuestion(asked[2])
	r.s.WithdrawQuestion(asked[0])
	r.s.WithdrawQuestion(asked[0]) // again: nothing
	if asked[0].Lookup() != nil || r.s.known[name("a3.test")] != nil || r.s.known[name("a1.test")] == nil {
		t.Error("what has not begun goes on, or what has does not")
	}
	r.ask("203.0.113.9", "c2.test")
	r.end("m1.test", 0)
	r.wantBegun("m4.test/1") // three are half of six
	r.end("a1.test", 0)
	r.wantBegun("a2.test/0")
	r.end("b1.test", 0)
	r.wantBegun("c2.test/0")
	// Slow ones count in none of that, until a network has ten times as many as slots.
	r = newRouter(t, Limits{Lookups: 2, Message: 10, Clients: 1, Network: 1})
	r.s.Configure(Limits{Lookups: 10, Message: 10, Clients: 1, Network: 1})
	for i := range 12 {
		r.ask("192.0.2.1", fmt.Sprint(i, ".test"))
	}
	for range 12 {
		r.begin()
		r.now = r.now.Add(50 * time.Millisecond)
		r.s.Age(r.now, 0)
	}
	if r.s.slow.Len() != 10 {
		t.Errorf("%d lookups are slow of one network, want 10", r.s.slow.Len())
	}
	r.ask("198.51.100.1", "other.test")
	r.wantBegun("other.test/0")
}

// All retries together have the share of one message, and take turns with new mail. Slow
// ones count for that no longer.
func TestRetriesHaveOneShare(t *testing.T) {
	r := newRouter(t, Limits{Lookups: 8, Message: 2, Clients: 1, Network: 1})
	for i := range mail.QueueID(4) {
		r.send(10+i, FromDeferred, fmt.Sprintf("r%d.test", i))
	}
	r.send(20, FromFlush, "r9.test")
	r.send(1, FromIncoming, "n0.test")
	r.send(2, FromRetry, "n1.test")
	r.wantBegun("n0.test/1 r0.test/10 n1.test/2 r1.test/11")
	r.now = r.now.Add(50 * time.Millisecond)
	r.s.Age(r.now, 0)
	r.wantBegun("r2.test/12 r3.test/13")
	r.end("r2.test", 0)
	r.wantBegun("r9.test/20")
}

// Mail that waits for slow lookups alone can be parked: it is in no lookup's way, and comes
// back when its last lookup has ended, in the order of that, retries by themselves.
func TestParking(t *testing.T) {
	r := newRouter(t, wide)
	a := r.send(1, FromIncoming, "a.test", "b.test")
	b := r.send(2, FromDeferred, "b.test")
	r.begin()
	if a.routing.MayPark() || r.s.Stalled() != 0 {
		t.Error("mail may be parked before its lookups are slow")
	}
	mustPanic(t, "mail is parked that waits for a lookup that is not slow", func() { r.s.Park(&a.routing, a.from) })
	r.now = r.now.Add(50 * time.Millisecond)
	r.s.Age(r.now, 0)
	r.add(a, "c.test")
	if a.routing.MayPark() || !b.routing.MayPark() || r.s.Stalled() != 3 {
		t.Errorf("%d jobs are stalled", r.s.Stalled())
	}
	next := func() *sched.Message { return r.s.RotateStalled().Message() }
	if first, second, third, again := next(), next(), next(), next(); first != &a.Message || second == nil || third == again || again != first {
		t.Error("jobs that are stalled are not shown in turn")
	}
	r.begin()
	r.now = r.now.Add(50 * time.Millisecond)
	r.s.Age(r.now, 0)
	for _, m := range []*letter{a, b} {
		n := m.routing.Len()
		if got := r.s.Park(&m.routing, m.from); got != n || m.Unbound != 0 || m.routing.Len() != 0 || !r.s.IsParked(m.ID) {
			t.Errorf("%d of %d recipients of %v are parked, %d left", got, n, m.ID, m.Unbound)
		}
		m.routing.Disown()
	}
	if r.s.Parked() != 2 || r.s.Stalled() != 0 {
		t.Errorf("%d messages are parked, %d jobs stalled", r.s.Parked(), r.s.Stalled())
	}
	mustPanic(t, "none comes back", func() { r.s.Return(LineNew) })
	r.end("a.test", 451)
	r.end("b.test", 451)
	if r.s.Returning(LineNew) || !r.s.Returning(LineRetries) {
		t.Error("mail comes back before its last lookup has ended")
	}
	r.end("c.test", 0)
	for line, want := range []*letter{a, b} {
		if id, from := r.s.Return(Line(line)); id != want.ID || from != want.from || r.s.IsParked(id) || r.s.Returning(Line(line)) {
			t.Errorf("%v of origin %d comes back", id, from)
		}
	}
}

// Parked mail comes back in the order in which its lookups have ended, and of one lookup
// in the order in which it was parked. A message that waits for nothing cannot be parked,
// nor one more than there may be.
func TestOrderOfReturn(t *testing.T) {
	r := newRouter(t, wide)
	for i, d := range []string{"a.test", "b.test", "a.test", "b.test"} {
		r.send(mail.QueueID(i+1), FromIncoming, d)
	}
	r.begin()
	r.now = r.now.Add(50 * time.Millisecond)
	r.s.Age(r.now, 0)
	for r.s.Stalled() > 0 {
		m := r.s.RotateStalled().routing
		r.s.Park(m, FromIncoming)
		m.Disown()
		if m.MayPark() {
			t.Errorf("%v may be parked, and waits for nothing", m.message.ID)
		}
	}
	r.end("b.test", 0)
	r.end("a.test", 0)
	got := ""
	for r.s.Returning(LineNew) {
		id, _ := r.s.Return(LineNew)
		got += fmt.Sprint(uint64(id), " ")
	}
	if got != "2 4 1 3 " {
		t.Errorf("%s come back, want 2 4 1 3", got)
	}
	for i := range parkedMost {
		if !r.s.HasParking() {
			t.Fatalf("no message may be parked beside %d", i)
		}
		r.s.parked.known[mail.QueueID(i+1)] = nil
	}
	if r.s.HasParking() {
		t.Errorf("a message may be parked beside %d", parkedMost)
	}
}

// An operator who has parked mail tried gets it looked up whatever is known of its names.
func TestRetryOfParkedMail(t *testing.T) {
	r := newRouter(t, wide)
	m := r.send(1, FromDeferred, "a.test")
	r.begin()
	r.now = r.now.Add(50 * time.Millisecond)
	r.s.Age(r.now, 0)
	r.s.Park(&m.routing, m.from)
	m.routing.Disown()
	r.s.RetryParked(1)
	r.s.RetryParked(2) // which is not parked
	again := r.send(1, FromIncoming, "a.test")
	mustPanic(t, "a message is parked twice", func() { r.s.Park(&again.routing, again.from) })
	r.end("a.test", 451)
	if id, from := r.s.Return(LineNew); id != 1 || from != FromRetry {
		t.Errorf("%v of origin %d comes back", id, from)
	}
}

// Of a message that cannot be parked, what waits for slow lookups can be taken, and
// nothing else. A lookup that has not begun is forgotten with its last job.
func TestTakeStalled(t *testing.T) {
	r := newRouter(t, Limits{Lookups: 3, Message: 100, Clients: 1, Network: 1})
	m := r.send(1, FromIncoming, "a.test", "b.test", "c.test", "d.test")
	r.begin()
	r.now = r.now.Add(50 * time.Millisecond)
	r.end("b.test", 0)
	r.s.Age(r.now, 0)
	for range r.s.TakeStalled(&m.routing) {
		break // the first is taken, the others stay
	}
	if r.s.Stalled() != 1 || m.routing.Len() != 2 {
		t.Errorf("%d jobs are stalled, %d recipients wait", r.s.Stalled(), m.routing.Len())
	}
	e := r.s.silent.entry("q.test", r.now)
	e.reply = mail.Reply{Code: 451}
	r.add(m, "q.test")
	var taken []string
	for j := range r.s.TakeStalled(&m.routing) {
		taken = append(taken, j.Lookup().Nexthop)
		if text := j.Lookup().Unanswered("why").Reply.String(); text != "451 4.4.3 DNS lookup of "+j.Lookup().Nexthop+" failed: why" {
			t.Errorf("its mail is deferred with %q", text)
		}
	}
	if !slices.Equal(taken, []string{"c.test", "q.test"}) || m.routing.Len() != 1 || r.s.Stalled() != 0 || r.s.known[name("q.test")] != nil {
		t.Errorf("taken are %v, %d jobs are stalled, %d recipients wait", taken, r.s.Stalled(), m.routing.Len())
	}
	r.wantBegun("d.test/1")
}

// Where all lookups are slow and the core is short of room, those that cannot begin wait
// as those of silent names do, so that their mail can be parked: new mail before retries,
// and no more of it than there is need for.
func TestQuietened(t *testing.T) {
	r := newRouter(t, Limits{Lookups: 1, Message: 100, Clients: 1, Network: 1})
	for i := range mail.QueueID(11) {
		r.send(i+1, FromIncoming, fmt.Sprintf("%d.test", i))
		r.now = r.now.Add(50 * time.Millisecond)
		r.s.Age(r.now, 0)
		r.begin()
	}
	retry := r.send(30, FromDeferred, "r.test")
	first, second := r.send(31, FromIncoming, "x.test"), r.send(32, FromIncoming, "y.test")
	q := r.ask("192.0.2.1", "x.test")
	r.s.Age(r.now, 12) // the eleventh is young
	if first.routing.MayPark() {
		t.Error("mail may be parked, and a slot is about to be free")
	}
	if at := r.s.Wake(12); at != r.now.Add(50*time.Millisecond) {
		t.Errorf("mail can be parked after %v", at.Sub(r.now))
	}
	r.now = r.now.Add(50 * time.Millisecond)
	r.s.Age(r.now, 10)
	if first.routing.MayPark() {
		t.Error("mail may be parked, and enough could be already")
	}
	r.s.Age(r.now, 12)
	if !first.routing.MayPark() || !second.routing.MayPark() || retry.routing.MayPark() || r.s.Stalled() != 12 || q.network != nil || q.Lookup() == nil {
		t.Errorf("%d jobs are stalled", r.s.Stalled())
	}
	r.s.Age(r.now, 13)
	if !retry.routing.MayPark() {
		t.Error("the retry may not be parked")
	}
	r.end("0.test", 0)
	r.s.Age(r.now, 0)
	r.wantBegun("x.test/0")
}

func TestMisuseOfLookups(t *testing.T) {
	r := newRouter(t, Limits{Lookups: 1, Message: 1, Clients: 1, Network: 1})
	mustPanic(t, "no lookup may be under way", func() { r.s.Configure(Limits{Message: 1, Clients: 1, Network: 1}) })
	mustPanic(t, "nothing is stalled", func() { r.s.RotateStalled() })
	m := r.send(1, FromIncoming, "a.test")
	mustPanic(t, "a routing of two messages", func() {
		r.s.Add(&m.routing, new(sched.Message), FromIncoming, mail.Recipient{}, name("b.test"), r.now)
	})
	mustPanic(t, "a routing in two lines", func() {
		r.s.Add(&m.routing, &m.Message, FromDeferred, mail.Recipient{}, name("b.test"), r.now)
	})
	q := r.ask("192.0.2.1", "a.test")
	mustPanic(t, "a question about two names", func() { r.s.Ask(q, netip.Addr{}, name("b.test"), r.now) })
	turn, _ := r.s.Next()
	mustPanic(t, "a lookup ends that has not begun", func() { r.s.End(turn.lookup, mail.Reply{}, r.now) })
	l := r.s.Begin(turn, r.now)
	mustPanic(t, "a lookup begins twice", func() { r.s.Begin(turn, r.now) })
	mustPanic(t, "a lookup is given up that is not slow", func() { r.s.Abandon(l) })
	mustPanic(t, "a job goes on before its lookup has ended", func() { r.s.NextJob(l) })
	mustPanic(t, "a question goes on before its lookup has ended", func() { r.s.NextQuestion(l) })
	r.s.End(l, mail.Reply{}, r.now)
	mustPanic(t, "a lookup ends twice", func() { r.s.End(l, mail.Reply{}, r.now) })
}
