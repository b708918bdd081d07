package spool

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// Whichever value of a message is damaged, the first call that reads it returns an
// error or a place in the corrupt area, never wrong data; the message ends in
// exactly one index; others are not affected; and it can be removed completely.
func TestDamage(t *testing.T) {
	t.Parallel()
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
	// The calls that must notice; others may.
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
					a := accept(t, s, mail.Envelope{Sender: "a@example.com", Flow: testFlow(rcpts)}, addresses(rcpts), text(100))
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
							t.Errorf("lookup: %+v %v", sum, err)
						}
					}
					if _, _, _, err := s.Open(ctxTest, sound.Envelope.ID, 1); err != nil {
						t.Errorf("a sound message: %v", err)
					}
					place := mail.Place{}
					if noticed {
						place = m.Place // what a caller may still assume
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

// An unreadable ceiling of queue IDs must not lead to the reuse of old IDs.
func TestDamagedCeiling(t *testing.T) {
	cfg := small(vfs.NewMem())
	s := mustOpen(t, cfg)
	last := accept(t, s, mail.Envelope{}, addresses(1), text(10)).Envelope.ID
	mustClose(t, s)
	s = mustOpen(t, cfg)
	flip(t, s, plainKey(keyNextID))
	s.closed = true // as after a crash: without lowering the ceiling
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

// damagedStates creates n messages in the deferred area, in tables, and damages the
// states of the first k.
func damagedStates(t *testing.T, s *Spool, n, k int) []mail.Changed {
	t.Helper()
	var changes []mail.Change
	for i := range n {
		a := accept(t, s, mail.Envelope{Flow: testFlow(i)}, addresses(2), noise(i, 100))
		changes = append(changes, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: mail.Instant(5 + i), At: 5, Outcomes: []mail.Outcome{busy(0, 5)}})
	}
	all := apply(t, s, changes...)
	for i := range k {
		flip(t, s, messageKey(keyState, all[i].ID))
	}
	return all
}

// However many of the messages of an Apply are damaged, they are moved to the
// corrupt area and the changes of the others are made.
//
// Seen failing: with the breaker, 17 damaged messages failed all changes.
func TestManyDamagedInOneApply(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	const n, k = 300, 100
	all := damagedStates(t, s, n, k)
	var changes []mail.Change
	for i, m := range all {
		changes = append(changes, mail.Change{Op: mail.ChangeDefer, ID: m.ID, Place: m.Place, Due: mail.Instant(1000 + i), At: 9, Outcomes: []mail.Outcome{sent(0, 9)}})
	}
	got, err := s.Apply(ctxTest, changes)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range got {
		if want := mail.AreaDeferred; i < k && c.Place.Area != mail.AreaCorrupt || i >= k && (c.Place.Area != want || c.Place.Due != mail.Instant(1000+i)) {
			t.Fatalf("change %d: %+v", i, c)
		}
	}
	if in, bad := len(inArea(t, s, mail.AreaDeferred)), len(inArea(t, s, mail.AreaCorrupt)); in != n-k || bad != k {
		t.Errorf("%d deferred and %d corrupt messages, want %d and %d", in, bad, n-k, k)
	}
}

// For a message that temporarily cannot be read, only its own changes fail.
func TestUnreadableFailsItsOwnChanges(t *testing.T) {
	var broken errorfs.Toggle
	broken.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && filepath.Ext(op.Path) == ".sst" {
			return syscall.EIO
		}
		return nil
	})
	cfg := small(errorfs.Wrap(vfs.NewMem(), &broken))
	cfg.Cache = 1
	s := mustOpen(t, cfg)
	old := damagedStates(t, s, 3, 0)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = open(t, cfg)
	fresh := damagedStates(t, s, 3, 0)
	broken.On()
	var changes []mail.Change
	for i := range 3 {
		for _, m := range []mail.Changed{old[i], fresh[i]} {
			changes = append(changes, mail.Change{Op: mail.ChangeHold, ID: m.ID, Place: m.Place, Reason: "why"})
		}
	}
	changes = append(changes, mail.Change{Op: mail.ChangeRecord, ID: old[0].ID, Outcomes: []mail.Outcome{sent(1, 9)}})
	got, err := s.Apply(ctxTest, changes)
	var failed mail.ChangeErrors
	if !errors.As(err, &failed) || len(failed) != len(changes) {
		t.Fatalf("error %v", err)
	}
	for i := range changes {
		if isOld := i%2 == 0; isOld != (failed[i] != nil) || !isOld && got[i].Place.Area != mail.AreaHold {
			t.Errorf("change %d: %+v, error %v", i, got[i], failed[i])
		}
	}
	broken.Off()
	if _, err := s.Apply(ctxTest, changes); err != nil {
		t.Errorf("again: %v", err)
	}
	if got := len(inArea(t, s, mail.AreaHold)); got != 6 {
		t.Errorf("%d messages are held, want 6", got)
	}
}

// A damaged state and a damaged index of the deferred area at once: every change
// ends.
//
// Seen failing: loadDamaged with scanOnce: the change failed forever.
func TestDamagedStateAndIndex(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	cfg := small(fs)
	cfg.blockSize = 1 << 10
	s := mustOpen(t, cfg)
	all := damagedStates(t, s, 400, 0)
	rng := rand.New(rand.NewPCG(1, 2)) // keys that do not compress
	for i := range all {
		all[i] = apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: all[i].ID, Place: all[i].Place, Due: mail.Instant(rng.Int64N(1 << 62)), At: 5})[0]
	}
	flip(t, s, messageKey(keyState, all[0].ID))
	if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
		t.Fatal(err)
	}
	k := s.indexKey(mail.AreaDeferred, mail.Cursor{Due: all[100].Place.Due, ID: all[100].ID})
	mustClose(t, s)
	rot(t, fs, ".sst", 0, k.bytes()[4:9])
	s = open(t, cfg)
	got, err := s.Apply(ctxTest, []mail.Change{
		{Op: mail.ChangeDefer, ID: all[0].ID, Place: all[0].Place, Due: 7, At: 9},
		{Op: mail.ChangeHold, ID: all[200].ID, Place: all[200].Place},
	})
	if err != nil || got[0].Place.Area != mail.AreaCorrupt || got[1].Place.Area != mail.AreaHold {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A message in the corrupt area can be released when it is readable again, and a
// start does so by itself; one that was held is held again.
//
// Seen failing: there was no way out of the corrupt area but removal.
func TestWayOutOfTheCorruptArea(t *testing.T) {
	cfg := small(vfs.NewMem())
	s := mustOpen(t, cfg)
	all := damagedStates(t, s, 5, 0)
	apply(t, s, mail.Change{Op: mail.ChangeHold, ID: all[3].ID, Place: all[3].Place, Reason: "held"})
	bodies := make([]key, 5)
	for i := range bodies {
		bodies[i] = messageKey(keyBody, all[i].ID)
		flip(t, s, bodies[i])
		if _, err := contentOf(s, all[i].ID); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("content %d: %v", i, err)
		}
	}
	if got := len(inArea(t, s, mail.AreaCorrupt)); got != 5 {
		t.Fatalf("%d messages are in the corrupt area", got)
	}
	release := func(i int) mail.Place {
		return apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: all[i].ID, Due: 77})[0].Place
	}
	if got := release(0); got.Area != mail.AreaCorrupt {
		t.Errorf("a message that is still damaged was released: %+v", got)
	}
	for i := 1; i < 5; i++ {
		flip(t, s, bodies[i]) // flipped back
	}
	if got := release(1); got.Area != mail.AreaDeferred || got.Due != 77 {
		t.Errorf("released: %+v", got)
	}
	if got := outcomesOf(t, s, all[1].ID); got[0].Reply.Code != 451 {
		t.Errorf("outcomes were lost: %+v", got)
	}
	mustClose(t, s)
	s = open(t, cfg)
	for area, want := range map[mail.Area][]int{mail.AreaCorrupt: {0}, mail.AreaHold: {3}, mail.AreaDeferred: {1, 2, 4}} {
		var ids []mail.QueueID
		for _, i := range want {
			ids = append(ids, all[i].ID)
		}
		got := inArea(t, s, area)
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", area, got, ids)
		}
	}
}

// A message whose state was lost can be released, but a start does not do so: some
// of its recipients may have it. Outcomes of long lists are not lost with it.
func TestReleaseWithoutState(t *testing.T) {
	cfg := small(vfs.NewMem())
	s := mustOpen(t, cfg)
	a := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(300), text(100))
	id := a.Envelope.ID
	apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, Due: 5, At: 5, Outcomes: []mail.Outcome{sent(0, 5), busy(299, 5)}})
	flip(t, s, messageKey(keyState, id))
	if _, _, _, err := s.Open(ctxTest, id, 10); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("open: %v", err)
	}
	mustClose(t, s)
	s = open(t, cfg)
	if got := inArea(t, s, mail.AreaCorrupt); len(got) != 1 {
		t.Fatalf("corrupt area has %v", got)
	}
	if got := apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: id, Due: 77})[0].Place; got.Area != mail.AreaDeferred || got.Chunks != 2 {
		t.Errorf("released: %+v", got)
	}
	_, _, batch, err := s.Open(ctxTest, id, 1000)
	if err != nil || len(batch.Recipients) != 299 || batch.Recipients[0].Index != 1 {
		t.Errorf("%d recipients wait (%v)", len(batch.Recipients), err)
	}
}

// A damaged state shows in the list, with the area and what is damaged.
func TestDamagedStateIsListed(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	all := damagedStates(t, s, 3, 1)
	list, _, _, err := s.List(ctxTest, mail.AreaDeferred, mail.Cursor{}, 10)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d messages (%v)", len(list), err)
	}
	one, err := s.Lookup(ctxTest, all[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []Summary{list[0], one} {
		if m.Envelope.ID != all[0].ID || m.Place.Area != mail.AreaDeferred || m.Envelope.Recipients != 2 || m.Err == nil || !strings.HasPrefix(m.Err.Error(), "state: ") {
			t.Errorf("listed as %+v", m)
		}
	}
}

// Outcomes that meet damage are kept: of recipients who have been served while the state,
// the envelope or a chunk of outcomes could not be read, none is served again when all
// can be read again. If older outcomes are lost, the log says so.
//
// Seen failing: without edit.keep, the recipient was waiting again in all four cases.
func TestOutcomesThatMeetDamage(t *testing.T) {
	const recipients = 300
	for what, c := range map[string]struct {
		touched  bool // it has been tried before
		key      func(mail.QueueID) key
		found    bool // by a reader, before the outcomes come
		released bool // by an operator: a start does not
		lost     bool // what became of it before
	}{
		"state":                    {true, func(id mail.QueueID) key { return messageKey(keyState, id) }, false, true, true},
		"state, found by a reader": {true, func(id mail.QueueID) key { return messageKey(keyState, id) }, true, true, true},
		"envelope":                 {false, func(id mail.QueueID) key { return messageKey(keyEnvelope, id) }, false, true, true},
		"chunk of outcomes":        {true, func(id mail.QueueID) key { return chunkKey(keyOutcomes, id, 1) }, false, false, false},
	} {
		var log bytes.Buffer
		cfg := small(vfs.NewMem())
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s := mustOpen(t, cfg)
		a := accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(recipients), text(100))
		id := a.Envelope.ID
		if c.touched {
			apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, Due: 5, At: 5, Outcomes: []mail.Outcome{busy(recipients-1, 5)}})
		}
		flip(t, s, c.key(id))
		if c.found {
			if _, _, _, err := s.Open(ctxTest, id, 10); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: open: %v", what, err)
			}
		}
		apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: id, Due: 9, At: 9, Outcomes: []mail.Outcome{sent(0, 9), sent(recipients-1, 9)}})
		if got := inArea(t, s, mail.AreaCorrupt); len(got) != 1 {
			t.Fatalf("%s: corrupt area has %v", what, got)
		}
		if where := c.key(id); where.octets[0] != keyState { // that one has been written anew
			flip(t, s, where) // back
		}
		mustClose(t, s)
		s = mustOpen(t, cfg)
		if got := len(inArea(t, s, mail.AreaCorrupt)); (got == 1) != c.released {
			t.Errorf("%s: %d messages are in the corrupt area after a start", what, got)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: id, Due: 77})
		_, place, batch, err := s.Open(ctxTest, id, 2*recipients)
		if err != nil || len(batch.Recipients) != recipients-2 || batch.Recipients[0].Index != 1 || place.Owes {
			t.Errorf("%s: %d recipients wait, want %d; owes %t (%v)", what, len(batch.Recipients), recipients-2, place.Owes, err)
		}
		if told := strings.Contains(log.String(), "those who have it may receive it again"); told != c.lost {
			t.Errorf("%s: the log says that outcomes are lost: %t", what, told)
		}
		mustClose(t, s)
	}
}
