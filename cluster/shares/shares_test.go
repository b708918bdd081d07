package shares

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

func sum(list []int64) (total int64) {
	for _, n := range list {
		total += n
	}
	return total
}

var amounts = rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, LimitMax))

// The floors are the limit, however small, and differ by one at most.
func TestFloors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, total := amounts.Draw(t, "limit"), int64(0)
		var nodes []string
		for i := range rapid.IntRange(1, 50).Draw(t, "nodes") {
			nodes = append(nodes, fmt.Sprint("mx", i))
		}
		for node, floor := range Floors(limit, "site", nodes) {
			total += floor
			if even := limit / int64(len(nodes)); floor < even || floor > even+1 {
				t.Fatalf("floor %d of %s, the limit is %d for %d", floor, node, limit, len(nodes))
			}
		}
		if total != limit {
			t.Fatalf("floors of %d for a limit of %d", total, limit)
		}
	})
}

// With a limit of one connection and many sites, each of three nodes has about a third
// of them.
func TestRemaindersAreSpread(t *testing.T) {
	counts := map[string]int64{}
	for i := range 3000 {
		for node, floor := range Floors(1, fmt.Sprintf("site%d.example", i), []string{"mx1", "mx2", "mx3"}) {
			counts[node] += floor
		}
	}
	for node, n := range counts {
		if n < 850 || n > 1150 {
			t.Errorf("%s has %d of 3,000 sites", node, n)
		}
	}
}

// No node gets more than it needs, nothing is left while a node needs more, and each
// part is the exact proportion, rounded up or down.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount, needs := amounts.Draw(t, "amount"), rapid.SliceOfN(amounts, 0, 8).Draw(t, "needs")
		out := Divide(amount, needs)
		total := sum(needs)
		if sum(out) != min(amount, total) {
			t.Fatalf("%d of %d for %v", sum(out), amount, needs)
		}
		for i, n := range out {
			if n > needs[i] || total > amount && (n < amount*needs[i]/total || n > amount*needs[i]/total+1) {
				t.Fatalf("%v for %v of %d", out, needs, amount)
			}
		}
	})
}

// Each node has what it wants up to its floor; the limit is used if enough is wanted,
// and never exceeded.
func TestTargets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floors := rapid.SliceOfN(rapid.Int64Range(0, 1000), 1, 6).Draw(t, "floors")
		wants := rapid.SliceOfN(amounts, len(floors), len(floors)).Draw(t, "wants")
		out, limit := Targets(floors, wants), sum(floors)
		used := int64(0)
		for i, n := range out {
			if n < min(floors[i], wants[i]) {
				t.Fatalf("%v: less than floors %v and wants %v", out, floors, wants)
			}
			used += min(n, wants[i])
		}
		if sum(out) > limit || used != min(limit, sum(wants)) {
			t.Fatalf("%v for floors %v and wants %v", out, floors, wants)
		}
		// The loans of all lenders give exactly that.
		after := append([]int64(nil), floors...)
		for i := range floors {
			for j, n := range matched(floors, out, i) {
				after[i] -= n
				after[j] += n
			}
		}
		for i, n := range after {
			if n != out[i] {
				t.Fatalf("after all loans %v, want %v", after, out)
			}
		}
	})
}

// A network has several nodes with clocks of their own: wrong ones, that run up to five
// percent too fast or too slow.
type network struct {
	t     *testing.T
	rng   *rand.Rand
	now   mail.Instant // the true time
	limit int64
	names []string
	nodes []*member
	mail  []letter
	loss  int // percent
}

type member struct {
	account *Account
	offset  time.Duration
	drift   float64
	part    int          // of the network
	paused  mail.Instant // until then
	starts  uint64
	want    int64
	used    int64
}

type letter struct {
	at   mail.Instant
	from int
	to   int
	text Message
}

func newNetwork(t *testing.T, rng *rand.Rand, nodes int, limit int64) *network {
	n := &network{t: t, rng: rng, now: mail.Instant(time.Hour), limit: limit}
	for i := range nodes {
		n.names = append(n.names, string(rune('a'+i)))
	}
	for range nodes {
		n.nodes = append(n.nodes, &member{
			offset: time.Duration(rng.Int64N(int64(time.Hour))),
			drift:  0.95 + rng.Float64()/10,
		})
	}
	for i := range n.nodes {
		n.start(i, false)
	}
	return n
}

func (n *network) clock(i int) mail.Instant {
	m := n.nodes[i]
	return mail.Instant(float64(n.now) * m.drift).Add(m.offset)
}

func (n *network) start(i int, lent bool) {
	m := n.nodes[i]
	m.starts++
	m.used = 0
	account, err := New(Config{
		Key: "site", Limit: n.limit, Nodes: n.names, Self: n.names[i],
		Incarnation: m.starts, Lent: lent,
	}, n.clock(i))
	if err != nil {
		n.t.Fatal(err)
	}
	account.Want(m.want)
	m.account = account
}

// step lets a tenth of a second pass: each node uses its share, and says so once a
// second.
func (n *network) step(tick int) {
	n.now = n.now.Add(100 * time.Millisecond)
	for k := 0; k < len(n.mail); k++ {
		l := n.mail[k]
		if to := n.nodes[l.to]; l.at <= n.now && to.paused <= n.now {
			to.account.Hear(l.text, n.clock(l.to))
			n.mail = append(n.mail[:k], n.mail[k+1:]...)
			k--
		}
	}
	for i, m := range n.nodes {
		if n.now < m.paused {
			continue
		}
		m.used = min(m.want, m.account.Share(n.clock(i)))
		m.account.Use(m.used)
		if (tick+i)%10 == 0 {
			n.say(i)
		}
	}
	n.check()
}

func (n *network) say(i int) {
	text := n.nodes[i].account.Say(n.clock(i))
	for j := range n.nodes {
		if j != i && n.nodes[i].part == n.nodes[j].part && n.rng.IntN(100) >= n.loss {
			n.mail = append(n.mail, letter{n.now.Add(time.Duration(n.rng.IntN(400)) * time.Millisecond), i, j, text})
		}
	}
}

// check compares what all nodes may use with the limit. A paused node uses nothing, but
// may the moment it goes on.
func (n *network) check() {
	total := int64(0)
	for i, m := range n.nodes {
		share := m.account.Share(n.clock(i))
		if share < 0 {
			n.t.Fatalf("node %d has a share of %d", i, share)
		}
		total += share
	}
	if total > n.limit {
		n.t.Fatalf("shares of %d, the limit is %d", total, n.limit)
	}
}

func (n *network) wants(list ...int64) {
	for i, want := range list {
		n.nodes[i].want = want
		n.nodes[i].account.Want(want)
	}
}

func (n *network) used() (total int64) {
	for _, m := range n.nodes {
		total += m.used
	}
	return total
}

// Messages are lost and late, the network falls apart, nodes stop and go on, and are
// killed and started; clocks are wrong. At no instant is the sum of all shares above
// the limit, not even by one.
func TestNeverAboveTheLimit(t *testing.T) {
	for range golden.Runs(40) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			nodes := 2 + rng.IntN(5)
			n := newNetwork(t, rng, nodes, rng.Int64N(60))
			n.loss = rng.IntN(40)
			for tick := range 2000 {
				i := rng.IntN(nodes)
				switch rng.IntN(60) {
				case 0:
					n.nodes[i].part = rng.IntN(2)
				case 1:
					for _, m := range n.nodes {
						m.part = 0
					}
				case 2:
					n.nodes[i].paused = n.now.Add(time.Duration(rng.IntN(20)) * time.Second)
				case 3:
					if rng.IntN(4) == 0 {
						n.start(i, true)
					}
				case 4, 5:
					n.nodes[i].want = rng.Int64N(2 * (n.limit + 1))
					n.nodes[i].account.Want(n.nodes[i].want)
				}
				n.step(tick)
			}
		})
	}
}

// All the load is on one node, and then on another. It has the whole limit within
// seconds; the naive twin divides with perfect knowledge.
func TestSharesFollowDemand(t *testing.T) {
	n := newNetwork(t, rand.New(rand.NewPCG(1, 1)), 3, 20)
	for _, c := range []struct {
		wants   []int64
		seconds int
	}{
		{[]int64{100, 0, 0}, 5}, {[]int64{0, 100, 0}, 4}, {[]int64{100, 100, 100}, 4},
		{[]int64{5, 30, 2}, 15}, {[]int64{0, 0, 0}, 5}, {[]int64{0, 0, 20}, 15},
	} {
		n.wants(c.wants...)
		for tick := range 10 * c.seconds {
			n.step(tick)
		}
		twin := Targets(n.nodes[0].account.floors, c.wants)
		want := int64(0)
		for i, share := range twin {
			want += min(share, c.wants[i])
			if got := n.nodes[i].used; got != min(share, c.wants[i]) {
				t.Errorf("wants %v: node %d uses %d, want %d", c.wants, i, got, min(share, c.wants[i]))
			}
		}
		if n.used() != want {
			t.Errorf("wants %v: %d are used, want %d", c.wants, n.used(), want)
		}
	}
}

// A node is cut off. It has its floor after the term, whatever it lent; the others have
// theirs; and when the partition ends, all is as before.
func TestPartitionLeavesFloors(t *testing.T) {
	n := newNetwork(t, rand.New(rand.NewPCG(1, 1)), 4, 40)
	run := func(seconds int) {
		for tick := range 10 * seconds {
			n.step(tick)
		}
	}
	n.wants(100, 0, 0, 0)
	run(5)
	if n.nodes[0].used != 40 {
		t.Fatalf("%d of 40 are used", n.nodes[0].used)
	}
	n.nodes[3].part = 1
	n.wants(100, 0, 0, 100)
	run(15)
	if n.nodes[0].used != 30 || n.nodes[3].used != 10 {
		t.Errorf("cut off: %d and %d are used, want 30 and 10", n.nodes[0].used, n.nodes[3].used)
	}
	for i, m := range n.nodes {
		m.part = i
	}
	n.wants(100, 100, 100, 100)
	run(15)
	for i, m := range n.nodes {
		if m.used != 10 || m.account.Floor() != 10 {
			t.Errorf("alone, node %d uses %d, its floor is %d", i, m.used, m.account.Floor())
		}
	}
	for _, m := range n.nodes {
		m.part = 0
	}
	n.wants(0, 0, 100, 0)
	run(5)
	if n.nodes[2].used != 40 {
		t.Errorf("together again: %d of 40 are used", n.nodes[2].used)
	}
}

// A node that was killed may have lent its floor. It gets it back when that is over.
func TestRestartedLender(t *testing.T) {
	n := newNetwork(t, rand.New(rand.NewPCG(1, 1)), 2, 10)
	n.wants(10, 0)
	for tick := range 50 {
		n.step(tick)
	}
	n.start(1, true)
	n.wants(10, 10)
	n.step(0)
	if share := n.nodes[1].account.Share(n.clock(1)); share != 0 {
		t.Errorf("it has %d at once, though all was lent", share)
	}
	for tick := range 150 {
		n.step(tick)
	}
	if n.nodes[0].used != 5 || n.nodes[1].used != 5 {
		t.Errorf("later %d and %d are used, want 5 each", n.nodes[0].used, n.nodes[1].used)
	}
}

// two returns two accounts of one limit that hear each other when the test lets them.
func two(t *testing.T, limit int64) (a, b *Account) {
	t.Helper()
	cfg := Config{Key: "site", Limit: limit, Nodes: []string{"a", "b"}, Incarnation: 1}
	for _, c := range []struct {
		self    string
		account **Account
	}{{"a", &a}, {"b", &b}} {
		var err error
		cfg.Self = c.self
		if *c.account, err = New(cfg, 1); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// A borrower still uses what its lender wants back. It says so by its silence, and the
// lender waits: with both using their shares, the limit holds.
func TestGivenBackWhenUnused(t *testing.T) {
	a, b := two(t, 10)
	now := mail.Instant(time.Hour)
	b.Want(10)
	a.Hear(b.Say(now), now)
	b.Hear(a.Say(now), now)
	if b.Share(now) != 10 || a.Share(now) != 0 {
		t.Fatalf("shares of %d and %d, want 0 and 10", a.Share(now), b.Share(now))
	}
	b.Use(10)
	a.Want(10)
	for range 3 {
		now = now.Add(time.Second)
		a.Hear(b.Say(now), now)
		b.Hear(a.Say(now), now)
	}
	if a.Share(now) != 0 {
		t.Errorf("the lender has %d while the borrower uses 10 of 10", a.Share(now))
	}
	b.Use(5)
	for range 2 {
		now = now.Add(time.Second)
		a.Hear(b.Say(now), now)
		b.Hear(a.Say(now), now)
	}
	a.Hear(b.Say(now), now)
	if a.Share(now) != 5 || b.Share(now) != 5 {
		t.Errorf("shares of %d and %d, want 5 each", a.Share(now), b.Share(now))
	}
}

// A loan for what the node was before it was killed is not for it: its stamp is of
// another clock.
func TestLoanOfAnEarlierStart(t *testing.T) {
	a, b := two(t, 10)
	now := mail.Instant(time.Hour)
	b.Want(10)
	a.Hear(b.Say(now), now)
	loan := a.Say(now)
	again, err := New(Config{Key: "site", Limit: 10, Nodes: []string{"a", "b"}, Self: "b", Incarnation: 2}, now)
	if err != nil {
		t.Fatal(err)
	}
	again.Hear(loan, now)
	if share := again.Share(now); share != 5 {
		t.Errorf("it has %d, want its floor of 5", share)
	}
}

// What cannot be divided is said at the start.
func TestNew(t *testing.T) {
	for _, cfg := range []Config{
		{Nodes: []string{"a"}, Self: "b"}, {Nodes: []string{"a", "a"}, Self: "a"},
		{Nodes: []string{"a"}, Self: "a", Limit: -1}, {Nodes: []string{"a"}, Self: "a", Limit: LimitMax + 1},
		{Nodes: []string{"a"}, Self: "a", Term: time.Millisecond},
	} {
		if _, err := New(cfg, 1); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}
