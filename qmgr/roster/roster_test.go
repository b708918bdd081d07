package roster_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/roster"
)

// A request is what a client wants a slot for.
type request struct {
	name    string
	inLine  ilist.Link[request]
	network *roster.Network[request]
}

// begin begins the request whose turn it is, and returns it; nil if there is none.
func begin(r *roster.Roster[request], limit, each, slow int) *request {
	n := r.Next(limit, each, slow)
	if n == nil {
		return nil
	}
	q := n.Oldest()
	r.Begin(n)
	r.Leave(n, &q.inLine)
	return q
}

func wait(r *roster.Roster[request], client string, name string) *request {
	q := &request{name: name}
	addr, _ := netip.ParseAddr(client)
	q.network = r.Wait(addr, &q.inLine, q)
	return q
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// A client that asks for thousands of things waits behind itself: networks take turns, each in
// the order in which it has asked, and one that has as many slots as it may have is passed
// over until it gives one back.
func TestTurns(t *testing.T) {
	r := roster.New[request]()
	began := make(map[string]*request)
	for i := range 5 {
		wait(&r, "192.0.2.1", fmt.Sprint("a", i))
	}
	wait(&r, "198.51.100.1", "b0")
	wait(&r, "203.0.113.1", "c0")
	wait(&r, "198.51.100.9", "b1")
	want := func(names ...string) {
		t.Helper()
		for _, name := range append(names, "") {
			got := ""
			if q := begin(&r, 6, 2, 1); q != nil {
				got, began[q.name] = q.name, q
			}
			if got != name {
				t.Fatalf("%q begins, want %q", got, name)
			}
		}
	}
	want("a0", "b0", "c0", "a1", "b1")
	wait(&r, "203.0.113.2", "c1") // the sixth slot
	want("c1")
	wait(&r, "192.0.3.1", "d0") // there is no seventh
	want()
	r.End(began["c0"].network)
	want("d0")
	r.End(began["a0"].network)
	want("a2")
	r.End(began["b0"].network) // a has two slots
	want()
	r.End(began["a1"].network)
	want("a3")
}

// Clients are taken for one network as addresses are assigned: IPv4 by /24, also if they
// are written as IPv6, IPv6 by /64 in any zone; clients without an address are one, too.
func TestNetworks(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.0", "192.0.2.255", true},
		{"192.0.2.1", "192.0.3.1", false},
		{"192.0.2.1", "::ffff:192.0.2.9", true},
		{"2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
		{"", "", true},
		{"", "192.0.2.1", false},
	} {
		r := roster.New[request]()
		if a, b := wait(&r, c.a, "a"), wait(&r, c.b, "b"); (a.network == b.network) != c.same {
			t.Errorf("%q and %q are one network: %t, want %t", c.a, c.b, !c.same, c.same)
		}
	}
}

// A request that takes long goes on without its slot, which is another's then; a network
// with too many of them waits until one has ended.
func TestSlowRequests(t *testing.T) {
	r := roster.New[request]()
	a := []*request{wait(&r, "192.0.2.1", "a0"), wait(&r, "192.0.2.1", "a1"), wait(&r, "192.0.2.1", "a2")}
	for i := range 2 {
		if q := begin(&r, 1, 1, 2); q != a[i] {
			t.Fatalf("%v begins, want a%d", q, i)
		}
		if q := begin(&r, 1, 1, 2); q != nil {
			t.Fatalf("%s begins, and there is no slot", q.name)
		}
		r.SlowDown(a[i].network)
	}
	if (r.Use != roster.Use{Slow: 2} || a[0].network.Use != r.Use) {
		t.Errorf("%+v are under way, of %+v in all", a[0].network.Use, r.Use)
	}
	if q := begin(&r, 1, 1, 2); q != nil {
		t.Errorf("%s begins beside two that are slow", q.name)
	}
	r.EndSlow(a[0].network)
	if q := begin(&r, 1, 1, 2); q != a[2] {
		t.Errorf("%v begins, want a2", q)
	}
	r.End(a[2].network)
	r.EndSlow(a[1].network)
	if r.Use != (roster.Use{}) || r.Check(nil) != 0 {
		t.Errorf("%+v are under way, and all have ended", r.Use)
	}
}

// Slots that are not held cannot be given back, and nothing begins that does not wait.
func TestMisuse(t *testing.T) {
	for name, f := range map[string]func(*roster.Roster[request], *roster.Network[request]){
		"End":      (*roster.Roster[request]).End,
		"SlowDown": (*roster.Roster[request]).SlowDown,
		"EndSlow":  (*roster.Roster[request]).EndSlow,
		"Begin": func(r *roster.Roster[request], n *roster.Network[request]) {
			r.Leave(n, &n.Oldest().inLine)
			r.Begin(n)
		},
	} {
		r := roster.New[request]()
		if q := wait(&r, "192.0.2.1", ""); !panics(func() { f(&r, q.network) }) {
			t.Errorf("%s of what has not begun does not panic", name)
		}
	}
}

// A naive is the rule by itself: networks in the order of their turn, and all that they
// have.
type naive struct {
	order      []string // by turn
	waiting    map[string][]*request
	busy, slow map[string]int
}

func (n *naive) next(limit, each, slow int) *request {
	all := 0
	for _, b := range n.busy {
		all += b
	}
	for _, name := range n.order {
		if all < limit && n.busy[name] < each && n.slow[name] < slow {
			return n.waiting[name][0]
		}
	}
	return nil
}

func (n *naive) leave(client string, q *request) {
	i := slices.Index(n.waiting[client], q)
	n.waiting[client] = slices.Delete(n.waiting[client], i, i+1)
	if len(n.waiting[client]) == 0 {
		n.order = slices.DeleteFunc(n.order, func(c string) bool { return c == client })
	}
}

// Whatever clients ask for and however long it takes, it is the turn of the same request
// as by the rule; nothing is counted wrongly, and nothing is left of those who have ended.
func TestTurnsAreThoseOfTheRule(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit, each, slow := 1+rng.IntN(6), 1+rng.IntN(3), 1+rng.IntN(3)
		r := roster.New[request]()
		n := naive{waiting: make(map[string][]*request), busy: make(map[string]int), slow: make(map[string]int)}
		clients := []string{"192.0.2.1", "198.51.100.1", "2001:db8::1", ""}
		client := make(map[*request]string)
		var waiting, busy, gone []*request
		take := func(list *[]*request) *request {
			i := rng.IntN(len(*list))
			q := (*list)[i]
			*list = slices.Delete(*list, i, i+1)
			return q
		}
		for step := range 300 {
			ending := step > 200
			switch {
			case !ending && rng.IntN(2) == 0:
				c := clients[rng.IntN(len(clients))]
				q := wait(&r, c, fmt.Sprint(step))
				client[q] = c
				waiting = append(waiting, q)
				if n.waiting[c] = append(n.waiting[c], q); len(n.waiting[c]) == 1 {
					n.order = append(n.order, c)
				}
			case len(waiting) > 0 && rng.IntN(6) == 0:
				q := take(&waiting)
				r.Leave(q.network, &q.inLine)
				n.leave(client[q], q)
			case len(busy) > 0 && rng.IntN(3) == 0:
				q := take(&busy)
				n.busy[client[q]]--
				if rng.IntN(2) == 0 {
					r.End(q.network)
					break
				}
				r.SlowDown(q.network)
				n.slow[client[q]]++
				gone = append(gone, q)
			case len(gone) > 0 && rng.IntN(3) == 0:
				q := take(&gone)
				r.EndSlow(q.network)
				n.slow[client[q]]--
			default:
				want := n.next(limit, each, slow)
				got := begin(&r, limit, each, slow)
				if got != want {
					t.Fatalf("seed %d, step %d: %v begins, want %v", seed, step, got, want)
				}
				if got == nil {
					break
				}
				c := client[got]
				n.busy[c]++
				n.order = append(slices.DeleteFunc(n.order, func(o string) bool { return o == c }), c)
				n.leave(c, got)
				waiting = slices.DeleteFunc(waiting, func(q *request) bool { return q == got })
				busy = append(busy, got)
			}
			uses := make(map[*roster.Network[request]]roster.Use)
			for _, q := range busy {
				uses[q.network] = roster.Use{Busy: uses[q.network].Busy + 1, Slow: uses[q.network].Slow}
			}
			for _, q := range gone {
				uses[q.network] = roster.Use{Busy: uses[q.network].Busy, Slow: uses[q.network].Slow + 1}
			}
			if got := r.Check(uses); got != len(waiting) {
				t.Fatalf("seed %d, step %d: %d requests wait, want %d", seed, step, got, len(waiting))
			}
		}
	}
}
