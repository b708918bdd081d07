package spool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// busyLog fills a spool so that everything is in one log: messages that wait, and
// some that were sent. It returns those that wait.
func busyLog(t *testing.T, s *Spool, n int) (waiting map[mail.QueueID]int) {
	t.Helper()
	waiting = make(map[mail.QueueID]int)
	for i := range n {
		a := accept(t, s, mail.Envelope{}, addresses(1+i%3), noise(i, 300+i*37%1900))
		got := apply(t, s, mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: mail.Instant(5 + i), At: 1, Outcomes: []mail.Outcome{busy(0, 1)}})
		if i%4 == 3 {
			apply(t, s, mail.Change{Op: mail.ChangeRemove, ID: a.Envelope.ID, Place: got[0].Place})
			continue
		}
		waiting[a.Envelope.ID] = i
	}
	return waiting
}

// storeLogs returns the logs of a store that are not empty.
func storeLogs(t *testing.T, fs *vfs.MemFS) (names []string) {
	t.Helper()
	all, err := fs.List("/spool/db")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	for _, name := range all {
		name = "/spool/db/" + name
		if data, err := fs.UnsafeGetFileDataBuffer(name); filepath.Ext(name) == ".log" && err == nil && len(data) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// lastLog returns the log that is being written, and its contents.
func lastLog(t *testing.T, fs *vfs.MemFS) (name string, data []byte) {
	t.Helper()
	names := storeLogs(t, fs)
	if len(names) == 0 {
		t.Fatal("no log")
	}
	name = names[len(names)-1]
	data, err := fs.UnsafeGetFileDataBuffer(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, data
}

func overwrite(t *testing.T, fs *vfs.MemFS, name string, at int, b []byte) {
	t.Helper()
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// damageLog flips a bit or overwrites up to 16 bytes of a log.
func damageLog(t *testing.T, fs *vfs.MemFS, name string, rng *rand.Rand) (what string) {
	t.Helper()
	data, err := fs.UnsafeGetFileDataBuffer(name)
	if err != nil {
		t.Fatal(err)
	}
	at := rng.IntN(len(data))
	if rng.IntN(2) == 0 {
		overwrite(t, fs, name, at, []byte{data[at] ^ 1<<rng.IntN(8)})
		return fmt.Sprintf("a bit of %s flipped at %d of %d", name, at, len(data))
	}
	b := make([]byte, min(16, len(data)-at))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	overwrite(t, fs, name, at, b)
	return fmt.Sprintf("%d octets of %s overwritten at %d of %d", len(b), name, at, len(data))
}

// reopened returns how many waiting messages a spool has lost, how many sent ones
// it has again, and whether it raised an alarm.
func reopened(t *testing.T, fs *vfs.MemFS, waiting map[mail.QueueID]int) (lost, again int, told bool) {
	t.Helper()
	var raised alarms
	cfg := small(fs)
	cfg.OnAlarm = raised.add
	s, err := Open(cfg)
	if err != nil {
		return len(waiting), 0, true
	}
	defer mustClose(t, s)
	there := make(map[mail.QueueID]bool)
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		for _, id := range inArea(t, s, area) {
			there[id] = true
		}
	}
	for id, i := range waiting {
		m, err := s.Lookup(ctxTest, id)
		if content, cerr := contentOf(s, id); err != nil || cerr != nil || !there[id] || m.Place.Area != mail.AreaDeferred {
			lost++
		} else if string(content) != string(noise(i, 300+i*37%1900)) {
			t.Errorf("message %d has the wrong content", i)
		}
		delete(there, id)
	}
	return lost, len(there), raised.count(AlarmCorrupt) > 0
}

// Damage anywhere in the log of a process that was killed is never silent, and
// costs what it has hit, not all that follows: Pebble by itself ended the log
// there, and silently lost 43 of 100 messages.
//
// Seen failing: openStore without mendLogs: up to 6 of 30 lost silently, in the
// last block; without the Flush in openStore: 45 of 45 lost, and reported.
func TestDamagedLogOfAKilledProcess(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	fs := vfs.NewCrashableMem()
	s := open(t, small(fs))
	waiting := busyLog(t, s, 40)
	rng := rand.New(rand.NewPCG(7, 7))
	sum := 0
	rounds := 20 * golden.Runs(1)
	for range rounds {
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		name, _ := lastLog(t, crashed)
		what := damageLog(t, crashed, name, rng)
		lost, again, told := reopened(t, crashed, waiting)
		if !told && lost+again > 0 {
			t.Errorf("%s: %d lost, %d back, and no alarm", what, lost, again)
		}
		sum += lost + again
		if lost+again > 25 {
			t.Errorf("%s: %d lost, %d back", what, lost, again)
		}
	}
	t.Logf("%.2f messages lost or back for each damage", float64(sum)/float64(rounds))
	if sum == 0 || sum > 4*rounds {
		t.Errorf("%d messages lost or back in %d rounds", sum, rounds)
	}
}

// After a clean stop nothing is only in the log, so damage to it is harmless.
//
// Seen failing: Close without settle: up to 14 of 30 messages were lost.
func TestDamagedLogOfAStoppedProcess(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, small(fs))
	waiting := busyLog(t, s, 40)
	mustClose(t, s)
	rng := rand.New(rand.NewPCG(8, 8))
	for range 25 {
		stopped := fs.CrashClone(vfs.CrashCloneCfg{})
		names := storeLogs(t, stopped)
		what := damageLog(t, stopped, names[rng.IntN(len(names))], rng)
		if lost, again, _ := reopened(t, stopped, waiting); lost+again > 0 {
			t.Errorf("%s: %d lost, %d back", what, lost, again)
		}
	}
}

// A truncated log, as a power failure leaves it, is not damage: there is no alarm,
// and only what was cut off is missing.
func TestTornLogIsNoAlarm(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, small(fs))
	busyLog(t, s, 20)
	_, safe := lastLog(t, fs)
	floor := len(safe)
	waiting := busyLog(t, s, 3) // acknowledged
	_, whole := lastLog(t, fs)
	ceiling := len(whole)
	accept(t, s, mail.Envelope{}, addresses(1), noise(99, 3000))
	rng := rand.New(rand.NewPCG(9, 9))
	for round := range 30 {
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		name, data := lastLog(t, crashed)
		cut := floor + rng.IntN(len(data)-floor)
		if round%2 == 1 {
			cut = min((cut+511)/512*512, len(data))
		}
		rest := append([]byte(nil), data[:cut]...)
		if round%2 == 1 { // the file's size has reached the disk, but not the content of some sectors
			rest = append(rest, make([]byte, len(data)-cut)...)
		}
		f, err := crashed.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(rest)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		lost, _, told := reopened(t, crashed, waiting)
		if told || cut >= ceiling && lost > 0 {
			t.Errorf("cut at %d of %d: %d lost, alarm %v", cut, len(data), lost, told)
		}
	}
}

// A process that has run for long reuses the files of old logs. Their remains after
// the end of the new log are not damage.
func TestRecycledLogIsNoAlarm(t *testing.T) {
	fs := vfs.NewCrashableMem()
	cfg := small(fs)
	cfg.MemTable = 64 << 10
	s := open(t, cfg)
	rng := rand.New(rand.NewPCG(10, 10))
	seen := false
	for i := range 60 {
		for range 5 {
			accept(t, s, mail.Envelope{}, addresses(1), noise(i, 900+rng.IntN(900)))
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		for _, name := range storeLogs(t, crashed) {
			data, err := crashed.UnsafeGetFileDataBuffer(name)
			if err != nil {
				t.Fatal(err)
			}
			var num uint64
			if _, err := fmt.Sscanf(filepath.Base(name), "%d.log", &num); err != nil {
				t.Fatal(err)
			}
			r, err := scanLog(strings.NewReader(string(data)), uint32(num), nil)
			if err != nil || r.end > logTorn {
				t.Fatalf("%s of %d octets, %d messages: %+v %v", name, len(data), 5*i+5, r, err)
			}
			seen = seen || r.at > 0 && r.at < r.size-(64<<10)/4
		}
	}
	if !seen {
		t.Error("no log reused an old one")
	}
}

// A damaged log is kept unchanged, and the status names it.
func TestDamagedLogIsKept(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, small(fs))
	waiting := busyLog(t, s, 40)
	crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	name, _ := lastLog(t, crashed)
	overwrite(t, crashed, name, 9000, []byte("damage"))
	_, before := lastLog(t, crashed)
	want := string(before)
	if lost, again, told := reopened(t, crashed, waiting); !told || lost+again > 2 {
		t.Errorf("%d lost, %d back, alarm %v", lost, again, told)
	}
	if _, _, told := reopened(t, crashed, nil); told {
		t.Error("the alarm is raised at the second start, too")
	}
	s = open(t, small(crashed))
	st, err := s.Stats(ctxTest)
	if err != nil || len(st.Damaged) != 1 || st.Damaged[0].At.IsZero() {
		t.Fatalf("%+v %v", st.Damaged, err)
	}
	kept, err := crashed.UnsafeGetFileDataBuffer(st.Damaged[0].Path)
	if err != nil || string(kept) != want {
		t.Errorf("%d octets are kept of %d: %v", len(kept), len(want), err)
	}
}

// Only a part of what a missing log contained may be in the tables or in a later log: a
// message's move out of an index, but not its earlier move into it. So the indexes are
// rebuilt, and each message is in exactly one of them again.
//
// Seen failing: missLogs that returns false: the message was incoming and deferred.
func TestMissingLogLeavesNoMessageTwice(t *testing.T) {
	mem := vfs.NewCrashableMem()
	var broken errorfs.Toggle
	broken.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && filepath.Ext(op.Path) == ".sst" {
			return syscall.EIO
		}
		return nil
	})
	cfg := small(errorfs.Wrap(mem, &broken))
	s := mustOpen(t, cfg)
	a := accept(t, s, mail.Envelope{}, addresses(1), text(300))
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	broken.On() // memtables are no longer flushed, so logs stay
	c := mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, Due: 5, At: 1, Outcomes: []mail.Outcome{busy(0, 1)}}
	c.Place = apply(t, s, c)[0].Place
	missing, _ := lastLog(t, mem)
	if _, err := s.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	c.Due, c.At = 9, 2
	apply(t, s, c)
	b := accept(t, s, mail.Envelope{}, addresses(1), text(300))
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	broken.Off()
	mustClose(t, s)
	if err := crashed.Remove(missing); err != nil {
		t.Fatal(err)
	}
	var raised alarms
	cfg = small(crashed)
	cfg.OnAlarm = raised.add
	s = open(t, cfg)
	var in []mail.Area
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		for _, id := range inArea(t, s, area) {
			if id == a.Envelope.ID {
				in = append(in, area)
			}
		}
	}
	if len(in) != 1 || in[0] != mail.AreaDeferred {
		t.Errorf("the message is in the areas %v", in)
	}
	if between := fmt.Sprintf("accepted between the messages %s and %s", a.Envelope.ID, b.Envelope.ID); !raised.contain("log of the store is missing", between) {
		t.Errorf("no alarm says that mail is missing that was %s: %v", between, raised.list)
	}
}
