package spool

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// Whichever value of a message is damaged, whoever meets it first gets an
// error or a place in the corrupt area, never wrong data; the message ends in
// exactly one index; others are not affected; and it can be removed without
// anything remaining.
func TestDamage(t *testing.T) {
	values := map[string]func(id mail.QueueID) key{
		"envelope":   func(id mail.QueueID) key { return messageKey(keyEnvelope, id) },
		"state":      func(id mail.QueueID) key { return messageKey(keyState, id) },
		"content":    func(id mail.QueueID) key { return messageKey(keyBody, id) },
		"recipients": func(id mail.QueueID) key { return chunkKey(keyRecipients, id, 0) },
		"outcomes":   func(id mail.QueueID) key { return chunkKey(keyOutcomes, id, 0) },
	}
	meet := map[string]func(s *Spool, m mail.Changed) error{
		"open": func(s *Spool, m mail.Changed) error {
			_, _, _, err := s.Open(ctxTest, m.ID, 1000)
			return err
		},
		"content": func(s *Spool, m mail.Changed) error {
			_, err := contentOf(s, m.ID)
			return err
		},
		"outcomes": func(s *Spool, m mail.Changed) error {
			_, _, err := s.Outcomes(ctxTest, m.ID, 0, 1000)
			return err
		},
		"defer": func(s *Spool, m mail.Changed) error {
			got, err := s.Apply(ctxTest, []mail.Change{{
				Op: mail.ChangeDefer, ID: m.ID, Place: m.Place, Due: 9, At: 9, Outcomes: []mail.Outcome{busy(0, 9)}}})
			if err == nil && got[0].Place.Area == mail.AreaCorrupt {
				err = ErrCorrupt
			}
			return err
		},
		"expire": func(s *Spool, m mail.Changed) error {
			got, err := s.Apply(ctxTest, []mail.Change{{Op: mail.ChangeExpire, ID: m.ID, Place: m.Place, At: 9}})
			if err == nil && got[0].Place.Area == mail.AreaCorrupt {
				err = ErrCorrupt
			}
			return err
		},
		"nobody": func(*Spool, mail.Changed) error { return nil },
	}
	// Who must notice; all others may.
	notice := map[string][]string{
		"envelope":   {"open", "outcomes", "expire"},
		"state":      {"open", "outcomes", "expire", "defer"},
		"content":    {"content"},
		"recipients": {"open", "outcomes", "expire"},
		"outcomes":   {"open", "outcomes", "expire", "defer"},
	}
	for value, keyOf := range values {
		for who, met := range meet {
			for _, rcpts := range []int{3, 300} {
				if value == "recipients" && rcpts == 3 || value == "outcomes" && rcpts == 3 {
					continue // such lists are in the envelope and in the state
				}
				t.Run(fmt.Sprintf("%s/%s/%d", value, who, rcpts), func(t *testing.T) {
					s := open(t, small(vfs.NewMem()))
					sound := accept(t, s, mail.Envelope{}, addresses(1), text(10))
					a := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(rcpts), text(100))
					m := apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Due: 5, At: 5, Outcomes: []mail.Outcome{busy(0, 5)}})[0]
					flip(t, s, keyOf(m.ID))
					err := met(s, m)
					noticed := errors.Is(err, ErrCorrupt)
					if !noticed && (err != nil || slices.Contains(notice[value], who)) {
						t.Fatalf("error %v", err)
					}
					if noticed {
						in := inArea(t, s, mail.AreaDeferred)
						if got := inArea(t, s, mail.AreaCorrupt); len(got) != 1 || len(in) != 0 {
							t.Fatalf("corrupt area has %v, deferred %v", got, in)
						}
						if sum, err := s.Lookup(ctxTest, m.ID); err != nil || sum.Reason == "" {
							t.Errorf("look-up: %+v %v", sum, err)
						}
					}
					if _, _, _, err := s.Open(ctxTest, sound.Envelope.ID, 1); err != nil {
						t.Errorf("a sound message: %v", err)
					}
					place := mail.Place{}
					if noticed {
						place = m.Place // what a caller may still believe
					}
					apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: m.ID, Place: place})
					checkNoRemains(t, s)
					if n := len(inArea(t, s, mail.AreaCorrupt)) + len(inArea(t, s, mail.AreaDeferred)); n != 0 {
						t.Errorf("%d index entries remain", n)
					}
				})
			}
		}
	}
}

// flip changes one bit in the middle of a value.
func flip(t *testing.T, s *Spool, k key) {
	t.Helper()
	value, closer, err := s.db.Get(k.bytes())
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(value)
	bad[len(bad)/2] ^= 0x10
	if err := errors.Join(closer.Close(), s.db.Set(k.bytes(), bad, pebble.Sync)); err != nil {
		t.Fatal(err)
	}
}

// A ceiling of queue IDs that cannot be read must not let old IDs come again.
func TestDamagedCeiling(t *testing.T) {
	cfg := small(vfs.NewMem())
	s := mustOpen(t, cfg)
	last := accept(t, s, mail.Envelope{}, addresses(1), text(10)).Envelope.ID
	mustClose(t, s)
	s = mustOpen(t, cfg)
	flip(t, s, plainKey(keyNextID))
	s.closed = true // as after a crash: without putting the ceiling right
	s.stopBackground()
	if err := s.release(); err != nil {
		t.Fatal(err)
	}
	cfg.Now = func() mail.Instant { return 0 }
	s = open(t, cfg)
	d, err := s.Begin(ctxTest)
	if err != nil || d.ID() <= last {
		t.Errorf("queue ID %s after %s (%v)", d.ID(), last, err)
	}
}
