// Package directory finds the destinations of one transport.
//
// Most destinations are plain: they are found by a name alone. Those with a source, from which their mail leaves, or with a demand of
// security on connections share their name with others (variants). All destinations of a name matter where mail is bound, where hosts are
// looked up and where an allowance is counted, and the order in which they came about matters where their turns do.
package directory

import (
	"iter"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
)

// A Key identifies a destination among those of its transport. Source, Security and Avoids may be empty; Avoids is the
// hosts that mail uses last, as a text.
type Key struct{ Name, Source, Security, Avoids string }

// plain reports whether a destination is found by its name alone.
func (k Key) plain() bool { return k.Source == "" && k.Security == "" && k.Avoids == "" }

// beside reports whether there may be another destination of the same name and source.
func (k Key) beside() bool { return k.Security != "" || k.Avoids != "" }

// A Directory has destinations of the type D. It belongs to one goroutine.
//
// Invariant: the order has exactly the destinations that are found by their names or keys, and the variants are exactly those that
// are found by their keys. Nearly every message finds, adds and drops a plain one, and a key takes four times as long to hash
// as a name.
type Directory[D any] struct {
	plain    map[string]*D // by name
	byKey    map[Key]*D    // the others
	variants map[string]*Variants[D]
	order    ilist.List[D] // in the order in which they came about; in round robin, in that of their turns
}

// Variants are the destinations of one name that are not plain, in the order in which they came about. A nil pointer has none.
type Variants[D any] struct {
	all     []*D
	secured int
}

// All returns the destinations. They must not be changed, and are valid until one is added or dropped.
func (v *Variants[D]) All() []*D {
	if v == nil {
		return nil
	}
	return v.all
}

// Secured reports whether one of them has a demand of security, or uses hosts last.
func (v *Variants[D]) Secured() bool { return v != nil && v.secured > 0 }

// A Link is a destination's place in the order.
type Link[D any] = ilist.Link[D]

// New returns a directory without destinations.
func New[D any]() Directory[D] {
	return Directory[D]{plain: make(map[string]*D), byKey: make(map[Key]*D), variants: make(map[string]*Variants[D])}
}

// Len returns the number of destinations.
func (t *Directory[D]) Len() int { return len(t.plain) + len(t.byKey) }

// Get returns the destination of a key; nil if there is none.
func (t *Directory[D]) Get(k Key) *D {
	if k.plain() {
		return t.plain[k.Name]
	}
	return t.byKey[k]
}

// All are the destinations in their order.
func (t *Directory[D]) All() iter.Seq[*D] { return t.order.All() }

// Turned puts a destination to the end of the order, with those that are before it.
func (t *Directory[D]) Turned(l *Link[D]) { t.order.RotateAfter(l) }

// Add lists a destination under a key that no other has.
func (t *Directory[D]) Add(k Key, l *Link[D], d *D) {
	n := t.Len()
	if t.order.PushBack(l, d); k.plain() {
		t.plain[k.Name] = d
	} else {
		t.addVariant(k, d)
	}
	assert.That(t.Len() == n+1, "two destinations are found as %v", k)
}

func (t *Directory[D]) addVariant(k Key, d *D) {
	t.byKey[k] = d
	v := t.variants[k.Name]
	if v == nil {
		v = &Variants[D]{}
		t.variants[k.Name] = v
	}
	v.all = append(v.all, d)
	if k.beside() {
		v.secured++
	}
}

// Drop takes a destination off the lists.
func (t *Directory[D]) Drop(k Key, l *Link[D], d *D) {
	n := t.Len()
	if t.order.Remove(l); k.plain() {
		delete(t.plain, k.Name)
	} else {
		t.dropVariant(k, d)
	}
	assert.That(t.Len() == n-1, "no destination is found as %v", k)
}

func (t *Directory[D]) dropVariant(k Key, d *D) {
	assert.That(t.byKey[k] == d, "another destination is found as %v", k)
	delete(t.byKey, k)
	v := t.variants[k.Name]
	v.all = slices.DeleteFunc(v.all, func(other *D) bool { return other == d })
	if k.beside() {
		v.secured--
	}
	if len(v.all) == 0 {
		delete(t.variants, k.Name)
	}
}

// Variants returns those of a name; nil if there are none.
func (t *Directory[D]) Variants(name string) *Variants[D] { return t.variants[name] }

// Named yields all destinations of a name: the plain one first. One may be dropped while it is yielded.
func (t *Directory[D]) Named(name string) iter.Seq[*D] {
	return func(yield func(*D) bool) {
		if d := t.plain[name]; d != nil && !yield(d) {
			return
		}
		for _, d := range slices.Clone(t.variants[name].All()) {
			if !yield(d) {
				return
			}
		}
	}
}

// Check panics where an invariant does not hold; key returns that of a destination.
func (t *Directory[D]) Check(key func(*D) Key) {
	t.order.Check()
	n, variants, secured := 0, 0, 0
	for d := range t.order.All() {
		k := key(d)
		assert.That(t.Get(k) == d, "%v is in the order, and is not found", k)
		n++
		if !k.plain() {
			variants++
			assert.That(slices.Contains(t.variants[k.Name].All(), d), "%v is not among those with a source or a demand", k)
		}
		if k.beside() {
			secured++
		}
	}
	assert.That(n == t.Len() && variants == len(t.byKey), "%d destinations are in the order, %d of them not plain, and %d and %d are found", n, variants, t.Len(), len(t.byKey))
	for _, v := range t.variants { //archtest:anyorder sums
		variants -= len(v.all)
		secured -= v.secured
	}
	assert.That(variants == 0 && secured == 0, "%d destinations too few are listed with their sources and demands, or %d with demands", variants, secured)
}
