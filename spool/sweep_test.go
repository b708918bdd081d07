package spool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A sweep sees of every message what looking it up one by one shows, in whatever area it is, with and without
// outcomes, and from any ID on; of a long recipient list it says that it has to be read.
func TestSweep(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	var ids []mail.QueueID
	for i := range 3 * sweepChunk {
		n := 1 + i%3
		if i%100 == 50 {
			n = 300
		}
		a := accept(t, s, mail.Envelope{Sender: mail.Address(fmt.Sprintf("s%d@example.com", i)), Flow: mail.Flow{Class: "normal", Tenant: "t", Flow: fmt.Sprint(i)}}, addresses(n), text(10))
		id := a.Envelope.ID
		ids = append(ids, id)
		switch i % 5 {
		case 1:
			apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, Place: a.Place, Due: 9, At: 1, Outcomes: []mail.Outcome{busy(0, 1)}})
		case 2:
			apply(t, s, mail.Change{Op: mail.ChangeHold, ID: id, Place: a.Place, Reason: "a test", Outcomes: []mail.Outcome{sent(uint32(n-1), 1)}})
		case 3:
			apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: id, Place: a.Place})
			ids = ids[:len(ids)-1]
		case 4:
			apply(t, s, mail.Change{Op: mail.ChangeCorrupt, ID: id, Place: a.Place, Reason: "a test"})
		}
	}
	for _, first := range []int{0, 1, sweepChunk, len(ids) - 1} {
		at := first
		err := s.Sweep(ctxTest, ids[first], func(m *Sight) bool {
			want, err := s.Lookup(ctxTest, ids[at])
			if err != nil || !reflect.DeepEqual(m.Summary, want) {
				t.Fatalf("%+v, %v, want %+v", m.Summary, err, want)
			}
			list, _, err := s.Outcomes(ctxTest, ids[at], 0, 1000)
			if err != nil || m.Long != (len(list) == 300) || !m.Long && !reflect.DeepEqual(m.Recipients, list) {
				t.Fatalf("%s: long %t, %+v, %v, want %+v", ids[at], m.Long, m.Recipients, err, list)
			}
			at++
			return true
		})
		if err != nil || at != len(ids) {
			t.Errorf("from %d to %d of %d: %v", first, at, len(ids), err)
		}
	}
	n := 0
	if err := s.Sweep(ctxTest, 0, func(*Sight) bool { n++; return n < 5 }); err != nil || n != 5 {
		t.Errorf("it ended after %d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(ctxTest)
	n = 0
	if err := s.Sweep(ctx, 0, func(*Sight) bool { n++; cancel(); return true }); !errors.Is(err, context.Canceled) || n > sweepChunk {
		t.Errorf("after its end was requested it saw %d, %v", n, err)
	}
}

// A message of which a part is damaged is seen with its error, and the others as they are.
func TestSweepOfDamaged(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	var ids []mail.QueueID
	for range 4 {
		a := accept(t, s, mail.Envelope{Sender: "bob@example.com"}, addresses(1), text(10))
		apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: 9, At: 1, Outcomes: []mail.Outcome{busy(0, 1)}})
		ids = append(ids, a.Envelope.ID)
	}
	damage(t, s, messageKey(keyEnvelope, ids[1]))
	damage(t, s, messageKey(keyState, ids[2]))
	at := 0
	err := s.Sweep(ctxTest, 0, func(m *Sight) bool {
		if m.Envelope.ID != ids[at] || m.Place.Area != mail.AreaDeferred || (m.Err != nil) != (at == 1 || at == 2) || m.Err != nil && (!m.Long || !errors.Is(m.Err, ErrCorrupt)) {
			t.Errorf("message %d: %+v", at, m)
		}
		at++
		return true
	})
	if err != nil || at != len(ids) {
		t.Errorf("%d of %d: %v", at, len(ids), err)
	}
}
