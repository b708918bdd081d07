package minheap

import (
	"iter"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
)

// An Order compares elements and finds their slots.
type Order[T any] interface {
	// Before reports whether a comes out before b. It is a strict total order:
	// of two different elements exactly one is before the other.
	Before(a, b *T) bool
	// Slot returns the field in which a heap of this order keeps e's place.
	Slot(e *T) *Slot
}

// A Slot is an element's place in one heap. The zero Slot is in none.
type Slot struct {
	place int // index + 1
}

// Heaped reports whether the element is in a heap.
func (s *Slot) Heaped() bool { return s.place != 0 }

// A Heap holds elements, the first of its order at hand. The zero Heap is
// empty and ready. It allocates only when it grows beyond its largest size
// so far.
type Heap[T any, O Order[T]] struct {
	order O
	elems []*T
}

const arity = 4

// Len returns the number of elements.
func (h *Heap[T, O]) Len() int { return len(h.elems) }

// Min returns the first element, nil if there is none.
func (h *Heap[T, O]) Min() *T {
	if len(h.elems) == 0 {
		return nil
	}
	return h.elems[0]
}

// Push puts e in. Its slot must be in no heap.
func (h *Heap[T, O]) Push(e *T) {
	assert.That(h.order.Slot(e).place == 0, "pushing an element that is in a heap already")
	h.elems = append(h.elems, e)
	h.up(len(h.elems)-1, e)
}

// PopMin takes the first element out and returns it, nil if there is none.
func (h *Heap[T, O]) PopMin() *T {
	e := h.Min()
	if e != nil {
		h.Remove(e)
	}
	return e
}

// Remove takes e out. It must be in this heap.
func (h *Heap[T, O]) Remove(e *T) {
	slot := h.order.Slot(e)
	i := h.index(e, slot)
	last := len(h.elems) - 1
	moved := h.elems[last]
	h.elems[last] = nil
	h.elems = h.elems[:last]
	slot.place = 0
	if i != last {
		h.settle(i, moved)
	}
}

// Fix restores the order after what Before sees of e has changed. It must be
// in this heap.
func (h *Heap[T, O]) Fix(e *T) {
	h.settle(h.index(e, h.order.Slot(e)), e)
}

// Has reports whether e is in this heap.
func (h *Heap[T, O]) Has(e *T) bool {
	i := h.order.Slot(e).place - 1
	return i >= 0 && i < len(h.elems) && h.elems[i] == e
}

// All yields the elements in the sequence in which the heap holds them: it is not sorted,
// but the same after the same operations. The heap must not change meanwhile.
func (h *Heap[T, O]) All() iter.Seq[*T] { return slices.Values(h.elems) }

// Check panics unless every element knows its place and none is before its
// parent. It takes linear time; tests and whole-structure checks call it.
func (h *Heap[T, O]) Check() {
	for i, e := range h.elems {
		assert.That(h.order.Slot(e).place == i+1, "element %d believes to be at %d", i, h.order.Slot(e).place-1)
		if i > 0 {
			assert.That(!h.order.Before(e, h.elems[(i-1)/arity]), "element %d is before its parent", i)
		}
	}
}

func (h *Heap[T, O]) index(e *T, slot *Slot) int {
	i := slot.place - 1
	assert.That(i >= 0 && i < len(h.elems) && h.elems[i] == e, "the element is not in this heap")
	return i
}

// settle puts e at i, which is free, and moves it to where it belongs.
func (h *Heap[T, O]) settle(i int, e *T) {
	if i > 0 && h.order.Before(e, h.elems[(i-1)/arity]) {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

func (h *Heap[T, O]) up(i int, e *T) {
	for i > 0 {
		parent := (i - 1) / arity
		if !h.order.Before(e, h.elems[parent]) {
			break
		}
		h.put(i, h.elems[parent])
		i = parent
	}
	h.put(i, e)
}

func (h *Heap[T, O]) down(i int, e *T) {
	for {
		first := i*arity + 1
		if first >= len(h.elems) {
			break
		}
		least := first
		for c := first + 1; c < min(first+arity, len(h.elems)); c++ {
			if h.order.Before(h.elems[c], h.elems[least]) {
				least = c
			}
		}
		if !h.order.Before(h.elems[least], e) {
			break
		}
		h.put(i, h.elems[least])
		i = least
	}
	h.put(i, e)
}

func (h *Heap[T, O]) put(i int, e *T) {
	h.elems[i] = e
	h.order.Slot(e).place = i + 1
}
