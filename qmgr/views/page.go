package views

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/best"
)

// Compare orders positions: those with the most waiting come first, then those in the worst condition, then by name.
func (p *Position) Compare(other *Position) int {
	return cmp.Or(cmp.Compare(other.Todo, p.Todo), cmp.Compare(other.Condition, p.Condition),
		strings.Compare(p.Transport, other.Transport), strings.Compare(p.Nexthop, other.Nexthop), strings.Compare(p.Source, other.Source), strings.Compare(p.Security, other.Security))
}

// With returns the position of a destination together with the same destination from another source: what waits is the
// sum, and its condition is the best of those from which mail waits, or of all if none does, since mail takes
// that way.
func (p Position) With(one Position) Position {
	switch {
	case p.Todo > 0 && one.Todo == 0:
	case p.Todo == 0 && one.Todo > 0:
		p.Condition = one.Condition
	default:
		p.Condition = min(p.Condition, one.Condition)
	}
	p.Todo += one.Todo
	if one.Source != p.Source {
		p.Source = ""
	}
	if one.Security != p.Security {
		p.Security = ""
	}
	return p
}

// A Ranking keeps the first few of many destinations, each with a value of the caller's. Make it with NewRanking.
type Ranking[T any] struct{ best best.Of[ranked[T]] }

type ranked[T any] struct {
	at Position
	of T
}

// NewRanking returns one that keeps most destinations.
func NewRanking[T any](most int) *Ranking[T] {
	return &Ranking[T]{best.Of[ranked[T]]{Most: most, Compare: func(a, b ranked[T]) int { return a.at.Compare(&b.at) }}}
}

// Add has a destination take part.
func (r *Ranking[T]) Add(at Position, of T) { r.best.Add(ranked[T]{at, of}) }

// All yields the destinations that are kept, in their order.
func (r *Ranking[T]) All() iter.Seq2[Position, T] {
	return func(yield func(Position, T) bool) {
		for _, one := range r.best.Sorted() {
			if !yield(one.at, one.of) {
				return
			}
		}
	}
}

// A Page is the destinations that a query asks for. Make it with NewPage.
type Page[T any] struct {
	query *Query
	list  List
	found *Ranking[T]
}

// NewPage returns an empty page.
func NewPage[T any](q *Query) *Page[T] { return &Page[T]{query: q, found: NewRanking[T](q.Most)} }

// Wants reports whether the query has destinations of a name, as far as that is known from the name.
func (p *Page[T]) Wants(transport, nexthop string) bool {
	return p.query.Match == nil || p.query.Match(transport, nexthop)
}

// Add has a destination take part that the query wants by its name and its domains.
func (p *Page[T]) Add(at Position, of T) {
	p.list.Matched++
	p.list.ByCondition[at.Condition]++
	if (len(p.query.In) == 0 || slices.Contains(p.query.In, at.Condition)) && (p.query.After == nil || p.query.After.Compare(&at) < 0) {
		p.found.Add(at, of)
	}
}

// List returns the page, with a summary of each destination on it.
func (p *Page[T]) List(summary func(Position, T) DestinationSummary) List {
	for at, of := range p.found.All() {
		p.list.Destinations = append(p.list.Destinations, summary(at, of))
	}
	p.list.More = p.found.best.More()
	return p.list
}
