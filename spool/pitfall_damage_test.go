package spool

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// The pitfalls that concern damage; see pitfall_test.go.

// alarms collects the alarms of a spool.
type alarms struct {
	mu   sync.Mutex
	list []Alarm
}

func (a *alarms) add(alarm Alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, alarm)
}

func (a *alarms) count(kind AlarmKind) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, alarm := range a.list {
		if alarm.Kind == kind {
			n++
		}
	}
	return n
}

// rot changes a byte of needle in the files with the extension ext, at its
// occurrence after skipping pass of them; it fails the test if there is no such
// file.
func rot(t *testing.T, fs *vfs.MemFS, ext string, pass int, needle []byte) {
	t.Helper()
	names, err := fs.List("/spool/db")
	if err != nil {
		t.Fatal(err)
	}
	hits := 0
	for _, name := range names {
		if filepath.Ext(name) != ext {
			continue
		}
		name = "/spool/db/" + name
		data, err := fs.UnsafeGetFileDataBuffer(name)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(data, needle)
		for skipped := 0; skipped < pass && at >= 0; skipped++ {
			if next := bytes.Index(data[at+1:], needle); next >= 0 {
				at += 1 + next
			} else {
				at = -1
			}
		}
		if at < 0 {
			continue
		}
		hits++
		f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{^needle[0]}, int64(at)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if hits == 0 {
		t.Fatalf("no %s file holds %q", ext, needle)
	}
}

// flushed commits n messages, compacts them to table and blob files and closes the
// spool. Each message has a unique sender and content. What shares a block does not
// depend on when memory was flushed: the first envelope of a table may share one with
// entries of an index.
func flushed(t *testing.T, cfg Config, n int) (ids []mail.QueueID) {
	t.Helper()
	s := mustOpen(t, cfg)
	for i := range n {
		e := mail.Envelope{Sender: mail.Address(noise(i, 60)[17:])}
		ids = append(ids, accept(t, s, e, addresses(1), noise(i, 4000)).Envelope.ID)
	}
	if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	return ids
}

func needle(what string, i int) string { return fmt.Sprintf("%s<%08x>", what, uint32(i+1)*0x9e3779b1) }

// noise returns content that does not compress.
func noise(i, n int) []byte {
	b := []byte(needle("content", i))
	for x := uint64(i + 1); len(b) < n; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b = append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24))
	}
	return b
}

// 1. Pebble's Get returns an empty value and no error if the block of a blob file
// cannot be read. Trusting it would deliver an empty mail.
//
// Seen failing: load without unseal and without checking closer.Close: Content
// returned 0 bytes and nil, or 50 bytes of another message.
func TestPitfall1GetHidesReadErrors(t *testing.T) {
	t.Run("checksum", func(t *testing.T) {
		fs := vfs.NewMem()
		var raised alarms
		cfg := small(fs)
		cfg.OnAlarm = raised.add
		ids := flushed(t, cfg, 40)
		rot(t, fs, ".blob", 0, []byte(needle("content", 20)))
		s := open(t, cfg)
		if c, err := contentOf(s, ids[20]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("damaged content: %d octets, error %v", len(c), err)
		}
		if m, err := s.Lookup(ctxTest, ids[20]); err != nil || m.Place.Area != mail.AreaCorrupt || m.Reason == "" {
			t.Errorf("the damaged message is in %s, reason %q (%v)", m.Place.Area, m.Reason, err)
		}
		if raised.count(AlarmCorrupt) == 0 {
			t.Error("no alarm")
		}
		if c, err := contentOf(s, ids[0]); err != nil || !bytes.Equal(c, noise(0, 4000)) {
			t.Errorf("a sound message: %d octets, %v", len(c), err)
		}
	})
	t.Run("EIO", func(t *testing.T) {
		var broken errorfs.Toggle
		broken.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileReadAt && filepath.Ext(op.Path) == ".blob" {
				return syscall.EIO
			}
			return nil
		})
		cfg := small(errorfs.Wrap(vfs.NewMem(), &broken))
		ids := flushed(t, cfg, 1)
		s := open(t, cfg)
		broken.On()
		defer broken.Off()
		if c, err := contentOf(s, ids[0]); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrCorrupt) {
			t.Fatalf("unreadable content: %d octets, error %v", len(c), err)
		}
	})
	t.Run("value under the wrong key", func(t *testing.T) {
		s := open(t, small(vfs.NewMem()))
		a, b := accept(t, s, mail.Envelope{}, addresses(1), text(50)), accept(t, s, mail.Envelope{}, addresses(1), text(60))
		from, to := messageKey(keyBody, a.Envelope.ID), messageKey(keyBody, b.Envelope.ID)
		value, closer, err := s.db.Get(from.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.db.Set(to.bytes(), value, pebble.Sync), closer.Close()); err != nil {
			t.Fatal(err)
		}
		if c, err := contentOf(s, b.Envelope.ID); !errors.Is(err, ErrCorrupt) {
			t.Errorf("another message's content was returned: %d octets, %v", len(c), err)
		}
	})
	t.Run("content file", func(t *testing.T) {
		for name, hurt := range map[string]func(*vfs.MemFS, string) error{
			"changed": func(fs *vfs.MemFS, name string) error {
				f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte("\x00"), 30_000)
				return errors.Join(err, f.Close())
			},
			"emptied": func(fs *vfs.MemFS, name string) error {
				f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
				return errors.Join(err, f.Close())
			},
		} {
			fs := vfs.NewMem()
			s := open(t, small(fs))
			id := accept(t, s, mail.Envelope{}, addresses(1), text(50_000)).Envelope.ID
			_, file := s.bodies.path(id)
			if err := hurt(fs, file); err != nil {
				t.Fatal(err)
			}
			if c, err := contentOf(s, id); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %d octets, error %v", name, len(c), err)
			}
			if got := inArea(t, s, mail.AreaCorrupt); len(got) != 1 {
				t.Errorf("%s: corrupt area has %v", name, got)
			}
		}
	})
}

// 3. Pebble's default handler for damage ends the process: one bad block, and
// no mail would be delivered any more.
//
// Seen failing: storeEvents without DataCorruption: Fatal was called.
func TestPitfall3OneBadBlockIsNotFatal(t *testing.T) {
	fs := vfs.NewMem()
	var raised alarms
	cfg := small(fs)
	cfg.OnAlarm = raised.add
	ids := flushed(t, cfg, 400)
	rot(t, fs, ".sst", 0, noise(200, 60)[30:])
	s := open(t, cfg)
	if _, _, _, err := s.Open(ctxTest, ids[200], 1); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("damaged envelope: %v", err)
	}
	if raised.count(AlarmCorrupt) < 2 || raised.count(AlarmFatal) != 0 {
		t.Errorf("alarms: %v", raised.list)
	}
	if got := inArea(t, s, mail.AreaCorrupt); len(got) != 1 || got[0] != ids[200] {
		t.Errorf("corrupt area has %v, want %v", got, ids[200])
	}
	if got := inArea(t, s, mail.AreaIncoming); len(got) != 399 {
		t.Errorf("incoming has %d messages, want 399", len(got))
	}
	for _, i := range []int{0, 399} {
		if _, _, _, err := s.Open(ctxTest, ids[i], 1); err != nil {
			t.Errorf("a sound message: %v", err)
		}
	}
	accept(t, s, mail.Envelope{}, addresses(1), text(10))

	// The damaged message can still be shown, and removed.
	list, _, _, err := s.List(ctxTest, mail.AreaCorrupt, mail.Cursor{}, 9)
	if err != nil || len(list) != 1 || list[0].Envelope.ID != ids[200] || !errors.Is(list[0].Err, ErrCorrupt) || list[0].Reason == "" {
		t.Errorf("list: %+v %v", list, err)
	}
	place := mail.Place{Area: mail.AreaIncoming} // where the core still assumes it is
	apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: ids[200], Place: place})
	if got := inArea(t, s, mail.AreaCorrupt); len(got) != 0 {
		t.Errorf("corrupt area has %v after the removal", got)
	}
}

// 3, continued. A bad block in an index must not hide the mail after it.
//
// Seen failing: scan without heal: Fetch returned ErrCorrupt.
func TestPitfall3DamagedIndexIsMadeAnew(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	for n, area := range []mail.Area{mail.AreaDeferred, mail.AreaIncoming, mail.AreaDeferred, mail.AreaIncoming} {
		flow := testFlow(n / 2)
		fs := vfs.NewMem()
		var raised alarms
		cfg := small(fs)
		cfg.OnAlarm = raised.add
		rng := rand.New(rand.NewPCG(1, 2))
		now := mail.Instant(0)
		cfg.Now = func() mail.Instant { now += mail.Instant(rng.Int64N(1 << 50)); return now } // so that keys do not compress
		s := mustOpen(t, cfg)
		var all []mail.Change
		for range 1500 {
			a := accept(t, s, mail.Envelope{Flow: flow}, addresses(1), nil)
			due := mail.Instant(rng.Int64N(1 << 62))
			all = append(all, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: due, At: 1})
		}
		if area == mail.AreaDeferred {
			apply(t, s, all...)
		}
		want := inArea(t, s, area)
		if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		if area == mail.AreaDeferred {
			k := s.indexKey(area, mail.Cursor{Bucket: flow.Bucket(), Due: all[700].Due, ID: all[700].ID})
			rot(t, fs, ".sst", 0, k.bytes()[k.n-13:k.n-8])
		} else {
			k := s.indexKey(area, mail.Cursor{Bucket: flow.Bucket(), ID: all[700].ID})
			rot(t, fs, ".sst", 1, k.bytes()[k.n-6:k.n-1]) // the first is the content's key
		}

		s = mustOpen(t, cfg)
		moved := apply(t, s, mail.Change{Op: mail.ChangeHold, ID: want[3]}, mail.Change{Op: mail.ChangeRemove, ID: want[4]})
		want = slices.Delete(want, 3, 5)
		if got := inArea(t, s, area); !slices.Equal(got, want) {
			t.Errorf("%s: %d messages are found, want %d", area, len(got), len(want))
		}
		if raised.count(AlarmCorrupt) == 0 || moved[0].Place.Area != mail.AreaHold {
			t.Errorf("%s: alarms %v, moved %v", area, raised.list, moved)
		}
		// The store is intact again: nothing refers to the bad block.
		if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
			t.Errorf("%s: compaction: %v", area, err)
		}
		mustClose(t, s)
	}
}

// 3, continued. A temporary read error proves no damage: messages stay where they
// are, and are read once the disk works again.
//
// Seen failing: isWrong with EIO: messages were moved to the corrupt area.
func TestPitfall3UnreadableDiskIsNoVerdict(t *testing.T) {
	for _, cause := range []error{syscall.EIO, oserror.ErrNotExist} {
		var broken errorfs.Toggle
		broken.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileReadAt && filepath.Ext(op.Path) == ".blob" {
				return cause
			}
			return nil
		})
		cfg := small(errorfs.Wrap(vfs.NewMem(), &broken))
		ids := flushed(t, cfg, 100)
		s := open(t, cfg)
		broken.On()
		for i, id := range ids {
			if _, err := contentOf(s, id); err == nil || errors.Is(err, ErrCorrupt) {
				t.Fatalf("content %d: %v", i, err)
			}
		}
		broken.Off()
		if got := len(inArea(t, s, mail.AreaCorrupt)); got != 0 {
			t.Errorf("%v: %d messages are in the corrupt area", cause, got)
		}
		for i, id := range ids {
			if c, err := contentOf(s, id); err != nil || !bytes.Equal(c, noise(i, 4000)) {
				t.Fatalf("content %d: %v", i, err)
			}
		}
	}
}

// A damaged block that holds the last contents and the first keys of an index: the
// index is rebuilt, and only the contents in the block are lost.
//
// Seen failing: clear with Excise regardless of clearable: it dropped the whole
// table before the block, with 88 contents.
func TestDamagedBlockAtTheEdgeOfAnIndex(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	cfg := small(fs)
	cfg.blockSize = 1 << 10
	s := mustOpen(t, cfg)
	const n = 100
	var ids []mail.QueueID
	for i := range n {
		a := accept(t, s, mail.Envelope{}, addresses(1), noise(i, 300))
		apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: mail.Instant(5 + i), At: 1})
		ids = append(ids, a.Envelope.ID)
	}
	if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	rot(t, fs, ".sst", 0, noise(n-1, 60)[30:]) // does not compress
	s = open(t, cfg)
	if got := len(inArea(t, s, mail.AreaDeferred)); got != n {
		t.Errorf("%d messages are deferred, want %d", got, n)
	}
	bad := 0
	for _, id := range ids {
		if _, err := contentOf(s, id); err != nil {
			bad++
		}
	}
	if bad == 0 || bad > 20 {
		t.Errorf("%d of %d contents cannot be read, want those of one block", bad, n)
	}
}

// Of many messages that are due at the same instant, only those in a bad block of the
// index are skipped, in each area that has due times.
//
// Seen failing: seekPast that stepped from due time to due time: all messages after
// the bad block were missing.
func TestDamagedBlockAmongEqualDues(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	for _, area := range []mail.Area{mail.AreaDeferred, mail.AreaHold} {
		fs := vfs.NewMem()
		cfg := small(fs)
		cfg.blockSize = 1 << 10
		rng := rand.New(rand.NewPCG(1, 2))
		now := mail.Instant(0)
		cfg.Now = func() mail.Instant { now += mail.Instant(rng.Int64N(1 << 50)); return now } // so that keys do not compress
		s := mustOpen(t, cfg)
		var all []mail.Change
		op := map[mail.Area]mail.ChangeOp{mail.AreaDeferred: mail.ChangeDefer, mail.AreaHold: mail.ChangeHold}[area]
		for range 3000 {
			a := accept(t, s, mail.Envelope{}, addresses(1), nil)
			all = append(all, mail.Change{Op: op, ID: a.Envelope.ID, Place: a.Place, Due: 1 << 40, At: 1})
		}
		apply(t, s, all...)
		if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		k := s.indexKey(area, mail.Cursor{Due: 1 << 40, ID: all[1000].ID})
		rot(t, fs, ".sst", 1, k.bytes()[k.n-6:k.n-1]) // the first is the content's key
		s = open(t, cfg)
		found := 0
		gaps, err := s.scanPast(ctxTest, area, mail.Cursor{}, func(mail.Cursor) bool { found++; return true })
		if err != nil || gaps != 1 || found < 2000 || found == 3000 {
			t.Errorf("%s: %d of 3000 messages were found beside %d gaps, error %v", area, found, gaps, err)
		}
	}
}
