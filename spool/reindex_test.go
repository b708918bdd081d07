package spool

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A block of states that cannot be read while an index is rebuilt hides no message: not
// those behind it, nor those in it. Once it can be read, the next start puts them where
// they belong.
//
// Seen failing: one EIO ended the rebuild, and what came after it was in no index.
func TestRebuildPastUnreadableStates(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	for _, area := range []mail.Area{mail.AreaDeferred, mail.AreaHold} {
		var read, bad atomic.Int64 // offsets of blocks
		bad.Store(-1)
		cfg := small(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileReadAt || filepath.Ext(op.Path) != ".sst" {
				return nil
			}
			if read.Store(op.Offset); op.Offset == bad.Load() {
				return syscall.EIO
			}
			return nil
		})))
		cfg.Cache = 1
		rng := rand.New(rand.NewPCG(1, 2))
		now := mail.Instant(0)
		cfg.Now = func() mail.Instant { now += mail.Instant(rng.Int64N(1 << 50)); return now } // so that keys do not compress
		s := mustOpen(t, cfg)
		var all []mail.Change
		for i := range 1500 {
			a := accept(t, s, mail.Envelope{Flow: testFlow(i)}, addresses(1), nil)
			c := mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: mail.Instant(rng.Int64N(1 << 62)), At: 1}
			if area == mail.AreaHold || i == 700 {
				c = mail.Change{Op: mail.ChangeHold, ID: a.Envelope.ID, Place: a.Place, Reason: needle("reason", i)}
			}
			all = append(all, c)
		}
		apply(t, s, all...)
		want := inArea(t, s, area)
		if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)

		s = mustOpen(t, cfg)
		if _, err := s.readState(all[700].ID); err != nil {
			t.Fatal(err)
		}
		bad.Store(read.Load())
		if _, err := s.readState(all[700].ID); err == nil {
			t.Fatal("the state can be read")
		}
		if err := s.heal(ctxTest, area, s.healed, ErrCorrupt); err != nil {
			t.Errorf("%s: %v", area, err)
		}
		found := inArea(t, s, area)
		if missing := slices.DeleteFunc(slices.Clone(want), func(id mail.QueueID) bool { return slices.Contains(found, id) }); len(missing) > 0 {
			t.Errorf("%s: %d messages of %d are not found", area, len(missing), len(want))
		}
		bad.Store(-1)
		mustClose(t, s)
		s = open(t, cfg)
		if got := inArea(t, s, area); !slices.Equal(got, want) {
			t.Errorf("%s: after the next start %d messages are found, want %d", area, len(got), len(want))
		}
	}
}
