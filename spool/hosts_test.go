package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// hostRecord returns version v of the record of host i.
func hostRecord(i, v int) mail.HostRecord {
	return mail.HostRecord{Key: fmt.Appendf(nil, "host %06d", i), Value: fmt.Appendf(nil, "version %d of %d", v, i)}
}

func saveHosts(t testing.TB, s *Spool, records ...mail.HostRecord) {
	t.Helper()
	if err := s.SaveHosts(ctxTest, records); err != nil {
		t.Fatal(err)
	}
}

// hosts returns the loaded records by key.
func hosts(t testing.TB, s *Spool) map[string]string {
	t.Helper()
	got := make(map[string]string)
	last := ""
	err := s.LoadHosts(ctxTest, 1<<20, func(r mail.HostRecord) {
		if string(r.Key) <= last {
			t.Errorf("%q after %q", r.Key, last)
		}
		last = string(r.Key)
		got[last] = string(r.Value)
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// lines returns a buffer that gets what a spool logs as warnings and worse.
func lines(cfg *Config) *bytes.Buffer {
	var out bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return &out
}

// Saved records are loaded after a restart, deleted ones are not.
func TestHosts(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, small(fs))
	want := map[string]string{}
	rng := rand.New(rand.NewPCG(1, 1))
	for v := range 20 {
		var batch []mail.HostRecord
		for range 50 {
			r := hostRecord(rng.IntN(200), v)
			if rng.IntN(4) == 0 {
				r.Value = nil
				delete(want, string(r.Key))
			} else {
				want[string(r.Key)] = string(r.Value)
			}
			batch = append(batch, r)
		}
		saveHosts(t, s, batch...)
	}
	if got := hosts(t, s); !maps.Equal(got, want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
	mustClose(t, s)
	s = open(t, small(fs))
	if got := hosts(t, s); !maps.Equal(got, want) {
		t.Errorf("after a restart: %d records, want %d", len(got), len(want))
	}
	checkNoRemains(t, s)
}

// More records than fit in a batch are written in several.
func TestHostsManyBatches(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	var records []mail.HostRecord
	for i := range 5000 {
		r := hostRecord(i, 1)
		r.Value = append(r.Value, strings.Repeat("x", 200)...)
		records = append(records, r)
	}
	saveHosts(t, s, records...)
	if got := hosts(t, s); len(got) != len(records) || got[string(records[4999].Key)] != string(records[4999].Value) {
		t.Errorf("%d records", len(got))
	}
}

// A record that is too long is refused alone: a host with a strange name must not
// keep the records of all others from being saved.
func TestHostsTooLong(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	long := make([]byte, HostValueMax+1)
	err := s.SaveHosts(ctxTest, []mail.HostRecord{
		{Key: long, Value: []byte("a")}, hostRecord(1, 1), {Key: []byte("b"), Value: long}, hostRecord(2, 1),
		{Key: long[:HostKeyMax], Value: long[:HostValueMax]},
	})
	if err == nil || strings.Count(err.Error(), "too long") != 2 {
		t.Errorf("error %v", err)
	}
	if got := hosts(t, s); len(got) != 3 {
		t.Errorf("%d records", len(got))
	}
}

// If there are more records than the caller has room for, because their deletion
// was lost in crashes for years, the excess is deleted.
func TestHostsTooMany(t *testing.T) {
	cfg := small(vfs.NewMem())
	out := lines(&cfg)
	s := open(t, cfg)
	for i := range 100 {
		saveHosts(t, s, hostRecord(i, 1))
	}
	n := 0
	if err := s.LoadHosts(ctxTest, 60, func(mail.HostRecord) { n++ }); err != nil || n != 60 {
		t.Errorf("%d records: %v", n, err)
	}
	if got := hosts(t, s); len(got) != 60 {
		t.Errorf("%d are left", len(got))
	}
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "excess=40") {
		t.Errorf("logged %q", out)
	}
}

// Damaged records are skipped with one log line, and deleted.
func TestHostsDamagedRecord(t *testing.T) {
	cfg := small(vfs.NewMem())
	out := lines(&cfg)
	s := open(t, cfg)
	for i := range 9 {
		saveHosts(t, s, hostRecord(i, 1))
	}
	b := s.db.NewBatch()
	defer b.Close()
	value, closer, err := s.db.Get([]byte("khost 000001"))
	if err != nil {
		t.Fatal(err)
	}
	good, rotten := bytes.Clone(value), bytes.Clone(value)
	rotten[3] ^= 1
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string][]byte{"khost 000002": rotten, "khost 000004": nil, "khost 000006": good} {
		if err := b.Set([]byte(k), v, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		if got := hosts(t, s); len(got) != 6 || got["host 000002"]+got["host 000004"]+got["host 000006"] != "" {
			t.Errorf("round %d: %v", round, got)
		}
	}
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "damaged=3") {
		t.Errorf("logged %q", out)
	}
}

// A block of the store is damaged. The records before it are read; then all records
// are deleted, mail is untouched, and no compaction ever reads that block.
func TestHostsDamagedBlock(t *testing.T) {
	fs := vfs.NewMem()
	cfg := small(fs)
	var raised alarms
	cfg.OnAlarm = raised.add
	s := mustOpen(t, cfg)
	id := accept(t, s, mail.Envelope{}, addresses(1), text(100)).Envelope.ID
	for i := range 2000 {
		saveHosts(t, s, mail.HostRecord{Key: noise(i, 40), Value: noise(i+5000, 60)})
	}
	if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	rot(t, fs, ".sst", 0, noise(1000, 40)[20:36])

	s = open(t, cfg)
	before := hosts(t, s)
	if len(before) == 0 || len(before) >= 2000 || raised.count(AlarmCorrupt) == 0 {
		t.Errorf("%d of 2000 are read; alarms %v", len(before), raised.list)
	}
	if got := hosts(t, s); len(got) != 0 {
		t.Errorf("%d are left", len(got))
	}
	saveHosts(t, s, hostRecord(1, 2))
	if err := s.db.Compact(ctxTest, []byte("a"), []byte("z"), false); err != nil {
		t.Errorf("compaction: %v", err)
	}
	if got := hosts(t, s); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := inArea(t, s, mail.AreaIncoming); !slices.Equal(got, []mail.QueueID{id}) {
		t.Errorf("mail: %v", got)
	}
}

// The last of the disk space is for mail.
func TestHostsWithoutRoom(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	saveHosts(t, s, hostRecord(1, 1))
	s.room.ranFull()
	if err := s.SaveHosts(ctxTest, []mail.HostRecord{hostRecord(2, 1)}); !errors.Is(err, ErrFull) {
		t.Errorf("error %v", err)
	}
	if got := hosts(t, s); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// An operator's order is kept when the disk is short of room, which may be its reason.
func TestOrdersWithoutRoom(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	s.room.ranFull()
	if err := s.SaveOrders(ctxTest, []mail.HostRecord{hostRecord(1, 1)}); err != nil {
		t.Error(err)
	}
}

// With a canceled context, and after Close, calls return at once.
func TestHostsEnd(t *testing.T) {
	s := mustOpen(t, small(vfs.NewMem()))
	saveHosts(t, s, hostRecord(1, 1))
	ctx, cancel := context.WithCancel(ctxTest)
	cancel()
	if err := s.SaveHosts(ctx, []mail.HostRecord{hostRecord(2, 1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := s.LoadHosts(ctx, 9, func(mail.HostRecord) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	mustClose(t, s)
	if err := s.SaveHosts(ctxTest, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
	if err := s.LoadHosts(ctxTest, 9, func(mail.HostRecord) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// A crash loses the last saves at most: what remains is the complete state at some
// moment, not before the last commit of mail.
func TestHostsCrash(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	for round := range uint64(12 * golden.Runs(1)) {
		rng := rand.New(rand.NewPCG(round, 5))
		fs := vfs.NewCrashableMem()
		s := mustOpen(t, small(fs))
		history := []map[string]string{{}}
		durable := 0
		for v := range 5 + rng.IntN(40) {
			now := maps.Clone(history[len(history)-1])
			var batch []mail.HostRecord
			for range 1 + rng.IntN(8) {
				r := hostRecord(rng.IntN(20), v)
				if rng.IntN(4) == 0 {
					r.Value = nil
				}
				if now[string(r.Key)] = string(r.Value); len(r.Value) == 0 {
					delete(now, string(r.Key))
				}
				batch = append(batch, r)
			}
			saveHosts(t, s, batch...)
			history = append(history, now)
			switch rng.IntN(8) {
			case 0:
				accept(t, s, mail.Envelope{}, addresses(1), text(10))
				durable = len(history) - 1
			case 1:
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
				durable = len(history) - 1
			}
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(round%5) * 25, RNG: rng})
		mustClose(t, s)
		cfg := small(crashed)
		out := lines(&cfg)
		s = mustOpen(t, cfg)
		got := hosts(t, s)
		if !slices.ContainsFunc(history[durable:], func(h map[string]string) bool { return maps.Equal(h, got) }) {
			t.Errorf("round %d: %v is none of the states since the last commit", round, got)
		}
		if out.Len() > 0 {
			t.Errorf("round %d: logged %q", round, out)
		}
		mustClose(t, s)
	}
}

func BenchmarkSaveHosts(b *testing.B) {
	s := open(b, Config{Settings: Settings{Dir: b.TempDir(), Ballast: 1, MinFree: 1}})
	records := make([]mail.HostRecord, 1000)
	b.ReportAllocs()
	for i := range records {
		records[i] = hostRecord(i, 1)
		records[i].Value = append(records[i].Value, "and so on, for as many octets as a record has, which are about a hundred"...)
	}
	for b.Loop() {
		saveHosts(b, s, records...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}

func BenchmarkLoadHosts(b *testing.B) {
	s := open(b, Config{Settings: Settings{Dir: b.TempDir(), Ballast: 1, MinFree: 1}})
	for i := range 200_000 {
		saveHosts(b, s, hostRecord(i, 1))
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := s.LoadHosts(ctxTest, 1<<20, func(mail.HostRecord) { n++ }); err != nil || n != 200_000 {
			b.Fatal(n, err)
		}
	}
}

// An operator's order is on disk when its save returns, and is saved while new mail is refused, too: a crash at
// any time after it loses nothing. Records of hosts are not theirs.
func TestOrdersSurviveACrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	cfg := small(fs)
	s := open(t, cfg)
	save := func(i, v int) {
		t.Helper()
		if err := s.SaveOrders(ctxTest, []mail.HostRecord{hostRecord(i, v)}); err != nil {
			t.Fatal(err)
		}
	}
	save(1, 1)
	save(2, 1)
	save(1, 2)
	if err := s.SaveOrders(ctxTest, []mail.HostRecord{{Key: hostRecord(2, 1).Key}}); err != nil {
		t.Fatal(err)
	}
	saveHosts(t, s, hostRecord(3, 1))
	crashed := mustOpen(t, small(fs.CrashClone(vfs.CrashCloneCfg{})))
	defer crashed.Close()
	got := make(map[string]string)
	if err := crashed.LoadOrders(ctxTest, 10, func(r mail.HostRecord) { got[string(r.Key)] = string(r.Value) }); err != nil {
		t.Fatal(err)
	}
	if want := hostRecord(1, 2); len(got) != 1 || got[string(want.Key)] != string(want.Value) {
		t.Errorf("after a crash: %q", got)
	}
	if got := hosts(t, crashed); len(got) != 0 {
		t.Errorf("records of hosts: %q", got)
	}
}
