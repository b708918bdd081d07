package cluster

// A Mirror is a copy of what a watcher returns. The zero Mirror is empty and not
// current. It belongs to one goroutine.
type Mirror struct {
	entries map[string]mirrored
	round   uint64 // number of Stale events
	current bool
}

type mirrored struct {
	Entry
	round uint64
}

// Apply makes the change of an event. It returns the entries that are gone: the one of
// Gone if it was there, and at Current those that did not come again.
func (m *Mirror) Apply(e Event) (gone []Entry) {
	if m.entries == nil {
		m.entries = map[string]mirrored{}
	}
	switch e.Kind {
	case Put:
		m.entries[e.Entry.Key] = mirrored{e.Entry, m.round}
	case Gone:
		if old, ok := m.entries[e.Entry.Key]; ok {
			delete(m.entries, e.Entry.Key)
			gone = append(gone, old.Entry)
		}
	case Stale:
		m.current = false
		m.round++
	case Current:
		m.current = true
		for key, old := range m.entries { //archtest:anyorder removals; the caller must not depend on their order
			if old.round != m.round {
				delete(m.entries, key)
				gone = append(gone, old.Entry)
			}
		}
	}
	return gone
}

// Current reports whether nothing is known to be missing.
func (m *Mirror) Current() bool { return m.current }

// Entry returns the entry of a key.
func (m *Mirror) Entry(key string) (Entry, bool) {
	e, ok := m.entries[key]
	return e.Entry, ok
}

// Len returns the number of keys.
func (m *Mirror) Len() int { return len(m.entries) }
