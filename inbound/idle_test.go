//go:build !race

package inbound

import "testing"

// The budget of an idle connection is 16 KiB, its goroutine's stack included (B-05): a
// flood of them must not fill the memory. The race detector pads everything.
func TestIdleConnectionIsCheap(t *testing.T) {
	cost := idleCost(t, 300, false)
	if got := cost.heap + cost.stack; got > 16<<10 {
		t.Errorf("%d bytes for an idle connection (heap %d, stack %d)", got, cost.heap, cost.stack)
	}
}
