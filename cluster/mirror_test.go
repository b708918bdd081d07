package cluster

import "testing"

// A mirror that was cut off keeps what it has until it knows better, and then drops
// what did not come again.
func TestMirrorAfterStale(t *testing.T) {
	var m Mirror
	put := func(key string, revision uint64) Event {
		return Event{Kind: Put, Entry: Entry{Key: key, Revision: revision}}
	}
	for _, e := range []Event{put("a", 1), put("b", 2), {Kind: Current}} {
		if gone := m.Apply(e); gone != nil {
			t.Fatalf("%v are gone", gone)
		}
	}
	m.Apply(Event{Kind: Stale})
	if _, known := m.Entry("b"); !known || m.Current() {
		t.Error("a cut connection is taken for the end of all keys, or is not noticed")
	}
	m.Apply(put("a", 1))
	// Cut off once more in the middle: what came before does not count.
	m.Apply(Event{Kind: Stale})
	m.Apply(put("c", 3))
	gone := m.Apply(Event{Kind: Current})
	if len(gone) != 2 || m.Len() != 1 || !m.Current() {
		t.Errorf("gone: %v, left: %d", gone, m.Len())
	}
	if gone := m.Apply(Event{Kind: Gone, Entry: Entry{Key: "c"}}); len(gone) != 1 || gone[0].Revision != 3 {
		t.Errorf("gone: %v", gone)
	}
	if gone := m.Apply(Event{Kind: Gone, Entry: Entry{Key: "never"}}); gone != nil {
		t.Errorf("gone: %v", gone)
	}
}
