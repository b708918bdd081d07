package assert_test

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
)

type pair struct{ a, b int }

func panicText(f func()) (text any) {
	defer func() { text = recover() }()
	f()
	return nil
}

// A failed assertion is often all that is left of a crash in production, so
// its text must have the values, as their own String methods print them.
func TestThatPrintsValues(t *testing.T) {
	var nothing any
	n, bytes := 5, []byte("x")
	for _, tc := range []struct {
		name string
		f    func()
		want any
	}{
		{"true", func() { assert.That(true, "no %d", n) }, nil},
		{"no values", func() { assert.That(false, "list is empty") }, "assertion failed: list is empty"},
		{"numbers", func() { assert.That(false, "%d > %d, %t, %.2f", n, uint8(3), true, 0.25) },
			"assertion failed: 5 > 3, true, 0.25"},
		{"stringer", func() { assert.That(false, "waited %v for %q", 90*time.Second, "d.example") },
			`assertion failed: waited 1m30s for "d.example"`},
		{"nil", func() { assert.That(false, "got %v", nothing) }, "assertion failed: got <nil>"},
		{"opaque", func() { assert.That(false, "%v %d %s", pair{1, 2}, &pair{}, bytes) },
			"assertion failed: (assert_test.pair) (*assert_test.pair) ([]uint8)"},
		{"unreachable", func() { assert.Unreachable("state %d", 7) }, "assertion failed: state 7"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := panicText(tc.f); got != tc.want {
				t.Errorf("panic value is %v, want %v", got, tc.want)
			}
		})
	}
}

// Assertions stand in the selection loop of the core: a true one must not
// allocate, whatever it is given.
func TestThatDoesNotAllocate(t *testing.T) {
	low, high, name, wait := 1<<20, 1<<21, "example.org", 99*time.Hour
	allocs := testing.AllocsPerRun(1000, func() {
		assert.That(low < high, "%d %d %s %v", low, high, name, wait)
		low++
		high++
	})
	if allocs != 0 {
		t.Errorf("%v allocations in a true assertion, want 0", allocs)
	}
}

func BenchmarkThat(b *testing.B) {
	low, high := 1<<20, 1<<21
	b.ReportAllocs()
	for b.Loop() {
		assert.That(low < high, "%d is not below %d", low, high)
	}
}
