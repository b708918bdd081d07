package machine

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// The next collection begins at heapFloor, or at twice what is live: a larger heap never
// grows because of the floor.
func TestCollectorPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, scanned, roots uint64
		want                 int
	}{
		{0, 0, 0, 800}, {1 * mb, 1 * mb, 0, 800}, {4 * mb, 4 * mb, 0, 700}, {8 * mb, 8 * mb, 0, 300}, {4 * mb, 4 * mb, 4 * mb, 350}, {15 * mb, 9 * mb, 0, 113},
		{15 * mb, 9 * mb, 15 * mb, 100}, {16 * mb, 9 * mb, 0, 100}, {32 * mb, 9 * mb, 5 * mb, 100}, {200 * mb, 200 * mb, 0, 100},
		{128 * mb, 9 * mb, 0, 25}, {128 * mb, 64 * mb, 0, 50}, {128 * mb, 9 * mb, 32 * mb, 40}, {10_000 * mb, 0, 0, 1}, // tables, a cache, contents
	} {
		got := collectorPercent(c.live, c.scanned, c.roots)
		if got < c.want-1 || got > c.want {
			t.Errorf("GOGC=%d with %d MB live, %d MB of them scanned, and %d MB of roots, want %d", got, c.live/mb, c.scanned/mb, c.roots/mb, c.want)
		}
		if goal := c.live + (c.live+c.roots)*uint64(got)/100; goal > max(heapFloor, c.live+c.roots+max(heapFloor, min(c.live, c.scanned)), c.live*101/100) {
			t.Errorf("with %d MB live the heap grows to %d MB", c.live/mb, goal/mb)
		}
	}
}

// GOGC follows the heap: with little live memory it is high, with much it is 100, also
// after the heap has shrunk again. An operator's GOGC stays.
func TestCollectorFollowsTheHeap(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "50")
	relaxCollector(false)
	if got := gcPercent(); got != 100 {
		t.Fatalf("GOGC=%d although the operator has set it", got)
	}
	os.Unsetenv("GOGC")
	relaxCollector(true)
	if got := gcPercent(); got != 100 {
		t.Fatalf("GOGC=%d although the operator has limited the memory", got)
	}
	relaxCollector(false)
	follows := func(what string, is func(percent int) bool) {
		t.Helper()
		for range 1000 {
			runtime.GC()
			if is(gcPercent()) {
				return
			}
			runtime.Gosched() // the cleanup runs on a goroutine of the runtime
		}
		t.Errorf("GOGC=%d with %s", gcPercent(), what)
	}
	follows("a small heap", func(p int) bool { return p > 200 })
	large := make([]*[1 << 20]byte, 100)
	for i := range large {
		large[i] = new([1 << 20]byte)
	}
	follows("a large heap without pointers", func(p int) bool { return p < 60 })
	runtime.KeepAlive(large)
	large = nil
	linked := make([]*[1 << 17]*byte, 100)
	for i := range linked {
		linked[i] = new([1 << 17]*byte)
	}
	follows("a large heap of pointers", func(p int) bool { return p > 90 })
	runtime.KeepAlive(linked)
	linked = nil
	follows("a heap that is small again", func(p int) bool { return p > 200 })
}

func gcPercent() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}
