package fair

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// crowd returns an Order with that many leaves joined, in classes and tenants of some.
func crowd(n, tenants int) (*Order, []flow) {
	o := &Order{}
	flows := make([]flow, n)
	for i := range flows {
		f := &flows[i]
		f.Owner = f
		f.path = Path{fmt.Sprint("class ", i%2), fmt.Sprint("tenant ", i%tenants), fmt.Sprint("sender", i, "@example.com")}
		o.Join(&f.Leaf, f.path)
	}
	return o, flows
}

// cycle is one service with everything around it: the leaf whose turn it is leaves after
// its service, and the one that left before comes back.
func cycle(o *Order, away *flow) *flow {
	l := o.Next()
	o.Serve(l)
	if away == nil { // there is only one
		o.Leave(l)
		o.Join(l, l.Owner.(*flow).path)
		return nil
	}
	o.Join(&away.Leaf, away.path)
	o.Leave(l)
	return l.Owner.(*flow)
}

// away takes a leaf out, if there are others.
func away(o *Order, flows []flow) *flow {
	if len(flows) == 1 {
		return nil
	}
	o.Leave(&flows[0].Leaf)
	return &flows[0]
}

func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		for _, tenants := range []int{1, 100} {
			if tenants > n {
				continue
			}
			o, flows := crowd(n, tenants)
			b.Run(fmt.Sprintf("served/leaves=%d/tenants=%d", n, tenants), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					o.Serve(o.Next())
				}
			})
			gone := away(o, flows)
			b.Run(fmt.Sprintf("cycle/leaves=%d/tenants=%d", n, tenants), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					gone = cycle(o, gone)
				}
			})
		}
	}
}

// BenchmarkDefinition is one turn by the definition, which looks at all.
func BenchmarkDefinition(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		w := twin{rules: &Rules{}}
		_, flows := crowd(n, min(n, 100))
		for i := range flows {
			w.join(&flows[i].Leaf, flows[i].path)
		}
		b.Run(fmt.Sprintf("leaves=%d", n), func(b *testing.B) {
			for b.Loop() {
				w.charge(w.next().Owner.(*flow).path)
				w.history = w.history[:0]
			}
		})
	}
}

// Nothing is allocated for a service, nor for leaving and joining again.
func TestNoAllocations(t *testing.T) {
	for _, n := range []int{1, 2, 100, 3000} {
		o, flows := crowd(n, 1+n/10)
		gone := away(o, flows)
		for range 4 * n {
			gone = cycle(o, gone)
		}
		allocs := testing.AllocsPerRun(2*n+1000, func() { gone = cycle(o, gone) })
		if allocs != 0 {
			t.Errorf("%d leaves: %v allocations for a service, want none", n, allocs)
		}
	}
}

// A remembered idle leaf takes 200 bytes at most: its node, its part of the map and of the
// heap. What grows by doubling is measured at its worst, just after it has grown.
func TestMemoryOfIdleLeaves(t *testing.T) {
	const n = 14_400 // a map with room for 16,384 at 7/8 has just doubled
	worst := uint64(0)
	sizes := []int{n, n + 200, 2 * n}
	if golden.Runs(0) == 0 {
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		var o Order
		o.Configure(&Rules{Memory: 4 * n})
		var stays flow
		o.Join(&stays.Leaf, Path{"c", "t", "stays"})
		o.Serve(&stays.Leaf)
		paths := make([]Path, n)
		for i := range paths {
			paths[i] = Path{"c", "t", fmt.Sprint("sender", i, "@example.com")}
		}
		before := live()
		for i := range paths {
			var f flow
			o.Join(&f.Leaf, paths[i])
			o.Serve(&f.Leaf)
			o.Leave(&f.Leaf)
		}
		after := live()
		if o.debts != n {
			t.Fatalf("%d are remembered, want %d", o.debts, n)
		}
		worst = max(worst, (after-before)/uint64(n))
		runtime.KeepAlive(paths)
		runtime.KeepAlive(&o)
	}
	t.Logf("%d bytes for each remembered leaf", worst)
	if worst > 200 {
		t.Errorf("%d bytes for each remembered leaf, want 200 at most", worst)
	}
}

func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
