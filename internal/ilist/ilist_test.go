package ilist

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type node struct {
	name int
	a, b Link[node]
}

func names(l *List[node]) []int {
	out := []int{}
	for n := range l.All() {
		out = append(out, n.name)
	}
	return out
}

// The scheduler keeps every job on two lists at once, in different orders:
// what is done to one must not show in the other.
func TestElementOnTwoLists(t *testing.T) {
	var first, second List[node]
	nodes := make([]node, 4)
	for i := range nodes {
		n := &nodes[i]
		n.name = i
		first.PushBack(&n.a, n)
		second.PushFront(&n.b, n)
	}
	first.Remove(&nodes[1].a)
	second.MoveToBack(&nodes[3].b)
	second.MoveToFront(&nodes[0].b)
	first.Check()
	second.Check()
	if got, want := names(&first), []int{0, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("first list %v, want %v", got, want)
	}
	if got, want := names(&second), []int{0, 2, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("second list %v, want %v", got, want)
	}
	if nodes[1].a.Listed() || !nodes[1].b.Listed() || !nodes[1].b.On(&second) || nodes[1].b.On(&first) {
		t.Error("membership of a removed element is wrong")
	}
	if got := first.PopFront(); got != &nodes[0] {
		t.Errorf("PopFront gave %v", got)
	}
	if first.Front() != &nodes[2] || first.Back() != &nodes[3] || first.Prev(&nodes[3].a) != &nodes[2] ||
		first.Next(&nodes[3].a) != nil || first.Prev(&nodes[2].a) != nil {
		t.Error("neighbours are wrong after PopFront")
	}
}

// The zero list is empty; asking it for elements is not a mistake.
func TestZeroList(t *testing.T) {
	var l List[node]
	if l.Front() != nil || l.Back() != nil || l.PopFront() != nil || l.Len() != 0 || !l.Empty() {
		t.Error("the zero list is not empty")
	}
	l.Check()
}

// Draining a list from inside its iterator is how jobs are retired.
func TestRemoveWhileIterating(t *testing.T) {
	var l List[node]
	nodes := make([]node, 5)
	for i := range nodes {
		nodes[i].name = i
		l.PushBack(&nodes[i].a, &nodes[i])
	}
	for n := range l.All() {
		if n.name%2 == 0 {
			l.Remove(&n.a)
		}
	}
	if got, want := names(&l), []int{1, 3}; !slices.Equal(got, want) {
		t.Fatalf("left %v, want %v", got, want)
	}
	for n := range l.Backward() {
		l.Remove(&n.a)
		if n.name == 3 {
			break
		}
	}
	if got, want := names(&l), []int{1}; !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

// Misuse must be caught where it happens: afterwards both lists look sound
// and the queue is simply missing mail.
func TestMisusePanics(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(l, other *List[node], on, off *node)
	}{
		{"insert twice", func(l, _ *List[node], on, _ *node) { l.PushBack(&on.a, on) }},
		{"insert on second list", func(_, other *List[node], on, _ *node) { other.PushFront(&on.a, on) }},
		{"insert nil", func(l, _ *List[node], _, off *node) { l.PushBack(&off.a, nil) }},
		{"remove from wrong list", func(_, other *List[node], on, _ *node) { other.Remove(&on.a) }},
		{"remove unlisted", func(l, _ *List[node], _, off *node) { l.Remove(&off.a) }},
		{"next of unlisted", func(l, _ *List[node], _, off *node) { l.Next(&off.a) }},
		{"prev on wrong list", func(_, other *List[node], on, _ *node) { other.Prev(&on.a) }},
		{"insert before unlisted", func(l, _ *List[node], _, off *node) { l.InsertBefore(&off.b, off, &off.a) }},
		{"insert after unlisted", func(l, _ *List[node], _, off *node) { l.InsertAfter(&off.b, off, &off.a) }},
		{"next one removed in loop", func(l, _ *List[node], on, off *node) {
			l.PushBack(&off.a, off)
			for range l.All() {
				l.Remove(&off.a)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l, other List[node]
			var on, off node
			l.PushBack(&on.a, &on)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			tc.do(&l, &other, &on, &off)
		})
	}
}

// The naive twin is a slice: after every random operation the list must hold
// the same elements in the same order.
func TestAgainstSlice(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		var l List[node]
		var twin []int
		nodes := make([]node, 12)
		for range 100 {
			i := r.IntN(len(nodes))
			n := &nodes[i]
			n.name = i
			at := slices.Index(twin, i)
			if at < 0 {
				twin = insertSomewhere(r, &l, twin, nodes, n)
			} else {
				twin = slices.Delete(twin, at, at+1)
				switch r.IntN(3) {
				case 0:
					l.Remove(&n.a)
				case 1:
					l.MoveToBack(&n.a)
					twin = append(twin, i)
				case 2:
					l.MoveToFront(&n.a)
					twin = slices.Insert(twin, 0, i)
				}
			}
			l.Check()
			if got := names(&l); !slices.Equal(got, twin) || l.Len() != len(twin) {
				t.Fatalf("seed %d: list %v (Len %d), want %v", seed, got, l.Len(), twin)
			}
		}
	}
}

func insertSomewhere(r *rand.Rand, l *List[node], twin []int, nodes []node, n *node) []int {
	how := r.IntN(4)
	if len(twin) == 0 {
		how %= 2
	}
	switch how {
	case 0:
		l.PushBack(&n.a, n)
		return append(twin, n.name)
	case 1:
		l.PushFront(&n.a, n)
		return slices.Insert(twin, 0, n.name)
	}
	at := r.IntN(len(twin))
	mark := &nodes[twin[at]].a
	if how == 2 {
		l.InsertBefore(&n.a, n, mark)
		return slices.Insert(twin, at, n.name)
	}
	l.InsertAfter(&n.a, n, mark)
	return slices.Insert(twin, at+1, n.name)
}

// The selection loop rotates lists for every entry: nothing may be allocated.
func TestNoAllocations(t *testing.T) {
	var l List[node]
	nodes := make([]node, 8)
	allocs := testing.AllocsPerRun(100, func() {
		for i := range nodes {
			l.PushBack(&nodes[i].a, &nodes[i])
		}
		sum := 0
		for n := range l.All() {
			sum += n.name
		}
		for !l.Empty() {
			l.PopFront()
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}

func BenchmarkRotate(b *testing.B) {
	var l List[node]
	nodes := make([]node, 1000)
	for i := range nodes {
		l.PushBack(&nodes[i].a, &nodes[i])
	}
	b.ReportAllocs()
	for b.Loop() {
		l.MoveToBack(&l.Front().a)
	}
}

func BenchmarkIterate1000(b *testing.B) {
	var l List[node]
	nodes := make([]node, 1000)
	for i := range nodes {
		l.PushBack(&nodes[i].a, &nodes[i])
	}
	b.ReportAllocs()
	for b.Loop() {
		for n := range l.All() {
			n.name++
		}
	}
}
