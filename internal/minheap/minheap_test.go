package minheap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct {
	key, seq int
	slot     Slot
	other    Slot
}

type byKey struct{}

func (byKey) Before(a, b *item) bool { return a.key < b.key || a.key == b.key && a.seq < b.seq }
func (byKey) Slot(i *item) *Slot     { return &i.slot }

type bySeq struct{}

func (bySeq) Before(a, b *item) bool { return a.seq < b.seq }
func (bySeq) Slot(i *item) *Slot     { return &i.other }

// The naive twin is a sorted slice: after every random operation the heap's
// first element is the slice's, and in the end all come out in its order.
// Keys are few, so that ties are common and the sequence number decides.
func TestAgainstSortedSlice(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for round := range 300 {
		var h Heap[item, byKey]
		var twin []*item
		for step := range 120 {
			switch op := r.IntN(5); {
			case op < 2 || len(twin) == 0:
				it := &item{key: r.IntN(10), seq: step}
				h.Push(it)
				twin = append(twin, it)
			case op == 2:
				i := r.IntN(len(twin))
				h.Remove(twin[i])
				if h.Has(twin[i]) || twin[i].slot.Heaped() {
					t.Fatalf("seed %d round %d: a removed element is still in the heap", seed, round)
				}
				twin = slices.Delete(twin, i, i+1)
			case op == 3:
				it := twin[r.IntN(len(twin))]
				it.key = r.IntN(10)
				h.Fix(it)
			case op == 4:
				if got := h.PopMin(); got != twin[0] {
					t.Fatalf("seed %d round %d: PopMin gave %v, want %v", seed, round, got, twin[0])
				}
				twin = twin[1:]
			}
			slices.SortFunc(twin, func(a, b *item) int { return a.key*1000 + a.seq - b.key*1000 - b.seq })
			h.Check()
			all := slices.SortedFunc(h.All(), func(a, b *item) int { return a.key*1000 + a.seq - b.key*1000 - b.seq })
			if !slices.Equal(all, twin) {
				t.Fatalf("seed %d round %d step %d: All has %d elements, want those of the twin", seed, round, step, len(all))
			}
			if h.Len() != len(twin) || len(twin) > 0 && (h.Min() != twin[0] || !h.Has(twin[0])) {
				t.Fatalf("seed %d round %d step %d: the first of %d is not the first of %d", seed, round, step, h.Len(), len(twin))
			}
		}
		for _, want := range twin {
			if got := h.PopMin(); got != want {
				t.Fatalf("seed %d round %d: drained %v, want %v", seed, round, got, want)
			}
		}
		if h.Min() != nil || h.PopMin() != nil {
			t.Fatalf("seed %d round %d: something is left", seed, round)
		}
	}
}

// A destination may wait in two heaps under different orders; each slot
// belongs to one of them.
func TestTwoHeaps(t *testing.T) {
	var keys Heap[item, byKey]
	var seqs Heap[item, bySeq]
	items := []item{{key: 3, seq: 1}, {key: 1, seq: 2}, {key: 2, seq: 3}}
	for i := range items {
		keys.Push(&items[i])
		seqs.Push(&items[i])
	}
	keys.Remove(&items[0])
	if keys.Has(&items[0]) || !seqs.Has(&items[0]) || keys.Min() != &items[1] || seqs.Min() != &items[0] {
		t.Error("the two heaps are not independent")
	}
}

// A timer that is armed twice or cancelled in the wrong heap is a bug of
// ours, and must be caught before the heap is corrupt.
func TestMisusePanics(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(h, other *Heap[item, byKey], in, out *item)
	}{
		{"push twice", func(h, _ *Heap[item, byKey], in, _ *item) { h.Push(in) }},
		{"push on second heap", func(_, other *Heap[item, byKey], in, _ *item) { other.Push(in) }},
		{"remove absent", func(h, _ *Heap[item, byKey], _, out *item) { h.Remove(out) }},
		{"remove from wrong heap", func(_, other *Heap[item, byKey], in, out *item) { other.Push(out); other.Remove(in) }},
		{"fix absent", func(h, _ *Heap[item, byKey], _, out *item) { h.Fix(out) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h, other Heap[item, byKey]
			in, out := &item{key: 1}, &item{key: 2}
			h.Push(in)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			tc.do(&h, &other, in, out)
		})
	}
}

// Timers are armed and disarmed for every delivery.
func TestNoAllocationsInSteadyState(t *testing.T) {
	var h Heap[item, byKey]
	items := make([]item, 100)
	for i := range items {
		items[i] = item{key: i * 7919 % 101, seq: i}
		h.Push(&items[i])
	}
	allocs := testing.AllocsPerRun(100, func() {
		e := h.PopMin()
		e.key += 37
		h.Push(e)
		h.Fix(e)
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}

func BenchmarkReplaceMin100k(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Heap[item, byKey]
	for i := range 100_000 {
		h.Push(&item{key: r.IntN(1 << 30), seq: i})
	}
	b.ReportAllocs()
	for b.Loop() {
		e := h.Min()
		e.key += r.IntN(1 << 30)
		h.Fix(e)
	}
}

func BenchmarkPushRemove100k(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Heap[item, byKey]
	for i := range 100_000 {
		h.Push(&item{key: r.IntN(1 << 30), seq: i})
	}
	e := &item{seq: 1 << 20}
	b.ReportAllocs()
	for b.Loop() {
		e.key = r.IntN(1 << 30)
		h.Push(e)
		h.Remove(e)
	}
}
