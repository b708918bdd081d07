// Package stock keeps structures that are not in use for the next use.
package stock

// Of is structures of one type that are not in use. The zero value is empty. It is
// used by one goroutine at a time.
type Of[T any] struct{ spare []*T }

// most bounds what a burst leaves behind.
const most = 4096

// Take returns a structure as it was given, or a new one.
func (s *Of[T]) Take() *T {
	n := len(s.spare)
	if n == 0 {
		return new(T)
	}
	e := s.spare[n-1]
	s.spare[n-1] = nil
	s.spare = s.spare[:n-1]
	return e
}

// Give takes a structure back, which nothing points to any more. What is left in it,
// as the capacity of slices, is there when it is taken.
func (s *Of[T]) Give(e *T) {
	if len(s.spare) < most {
		s.spare = append(s.spare, e)
	}
}

// Len returns how many there are, for an owner that keeps fewer than Give would.
func (s *Of[T]) Len() int { return len(s.spare) }

// mostKept is how much capacity an empty slice keeps.
const mostKept = 16

// Emptied returns an empty slice with the capacity of another, if that is small: what
// one large message needed is not kept for all those that follow.
func Emptied[T any](s []T) []T {
	clear(s)
	if cap(s) > mostKept {
		return nil
	}
	return s[:0]
}
