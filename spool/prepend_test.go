package spool

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A signature is known only when the last byte of the content is, and belongs in front of
// the first one. However the content is stored, it is read back with the signature, its
// size is that of both, and so are those of the copies that a split makes.
func TestPrepend(t *testing.T) {
	head := []byte("DKIM-Signature: v=1; b=" + strings.Repeat("x", 900) + "\r\n")
	for _, c := range []struct {
		name string
		size int
		flow mail.Flow
		file bool
	}{
		{"empty content", 0, mail.Flow{}, false},
		{"inside", 4000, testFlow(1), false},
		{"largest inside", 8 << 10, mail.Flow{}, false},
		{"smallest file", 8<<10 + 1, mail.Flow{}, true},
		{"file, with a flow", 300_000, testFlow(1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := small(vfs.NewMem())
			s := mustOpen(t, cfg)
			body, rcpts := text(c.size), addresses(3)
			d := draft(t, s, rcpts, body)
			if err := d.Prepend(head); err != nil {
				t.Fatal(err)
			}
			if err := d.Commit(ctxTest, mail.Envelope{Sender: "bob@example.com", Flow: c.flow}); err != nil {
				t.Fatal(err)
			}
			value, closer, err := s.db.Get(new(messageKey(keyEnvelope, d.ID())).bytes())
			if err != nil {
				t.Fatal(err)
			}
			if head := value[0] == valueHead; head != c.file { // so that earlier versions read what they can
				t.Errorf("the envelope has version %d", value[0])
			}
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
			a, want := d.Arrival(), slices.Concat(head, body)
			if a.Envelope.Size != int64(len(want)) || a.Place.File != c.file {
				t.Fatalf("%+v, want %d bytes", a, len(want))
			}
			into, err := s.Reserve(0)
			if err != nil {
				t.Fatal(err)
			}
			apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: d.ID(), Place: a.Place, Due: 5, At: 1, Splits: []mail.Split{{Into: into, Recipients: []uint32{1}}}})
			for range 2 {
				for _, id := range []mail.QueueID{d.ID(), into} {
					m, err := s.Lookup(ctxTest, id)
					if err != nil || m.Err != nil || m.Envelope.Size != int64(len(want)) {
						t.Fatalf("%+v %v", m, err)
					}
					if got, err := contentOf(s, id); err != nil || !slices.Equal(got, want) {
						t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
					}
				}
				mustClose(t, s)
				s = mustOpen(t, cfg)
			}
			mustClose(t, s)
		})
	}
}

// What is prepended is small and comes once: a caller that does otherwise has a bug, and
// gets no message.
func TestPrependLimits(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	for name, heads := range map[string][]int{"too long": {PrependMax + 1}, "twice": {1, 1}} {
		d := draft(t, s, addresses(1), text(10))
		var err error
		for _, n := range heads {
			err = d.Prepend(text(n))
		}
		if err == nil || !errors.Is(d.Commit(ctxTest, mail.Envelope{}), err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := draft(t, s, addresses(1), text(10))
	d.Abort()
	if err := d.Prepend(text(1)); !errors.Is(err, errDraftEnded) {
		t.Error(err)
	}
	if err := draft(t, s, addresses(1), nil).Prepend(text(PrependMax)); err != nil {
		t.Error(err)
	}
}

// A damaged bit in what is in front of a content file is noticed, like one in the file.
func TestPrependedIsChecked(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	d := draft(t, s, addresses(1), text(50_000))
	if err := d.Prepend([]byte("X: y\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(ctxTest, mail.Envelope{}); err != nil {
		t.Fatal(err)
	}
	k := messageKey(keyEnvelope, d.ID())
	value, closer, err := s.db.Get(k.bytes())
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(value)
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(bad), "X: y")
	if at < 0 {
		t.Fatalf("%q", bad)
	}
	bad[at] ^= 1
	if err := s.db.Set(k.bytes(), bad, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := contentOf(s, d.ID()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v", err)
	}
}
