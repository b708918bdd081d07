// Package best keeps the first few of many values in an order, without sorting all of them.
package best

import "slices"

// Of keeps the Most values that come first by Compare. It is used by one goroutine at a time.
type Of[T any] struct {
	Most    int              // of Sorted; 0 or less for none
	Compare func(a, b T) int // as for slices.SortFunc

	list []T
	full bool // list has been cut: what comes after its element number Most-1 is not wanted
	more bool
}

// Add keeps a value if it is among the first. It sorts when there are twice as many as
// are wanted, which comes to a comparison for each that is not.
func (b *Of[T]) Add(one T) {
	switch {
	case b.Most <= 0:
		b.more = true
		return
	case b.full && b.Compare(one, b.list[b.Most-1]) > 0:
		return
	}
	if b.list = append(b.list, one); len(b.list) >= 2*b.Most+16 {
		b.cut()
	}
}

func (b *Of[T]) cut() {
	slices.SortFunc(b.list, b.Compare)
	if len(b.list) > b.Most {
		clear(b.list[b.Most:])
		b.list, b.full, b.more = b.list[:b.Most], true, true
	}
}

// Sorted returns the values that were kept, in their order.
func (b *Of[T]) Sorted() []T {
	b.cut()
	return b.list
}

// More reports whether values were left out. It knows that once Sorted was called.
func (b *Of[T]) More() bool { return b.more }
