package source

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

func all(int) bool { return true }

func poolOf(weights ...int) *Pool {
	p := &Pool{Name: "p"}
	for i, w := range weights {
		p.Members = append(p.Members, Member{Source: fmt.Sprint("s", i), Weight: w})
	}
	return p
}

// The rule by its definition: each member wants its k-th turn at (k+½)/w, and again in each
// further round; the next pick gets the turn that follows the last one among those of the
// members that can be used, where of equal ones the first member's comes first.
type twin struct {
	weights []int
	last    moment
}

// A moment is a member's turn: twice its number over all rounds plus one, over twice the
// weight.
type moment struct{ at, weight, member int }

func (a moment) before(b moment) bool {
	x, y := a.at*b.weight, b.at*a.weight
	return x < y || x == y && a.member < b.member
}

func newTwin(weights []int) *twin { return &twin{weights, moment{-1, 1, 0}} }

func (w *twin) next(usable []bool) int {
	var best *moment
	for i, weight := range w.weights {
		if !usable[i] {
			continue
		}
		one := moment{1, weight, i}
		for !w.last.before(one) {
			one.at += 2
		}
		if best == nil || one.before(*best) {
			best = &one
		}
	}
	if best == nil {
		return -1
	}
	w.last = *best
	return best.member
}

// Against the twin, with sources that come and go. The first pick for a destination is the
// next of an order over the destinations, which goes on from there.
func TestTurnsAgainstTwin(t *testing.T) {
	for run := range 20 * golden.Runs(2) {
		r := rand.New(rand.NewPCG(uint64(run), 1))
		var weights []int
		for range 1 + r.IntN(6) {
			weights = append(weights, 1+r.IntN(5))
		}
		p := poolOf(weights...)
		first := newTwin(weights)
		own := make(map[string]*twin)
		var turns Turns
		usable := make([]bool, len(weights))
		for i := range usable {
			usable[i] = true
		}
		for pick := range 300 {
			if r.IntN(10) == 0 {
				i := r.IntN(len(usable))
				usable[i] = !usable[i]
			}
			name := fmt.Sprint("d", r.IntN(4))
			asked := make([]int, len(weights))
			got, ok := turns.Next(p, "smtp", name, 0, func(member int) bool { asked[member]++; return usable[member] })
			want := -1
			if own[name] != nil {
				want = own[name].next(usable)
			} else if want = first.next(usable); want >= 0 {
				begun := *first
				own[name] = &begun
			}
			if ok != (want >= 0) || ok && got != want {
				t.Fatalf("run %d, pick %d for %s, weights %v, usable %v: %d, want %d", run, pick, name, weights, usable, got, want)
			}
			if slices.Max(asked) > 1 {
				t.Fatalf("run %d, pick %d: members were asked about %v times", run, pick, asked)
			}
		}
	}
}

// Of as many picks as the sum of the weights each member gets its weight, at each destination,
// wherever it begins, and over the destinations; and in between a member is never ahead or
// behind by a pick for each member.
func TestTurnsShareByWeight(t *testing.T) {
	for run := range 10 * golden.Runs(2) {
		r := rand.New(rand.NewPCG(uint64(run), 2))
		var weights []int
		sum := 0
		for range 1 + r.IntN(8) {
			weights = append(weights, 1+r.IntN(20))
			sum += weights[len(weights)-1]
		}
		p := poolOf(weights...)
		var turns Turns
		firsts := make([]int, len(weights))
		for d := range sum {
			got := make([]int, len(weights))
			for pick := range sum {
				i, _ := turns.Next(p, "smtp", fmt.Sprint(d), 0, all)
				if got[i]++; pick == 0 {
					firsts[i]++
				}
				for j, w := range weights {
					if ahead := got[j]*sum - (pick+1)*w; ahead > sum*len(weights) || -ahead > sum*len(weights) {
						t.Fatalf("weights %v: after %d picks %d has %d", weights, pick+1, j, got[j])
					}
				}
			}
			if !slices.Equal(got, weights) {
				t.Fatalf("weights %v: destination %d got %v", weights, d, got)
			}
		}
		if !slices.Equal(firsts, weights) {
			t.Fatalf("weights %v: the first picks of %d destinations are %v", weights, sum, firsts)
		}
	}
}

// A source that was passed over for long is owed nothing when it is back.
func TestTurnsOfASourceThatWasAway(t *testing.T) {
	p, away := poolOf(1, 1), true
	usable := func(member int) bool { return member != 0 || !away }
	var turns Turns
	for range 100 {
		if i, ok := turns.Next(p, "smtp", "d", 0, usable); !ok || i != 1 {
			t.Fatalf("%d, %v", i, ok)
		}
	}
	away = false
	var got [2]int
	for range 10 {
		i, _ := turns.Next(p, "smtp", "d", 0, usable)
		got[i]++
	}
	if got != [2]int{5, 5} {
		t.Errorf("of ten picks: %v", got)
	}
	if _, ok := turns.Next(p, "smtp", "d", 0, func(int) bool { return false }); ok {
		t.Error("a source that cannot be used was chosen")
	}
}

// The recipients of one message go together, as long as that source can be used.
func TestTurnsOfOneMessage(t *testing.T) {
	p, lost := poolOf(1, 1), -1
	usable := func(member int) bool { return member != lost }
	var turns Turns
	next := func(message uint64) int {
		i, _ := turns.Next(p, "smtp", "d", message, usable)
		return i
	}
	one := next(1)
	for range 2 {
		if next(1) != one {
			t.Error("recipients of one message leave from different sources")
		}
	}
	if next(2) == one {
		t.Error("the next message leaves from the same source")
	}
	if last, ok := turns.Last(p, "smtp", "d", 2); !ok || last == one {
		t.Errorf("the last message got %d, %v", last, ok)
	}
	if _, ok := turns.Last(p, "smtp", "d", 1); ok {
		t.Error("a message is the last that was asked for after another one")
	}
	lost = 1 - one
	if next(2) != one {
		t.Error("a message stays with a source that cannot be used")
	}
}

// Turns computed by hand. A capital letter is the pick of a source while the one in small
// letters behind it is away; a dot is a further recipient of the same message.
func TestTurnsByHand(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights []int
		at      string // destinations, one for each pick
		turns   string
	}{
		{"3:1", []int{3, 1}, "xxxxxxxx", "a a b a a a b a"},
		{"first picks", []int{3, 1}, "wxyzyyyzzz", "a a b a a a a a a b"},
		{"passed over and back", []int{3, 1}, "xxxxxxx", "a Ba Ba a a a b"},
		{"2:1:1, one is away for a pick", []int{2, 1, 1}, "xxxxxxxx", "a b Ac a b c a a"},
		{"recipients of a message", []int{3, 1}, "xxxxx", "a .a a b a"},
	} {
		p := poolOf(c.weights...)
		var turns Turns
		message := uint64(0)
		for i, want := range strings.Fields(c.turns) {
			away := -1
			switch {
			case want[0] == '.':
				want = want[1:]
			case want[0] < 'a':
				away = int(want[1] - 'a')
				message++
			default:
				message++
			}
			usable := func(member int) bool { return member != away }
			got, ok := turns.Next(p, "smtp", c.at[i:i+1], message, usable)
			if letter := strings.ToLower(want[:1])[0]; !ok || byte('a'+got) != letter {
				t.Errorf("%s, pick %d: %c, want %c", c.name, i+1, 'a'+got, letter)
			}
		}
	}
}

// Destinations are forgotten, those first that were not used for longest.
func TestTurnsAreBounded(t *testing.T) {
	p := poolOf(1, 2)
	var turns Turns
	turns.Next(p, "smtp", "kept", 0, all)
	kept := turns.of[place{"p", "smtp", "kept"}]
	for i := range turnsMax + 500 {
		turns.Next(p, "smtp", "kept", 0, all)
		turns.Next(p, "smtp", fmt.Sprint(i), 0, all)
	}
	if len(turns.of) != turnsMax || turns.recent.Len() != turnsMax || turns.of[place{"p", "smtp", "kept"}] != kept || turns.of[place{"p", "smtp", "0"}] != nil {
		t.Errorf("%d destinations are remembered", len(turns.of))
	}
}

func TestPools(t *testing.T) {
	cfg := Config{
		Sources: []Source{{Name: "a", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}},
		Pools: []Pool{
			{Name: "both", Match: Match{Classes: []string{"bulk"}, Tenants: []string{"shop*"}}},
			{Name: "bulk", Match: Match{Classes: []string{"bulk", "news"}}},
			{Name: "sender", Match: Match{Senders: []string{"otp@*", "<>"}}},
			{Name: "route", Match: Match{Routes: []string{"relay", "smtp:.example.com", "*:[192.0.2.1]:*"}}},
			{Name: "rest"},
		},
	}
	for i := range cfg.Pools {
		cfg.Pools[i].Members = []Member{{"a", 1}}
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	table := NewTable(&cfg)
	for _, c := range []struct {
		class, tenant, sender, transport, nexthop, want string
	}{
		{"bulk", "Shop7", "x@y", "smtp", "a.test", "both"},
		{"bulk", "bakery", "otp@y", "smtp", "a.test", "bulk"},
		{"news", "", "", "relay", "a.test", "bulk"},
		{"normal", "shop", "otp@y", "relay", "a.test", "sender"},
		{"normal", "shop", "", "relay", "a.test", "sender"},
		{"normal", "shop", "x@y", "relay", "a.test", "route"},
		{"", "", "x@y", "smtp", "mail.example.com", "route"},
		{"", "", "x@y", "smtp", "example.com", "rest"},
		{"", "", "x@y", "other", "[192.0.2.1]:25", "route"},
		{"", "", "x@y", "other", "mail.example.com", "rest"},
	} {
		p := table.Pool(Way{Flow: &mail.Flow{Class: c.class, Tenant: c.tenant}, Sender: mail.Address(c.sender), Transport: c.transport, Nexthop: c.nexthop})
		if p == nil || p.Name != c.want {
			t.Errorf("%+v: pool %+v", c, p)
		}
	}
	cfg.Pools = cfg.Pools[:1]
	if p := NewTable(&cfg).Pool(Way{Flow: &mail.Flow{}}); p != nil {
		t.Errorf("mail that meets no conditions has pool %s", p.Name)
	}
	if !cfg.Pools[0].Has("a") || cfg.Pools[0].Has("b") {
		t.Error("the pool has other members")
	}
}

func TestValidate(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	cfg := Config{
		Sources: []Source{
			{Name: "a", Addresses: []netip.Addr{four, six}}, {Name: "a", Addresses: []netip.Addr{four, netip.MustParseAddr("192.0.2.2")}},
			{Addresses: []netip.Addr{netip.IPv4Unspecified(), {}}}, {Name: "none"},
		},
		Pools: []Pool{{Name: "p", Members: []Member{{"a", 0}, {"a", WeightMax + 1}, {"b", 1}}, Match: Match{Routes: []string{""}}}, {Name: "p"}, {}},
	}
	err := cfg.Validate()
	for _, want := range []string{"source a is there twice", "two addresses of one family: 192.0.2.2", "0.0.0.0 is not an address", "invalid IP is not an address", "it has no name",
		"source none: it has no address", "weight 0 of source a", "weight 1001", "there is no source b", "source a is there twice", "a condition for the route is empty", "pool p is there twice", "it has 0 sources"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint %q in:\n%v", want, err)
		}
	}
	good := Config{Sources: []Source{{Name: "a", Addresses: []netip.Addr{four, six}}}, Pools: []Pool{{Name: "p", Members: []Member{{"a", 1}}}}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	s := &good.Sources[0]
	if s.Address(IPv4) != four || s.Address(IPv6) != six || (&Source{}).Address(IPv6).IsValid() || FamilyOf(netip.MustParseAddr("::ffff:192.0.2.1")) != IPv4 {
		t.Error("the families of addresses are mixed up")
	}
	if copied := good.Clone(); !good.Equal(copied) {
		t.Error("a clone is another configuration")
	}
	for i, change := range []func(c *Config){
		func(c *Config) { c.Sources[0].Name = "b" }, func(c *Config) { c.Sources[0].Hello = "x" }, func(c *Config) { c.Sources[0].Addresses[0] = six },
		func(c *Config) { c.Sources = nil }, func(c *Config) { c.Pools[0].Name = "q" }, func(c *Config) { c.Pools[0].Members[0].Weight = 2 },
		func(c *Config) { c.Pools[0].Match.Classes = []string{"x"} }, func(c *Config) { c.Pools[0].Match.Tenants = []string{"x"} },
		func(c *Config) { c.Pools[0].Match.Senders = []string{"x"} }, func(c *Config) { c.Pools[0].Match.Routes = []string{"x"} },
	} {
		other := good.Clone()
		if change(&other); good.Equal(other) {
			t.Errorf("change %d is none", i)
		}
	}
	copied := good.Clone()
	copied.Sources[0].Addresses[0], copied.Pools[0].Members[0].Source = six, "b"
	if s.Addresses[0] != four || good.Pools[0].Members[0].Source != "a" {
		t.Error("a clone shares memory")
	}
}

func BenchmarkNext(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		p := poolOf(slices.Repeat([]int{1}, n)...)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var turns Turns
			b.ReportAllocs()
			for b.Loop() {
				turns.Next(p, "smtp", "example.com", 0, all)
			}
		})
	}
}
