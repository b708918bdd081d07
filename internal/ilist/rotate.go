package ilist

// RotateAfter turns the list so that it starts with the element after e's and
// ends with e's: the elements keep their cyclic order. e must be on l. It
// takes constant time.
func (l *List[T]) RotateAfter(e *Link[T]) {
	l.assertOn(e)
	first := e.next
	if first == nil {
		return
	}
	l.back.next = l.front
	l.front.prev = l.back
	first.prev = nil
	e.next = nil
	l.front, l.back = first, e
}
