package machine

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapFloor is the size of the Go heap, in bytes, below which garbage is not collected.
// A daemon that relays at full speed has 4 MB there besides the store's tables and cache, and by GOGC=100 it would collect
// every 8 MB, 20 times a second. From half the floor on, GOGC=100 is in force, so a heap that is larger anyway does not grow.
//
// In a program that is built without cgo, as releases are, the tables and the cache are in the heap, some 100 MB, and by
// GOGC=100 there would be as much garbage: 342 MB in all, where 250 was the most that was wanted. But a collection reads
// only what can contain pointers, and tables and cache cannot. So the garbage may be as much as is read, or the
// floor if that is more: no byte of it costs more than it does by GOGC=100.
const heapFloor = 32 << 20

// collectorMost is the GOGC with which the runtime's smallest heap, 4 MB at 100, is heapFloor.
const collectorMost = heapFloor / (4 << 20) * 100

// A collector keeps the garbage collector from running below heapFloor. After each
// collection it computes GOGC anew from what is left in the heap.
type collector struct {
	samples []metrics.Sample
	percent int // the GOGC in force
}

// relaxCollector starts a collector for the rest of the process's life, unless the
// operator has set how garbage is collected.
func relaxCollector(memoryLimited bool) {
	if os.Getenv("GOGC") != "" || memoryLimited {
		return
	}
	c := &collector{samples: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/scan/heap:bytes"}}}
	c.set(collectorMost)
	c.await()
}

// await has collected called after the next collection. An object that nothing refers to
// shows that there was one. It contains a pointer, since the runtime may combine small
// objects without pointers into one that lives longer.
func (c *collector) await() {
	sentinel := new(*collector)
	runtime.AddCleanup(sentinel, (*collector).collected, c)
}

// collected runs on a goroutine of the runtime, once for each collection.
func (c *collector) collected() {
	metrics.Read(c.samples)
	live, stacks, globals, scanned := c.samples[0].Value.Uint64(), c.samples[1].Value.Uint64(), c.samples[2].Value.Uint64(), c.samples[3].Value.Uint64()
	c.set(collectorPercent(live, scanned, stacks+globals))
	c.await()
}

// set sets GOGC, which stops the world, if it differs noticeably.
func (c *collector) set(percent int) {
	if percent != c.percent && (percent == 100 || percent < c.percent*9/10 || percent > c.percent*11/10) {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
}

// collectorPercent returns the GOGC with which the next collection begins when the heap
// has heapFloor, or twice the live bytes if that is more, but no more garbage than is scanned, or heapFloor if
// that is more. Scanned is what of the heap can contain pointers. Roots are what is scanned besides
// the heap; the runtime adds GOGC percent of them as well.
func collectorPercent(live, scanned, roots uint64) int {
	if live < heapFloor/2 {
		return int(min(max((heapFloor-live)*100/(live+roots+1), 100), collectorMost))
	}
	garbage := min(live, max(scanned, heapFloor))
	return int(max((garbage+roots)*100/(live+roots), 1))
}
