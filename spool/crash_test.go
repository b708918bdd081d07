package spool

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// crashSteps are the steps after each of which a spool has a defined state.
// Each is one call that changes something; a crash inside it must leave the
// state before or the state after.
var crashSteps = []func(t testing.TB, s *Spool, ids *[]mail.QueueID){
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // small
		*ids = append(*ids, accept(t, s, mail.Envelope{Sender: "a@example.com"}, addresses(3), text(700)).Envelope.ID)
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // content in a file
		*ids = append(*ids, accept(t, s, mail.Envelope{Sender: "b@example.com", Flow: testFlow(1)}, addresses(2), text(60_000)).Envelope.ID)
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // recipients written ahead, content in a file
		*ids = append(*ids, accept(t, s, mail.Envelope{Sender: "c@example.com", Flow: testFlow(2)}, addresses(5000), text(20_000)).Envelope.ID)
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // everything written ahead is discarded
		d := draft(t, s, addresses(5000), text(30_000))
		d.Abort()
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // several messages at once
		apply(t, s,
			mail.Change{Op: mail.ChangeDefer, ID: (*ids)[0], Due: 50, At: 10, Outcomes: []mail.Outcome{sent(0, 9), busy(1, 9)}},
			mail.Change{Op: mail.ChangeDefer, ID: (*ids)[1], Due: 40, At: 11, Outcomes: []mail.Outcome{busy(1, 9)}},
			mail.Change{Op: mail.ChangeRecord, ID: (*ids)[2], Outcomes: []mail.Outcome{sent(4999, 9), busy(0, 9), busy(1000, 9)}})
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // recipients of a message are held, one of them without effect
		splitOff(t, s, ids, 0, []uint32{2, 0})
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // from a long list, and with content in a file
		splitOff(t, s, ids, 2, []uint32{0, 1, 299, 300, 301, 1000, 4998, 4999})
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // a split and the removal of the rest, at once
		splitOff(t, s, ids, 3, []uint32{0}, mail.Change{Op: mail.ChangeRemove, ID: (*ids)[3]})
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) {
		apply(t, s, mail.Change{Op: mail.ChangeHold, ID: (*ids)[1], Reason: "look at it"},
			mail.Change{Op: mail.ChangeExpire, ID: (*ids)[0], At: 60})
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // some of a long list are requeued: the content file has three names
		requeueOff(t, s, ids, 2, []uint32{2, 600, 4000})
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // all that is left is requeued: a message takes the place of another one
		requeueOff(t, s, ids, 4, []uint32{0, 1, 2, 3, 4, 5, 6, 7})
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // a report, and the record that it is no longer owed
		d := draft(t, s, []mail.Recipient{{Address: "a@example.com"}}, text(9_000))
		err := d.CommitWith(ctxTest, mail.Envelope{Flow: testFlow(3)}, []mail.Change{
			{Op: mail.ChangeReported, ID: (*ids)[0], Outcomes: []mail.Outcome{{Index: 1}, {Index: 2}}}})
		if err != nil {
			t.Fatal(err)
		}
		*ids = append(*ids, d.ID())
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // no mail: nothing must change
		saveHosts(t, s, hostRecord(1, 1), hostRecord(2, 1))
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // table files
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) {
		apply(t, s, mail.Change{Op: mail.ChangeRelease, ID: (*ids)[1], Due: 70},
			mail.Change{Op: mail.ChangeRemove, ID: (*ids)[0]},
			mail.Change{Op: mail.ChangeWarn, ID: (*ids)[2], At: 61})
	},
	func(t testing.TB, s *Spool, ids *[]mail.QueueID) { // a file and a long list
		apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: (*ids)[2]})
	},
}

// splitOff holds some recipients of a message, together with other changes. The new
// message is appended to ids.
func splitOff(t testing.TB, s *Spool, ids *[]mail.QueueID, of int, recipients []uint32, more ...mail.Change) {
	into, err := s.Reserve(100)
	if err != nil {
		t.Fatal(err)
	}
	*ids = append(*ids, into)
	c := mail.Change{Op: mail.ChangeRecord, ID: (*ids)[of], At: 30, Splits: []mail.Split{{Into: into, Recipients: recipients, Reason: "some are held"}}}
	apply(t, s, append([]mail.Change{c}, more...)...)
}

// requeueOff requeues recipients of a message, two of them under other addresses. The new message is appended to ids.
func requeueOff(t testing.TB, s *Spool, ids *[]mail.QueueID, of int, recipients []uint32) {
	into, err := s.Reserve(100)
	if err != nil {
		t.Fatal(err)
	}
	*ids = append(*ids, into)
	r := &mail.Requeue{Sender: "new@example.com", Flow: testFlow(4), To: []mail.Replacement{
		{Of: recipients[0], Address: "x@example.net"}, {Of: recipients[0], Address: "y@example.net"}, {Of: recipients[2], Address: "x@example.net"}}}
	apply(t, s, mail.Change{Op: mail.ChangeRecord, ID: (*ids)[of], At: 45, Splits: []mail.Split{{Into: into, Recipients: recipients, Requeue: r}}})
}

// A crash at any write to the disk, with none, some or all of the unsynced data
// having reached it, loses nothing that was confirmed, restores nothing that was
// removed, splits no step, and leaves nothing behind. A plain run tries some of the crashes.
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	states := undisturbed(t)
	var clones []clone
	crashes, every := 0, int(sampled(19))
	fs := vfs.NewCrashableMem()
	var at atomic.Int64 // the step under way
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 0))
	watch := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
			mu.Lock()
			defer mu.Unlock()
			percents := []int{50, crashes / 2 % 2 * 100}
			if op.Kind == errorfs.OpFileSync && op.Path == "/spool/db" {
				percents = []int{0, 50, 50, 50, 50, 50, 50, 100} // several files are new: any of them may be lost
			}
			for _, percent := range percents {
				if crashes++; crashes%every > 0 {
					continue
				}
				cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}
				clones = append(clones, clone{fs.CrashClone(cfg), int(at.Load()), fmt.Sprintf("%d%% at op %d on %s", percent, op.Kind, op.Path)})
			}
		}
		return nil
	})
	s := mustOpen(t, small(errorfs.Wrap(fs, watch)))
	<-s.work.swept
	var ids []mail.QueueID
	for i, step := range crashSteps {
		at.Store(int64(i + 1))
		step(t, s, &ids)
	}
	at.Store(int64(len(crashSteps) + 1))
	states = append(states, states[len(crashSteps)])
	mustClose(t, s)
	mustClose(t, mustOpen(t, small(errorfs.Wrap(fs, watch)))) // a crash while recovering

	mu.Lock()
	defer mu.Unlock()
	if crashes < 200 {
		t.Fatalf("only %d crashes", crashes)
	}
	t.Logf("%d crashes, of which %d are tried", crashes, len(clones))
	for _, c := range clones {
		c.check(t, states)
	}
}

// undisturbed returns the state before the first step and after each step.
func undisturbed(t *testing.T) (states []string) {
	s := mustOpen(t, small(vfs.NewMem()))
	var ids []mail.QueueID
	states = append(states, dump(t, s))
	for _, step := range crashSteps {
		step(t, s, &ids)
		states = append(states, dump(t, s))
	}
	mustClose(t, s)
	return states
}

// A clone is the disk after a crash during a step.
type clone struct {
	fs   *vfs.MemFS
	step int // states[step-1] or states[step] is right
	what string
}

func (c clone) check(t *testing.T, states []string) {
	t.Helper()
	s := mustOpen(t, small(c.fs))
	defer mustClose(t, s)
	<-s.work.swept
	got := dump(t, s)
	if got != states[max(c.step-1, 0)] && got != states[c.step] {
		t.Fatalf("crash in step %d, %s: recovered\n%s\nwant\n%s\nor\n%s", c.step, c.what, got, states[max(c.step-1, 0)], states[c.step])
	}
	checkNoRemains(t, s)
	if t.Failed() {
		t.Fatalf("remains after a crash in step %d, %s", c.step, c.what)
	}
}

// watchWrites calls do before every write to a file system.
func watchWrites(fs vfs.FS, do func()) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
			do()
		}
		return nil
	}))
}

// A ledger records what was confirmed to each of several writers.
type ledger struct {
	mu      sync.Mutex
	entries map[mail.QueueID]confirmation
}

type confirmation struct {
	area    mail.Area // AreaNone: its removal was confirmed
	leaving bool      // its removal has been requested
}

func (l *ledger) set(id mail.QueueID, c confirmation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[id] = c
}

func (l *ledger) copy() map[mail.QueueID]confirmation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.entries)
}

// Eight writers commit, defer and remove concurrently; the power fails at a random
// moment. Every message is then in the last state that was confirmed, or a later
// one.
func TestCrashUnderConcurrentWriters(t *testing.T) {
	for round := range uint64(6) {
		fs := vfs.NewCrashableMem()
		s := mustOpen(t, small(fs))
		known := ledger{entries: make(map[mail.QueueID]confirmation)}
		var all sync.WaitGroup
		var stop atomic.Bool
		progress := make(chan struct{}, 1<<16)
		for w := range uint64(8) {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(round, w))
				for !stop.Load() {
					crashWriter(t, s, &known, rng)
					progress <- struct{}{}
				}
			})
		}
		for range 100 + 40*round {
			<-progress
		}
		// The confirmed states are copied before the crash: what is confirmed in
		// between may or may not survive.
		confirmed := known.copy()
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(round%3) * 50, RNG: rand.New(rand.NewPCG(round, 99))})
		later := known.copy()
		stop.Store(true)
		all.Wait()
		mustClose(t, s)

		s = mustOpen(t, small(crashed))
		<-s.work.swept
		for id, c := range confirmed {
			checkConfirmed(t, s, id, c, later[id])
		}
		checkNoRemains(t, s)
		mustClose(t, s)
	}
}

// checkConfirmed compares a message with its state confirmed before the crash,
// given what was requested shortly after.
func checkConfirmed(t *testing.T, s *Spool, id mail.QueueID, c, later confirmation) {
	t.Helper()
	m, err := s.Lookup(ctxTest, id)
	mayBeGone := c.leaving || later.leaving || later.area == mail.AreaNone
	switch {
	case err != nil && !mayBeGone:
		t.Errorf("%s was confirmed in %s and is lost: %v", id, c.area, err)
	case err != nil:
		return
	case c.area == mail.AreaNone:
		t.Errorf("%s was removed and is back in %s", id, m.Place.Area)
	case m.Place.Area < c.area:
		t.Errorf("%s was confirmed in %s and is in %s", id, c.area, m.Place.Area)
	}
	if _, err := contentOf(s, id); err != nil {
		t.Errorf("content of %s: %v", id, err)
	}
}

// crashWriter takes one message through some of its life. It records a removal in
// the ledger before requesting it, as from then on both states are right.
func crashWriter(t *testing.T, s *Spool, known *ledger, rng *rand.Rand) {
	size := rng.IntN(5000)
	if rng.IntN(10) == 0 {
		size += 10_000
	}
	d, err := s.Begin(ctxTest)
	if err != nil {
		t.Error(err)
		return
	}
	for _, r := range addresses(1 + rng.IntN(20)) {
		if err := d.AddRecipient(r); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Write(noise(int(rng.Uint32()), size)); err != nil {
		t.Error(err)
	}
	if rng.IntN(2) == 0 {
		if err := d.Prepend(noise(size, 900)); err != nil {
			t.Error(err)
		}
	}
	if err := d.Commit(ctxTest, mail.Envelope{Flow: testFlow(rng.IntN(5))}); err != nil {
		t.Error(err)
		return
	}
	a := d.Arrival()
	known.set(d.ID(), confirmation{area: mail.AreaIncoming})
	if rng.IntN(3) == 0 {
		return
	}
	got, err := s.Apply(ctxTest, []mail.Change{{Op: mail.ChangeDefer, ID: d.ID(), Place: a.Place, Due: 5, At: 1, Outcomes: []mail.Outcome{busy(0, 1)}}})
	if err != nil {
		t.Error(err)
		return
	}
	known.set(d.ID(), confirmation{area: mail.AreaDeferred})
	if rng.IntN(2) == 0 {
		return
	}
	known.set(d.ID(), confirmation{area: mail.AreaDeferred, leaving: true})
	if _, err := s.Apply(ctxTest, []mail.Change{{Op: mail.ChangeRemove, ID: d.ID(), Place: got[0].Place}}); err != nil {
		t.Error(err)
		return
	}
	known.set(d.ID(), confirmation{})
}

// Each write to the disk fails in turn. Whether the result is an error, an alarm or
// the end of the process, confirmed changes are there afterwards, and others
// completely or not at all. A plain run tries some of the writes.
func TestErrorAtEveryWrite(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	states := undisturbed(t)
	for n := int64(0); ; n += sampled(19) {
		fs := vfs.NewCrashableMem()
		var writes atomic.Int64
		var what atomic.Value
		cfg := small(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if mayFail(op) && writes.Add(1) == n+1 {
				what.Store(fmt.Sprintf("op %d on %s", op.Kind, op.Path))
				return syscall.EIO
			}
			return nil
		})))
		acked := runUntilError(t, cfg)
		if what.Load() == nil {
			t.Logf("%d writes", n)
			return
		}
		clone{fs.CrashClone(vfs.CrashCloneCfg{}), min(acked+1, len(crashSteps)), fmt.Sprint("error at ", what.Load())}.check(t, states)
	}
}

// sampled returns the step between the writes that fail, or the crashes, that are tried:
// plain, which leaves out most of them, or 1 if POSTHASTE_RUNS is at least 10, as in the
// stage spool of .ci/run.
func sampled(plain int64) int64 { return max(plain/int64(golden.Runs(1)), 1) }

// mayFail reports whether an operation changes the disk.
func mayFail(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }

// runUntilError takes the steps until one fails or the spool ends the process, and
// returns the number of confirmed ones.
func runUntilError(t *testing.T, cfg Config) int {
	over := make(chan struct{}, 100)
	cfg.Fatal = func(error) {
		over <- struct{}{}
		select {} // for this goroutine, like the end of the process
	}
	var acked atomic.Int64
	go func() {
		defer func() { over <- struct{}{} }()
		s, err := Open(cfg)
		if err != nil {
			return
		}
		var ids []mail.QueueID
		for _, step := range crashSteps {
			step(giveUp{t}, s, &ids)
			acked.Add(1)
		}
		_ = s.Close() // errors are expected here
	}()
	<-over
	return int(acked.Load())
}

// giveUp ends the goroutine instead of the test.
type giveUp struct{ testing.TB }

func (giveUp) Fatal(...any) { runtime.Goexit() }
