package ilist

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/assert"
)

// A Link ties one element to at most one list. The zero Link is on no list. A
// Link must not be copied while it is on one.
//
// The link holds a pointer to its element, 8 octets more than an intrusive
// list needs: the alternatives are unsafe arithmetic on field offsets, or an
// accessor that generic code cannot call without an indirect jump.
type Link[T any] struct {
	elem       *T
	list       *List[T]
	prev, next *Link[T]
}

// Listed reports whether the link is on a list.
func (e *Link[T]) Listed() bool { return e.list != nil }

// On reports whether the link is on l.
func (e *Link[T]) On(l *List[T]) bool { return e.list == l }

// A List is a sequence of elements. The zero List is empty and ready. A List
// must not be copied once it has had an element.
type List[T any] struct {
	front, back *Link[T]
	len         int
}

// Len returns the number of elements.
func (l *List[T]) Len() int { return l.len }

// Empty reports whether there are no elements.
func (l *List[T]) Empty() bool { return l.front == nil }

// Front returns the first element, nil if there is none.
func (l *List[T]) Front() *T { return l.front.element() }

// Back returns the last element, nil if there is none.
func (l *List[T]) Back() *T { return l.back.element() }

// Next returns the element after e's, nil if it is the last. e must be on l.
func (l *List[T]) Next(e *Link[T]) *T {
	l.assertOn(e)
	return e.next.element()
}

// Prev returns the element before e's, nil if it is the first. e must be on l.
func (l *List[T]) Prev(e *Link[T]) *T {
	l.assertOn(e)
	return e.prev.element()
}

// PushFront makes elem the first element. e is elem's link and must be on no
// list.
func (l *List[T]) PushFront(e *Link[T], elem *T) { l.link(e, elem, nil, l.front) }

// PushBack makes elem the last element. e is elem's link and must be on no
// list.
func (l *List[T]) PushBack(e *Link[T], elem *T) { l.link(e, elem, l.back, nil) }

// InsertBefore puts elem just before mark's element. e is elem's link and must
// be on no list; mark must be on l.
func (l *List[T]) InsertBefore(e *Link[T], elem *T, mark *Link[T]) {
	l.assertOn(mark)
	l.link(e, elem, mark.prev, mark)
}

// InsertAfter puts elem just after mark's element. e is elem's link and must
// be on no list; mark must be on l.
func (l *List[T]) InsertAfter(e *Link[T], elem *T, mark *Link[T]) {
	l.assertOn(mark)
	l.link(e, elem, mark, mark.next)
}

// Remove takes e's element off. e must be on l; it is the zero Link
// afterwards.
func (l *List[T]) Remove(e *Link[T]) {
	l.assertOn(e)
	if e.prev == nil {
		l.front = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.back = e.prev
	} else {
		e.next.prev = e.prev
	}
	l.len--
	*e = Link[T]{}
}

// PopFront takes the first element off and returns it, nil if there is none.
func (l *List[T]) PopFront() *T {
	elem := l.Front()
	if elem != nil {
		l.Remove(l.front)
	}
	return elem
}

// MoveToFront makes e's element the first. e must be on l.
func (l *List[T]) MoveToFront(e *Link[T]) {
	elem := e.elem
	l.Remove(e)
	l.PushFront(e, elem)
}

// MoveToBack makes e's element the last. e must be on l.
func (l *List[T]) MoveToBack(e *Link[T]) {
	elem := e.elem
	l.Remove(e)
	l.PushBack(e, elem)
}

// All yields the elements from front to back. The body may remove the element
// that it was given, or move it; it must leave the one after that in place,
// and breaking this rule panics.
func (l *List[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for e := l.front; e != nil; {
			l.assertOn(e)
			next := e.next
			if !yield(e.elem) {
				return
			}
			e = next
		}
	}
}

// Backward yields the elements from back to front, with All's rule.
func (l *List[T]) Backward() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for e := l.back; e != nil; {
			l.assertOn(e)
			prev := e.prev
			if !yield(e.elem) {
				return
			}
			e = prev
		}
	}
}

// Check panics unless the list is well formed: the links agree in both
// directions, all of them name l, and there are Len of them. It takes linear
// time; tests and whole-structure checks call it.
func (l *List[T]) Check() {
	var prev *Link[T]
	n := 0
	for e := l.front; e != nil; e = e.next {
		assert.That(e.list == l, "element %d is on another list", n)
		assert.That(e.elem != nil, "element %d is nil", n)
		assert.That(e.prev == prev, "element %d: its previous link is not the one before it", n)
		assert.That(n < l.len, "more than %d elements, or a ring", l.len)
		prev = e
		n++
	}
	assert.That(l.back == prev, "the back is not the last of %d elements", n)
	assert.That(n == l.len, "%d elements, but Len is %d", n, l.len)
}

func (l *List[T]) link(e *Link[T], elem *T, prev, next *Link[T]) {
	assert.That(e.list == nil, "inserting an element that is on a list already")
	assert.That(elem != nil, "inserting nil")
	*e = Link[T]{elem: elem, list: l, prev: prev, next: next}
	if prev == nil {
		l.front = e
	} else {
		prev.next = e
	}
	if next == nil {
		l.back = e
	} else {
		next.prev = e
	}
	l.len++
}

func (l *List[T]) assertOn(e *Link[T]) {
	assert.That(e.list == l, "the element is not on this list")
}

func (e *Link[T]) element() *T {
	if e == nil {
		return nil
	}
	return e.elem
}
