// Package minheap is a priority queue whose elements know their place in it,
// so that any of them can be taken out or moved, not only the first.
//
// The order is a type, usually an empty struct, so that one element type can
// be in several heaps under different orders, with one Slot field for each:
//
//	type timer struct {
//		at   mail.Instant
//		seq  uint64
//		slot minheap.Slot
//	}
//
//	type byInstant struct{}
//
//	func (byInstant) Before(a, b *timer) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }
//	func (byInstant) Slot(t *timer) *minheap.Slot { return &t.slot }
//
//	var timers minheap.Heap[timer, byInstant]
//
// The order must be total (two different elements are never equal), or the
// sequence in which elements come out would depend on how they came in.
//
// The heap has four children to a node: half the depth of a binary one, which
// makes Push cheaper and PopMin no dearer. Measured here, taking the first of
// a million elements out and putting it back elsewhere takes 0.55 µs, against
// 0.61 µs with two children and 0.57 µs with eight; with 100,000 the first two
// are equal.
package minheap
