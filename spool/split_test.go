package spool

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A split may be repeated without splitting anything off twice; each message keeps its
// content when the other one is removed; and if files cannot be linked they are
// copied.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		size  int
		links bool
	}{{100, true}, {60_000, true}, {60_000, false}} {
		s := open(t, small(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpLink && !c.links {
				return syscall.EPERM
			}
			return nil
		}))))
		id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(3), text(c.size)).Envelope.ID
		into, err := s.Reserve(0)
		if err != nil {
			t.Fatal(err)
		}
		change := mail.Change{Op: mail.ChangeRecord, ID: id, At: 5, Outcomes: []mail.Outcome{sent(1, 4)},
			Splits: []mail.Split{{Into: into, Recipients: []uint32{1, 2, 2, 99}, Reason: "why"}}}
		for range 2 {
			if got := apply(t, s, change); got[0].Place.Area != mail.AreaIncoming {
				t.Fatalf("%+v: %+v", c, got)
			}
			if held := inArea(t, s, mail.AreaHold); !slices.Equal(held, []mail.QueueID{into}) {
				t.Fatalf("%+v: %v are held", c, held)
			}
			list, _, err := s.Outcomes(ctxTest, into, 0, 10)
			if err != nil || len(list) != 1 || list[0].Recipient.Address != "user2@example.org" || list[0].Outcome != (mail.Outcome{}) {
				t.Fatalf("%+v: %+v %v", c, list, err)
			}
			if m, err := s.Lookup(ctxTest, id); err != nil || m.Settled != 2 {
				t.Fatalf("%+v: %+v %v", c, m, err)
			}
		}
		apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: id})
		s.deleteFile(id) // which happens in the background
		if body, err := contentOf(s, into); err != nil || !bytes.Equal(body, text(c.size)) {
			t.Errorf("%+v: %d bytes of content, %v", c, len(body), err)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: into, Due: 9})
		if due := inArea(t, s, mail.AreaDeferred); !slices.Equal(due, []mail.QueueID{into}) {
			t.Errorf("%+v: %v are deferred", c, due)
		}
	}
}

// A message with damaged content is moved to the corrupt area as a whole, and does not
// make the split of another one fail.
func TestSplitOfADamagedMessage(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	var ids, parts []mail.QueueID
	var changes []mail.Change
	for range 2 {
		id := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(2), text(50)).Envelope.ID
		into, err := s.Reserve(0)
		if err != nil {
			t.Fatal(err)
		}
		ids, parts = append(ids, id), append(parts, into)
		changes = append(changes, mail.Change{Op: mail.ChangeRecord, ID: id, At: 5, Splits: []mail.Split{{Into: into, Recipients: []uint32{0}}}})
	}
	k := messageKey(keyBody, ids[0])
	if err := s.db.Set(k.bytes(), []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	got := apply(t, s, changes...)
	if got[0].Place.Area != mail.AreaCorrupt || got[1].Place.Area != mail.AreaIncoming {
		t.Errorf("%+v", got)
	}
	if _, err := s.Lookup(ctxTest, parts[0]); !errors.Is(err, ErrGone) {
		t.Errorf("a part of the damaged one exists: %v", err)
	}
	if _, err := s.Lookup(ctxTest, parts[1]); err != nil {
		t.Error(err)
	}
}

// A content file that already has its second name, from an attempt that was not
// committed, is not written again.
func TestSplitFindsItsFile(t *testing.T) {
	links, files := 0, 0
	s := open(t, small(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch {
		case op.Kind == errorfs.OpLink:
			links++
		case op.Kind == errorfs.OpCreate && links > 0 && strings.Contains(op.Path, "body"): // others are the store's
			files++
		}
		return nil
	}))))
	id := accept(t, s, mail.Envelope{}, addresses(1), text(60_000)).Envelope.ID
	into, err := s.Reserve(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.shareFile(id, into), s.shareFile(id, into)); err != nil || links != 2 || files != 0 {
		t.Errorf("%d links and %d files were made: %v", links, files, err)
	}
}

// A message that is split off while its index is rebuilt is in the new one, too.
func TestSplitWhileItsIndexMoves(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	id := accept(t, s, mail.Envelope{}, addresses(2), text(50)).Envelope.ID
	into, err := s.Reserve(0)
	if err != nil {
		t.Fatal(err)
	}
	changes := []mail.Change{{Op: mail.ChangeRecord, ID: id, At: 5, Splits: []mail.Split{{Into: into, Recipients: []uint32{0}}}}}
	e := s.newEdits(changes)
	b := s.db.NewBatch()
	_, _, err = e.all(ctxTest, changes)
	if err = errors.Join(err, e.emit(b)); err != nil {
		t.Fatal(err)
	}
	kinds := areaKinds(mail.AreaHold)
	s.kinds[mail.AreaHold].Store(uint32(kinds[len(kinds)-1]))
	err = s.commit(b)
	e.committed()
	e.release()
	if held := inArea(t, s, mail.AreaHold); err != nil || !slices.Equal(held, []mail.QueueID{into}) {
		t.Errorf("%v are held, %v", held, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
