package spool

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// Each test here covers one pitfall of the store that was found by probing it.
// "Seen failing" names the change to the package with which the test was seen to
// fail.

// 2. Having failed to write the log, Pebble's Commit calls Logger.Fatalf and then
// returns nil. If Fatalf returned, a 250 would be sent for mail that is not on
// disk.
//
// There are two guards: storeFile, before Pebble gets the error, and Fatalf itself,
// for errors of other origin.
//
// Seen failing: storeLogger.Fatalf only logging, and no storeFile around the
// log: Commit returned nil. With storeFile: Fatalf returned.
func TestPitfall2FatalfMustNotReturn(t *testing.T) {
	t.Run("Fatalf", func(t *testing.T) {
		cfg := small(vfs.NewMem())
		called := 0
		cfg.Fatal = func(error) { called++ } // and returns, which it must not
		s := open(t, cfg)
		defer func() {
			if recover() == nil || called != 1 {
				t.Errorf("Fatalf returned; Fatal was called %d times", called)
			}
		}()
		storeLogger{s}.Fatalf("commit: %v", syscall.EIO)
	})
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
		var broken errorfs.Toggle
		broken.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == kind && filepath.Ext(op.Path) == ".log" {
				return syscall.EIO
			}
			return nil
		})
		cfg := small(errorfs.Wrap(vfs.NewMem(), &broken))
		fatal := make(chan error, 1)
		cfg.Fatal = func(err error) {
			select {
			case fatal <- err:
			default:
			}
			select {} // as good as the end of the process, for this goroutine
		}
		s := mustOpen(t, cfg) // never closed: it has failed
		d := draft(t, s, addresses(1), text(100))
		broken.On()
		returned := make(chan error, 1)
		go func() { returned <- d.Commit(ctxTest, mail.Envelope{}) }()
		select {
		case err := <-returned:
			t.Fatalf("op %d failed on the log, Commit returned %v", kind, err)
		case err := <-fatal:
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("fatal error %v does not contain the cause", err)
			}
		}
	}
}

// 4. On a full disk Pebble retries a flush without pause, and a log that cannot be
// written is fatal. The ballast must save the log; the flush must be slowed down;
// mail must be refused; and everything must recover.
//
// Seen failing: Open without vfs.OnDiskFull: the ballast stayed and the commit waited forever.
// Create without pauseFlush and storeFile: 1,000 attempts in no time for tables, and a nil
// dereference in Pebble for blobs.
func TestPitfall4DiskFull(t *testing.T) {
	t.Run("ballast", func(t *testing.T) {
		mem := vfs.NewMem()
		var full errorfs.Toggle
		full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
			_, err := mem.Stat("/spool/ballast")
			if op.Kind == errorfs.OpFileWrite && err == nil {
				return syscall.ENOSPC
			}
			return nil
		})
		var raised alarms
		cfg := small(errorfs.Wrap(mem, &full))
		cfg.OnAlarm = raised.add
		synctest.Test(t, func(t *testing.T) {
			s := mustOpen(t, cfg)
			defer s.Close()
			synctest.Wait() // for the ballast to be in place
			d := draft(t, s, addresses(1), text(100))
			full.On()
			if err := d.Commit(ctxTest, mail.Envelope{}); err != nil {
				t.Fatalf("commit on a full disk with a ballast: %v", err)
			}
			if _, err := mem.Stat("/spool/ballast"); err == nil || raised.count(AlarmFull) == 0 {
				t.Error("the ballast still exists, or no alarm was raised")
			}
			if _, err := s.Begin(ctxTest); !errors.Is(err, ErrFull) {
				t.Errorf("mail after the disk was full: %v, want ErrFull", err)
			}
			if _, err := s.BeginReport(ctxTest); err != nil {
				t.Errorf("a report after the disk was full: %v", err)
			}
			full.Off()
			time.Sleep(2 * s.cfg.Maintain)
			synctest.Wait()
			if _, err := mem.Stat("/spool/ballast"); err != nil || raised.count(AlarmRoom) == 0 {
				t.Errorf("the ballast was not restored: %v", err)
			}
			if _, err := s.Begin(ctxTest); err != nil {
				t.Errorf("mail after there is room again: %v", err)
			}
		})
	})
	t.Run("log", func(t *testing.T) {
		var full errorfs.Toggle
		full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && filepath.Ext(op.Path) == ".log" {
				return syscall.ENOSPC
			}
			return nil
		})
		cfg := small(errorfs.Wrap(vfs.NewMem(), &full))
		synctest.Test(t, func(t *testing.T) {
			s := mustOpen(t, cfg)
			d := draft(t, s, addresses(1), text(100))
			full.On()
			var returned atomic.Bool
			go func() {
				if err := d.Commit(ctxTest, mail.Envelope{}); err != nil {
					t.Error(err)
				}
				returned.Store(true)
			}()
			time.Sleep(time.Minute)
			if returned.Load() {
				t.Error("a commit did not wait for room in the log")
			}
			full.Off()
			time.Sleep(time.Second)
			if !returned.Load() {
				t.Error("a commit still waits when there is room again")
			}
			if c, err := contentOf(s, d.ID()); err != nil || !bytes.Equal(c, text(100)) {
				t.Errorf("%d octets, %v", len(c), err)
			}
			mustClose(t, s)
		})
	})
	t.Run("flush", func(t *testing.T) {
		for _, ext := range []string{".sst", ".blob"} {
			var attempts atomic.Int64
			var full errorfs.Toggle
			full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind != errorfs.OpFileWrite || filepath.Ext(op.Path) != ext || attempts.Add(1) > 1000 {
					return nil
				}
				return syscall.ENOSPC
			})
			cfg := small(errorfs.Wrap(vfs.NewMem(), &full))
			synctest.Test(t, func(t *testing.T) {
				s := mustOpen(t, cfg)
				a := accept(t, s, mail.Envelope{}, addresses(1), noise(1, 4000))
				full.On()
				flushed, err := s.db.AsyncFlush()
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				// Each attempt fails and is repeated once by vfs.OnDiskFull.
				if n := attempts.Load(); n < 10 || n > 100 {
					t.Errorf("%s: %d failed writes in 10 s", ext, n)
				}
				full.Off()
				<-flushed
				mustClose(t, s)
				s = mustOpen(t, cfg)
				if c, err := contentOf(s, a.Envelope.ID); err != nil || !bytes.Equal(c, noise(1, 4000)) {
					t.Errorf("%s: %d octets, %v", ext, len(c), err)
				}
				mustClose(t, s)
			})
		}
	})
}

// 5. A scan from the start of an index passes the tombstones of all messages that
// were moved away. With the cursor that Fetch returns it must not.
//
// Seen failing: Fetch scanning from the zero cursor: 291,320 steps.
func TestPitfall5CursorSkipsTombstones(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	const n = 2000
	var all []mail.Change
	for range n {
		a := accept(t, s, mail.Envelope{}, addresses(1), nil)
		all = append(all, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: 1, At: 1})
	}
	apply(t, s, all...)
	before := s.Health().Steps
	var cursor mail.Cursor
	for moved := 0; moved < n; {
		f, err := s.Fetch(ctxTest, mail.AreaDeferred, cursor, 1, 10)
		if err != nil {
			t.Fatal(err)
		}
		cursor = f.Next
		for i, c := range f.Cursors {
			all[i] = mail.Change{Op: mail.ChangeDefer, ID: c.ID, Place: mail.Place{Area: mail.AreaDeferred, Due: c.Due}, Due: 9, At: 2}
		}
		apply(t, s, all[:len(f.Cursors)]...)
		moved += len(f.Cursors)
	}
	if steps := s.Health().Steps - before; steps > 2*n {
		t.Errorf("%d steps for %d messages", steps, n)
	}
}

// 6. Removed contents keep their disk space for as long as the store is idle.
//
// Seen failing: reclaim without Compact, and reclaim without nudge: all 8 MB
// remained.
func TestPitfall6IdleSpaceComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := small(vfs.NewMem())
		cfg.MemTable = 32 << 20 // as in production: few, large tables, so that nothing triggers a compaction
		s := mustOpen(t, cfg)
		defer s.Close()
		const n = 2000
		var all []mail.Change
		for i := range n {
			a := accept(t, s, mail.Envelope{}, addresses(1), noise(i, 4000))
			all = append(all, mail.Change{Op: mail.ChangeRemove, ID: a.Envelope.ID, Place: a.Place})
		}
		// In the lowest level, like an older backlog.
		if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
			t.Fatal(err)
		}
		apply(t, s, all[:n*9/10]...)
		before := s.Health().Blobs
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if after := s.Health().Blobs; before < n*4000 || after > before/4 {
			t.Errorf("%d octets of contents on disk before, %d after", before, after)
		}
		if c, err := contentOf(s, all[n-1].ID); err != nil || !bytes.Equal(c, noise(n-1, 4000)) {
			t.Errorf("a message that is still there: %d octets, %v", len(c), err)
		}
	})
}

// 7. A commit that is not synced may not even have reached the operating
// system. What a call has confirmed must survive losing all that was not.
//
// Seen failing: commit with pebble.NoSync: the outcome was lost.
func TestPitfall7CommitsAreSynced(t *testing.T) {
	fs := vfs.NewCrashableMem()
	cfg := small(fs)
	s := open(t, cfg)
	a := accept(t, s, mail.Envelope{}, addresses(1), text(10))
	d := accept(t, s, mail.Envelope{}, addresses(1), text(20_000))
	for _, step := range []func(){
		func() {},
		func() {
			apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: a.Envelope.ID, Place: a.Place, Outcomes: []mail.Outcome{sent(0, 1)}})
		},
		func() { apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: d.Envelope.ID, Place: d.Place}) },
	} {
		step()
		want := dump(t, s)
		after := cfg
		after.FS = fs.CrashClone(vfs.CrashCloneCfg{})
		crashed := mustOpen(t, after)
		if got := dump(t, crashed); got != want {
			t.Errorf("after a crash:\n%s\nwant:\n%s", got, want)
		}
		mustClose(t, crashed)
	}
}

// 8. After a reopen, Pebble's own figure of its disk space leaves out blob
// files; an operator who looks for what fills the disk would be misled.
//
// Seen failing: Stats with Metrics().DiskSpaceUsage(): 0.1 MB instead of 4 MB.
func TestPitfall8DiskSpaceAfterReopen(t *testing.T) {
	cfg := small(vfs.NewMem())
	flushed(t, cfg, 1000)
	s := open(t, cfg)
	st, err := s.Stats(ctxTest)
	if err != nil || st.StoreOctets < 1000*4000 {
		t.Errorf("store takes %d octets (%v), holds %d", st.StoreOctets, err, 1000*4000)
	}
}

// 9. Pebble by default makes a store of its oldest format, in which contents
// are copied by every compaction and a torn log looks like a damaged one.
//
// Seen failing: storeOptions without FormatMajorVersion: format 13.
func TestPitfall9NewestFormat(t *testing.T) {
	cfg := small(vfs.NewMem())
	flushed(t, cfg, 10)
	s := open(t, cfg)
	if v := s.db.FormatMajorVersion(); v != pebble.FormatNewest {
		t.Errorf("format %d, want %d", v, pebble.FormatNewest)
	}
	names, err := s.disk.List("/spool/db")
	if err != nil || !strings.Contains(fmt.Sprint(names), ".blob") {
		t.Errorf("contents are not kept apart: %v %v", names, err)
	}
}
