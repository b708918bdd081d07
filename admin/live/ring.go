package live

// A ring keeps the last values that were added to it.
type ring[T any] struct {
	most int // that it keeps
	list []T
	next int // where the next one goes once the list is full
}

func (r *ring[T]) add(v T) {
	if len(r.list) < r.most {
		r.list = append(r.list, v)
		return
	}
	r.list[r.next] = v
	r.next = (r.next + 1) % r.most
}

// all returns a copy, the oldest first.
func (r *ring[T]) all() []T {
	return append(append(make([]T, 0, len(r.list)), r.list[r.next:]...), r.list[:r.next]...)
}

// last returns the newest value, nil if there is none.
func (r *ring[T]) last() *T {
	switch {
	case len(r.list) == 0:
		return nil
	case len(r.list) < r.most:
		return &r.list[len(r.list)-1]
	}
	return &r.list[(r.next+r.most-1)%r.most]
}

// A series keeps values at two resolutions: each one for a while, and of each far seconds the last for
// longer.
type series[T any] struct {
	near, far ring[T]
	farAt     int64 // unix time of the last one in far
}

// farStep is the distance of values in series.far, in seconds.
const farStep = 10

func newSeries[T any](near, far int) series[T] {
	return series[T]{near: ring[T]{most: near}, far: ring[T]{most: far}}
}

func (s *series[T]) add(at int64, v T) {
	s.near.add(v)
	if at/farStep != s.farAt/farStep {
		s.far.add(v)
		s.farAt = at
	}
}

// of returns the values at a resolution.
func (s *series[T]) of(step int) []T {
	if step >= farStep {
		return s.far.all()
	}
	return s.near.all()
}
