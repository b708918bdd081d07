package sched

import "github.com/posthaste-mta/posthaste/internal/assert"

// A sequence holds elements in the order in which their jobs stand on the
// scheduler's list, and finds the first, and the first from some job on, much
// faster than by walking that list. It is a treap: a search tree in which every
// node also has a random weight and no node a lighter parent, which keeps it
// flat. Most elements come at the end and leave at the front, which takes
// constant time on average; the rest takes logarithmic time.
//
// The order is that of job.label, unless the sequence has another. Labels of what
// is in it may change as long as their order does not.
//
// Where the elements know something of all that stand below them in the tree,
// summarize brings that up to date for one element, from what the elements directly
// below it know, and reports whether it has changed.
type sequence[T any] struct {
	before            func(a, b *T) bool     // nil: by job.label
	summarize         func(p *place[T]) bool // nil: they know nothing
	root, first, last *place[T]
	count             int
	weight            uint32 // of the last element that was added
}

// A place is an element's node in one sequence. The zero place is in none.
type place[T any] struct {
	elem            *T
	job             *Job
	up, left, right *place[T]
	weight          uint32
}

func (p *place[T]) taken() bool { return p.elem != nil }

// element returns the element of a place, nil if there is none.
func (p *place[T]) element() *T {
	if p == nil {
		return nil
	}
	return p.elem
}

// behind reports whether an element belongs behind another, or in the same place.
func (s *sequence[T]) behind(p, q *place[T]) bool {
	if s.before != nil {
		return !s.before(p.elem, q.elem)
	}
	return p.job.label >= q.job.label
}

// add puts an element in, behind those that do not belong behind it.
func (s *sequence[T]) add(p *place[T], elem *T, j *Job) {
	assert.That(p.elem == nil, "adding an element that is there already")
	*p = place[T]{elem: elem, job: j, weight: s.nextWeight()}
	s.count++
	switch {
	case s.root == nil:
		s.root, s.first, s.last = p, p, p
	case s.behind(p, s.last):
		s.last.right, p.up = p, s.last
		s.last = p
	case !s.behind(p, s.first):
		s.first.left, p.up = p, s.first
		s.first = p
	default:
		s.descend(p)
	}
	for p.up != nil && p.up.weight < p.weight {
		s.lift(p)
	}
	s.changed(p)
}

// changed brings up to date what is known above an element, and by itself.
func (s *sequence[T]) changed(p *place[T]) {
	if s.summarize == nil {
		return
	}
	for p != nil && s.summarize(p) {
		p = p.up
	}
}

// nextWeight returns the next of a fixed series of pseudo-random numbers.
func (s *sequence[T]) nextWeight() uint32 {
	w := s.weight
	if w == 0 {
		w = 0x9e3779b9
	}
	w ^= w << 13
	w ^= w >> 17
	w ^= w << 5
	s.weight = w
	return w
}

// descend hangs p below the node where it belongs; it is neither the first nor
// the last.
func (s *sequence[T]) descend(p *place[T]) {
	for n := s.root; ; {
		next := &n.left
		if s.behind(p, n) {
			next = &n.right
		}
		if *next == nil {
			*next, p.up = p, n
			return
		}
		n = *next
	}
}

// lift makes p the parent of its parent.
func (s *sequence[T]) lift(p *place[T]) {
	down := p.up
	if down.left == p {
		down.left = p.right
		if p.right != nil {
			p.right.up = down
		}
		p.right = down
	} else {
		down.right = p.left
		if p.left != nil {
			p.left.up = down
		}
		p.left = down
	}
	p.up = down.up
	s.replace(down, p)
	down.up = p
	if s.summarize != nil {
		s.summarize(down)
	}
}

// replace puts p where n was below n's parent.
func (s *sequence[T]) replace(n, p *place[T]) {
	switch {
	case n.up == nil:
		s.root = p
	case n.up.left == n:
		n.up.left = p
	default:
		n.up.right = p
	}
}

// drop takes an element out.
func (s *sequence[T]) drop(p *place[T]) {
	if s.count == 1 { // as most sequences are: those of a message with one recipient
		s.root, s.first, s.last, s.count = nil, nil, nil, 0
		*p = place[T]{}
		return
	}
	if s.first == p {
		s.first = p.next()
	}
	if s.last == p {
		s.last = p.prev()
	}
	for p.left != nil && p.right != nil {
		if p.left.weight > p.right.weight {
			s.lift(p.left)
		} else {
			s.lift(p.right)
		}
	}
	child := p.left
	if child == nil {
		child = p.right
	}
	s.replace(p, child)
	if child != nil {
		child.up = p.up
	}
	up := p.up
	*p = place[T]{}
	s.count--
	for ; up != nil && s.summarize != nil; up = up.up {
		s.summarize(up) // all of them: on its way down the element was below each
	}
}

func (p *place[T]) next() *place[T] {
	if n := p.right; n != nil {
		for n.left != nil {
			n = n.left
		}
		return n
	}
	for ; p.up != nil; p = p.up {
		if p.up.left == p {
			return p.up
		}
	}
	return nil
}

func (p *place[T]) prev() *place[T] {
	if n := p.left; n != nil {
		for n.right != nil {
			n = n.right
		}
		return n
	}
	for ; p.up != nil; p = p.up {
		if p.up.right == p {
			return p.up
		}
	}
	return nil
}

// from returns the first place whose job has at least this label.
func (s *sequence[T]) from(label uint64) *place[T] {
	if s.first == nil || s.first.job.label >= label {
		return s.first
	}
	var found *place[T]
	for n := s.root; n != nil; {
		if n.job.label >= label {
			found, n = n, n.left
		} else {
			n = n.right
		}
	}
	return found
}

// find returns the first place whose element is wanted. Whatever stands behind one
// that is wanted must be wanted, too.
func (s *sequence[T]) find(wanted func(*T) bool) *place[T] {
	var found *place[T]
	for n := s.root; n != nil; {
		if wanted(n.elem) {
			found, n = n, n.left
		} else {
			n = n.right
		}
	}
	return found
}

// check panics unless the sequence is well formed.
func (s *sequence[T]) check() {
	n, last := 0, (*place[T])(nil)
	for p := s.first; p != nil; p = p.next() {
		assert.That(p.prev() == last && p.elem != nil, "element %d of a sequence is linked wrongly", n)
		assert.That(last == nil || s.behind(p, last), "element %d of a sequence is before the one before it", n)
		assert.That(s.summarize == nil || !s.summarize(p), "what element %d of a sequence knows of those below it was out of date", n)
		assert.That(p.up == nil && s.root == p || p.up != nil && p.up.weight >= p.weight, "element %d of a sequence is heavier than its parent", n)
		last = p
		n++
	}
	assert.That(s.last == last && n == s.count, "a sequence has %d elements, counted %d", n, s.count)
}

// labelGap is the distance between the labels of jobs that are listed one after
// the other. Forty jobs can be put into the same gap before all must be
// relabelled; 2^24 can be appended.
const (
	labelGap = 1 << 40
	maxLabel = 1<<64 - 1
)

// label gives a job that has just been put on the list a label between those of
// its neighbours.
func (l *Lane) label(j *Job) {
	prev, next := l.jobs.Prev(&j.inOrder), l.jobs.Next(&j.inOrder)
	if next == nil && l.topLabel <= maxLabel-l.labelGap {
		// Labels at the end only grow, so that they are beyond whatever has been
		// passed.
		l.topLabel += l.labelGap
		j.label = l.topLabel
		return
	}
	if !l.labelBetween(j, prev, next) {
		j.label = 0
		l.relabel()
	}
}

func (l *Lane) labelBetween(j, prev, next *Job) bool {
	if next == nil {
		return false
	}
	low := uint64(0)
	if prev != nil {
		low = prev.label
	}
	if next.label >= l.passed {
		// Before the first job that has not been passed: it has not been passed,
		// either.
		low = max(low, l.passed-min(l.passed, 1))
	}
	j.label = low + (next.label-low)/2
	return j.label > low
}

// relabel gives all jobs new labels, in the same order.
func (l *Lane) relabel() {
	old, passed := l.passed, uint64(0)
	l.topLabel = 0
	for j := range l.jobs.All() {
		l.topLabel += l.labelGap
		// The job for which there was no room has no label. It has been passed
		// if it stands before one that has.
		if j.label != 0 && j.label < old {
			passed = l.topLabel + 1
		}
		j.label = l.topLabel
	}
	l.passed = passed
}
