package fair

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// A watch has what has happened to one active node since it became active.
type watch struct {
	v       View
	parent  Path
	always  bool
	others  map[Path]int64 // services of each sibling since its own latest, or since it joined
	earlier int            // sparse siblings that came before it and were not served yet; -1 if it is not sparse
}

// A bounds checks the bounds of the package comment while an Order gives each service to
// Next.
type bounds struct {
	t      *testing.T
	o      *Order
	nodes  map[Path]*watch
	always map[Path]bool // the nodes that never leave
	gap    map[[2]Path]*[3]int64
}

// at returns the part of a path down to a level, in a form that differs for all levels.
func at(p Path, l Level) Path {
	switch l {
	case LevelClass:
		return Path{Class: p.Class}
	case LevelTenant:
		return Path{Class: p.Class, Tenant: p.Tenant}
	case LevelFlow:
		return p
	}
	return Path{}
}

func stepOf(w *watch) int64 { return (unit + int64(w.v.Weight)/2) / int64(w.v.Weight) }

// refresh notes who has become active or idle.
func (b *bounds) refresh() {
	b.o.Check()
	now := make(map[Path]View)
	for _, v := range b.o.All() {
		now[v.Path] = v
	}
	for p := range b.nodes {
		if _, ok := now[p]; !ok {
			delete(b.nodes, p)
		}
	}
	var fresh []*watch
	for p, v := range now {
		if w := b.nodes[p]; w != nil {
			w.v = v
			continue
		}
		fresh = append(fresh, &watch{v: v, parent: at(p, v.Level-1), always: b.always[p], others: map[Path]int64{}, earlier: -1})
	}
	for _, w := range fresh { // one for each level at most
		if w.v.Sparse {
			w.earlier = 0
			for _, s := range b.nodes {
				if s.v.Level == w.v.Level && s.parent == w.parent && s.v.Sparse {
					w.earlier++
				}
			}
		}
	}
	for _, w := range fresh {
		b.nodes[w.v.Path] = w
	}
}

func (b *bounds) serve(forfeit bool) {
	l := b.o.Next()
	if l == nil {
		return
	}
	p := l.Owner.(*flow).path
	if forfeit {
		b.o.Forfeit(l)
	} else {
		b.o.Serve(l)
	}
	for level := LevelClass; level <= LevelFlow; level++ {
		served := b.nodes[at(p, level)]
		for _, w := range b.nodes {
			if w == served || w.v.Level != level || w.parent != served.parent {
				continue
			}
			b.wait(w, served)
			if w.always && served.always {
				b.pair(served, w)
			}
		}
		served.earlier = -1
		clear(served.others)
	}
	b.refresh()
}

// wait checks (b) and (d): what a node sees of a sibling's services while it waits.
func (b *bounds) wait(w, served *watch) {
	if w.earlier >= 0 {
		if w.earlier--; w.earlier < 0 {
			b.t.Fatalf("%v is sparse and waits for %v, which did not come before it as sparse", w.v.Path, served.v.Path)
		}
	}
	w.others[served.v.Path]++
	limit := stepOf(w)/stepOf(served) + 1
	if served.always {
		limit = (stepOf(w) + stepOf(served) - 1) / stepOf(served)
	}
	if n := w.others[served.v.Path]; n > limit {
		b.t.Fatalf("%v of weight %d waits for %d services of %v of weight %d, want %d at most",
			w.v.Path, w.v.Weight, n, served.v.Path, served.v.Weight, limit)
	}
}

// pair checks (a): over any interval, so the difference of the normalized services moves
// between values that are no farther apart than the bound.
func (b *bounds) pair(served, other *watch) {
	k, sign := [2]Path{served.v.Path, other.v.Path}, int64(1)
	if g := b.gap[[2]Path{k[1], k[0]}]; g != nil {
		k, sign = [2]Path{k[1], k[0]}, -1
	}
	g := b.gap[k]
	if g == nil {
		g = &[3]int64{}
		b.gap[k] = g
	}
	g[0] += sign * stepOf(served)
	g[1], g[2] = min(g[1], g[0]), max(g[2], g[0])
	limit := stepOf(served) + stepOf(other)
	if served.v.Weight == other.v.Weight {
		limit = stepOf(served)
	}
	if g[2]-g[1] > limit {
		b.t.Fatalf("%v and %v of weights %d and %d differ by %d, want %d at most", k[0], k[1], served.v.Weight, other.v.Weight, g[2]-g[1], limit)
	}
}

// Some flows always have mail, others come and go, however few idle ones are remembered:
// bounds (a), (b) and (d) of the package comment hold for flows, tenants and classes.
func TestBounds(t *testing.T) {
	for range 2 * golden.Runs(2) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		t.Logf("seed %d", seed)
		r := anyRules(rng.IntN)
		for i := range r.Classes {
			r.Classes[i].Strict = false
		}
		r.Memory = []int{1, 2, 5, 0}[rng.IntN(4)]
		var o Order
		o.Configure(r)
		b := bounds{t: t, o: &o, nodes: map[Path]*watch{}, always: map[Path]bool{}, gap: map[[2]Path]*[3]int64{}}
		flows := make([]flow, 2*2*6)
		for i := range flows {
			f := &flows[i]
			f.Owner = f
			f.path = Path{fmt.Sprint("c", i%2), fmt.Sprint("t", i/2%2), fmt.Sprint("f", i/4)}
			if i < 12 && rng.IntN(2) == 0 {
				for l := LevelClass; l <= LevelFlow; l++ {
					b.always[at(f.path, l)] = true
				}
			}
		}
		for i := range flows {
			if b.always[flows[i].path] {
				o.Join(&flows[i].Leaf, flows[i].path)
				b.refresh()
			}
		}
		for range 500 {
			f := &flows[rng.IntN(len(flows))]
			switch {
			case rng.IntN(2) == 0:
				b.serve(rng.IntN(20) == 0)
			case b.always[f.path]:
			case f.Joined():
				o.Leave(&f.Leaf)
				b.refresh()
			default:
				o.Join(&f.Leaf, f.path)
				b.refresh()
			}
		}
	}
}

// The answer for "when is it my turn" must never be too early, or an operator relies on a wrong one;
// among the flows of one tenant it is exact. Strict classes count, too.
func TestWaitIsABound(t *testing.T) {
	for range golden.Runs(30) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		t.Logf("seed %d", seed)
		var o Order
		o.Configure(anyRules(rng.IntN))
		classes := 1 + rng.IntN(3)
		flows := make([]flow, 1+rng.IntN(14))
		for i := range flows {
			f := &flows[i]
			f.Owner = f
			f.path = Path{fmt.Sprint("c", i%classes), fmt.Sprint("t", i%(2*classes-1)), fmt.Sprint("f", i)}
		}
		for range 60 {
			switch f := &flows[rng.IntN(len(flows))]; {
			case rng.IntN(3) > 0 && o.Next() != nil:
				o.Serve(o.Next())
			case f.Joined():
				o.Leave(&f.Leaf)
			default:
				o.Join(&f.Leaf, f.path)
			}
		}
		waits := make(map[*Leaf]int)
		for i := range flows {
			if f := &flows[i]; f.Joined() {
				waits[&f.Leaf] = o.Wait(&f.Leaf)
			}
		}
		leaves := len(waits) > 0 && rng.IntN(2) == 0
		exact := classes == 1 && !leaves && len(o.strict) == 0
		for turn := 0; len(waits) > 0; turn++ {
			l := o.Next()
			if wait, ok := waits[l]; ok && (turn > wait || exact && turn != wait) {
				t.Fatalf("seed %d: %v waits for %d services, want %d", seed, name(l), turn, wait)
			}
			delete(waits, l)
			o.Serve(l)
			if _, waiting := waits[l]; leaves && !waiting && len(waits) > 0 {
				o.Leave(l)
			}
			for l, wait := range waits {
				if turn > wait {
					t.Fatalf("seed %d: %v has waited for %d services, want %d", seed, name(l), turn, wait)
				}
			}
		}
	}
}

// Among very many siblings the answer is a bound that is not much too large.
func TestWaitAmongMany(t *testing.T) {
	for range golden.Runs(10) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		r := Rules{Flows: map[string]int{}}
		var o Order
		flows := make([]flow, siblingsMax-1+rng.IntN(300))
		weights := 0
		for i := range flows {
			f := &flows[i]
			f.Owner, f.path = f, Path{"c", "t", fmt.Sprint("f", i)}
			r.Flows[f.path.Flow] = 1 + rng.IntN(weightMax)>>rng.IntN(10)
			weights += r.Flows[f.path.Flow]
			o.Join(&f.Leaf, f.path)
		}
		var tenant flow
		if rng.IntN(2) == 0 {
			o.Join(&tenant.Leaf, Path{"c", "other", "f"})
		}
		o.Configure(&r)
		for range rng.IntN(3 * len(flows)) {
			o.Serve(o.Next())
		}
		f := &flows[rng.IntN(len(flows))]
		wait, n := o.Wait(&f.Leaf), 0
		for ; o.Next() != &f.Leaf; n++ {
			o.Serve(o.Next())
		}
		if n > wait || wait > 3*(len(flows)+weights/r.Flows[f.path.Flow])+5 {
			t.Errorf("seed %d: one of %d waits for %d services, the answer is %d", seed, len(flows), n, wait)
		}
	}
}

// The bound among very many is the sum of the weights, and one service for each; up to that number it is
// exact. A sibling that is far ahead does not count.
func TestWaitExactly(t *testing.T) {
	for n, want := range map[int]int{siblingsMax: siblingsMax - 1, siblingsMax + 1: 2*siblingsMax + 1, 301: 601} {
		var o Order
		flows := make([]flow, n)
		for i := range flows {
			o.Join(&flows[i].Leaf, Path{"c", "t", fmt.Sprint("f", i)})
		}
		o.Serve(&flows[0].Leaf)
		if got := o.Wait(&flows[0].Leaf); got != want {
			t.Errorf("one of %d that was served first waits for %d services, want %d", n, got, want)
		}
	}
	var o Order
	o.Configure(&Rules{Tenants: map[string]int{"heavy": weightMax}})
	var first, second, other flow
	o.Join(&other.Leaf, Path{"c", "light", "f"})
	o.Serve(&other.Leaf)
	o.Join(&first.Leaf, Path{"c", "heavy", "f"})
	o.Join(&second.Leaf, Path{"c", "heavy", "g"})
	if got := o.Wait(&second.Leaf); got != 1 {
		t.Errorf("the second flow of a heavy tenant waits for %d services, want that of the first", got)
	}
}

// A wait that is too long for anybody is not computed to its end.
func TestLongestWait(t *testing.T) {
	r := Rules{Tenants: map[string]int{}, Flows: map[string]int{}}
	var o Order
	var l Leaf
	o.Join(&l, Path{"c", "t", "f"})
	leaves := make([]Leaf, 2400)
	for i := range leaves {
		name := fmt.Sprint(i)
		r.Tenants[name], r.Flows[name] = weightMax, weightMax
		p := Path{"c", name, "f"}
		if i%2 == 0 {
			p = Path{"c", "t", name}
		}
		o.Join(&leaves[i], p)
	}
	o.Configure(&r)
	for o.Next() != &l {
		o.Serve(o.Next())
	}
	o.Serve(&l)
	if got := o.Wait(&l); got != waitMax {
		t.Errorf("the last of many waits for %d services, want %d", got, waitMax)
	}
}

// An attacker who uses each sender once always has something with nothing to pay. Beside
// another tenant that does not help him. Within his own tenant he delays a backlogged flow
// by what is remembered, and what he has waiting at the same time, and no more.
func TestInventedFlows(t *testing.T) {
	for _, tc := range []struct {
		tenant  string
		memory  int
		waiting int
		wait    int // for services of others between two of the honest flow, at most
	}{
		{"other", 0, 50, 1},
		{"same", 0, 1, memoryDefault/2 + 2},
		{"same", 0, 300, memoryDefault/2 + 301},
		{"same", 100, 20, 50 + 21},
		{"same", 1, 1, 1 + 2},
	} {
		var o Order
		o.Configure(&Rules{Memory: tc.memory})
		honest := &flow{path: Path{"c", "same", "honest"}}
		honest.Owner = honest
		o.Join(&honest.Leaf, honest.path)
		invented, served, wait, most := 0, 0, 0, 0
		invent := func() {
			f := &flow{path: Path{"c", tc.tenant, fmt.Sprint("f", invented)}}
			f.Owner = f
			o.Join(&f.Leaf, f.path)
			invented++
		}
		for range tc.waiting {
			invent()
		}
		turns := min(5*golden.Runs(1), 20) * memoryDefault
		for range turns {
			l := o.Next()
			o.Serve(l)
			wait++
			if l == &honest.Leaf {
				served, wait = served+1, 0
				continue
			}
			if wait > tc.wait {
				t.Fatalf("%+v: the honest flow waits for %d services", tc, wait)
			}
			o.Leave(l)
			most = max(most, o.debts)
			invent()
		}
		o.Check()
		if room := (o.rules.memory() + 1) / 2; tc.tenant == "same" && most != room {
			t.Errorf("%+v: %d were remembered, want %d", tc, most, room)
		}
		if least := turns / (tc.wait + 1); served < least {
			t.Errorf("%+v: the honest flow has got %d services, want %d", tc, served, least)
		}
	}
}

// A flood in many tenants takes each its part of the memory, and never more than there is.
func TestMemoryIsShared(t *testing.T) {
	var o Order
	o.Configure(&Rules{Memory: 100})
	var stay [4]flow
	for i := range stay {
		o.Join(&stay[i].Leaf, Path{"c", fmt.Sprint("t", i), "stays"})
	}
	for i := range 1000 {
		var f flow
		o.Join(&f.Leaf, Path{"c", fmt.Sprint("t", i%4), fmt.Sprint("f", i)})
		o.Serve(&f.Leaf)
		o.Leave(&f.Leaf)
		o.Check()
	}
	for i := range stay {
		if n := stay[i].node.parent.group.debtors.Len(); n != 20 {
			t.Errorf("tenant %d has %d debtors, want 20", i, n)
		}
	}
	small := flow{}
	o.Join(&small.Leaf, Path{"c", "small", "stays"})
	for i := range 5 {
		var f flow
		o.Join(&f.Leaf, Path{"c", "small", fmt.Sprint("f", i)})
		if _, _, v := o.View(&f.Leaf); !v.Sparse {
			t.Errorf("a new flow %d of a small tenant is not sparse beside a flood", i)
		}
		o.Serve(&f.Leaf)
		o.Leave(&f.Leaf)
	}
}

// What a crowd has needed is not kept when it has gone, whether it waited or was remembered.
func TestCrowdIsForgotten(t *testing.T) {
	for _, waits := range []bool{true, false} {
		var o Order
		var stays flow
		o.Join(&stays.Leaf, Path{"c", "t", "stays"})
		crowd := make([]flow, 2*smallMax)
		for i := range crowd {
			l := &crowd[i].Leaf
			if o.Join(l, Path{"c", "t", fmt.Sprint("f", i)}); !waits {
				o.Serve(l)
				o.Leave(l)
			}
		}
		for i := range crowd {
			if waits {
				o.Leave(&crowd[i].Leaf)
			}
		}
		last := flow{} // the next one comes when the crowd has gone
		o.Join(&last.Leaf, Path{"c", "t", "last"})
		o.Leave(&last.Leaf)
		o.Leave(&stays.Leaf)
		if list := o.All(); list != nil {
			t.Errorf("waits: %t: an empty order has %v", waits, list)
		}
		if o.Check(); o.nodes != nil || o.large || o.spareNodes.Len() != spareMax || o.spareGroups.Len() != 2 {
			t.Errorf("waits: %t: a map: %t; %d nodes, %d groups are kept, want %d and 2", waits, o.nodes != nil, o.spareNodes.Len(), o.spareGroups.Len(), spareMax)
		}
	}
}

// A strict class goes first for its maximum share of any number of turns, and a burst of
// that share of a hundred; leaving does not renew it, and the others get the rest.
func TestStrictShare(t *testing.T) {
	for range golden.Runs(20) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		share := shareMin + rng.IntN(shareMax-shareMin)
		var o Order
		o.Configure(&Rules{Classes: []Class{{Name: "first", Strict: true, MaxShare: share}, {Name: "other", Weight: 1000}}})
		first, other := flow{path: Path{Class: "first"}}, flow{path: Path{Class: "other"}}
		o.Join(&other.Leaf, other.path)
		excess, least := 0, 0 // services of first, less its share, in thousandths; and the smallest so far
		for turn := range 3000 {
			if rng.IntN(3) == 0 {
				if first.Joined() {
					o.Leave(&first.Leaf)
				} else {
					o.Join(&first.Leaf, first.path)
				}
				o.Check()
			}
			credit := o.strict[0].creditAt(o.turns)
			l := o.Next()
			if first.Joined() && credit >= serviceInCredit && l != &first.Leaf {
				t.Fatalf("seed %d, turn %d: the strict class is below its share, and not the first", seed, turn)
			}
			o.Serve(l)
			excess -= share
			if l == &first.Leaf && credit >= serviceInCredit {
				excess += 1000
			}
			least = min(least, excess)
			if excess-least > share*strictBurst {
				t.Fatalf("seed %d, turn %d: a strict class of %d per mille has %d thousandths of a service more than its share", seed, turn, share, excess-least)
			}
		}
	}
}
