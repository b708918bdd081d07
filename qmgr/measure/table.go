package measure

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/minheap"
	"github.com/posthaste-mta/posthaste/mail"
)

// Limit is the maximum number of records. They take 5 KB each at most, 50 MB in all, if each has
// a reply of the maximum length; usually it is a few megabytes. OrderLimit is the maximum number of
// operators' orders, and that of rules' orders beside them; the caller must not exceed either.
const (
	Limit      = 10_000
	OrderLimit = 1000
)

// A Table has the records of all keys. It belongs to one goroutine.
type Table struct {
	limit   int
	entries map[Key]*entry
	ends    minheap.Heap[entry, byEnd]
	serial  uint64 // of the entry that was made last
	dirty   ilist.List[entry]
	gone    []Key // dropped since the last save
}

// An entry has the measures of one key.
type entry struct {
	key     Key
	rec     Record
	serial  uint64
	slot    minheap.Slot
	unsaved ilist.Link[entry]
}

// byEnd orders by what ends first, and among equals by age.
type byEnd struct{}

func (byEnd) Before(a, b *entry) bool {
	x, y := a.rec.end(), b.rec.end()
	return x < y || x == y && a.serial < b.serial
}

func (byEnd) Slot(e *entry) *minheap.Slot { return &e.slot }

// New returns an empty table.
func New() *Table { return newTable(Limit) }

// NewOrders returns an empty table for orders: OrderLimit of operators, as many of rules, and a
// record of the scope Resumed.
func NewOrders() *Table { return newTable(2*OrderLimit + 1) }

func newTable(limit int) *Table { return &Table{limit: limit, entries: make(map[Key]*entry)} }

// Len returns the number of records.
func (t *Table) Len() int { return len(t.entries) }

// Get returns what is demanded for a key; the zero Record if nothing is.
func (t *Table) Get(k Key) Record {
	if e := t.entries[k]; e != nil {
		return e.rec
	}
	return Record{}
}

// Put sets what is demanded for a key. The zero Record ends it. If there are too many
// then, another one is forgotten, which is returned.
func (t *Table) Put(k Key, r Record) (forgot Known, full bool) {
	assert.That(k.Scope > 0 && k.Scope < scopes, "scope %d", k.Scope)
	e := t.entries[k]
	switch {
	case r == (Record{}):
		if e != nil {
			t.drop(e)
		}
		return Known{}, false
	case e != nil:
		e.rec = r.cut()
		t.ends.Fix(e)
		t.mark(e)
		return Known{}, false
	}
	if len(t.entries) >= t.limit {
		first := t.ends.Min()
		forgot, full = Known{first.key, first.rec}, true
		t.drop(first)
	}
	t.serial++
	e = &entry{key: k, rec: r.cut(), serial: t.serial}
	t.entries[k] = e
	t.ends.Push(e)
	t.mark(e)
	return forgot, full
}

// drop removes an entry.
func (t *Table) drop(e *entry) {
	delete(t.entries, e.key)
	t.ends.Remove(e)
	if e.unsaved.Listed() {
		t.dirty.Remove(&e.unsaved)
	}
	t.lost(e.key)
}

// Next returns when something ends next; mail.Never if nothing does.
func (t *Table) Next() mail.Instant {
	if e := t.ends.Min(); e != nil {
		return e.rec.end()
	}
	return mail.Never
}

// End drops what has ended of one record, and returns its key and what it was; false if
// nothing has ended. It may be called again at once for the next.
func (t *Table) End(now mail.Instant) (k Key, was Record, ok bool) {
	e := t.ends.Min()
	if e == nil || e.rec.end() > now {
		return Key{}, Record{}, false
	}
	k, was = e.key, e.rec
	t.Put(k, was.over(now))
	return k, was, true
}

// All returns all records, in the order of their keys.
func (t *Table) All() []Known {
	all := make([]Known, 0, len(t.entries))
	for _, e := range t.entries { //archtest:anyorder sorted below
		all = append(all, Known{e.key, e.rec})
	}
	slices.SortFunc(all, func(a, b Known) int { return a.Key.compare(b.Key) })
	return all
}

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Scope, o.Scope), cmp.Compare(k.Transport, o.Transport), cmp.Compare(k.Name, o.Name),
		cmp.Compare(k.Nexthop, o.Nexthop), cmp.Compare(k.Source, o.Source), cmp.Compare(k.Security, o.Security))
}

// Check checks the table's invariants.
func (t *Table) Check() {
	assert.That(len(t.entries) <= t.limit && len(t.entries) == t.ends.Len(), "%d records, %d of them with an end, of %d", len(t.entries), t.ends.Len(), t.limit)
	for k, e := range t.entries { //archtest:anyorder assertions
		assert.That(e.key == k && e.rec != Record{} && e.slot.Heaped(), "the record of %v is %+v", k, e.rec)
	}
	for e := range t.dirty.All() {
		assert.That(t.entries[e.key] == e, "a record of %v that is gone is not saved", e.key)
	}
	assert.That(len(t.gone) <= t.goneMax(), "%d keys that are gone", len(t.gone))
}
