package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// A twin is the definition of the order: it forgets nothing as long as anybody competes,
// looks at everything for each answer, and counts credits from the history of all turns.
type twin struct {
	rules   *Rules
	root    twinNode
	rank    int
	history []string // the class of each turn
	since   []twinCredit
}

type twinNode struct {
	name     string
	level    Level
	up       *twinNode
	children []*twinNode // all that have been here since the node had none that is active
	leaf     *Leaf
	active   bool
	sparse   bool
	tag, now int64
	rank     int
}

// A twinCredit is what a strict class had after some number of turns.
type twinCredit struct {
	class  string
	share  int
	credit int
	turns  int
}

func (w *twin) find(p Path) *twinNode {
	n := &w.root
	for i, name := range []string{p.Class, p.Tenant, p.Flow} {
		at := slices.IndexFunc(n.children, func(c *twinNode) bool { return c.name == name })
		if at < 0 {
			at = len(n.children)
			n.children = append(n.children, &twinNode{name: name, up: n, level: Level(i + 1)})
		}
		n = n.children[at]
	}
	return n
}

func (w *twin) step(n *twinNode) int64 {
	weight := w.rules.weight(n.level, n.name)
	return (2*unit/int64(weight) + 1) / 2
}

func (w *twin) join(l *Leaf, p Path) {
	n := w.find(p)
	n.leaf = l
	for ; n.up != nil && !n.active; n = n.up {
		n.active = true
		n.tag = max(n.tag, n.up.now)
		n.sparse = n.tag == n.up.now
		w.rank++
		n.rank = w.rank
	}
}

func (w *twin) leave(p Path) {
	n := w.find(p)
	n.leaf = nil
	for ; n.up != nil; n = n.up {
		n.active = false
		if slices.ContainsFunc(n.up.children, func(c *twinNode) bool { return c.active }) {
			return
		}
		n.up.children, n.up.now = nil, 0
	}
}

func earlier(a, b *twinNode) bool {
	if a.tag != b.tag {
		return a.tag < b.tag
	}
	if a.sparse != b.sparse {
		return a.sparse
	}
	return a.rank < b.rank
}

// first returns the active child whose turn it is by weight, of those that may.
func (n *twinNode) first(may func(*twinNode) bool) (first *twinNode) {
	for _, c := range n.children {
		if c.active && may(c) && (first == nil || earlier(c, first)) {
			first = c
		}
	}
	return first
}

func anybody(*twinNode) bool { return true }

// credit counts, turn by turn, what a class has after all turns.
func (w *twin) credit(c twinCredit) int {
	for _, class := range w.history[c.turns:] {
		c.credit = min(c.credit+c.share, 100*c.share)
		if class == c.class {
			c.credit = max(c.credit-1000, 0)
		}
	}
	return c.credit
}

func (w *twin) next() *Leaf {
	n := w.root.first(func(n *twinNode) bool {
		i := slices.IndexFunc(w.since, func(c twinCredit) bool { return c.class == n.name })
		return i >= 0 && w.credit(w.since[i]) >= 1000
	})
	if n == nil {
		n = &w.root
	}
	for n.leaf == nil {
		if n = n.first(anybody); n == nil {
			return nil
		}
	}
	return n.leaf
}

func (w *twin) charge(p Path) {
	for n := w.find(p); n.up != nil; n = n.up {
		n.up.now = n.up.first(anybody).tag
		n.tag = n.up.now + w.step(n)
		n.sparse = false
		w.rank++
		n.rank = w.rank
	}
	w.history = append(w.history, p.Class)
}

func (w *twin) configure(r *Rules) {
	w.rules = r
	var since []twinCredit
	for _, c := range r.Classes {
		if c.Strict {
			s := twinCredit{class: c.Name, share: c.maxShare(), credit: 100 * c.maxShare(), turns: len(w.history)}
			if i := slices.IndexFunc(w.since, func(c twinCredit) bool { return c.class == s.class }); i >= 0 {
				s.credit = min(s.credit, w.credit(w.since[i]))
			}
			since = append(since, s)
		}
	}
	w.since = since
	w.lighten(&w.root)
}

func (w *twin) lighten(n *twinNode) {
	for _, c := range n.children {
		c.tag = min(c.tag, n.now+w.step(c))
		w.lighten(c)
	}
}

// A source draws numbers, from a generator or from a fuzzer's bytes.
type source func(n int) int

func anyRules(draw source) *Rules {
	weights := []int{1, 1, 1, 2, 3, 7, 64, 999, 1000}
	weight := func() int { return weights[draw(len(weights))] }
	r := &Rules{Tenants: map[string]int{}, Flows: map[string]int{}}
	for i := range 1 + draw(3) {
		c := Class{Name: fmt.Sprint("c", i), Weight: weight()}
		if draw(4) == 0 {
			c.Strict, c.MaxShare = true, []int{10, 99, 300}[draw(3)]
		}
		r.Classes = append(r.Classes, c)
	}
	r.Tenants["t1"], r.Flows["f1"], r.Flows["f2"] = weight(), weight(), weight()
	return r
}

// A flow is a leaf and its path.
type flow struct {
	Leaf
	path Path
}

// compare makes random changes of an Order and its twin, which must agree after each.
func compare(t *testing.T, draw source, steps int) {
	t.Helper()
	var o Order
	w := twin{}
	flows := make([]flow, 3*3*5)
	for i := range flows {
		f := &flows[i]
		f.Owner = f
		f.path = Path{fmt.Sprint("c", i%3), fmt.Sprint("t", i/3%3), fmt.Sprint("f", i/9)}
	}
	few := 1 + draw(len(flows))
	for step := range steps {
		f := &flows[draw(few)]
		switch op := draw(32); {
		case op == 0:
			r := anyRules(draw)
			if err := r.Validate(); err != nil {
				t.Fatal(err)
			}
			o.Configure(r)
			w.configure(r)
		case op < 12:
			if f.Joined() {
				o.Leave(&f.Leaf)
				w.leave(f.path)
			} else {
				o.Join(&f.Leaf, f.path)
				w.join(&f.Leaf, f.path)
			}
		case op < 14 && f.Joined():
			o.Serve(&f.Leaf)
			w.charge(f.path)
		default:
			if l := o.Next(); l != nil {
				if op == 14 {
					o.Forfeit(l)
				} else {
					o.Serve(l)
				}
				w.charge(l.Owner.(*flow).path)
			}
		}
		o.Check()
		if got, want := o.Next(), w.next(); got != want {
			t.Fatalf("step %d: it is the turn of %v, want %v", step, name(got), name(want))
		}
		if joined := slices.ContainsFunc(flows, func(f flow) bool { return f.Joined() }); joined != (o.Next() != nil) {
			t.Fatalf("step %d: a leaf is joined: %t, and it is the turn of %v", step, joined, name(o.Next()))
		}
	}
	for i := range flows {
		if flows[i].Joined() {
			o.Leave(&flows[i].Leaf)
		}
	}
	if o.Check(); len(o.nodes) != 0 || o.root.group != nil {
		t.Fatalf("%d nodes are left when all leaves have left", len(o.nodes))
	}
}

func name(l *Leaf) any {
	if l == nil {
		return "no leaf"
	}
	return l.Owner.(*flow).path
}

// Whatever happens, it is the turn of the same leaf as by the definition, and there is one as
// long as a leaf is joined (work-conserving). The definition forgets nothing that the Order
// may forget, so what is forgotten in time is of no consequence.
func TestTurnsAreThoseOfTheDefinition(t *testing.T) {
	for range 10 * golden.Runs(2) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		t.Logf("seed %d", seed)
		compare(t, rng.IntN, 400)
	}
}

func FuzzTurns(f *testing.F) {
	f.Add([]byte("some operations, drawn from bytes"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		i := 0
		compare(t, func(n int) int {
			if i == len(ops) {
				return 0
			}
			i++
			return int(ops[i-1]) % n
		}, min(len(ops), 1000))
	})
}
