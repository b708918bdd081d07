package spool

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// After a change that meets temporary damage each recipient is in one place: settled by
// an outcome of the change, waiting in the message, or waiting in a message split off
// it.
func TestDamageThatPassesCostsNoRecipient(t *testing.T) {
	content := func(id mail.QueueID) key { return messageKey(keyBody, id) }
	list := func(id mail.QueueID) key { return chunkKey(keyRecipients, id, 1) }
	known := func(id mail.QueueID) key { return chunkKey(keyOutcomes, id, 1) }
	for _, c := range []struct {
		name       string
		damaged    func(mail.QueueID) key
		recipients int
		outcomes   []uint32   // recipients that the change records as delivered
		first      []uint32   // recipients recorded by an earlier change in the same Apply
		splits     [][]uint32 // the last one fails
		served     []uint32   // recipients that must be settled afterwards
		moved      []uint32
	}{
		{name: "content", damaged: content, recipients: 3, splits: [][]uint32{{0}}},
		{name: "content, and all", damaged: content, recipients: 3, splits: [][]uint32{{0, 1, 2}}},
		{name: "content, and an outcome", damaged: content, recipients: 3, outcomes: []uint32{1}, splits: [][]uint32{{0}}, served: []uint32{1}},
		{name: "content, and another change", damaged: content, recipients: 3, first: []uint32{2}, outcomes: []uint32{1}, splits: [][]uint32{{0}}, served: []uint32{1, 2}},
		{name: "content, two chunks", damaged: content, recipients: 300, outcomes: []uint32{2, 270}, splits: [][]uint32{{0, 280}}, served: []uint32{2, 270}},
		{name: "list", damaged: list, recipients: 300, outcomes: []uint32{2, 270}, splits: [][]uint32{{1}, {0, 280}}, served: []uint32{2, 270}, moved: []uint32{1}},
		{name: "outcomes", damaged: known, recipients: 300, outcomes: []uint32{270, 2}, splits: [][]uint32{{0}}, served: []uint32{2, 270}},
	} {
		for _, tried := range []bool{false, true} {
			if c.name == "outcomes" && !tried {
				continue // there are none
			}
			cfg := small(vfs.NewMem())
			s := mustOpen(t, cfg)
			id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(c.recipients), text(50)).Envelope.ID
			if tried {
				apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, At: 5, Due: 9, Outcomes: []mail.Outcome{busy(0, 4), busy(uint32(c.recipients-1), 4)}})
			}
			last := mail.Change{Op: mail.ChangeRecord, ID: id, At: 6, Outcomes: allSent(c.outcomes)}
			for _, to := range c.splits {
				into, err := s.Reserve(0)
				if err != nil {
					t.Fatal(err)
				}
				last.Splits = append(last.Splits, mail.Split{Into: into, Recipients: to})
			}
			repair := damage(t, s, c.damaged(id))
			got := apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: id, At: 6, Outcomes: allSent(c.first)}, last)
			repair()
			if got[1].Place.Area != mail.AreaCorrupt {
				t.Fatalf("%s, tried %t: %+v", c.name, tried, got)
			}
			mustClose(t, s)
			s = open(t, cfg) // which moves it out of the corrupt area

			var served, moved []uint32
			for _, o := range outcomesOf(t, s, id) {
				switch o.Result {
				case mail.Delivered:
					served = append(served, o.Index)
				case mail.Moved:
					moved = append(moved, o.Index)
				}
			}
			if !slices.Equal(served, c.served) || !slices.Equal(moved, c.moved) {
				t.Errorf("%s, tried %t: %v are served, not %v; %v moved, not %v", c.name, tried, served, c.served, moved, c.moved)
			}
			inParts := 0
			for _, part := range inArea(t, s, mail.AreaHold) {
				inParts += len(outcomesOf(t, s, part))
			}
			if inParts != len(c.moved) {
				t.Errorf("%s, tried %t: %d recipients are in messages of their own", c.name, tried, inParts)
			}
			want := c.recipients - len(c.served) - len(c.moved)
			_, place, b, err := s.Open(ctxTest, id, want)
			if err != nil || place.Area != mail.AreaDeferred || len(b.Recipients) != want {
				t.Errorf("%s, tried %t: %d of %d that wait in %v, %v", c.name, tried, len(b.Recipients), want, place.Area, err)
			}
			if m, err := s.Lookup(ctxTest, id); err != nil || int(m.Settled) != c.recipients-want {
				t.Errorf("%s, tried %t: %d are counted as settled, %v", c.name, tried, m.Settled, err)
			}
		}
	}
}

func allSent(indexes []uint32) (list []mail.Outcome) {
	for _, i := range indexes {
		list = append(list, sent(i, 5))
	}
	return list
}

// damage makes a value unreadable until repair is called.
func damage(t *testing.T, s *Spool, k key) (repair func()) {
	t.Helper()
	value, closer, err := s.db.Get(k.bytes())
	if err != nil {
		t.Fatal(err)
	}
	good := slices.Clone(value)
	closer.Close()
	flip(t, s, k)
	return func() {
		if err := s.db.Set(k.bytes(), good, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
}
