package spool

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// Every change of mode that the table does not allow panics, and the others are made. A spool
// that counts can only come to the right sums by counting, and nothing that is right becomes
// unfinished but by beginning anew.
func TestCountTransitions(t *testing.T) {
	try := func(from, to countMode) (made bool) {
		var c countState
		c.mode.Store(uint32(from))
		defer func() { made = recover() == nil && c.at() == to }()
		c.become(to)
		return true
	}
	allowed := ""
	for from := range countMode(countModes) {
		for to := range countMode(countModes) {
			if try(from, to) {
				allowed += fmt.Sprintf(" %d-%d", from, to)
			}
		}
	}
	if want := " 0-0 0-1 0-2 1-0 1-1 1-2 2-0 2-1"; allowed != want {
		t.Errorf("changes of mode are%s, want%s", allowed, want)
	}
}

// The counts are in doubt after the removal of a message whose envelope cannot be read. That
// is known after a restart or a crash as well, however long counting anew has to wait.
//
// Seen failing: the doubt was in memory only, and a stop in the ten minutes after which the
// third damaged message is considered left one message too many counted for good.
func TestDoubtIsDurable(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, counting(fs))
	counted(t, s)
	accept(t, s, mail.Envelope{Flow: testFlow(1)}, addresses(1), text(100))
	s.counts.state.doubts.n, s.counts.state.doubts.since = 2, time.Now() // nothing is counted anew for now
	for n := range 2 {
		a := accept(t, s, mail.Envelope{Flow: testFlow(n)}, addresses(1), text(100))
		k := messageKey(keyEnvelope, a.Envelope.ID)
		if err := s.db.Set(k.bytes(), []byte("nonsense"), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: a.Envelope.ID, Place: a.Place})
	}
	if err := s.fold(); err != nil {
		t.Fatal(err)
	}
	if s.Waiting(testFlow(1)).Known {
		t.Error("what is in doubt is known")
	}
	for _, percent := range []int{0, 50, 100} {
		s := mustOpen(t, counting(fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 2))})))
		counted(t, s)
		checkCounts(t, s)
		mustClose(t, s)
	}
	mustClose(t, s)
	for range 2 { // it ends with the counting
		s = mustOpen(t, counting(fs))
		counted(t, s)
		checkCounts(t, s)
		if ok, err := s.has(doubtKey()); ok || err != nil {
			t.Errorf("the doubt stays: %v, %v", ok, err)
		}
		mustClose(t, s)
	}
}

// A message that could not be read while all were counted is not counted. Its removal changes
// no count, whether it can be read by then or not, and has nothing counted again.
//
// Seen failing: the removal of one that was readable again made the sums too small by one, and
// that of one that was not had all counted again.
func TestRemovalOfWhatWasNotCounted(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	damaged := make(map[mail.QueueID][]byte)
	for range 3 {
		a := accept(t, s, mail.Envelope{Flow: testFlow(1)}, addresses(1), text(100))
		k := messageKey(keyEnvelope, a.Envelope.ID)
		value, closer, err := s.db.Get(k.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(damaged) < 2 {
			damaged[a.Envelope.ID] = bytes.Clone(value)
			value = []byte("nonsense")
		}
		if err := errors.Join(s.db.Set(k.bytes(), bytes.Clone(value), pebble.Sync), closer.Close()); err != nil {
			t.Fatal(err)
		}
	}
	s.SetCounts(mail.CountFlows)
	counted(t, s)
	again := true
	for id, value := range damaged {
		if k := messageKey(keyEnvelope, id); again {
			if err := s.db.Set(k.bytes(), value, pebble.Sync); err != nil {
				t.Fatal(err)
			}
			again = false
		}
		apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: id, Place: mail.Place{Area: mail.AreaIncoming}})
		if w := s.Waiting(testFlow(1)); !w.Known || w.Flow != (mail.Usage{Messages: 1, Octets: 100}) {
			t.Errorf("after a removal there are %+v", w)
		}
	}
}

// Where the disk fails while messages are counted, those that cannot be read are not, and the
// next start counts again.
func TestCountingOnAFailingDisk(t *testing.T) {
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
	for range 5 {
		accept(t, s, mail.Envelope{Flow: testFlow(1)}, addresses(1), text(100))
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, cfg)
	broken.On()
	s.SetCounts(mail.CountFlows)
	counted(t, s)
	broken.Off()
	if w := s.Waiting(testFlow(1)); w.Flow.Messages != 0 {
		t.Fatalf("%+v: the disk did not fail", w)
	}
	mustClose(t, s)
	cfg.Counts = mail.CountFlows
	s = mustOpen(t, cfg)
	counted(t, s)
	checkCounts(t, s)
	mustClose(t, s)
}

// A damaged format is restored to the one of a spool with counts, which an earlier version of
// this program must not open.
//
// Seen failing: it became that of a spool without.
func TestFormatOfCountsIsRestored(t *testing.T) {
	for _, level := range []mail.CountLevel{mail.CountNothing, mail.CountTenants} {
		fs := vfs.NewMem()
		cfg := small(fs)
		cfg.Counts = level
		s := mustOpen(t, cfg)
		counted(t, s)
		k := plainKey(keyFormat)
		if err := s.db.Set(k.bytes(), []byte("nonsense"), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		s = mustOpen(t, cfg)
		format, _, err := s.loadText(k)
		if want := map[bool]string{true: "3", false: "2"}[level > 0]; err != nil || format != want {
			t.Errorf("level %d: format %s, want %s (%v)", level, format, want, err)
		}
		mustClose(t, s)
	}
}

// A fold that began before counting ended does not write afterwards that it has not ended:
// after a crash, or a close, everything would be counted again.
func TestFoldWhileCountingEnds(t *testing.T) {
	s := open(t, counting(vfs.NewMem()))
	counted(t, s)
	c := &s.counts
	some := make(sums) // so many that a fold takes longer than counting nothing
	for n := range 1000 {
		some[account{level: accountTenant, name: strconv.Itoa(n)}] = mail.Usage{Messages: 1, Octets: 1}
	}
	for round := range 20 {
		if err := s.setCounting(mail.CountFlows); err != nil {
			t.Fatal(err)
		}
		begun := make(chan struct{})
		var ended atomic.Bool
		var folding sync.WaitGroup
		folding.Go(func() {
			for close(begun); !ended.Load(); {
				if err := s.addSums(some); err != nil {
					t.Error(err)
				}
			}
		})
		<-begun
		if err := s.countAll(t.Context()); err != nil {
			t.Error(err)
		}
		ended.Store(true)
		folding.Wait()
		var mode countMode
		found, err := s.load(plainKey(keyCount), func(payload []byte) { mode = countMode(payload[1]) })
		if err != nil || !found || mode != countWhole || c.state.at() != countWhole {
			t.Fatalf("round %d: found %v, mode %d on disk and %d in memory, %v", round, found, mode, c.state.at(), err)
		}
	}
}
