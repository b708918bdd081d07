package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
)

// ctxTest is the context of calls that nothing interrupts.
var ctxTest = context.Background()

// tick returns a clock that advances a millisecond with each call, so that queue
// IDs are the same in every run.
func tick() func() mail.Instant {
	var n atomic.Int64
	return func() mail.Instant {
		return mail.Instant(1_800_000_000*time.Second) + mail.Instant(n.Add(1))*mail.Instant(time.Millisecond)
	}
}

// small returns a configuration with files of a few KB and frequent flushes.
func small(fs vfs.FS) Config {
	return Config{
		Settings: Settings{Dir: "/spool", InlineMax: 8 << 10, MinFree: 1, Ballast: 4 << 10, MemTable: 256 << 10, Cache: 1 << 20},
		FS:       fs, Now: tick(),
		Fatal:      func(err error) { panic(fmt.Sprint("fatal: ", err)) },
		preloadMin: 2, // one message is looked up
	}
}

func mustOpen(t testing.TB, cfg Config) *Spool {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Spool) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// longWithoutRaces skips a test in which one goroutine calls the spool, and which takes many seconds under
// the race detector. It runs in full without it.
func longWithoutRaces(t *testing.T) {
	t.Helper()
	if golden.Race {
		t.Skip("one goroutine's work: run it without -race")
	}
}

// open opens a spool for the duration of a test.
func open(t testing.TB, cfg Config) *Spool {
	t.Helper()
	s := mustOpen(t, cfg)
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

func addresses(n int) []mail.Recipient {
	list := make([]mail.Recipient, n)
	for i := range list {
		list[i] = mail.Recipient{Index: uint32(i), Address: mail.Address(fmt.Sprintf("user%d@example.org", i))}
	}
	return list
}

func text(n int) []byte {
	return bytes.Repeat([]byte("0123456789 line\r\n"), n/17+1)[:n]
}

// accept commits a message.
func accept(t testing.TB, s *Spool, e mail.Envelope, rcpts []mail.Recipient, body []byte) mail.Arrival {
	t.Helper()
	d := draft(t, s, rcpts, body)
	if err := d.Commit(ctxTest, e); err != nil {
		t.Fatal(err)
	}
	return d.Arrival()
}

// testFlow returns one of five flows; the first is that of mail without a bucket.
func testFlow(n int) mail.Flow {
	if n %= 5; n > 0 {
		return mail.Flow{Class: []string{"", "bulk", "normal", "bulk", "bulk"}[n], Tenant: "local", Flow: fmt.Sprint(n)}
	}
	return mail.Flow{}
}

func draft(t testing.TB, s *Spool, rcpts []mail.Recipient, body []byte) *Draft {
	t.Helper()
	d, err := s.Begin(ctxTest)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rcpts {
		if err := d.AddRecipient(r); err != nil {
			t.Fatal(err)
		}
	}
	for len(body) > 0 {
		n := min(len(body), 3000)
		if _, err := d.Write(body[:n]); err != nil {
			t.Fatal(err)
		}
		body = body[n:]
	}
	return d
}

func apply(t testing.TB, s *Spool, changes ...mail.Change) []mail.Changed {
	t.Helper()
	answers, err := s.Apply(ctxTest, changes)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func contentOf(s *Spool, id mail.QueueID) ([]byte, error) {
	c, err := s.Content(ctxTest, id)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	body, err := io.ReadAll(c.Reader())
	if err == nil && int64(len(body)) != c.Size {
		err = fmt.Errorf("content of %d octets, Size says %d", len(body), c.Size)
	}
	return body, err
}

// dump describes everything that callers can see of a spool.
func dump(t testing.TB, s *Spool) string {
	t.Helper()
	var b strings.Builder
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		list, _, more, err := s.List(ctxTest, area, mail.Cursor{}, 1<<30)
		if err != nil || more {
			t.Fatal("list: ", err, more)
		}
		for _, m := range list {
			fmt.Fprintf(&b, "%s %+v\n", area, m)
			outs, _, err := s.Outcomes(ctxTest, m.Envelope.ID, 0, 1<<30)
			if err != nil {
				t.Fatal("outcomes: ", err)
			}
			for _, o := range outs {
				if len(outs) < 20 || o.Outcome != (mail.Outcome{Index: o.Outcome.Index}) {
					fmt.Fprintf(&b, "\t%+v\n", o)
				}
			}
			fmt.Fprintf(&b, "\t%d recipients\n", len(outs))
			body, err := contentOf(s, m.Envelope.ID)
			if err != nil {
				t.Fatal("content: ", err)
			}
			fmt.Fprintf(&b, "\tcontent %08x\n", crc32.ChecksumIEEE(body))
		}
	}
	return b.String()
}

// Everything in a message is read back unchanged, for each way in which it may be
// stored, before and after the spool is reopened.
func TestRoundTrip(t *testing.T) {
	envelope := mail.Envelope{
		Sender: "bob@example.com", EnvID: "QQ+3D314159", Ret: mail.RetHeaders, Body: mail.Body8BitMIME, SMTPUTF8: true,
		Arrived: 1_800_000_001_234_567_890,
		Client:  mail.Client{Addr: netip.MustParseAddr("2001:db8::1"), Helo: "client.example", Proto: "UTF8SMTPS"},
		Flow:    mail.Flow{Class: "bulk", Tenant: "2001:db8::/64", Flow: "bob@example.com"},
	}
	special := addresses(3)
	special[1] = mail.Recipient{Address: `"a b"@example.org`, ORcpt: "rfc822;Bob@Example.ORG", Notify: mail.NotifySuccess | mail.NotifyDelay}
	special[2] = mail.Recipient{Address: "postmaster", Notify: mail.NotifyNever}
	for _, c := range []struct {
		name  string
		rcpts []mail.Recipient
		body  []byte
		place mail.Place
	}{
		{"small", special, text(4000), mail.Place{Area: mail.AreaIncoming}},
		{"empty content", special, nil, mail.Place{Area: mail.AreaIncoming}},
		{"largest inside", special, text(8 << 10), mail.Place{Area: mail.AreaIncoming}},
		{"smallest file", special, text(8<<10 + 1), mail.Place{Area: mail.AreaIncoming, File: true}},
		{"large", special, text(300_000), mail.Place{Area: mail.AreaIncoming, File: true}},
		{"one chunk outside", addresses(100), text(10), mail.Place{Area: mail.AreaIncoming, Chunks: 1}},
		{"chunk exactly full", addresses(256), text(10), mail.Place{Area: mail.AreaIncoming, Chunks: 1}},
		{"two chunks", addresses(257), text(10), mail.Place{Area: mail.AreaIncoming, Chunks: 2}},
		{"written ahead", addresses(10_000), text(10), mail.Place{Area: mail.AreaIncoming, Chunks: 40}},
		{"written ahead, no rest", addresses(4096), text(20_000), mail.Place{Area: mail.AreaIncoming, Chunks: 16, File: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := small(vfs.NewMem())
			s := mustOpen(t, cfg)
			a := accept(t, s, envelope, c.rcpts, c.body)
			want := envelope
			c.place.Bucket = envelope.Flow.Bucket()
			want.ID, want.Size, want.Recipients = a.Envelope.ID, int64(len(c.body)), uint32(len(c.rcpts))
			if a.Envelope != want || a.Place != c.place {
				t.Fatalf("arrival %+v, want %+v in %+v", a, want, c.place)
			}
			first := min(len(c.rcpts), mail.ArrivalRecipients)
			if len(a.Batch.Recipients) != first || a.Batch.More != (len(c.rcpts) > first) || int(a.Batch.Next) != first {
				t.Fatalf("arrival with %d recipients, next %d, more %v", len(a.Batch.Recipients), a.Batch.Next, a.Batch.More)
			}
			checkMessage(t, s, want, c.place, c.rcpts, c.body)
			mustClose(t, s)
			s = open(t, cfg)
			checkMessage(t, s, want, c.place, c.rcpts, c.body)
		})
	}
}

func checkMessage(t *testing.T, s *Spool, e mail.Envelope, place mail.Place, rcpts []mail.Recipient, body []byte) {
	t.Helper()
	got, at, batch, err := s.Open(ctxTest, e.ID, 70)
	if err != nil || got != e || at != place {
		t.Fatalf("open: %v\n got %+v in %+v\nwant %+v in %+v", err, got, at, e, place)
	}
	list := batch.Recipients
	for batch.More {
		if batch, err = s.Read(ctxTest, e.ID, batch.Next, 70); err != nil {
			t.Fatal(err)
		}
		list = append(list, batch.Recipients...)
	}
	if len(list) != len(rcpts) {
		t.Fatalf("%d recipients, want %d", len(list), len(rcpts))
	}
	for i := range list {
		want := rcpts[i]
		want.Index = uint32(i)
		if list[i] != want {
			t.Fatalf("recipient %d: %+v, want %+v", i, list[i], want)
		}
	}
	if got, err := contentOf(s, e.ID); err != nil || !bytes.Equal(got, body) {
		t.Fatalf("content: %v, %d octets, want %d", err, len(got), len(body))
	}
}

// A draft that was not committed is never visible, and it leaves nothing behind.
func TestAbort(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, small(fs))
	d := draft(t, s, addresses(10_000), text(100_000))
	d.Abort()
	d.Abort() // a second time does nothing
	if _, err := d.Write([]byte("x")); err == nil {
		t.Error("an aborted draft accepts content")
	}
	if err := d.Commit(ctxTest, mail.Envelope{}); err == nil {
		t.Error("an aborted draft can be committed")
	}
	if !reflect.DeepEqual(d.Arrival(), mail.Arrival{}) {
		t.Error("an aborted draft has an arrival")
	}
	if _, err := s.Lookup(ctxTest, d.ID()); !errors.Is(err, ErrGone) {
		t.Errorf("lookup of an aborted message: %v", err)
	}
	checkNoRemains(t, s)

	d = draft(t, s, nil, text(10))
	if err := d.Commit(ctxTest, mail.Envelope{}); err == nil {
		t.Error("a message without recipients was committed")
	}
}

// checkNoRemains fails if anything is stored that belongs to no message.
func checkNoRemains(t testing.TB, s *Spool) {
	t.Helper()
	it, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k := it.Key()
		var id mail.QueueID
		switch k[0] {
		case keyFormat, keyNextID, keyHost, keyReindex, keyCount, keyTally, keyRate, keyOrder:
			continue
		case keyIncoming:
			at, _ := parseIndexKey(mail.AreaIncoming, k)
			id = at.ID
		case keyAhead:
			t.Errorf("draft mark %q remains", k)
		case keyDeferred:
			at, _ := parseIndexKey(mail.AreaDeferred, k)
			id = at.ID
		case keyHold:
			at, _ := parseIndexKey(mail.AreaHold, k)
			id = at.ID
		default:
			at, _ := parseIndexKey(mail.AreaIncoming, k[:9])
			id = at.ID
		}
		if ok, err := s.has(messageKey(keyEnvelope, id)); err != nil || !ok {
			t.Errorf("key %q belongs to no message (%v)", k, err)
		}
	}
	if err := it.Error(); err != nil {
		t.Fatal(err)
	}
	for _, name := range contentFiles(t, s) {
		id, err := mail.ParseQueueID(name)
		if err != nil {
			t.Errorf("file %s remains", name)
			continue
		}
		if e, err := s.readEnvelope(id); err != nil || e == nil || !e.file {
			t.Errorf("file %s belongs to no message (%v)", name, err)
		}
	}
}

func contentFiles(t testing.TB, s *Spool) (names []string) {
	t.Helper()
	dirs, err := s.disk.List(s.bodies.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		list, err := s.disk.List(s.disk.PathJoin(s.bodies.dir, dir))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, list...)
	}
	return names
}

// Queue IDs grow strictly, whatever the clock does and across restarts, clean or
// not; if one were used twice, a message could adopt the remains of another.
func TestQueueIDsGrow(t *testing.T) {
	fs := vfs.NewCrashableMem()
	cfg := small(fs)
	now := mail.Instant(1_800_000_000 * time.Second)
	cfg.Now = func() mail.Instant { return now }
	var last mail.QueueID
	take := func(s *Spool, when string) {
		t.Helper()
		for range 5000 { // more IDs than one microsecond has
			d, err := s.Begin(ctxTest)
			if err != nil {
				t.Fatal(err)
			}
			if d.ID() <= last {
				t.Fatalf("%s: %s after %s", when, d.ID(), last)
			}
			last = d.ID()
			d.Abort()
		}
	}
	s := mustOpen(t, cfg)
	take(s, "at first")
	now -= mail.Instant(time.Hour)
	take(s, "clock back an hour")
	mustClose(t, s)
	s = mustOpen(t, cfg)
	take(s, "after a clean restart")
	if d := last.Time().Sub(now); d > time.Hour+time.Second {
		t.Errorf("a clean restart has skipped ahead: IDs are %v ahead of the clock", d)
	}
	crash := cfg
	crash.FS = fs.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	s = mustOpen(t, crash)
	take(s, "after a crash")
	now = mail.Never
	take(s, "clock beyond 2112")
	now = -1
	take(s, "clock before 1970")
	mustClose(t, s)
}

// Two processes on one spool would destroy it: the second one gets an error.
func TestSecondProcessIsRefused(t *testing.T) {
	if dir := os.Getenv("SPOOL_TEST_SECOND"); dir != "" {
		_, err := Open(Config{Settings: Settings{Dir: dir}})
		if !errors.Is(err, ErrInUse) {
			t.Fatalf("second process: %v, want ErrInUse", err)
		}
		fmt.Println("refused:", err)
		return
	}
	dir := t.TempDir()
	cfg := Config{Settings: Settings{Dir: dir, Ballast: 1, MinFree: 1}}
	s := mustOpen(t, cfg)
	if _, err := Open(cfg); !errors.Is(err, ErrInUse) {
		t.Errorf("the same process: %v, want ErrInUse", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondProcessIsRefused$")
	cmd.Env = append(os.Environ(), "SPOOL_TEST_SECOND="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "refused: spool is in use: "+dir) {
		t.Errorf("another process: %v\n%s", err, out)
	}
	mustClose(t, s)
	mustClose(t, mustOpen(t, cfg))
}

// After Close nothing works and nothing panics, drafts that were open
// included; Close itself may be repeated.
func TestClosed(t *testing.T) {
	cfg := small(vfs.NewMem())
	s := mustOpen(t, cfg)
	d := draft(t, s, addresses(10_000), text(100_000))
	mustClose(t, s)
	mustClose(t, s)
	if err := d.Commit(ctxTest, mail.Envelope{}); !errors.Is(err, ErrClosed) {
		t.Errorf("commit: %v", err)
	}
	if _, err := s.Begin(ctxTest); !errors.Is(err, ErrClosed) {
		t.Errorf("begin: %v", err)
	}
	if _, err := s.Apply(ctxTest, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("apply: %v", err)
	}
	s = open(t, cfg)
	<-s.work.swept
	checkNoRemains(t, s)
}

// A spool written by a later version is refused as a whole; otherwise its messages
// would look damaged one by one.
func TestLaterFormatIsRefused(t *testing.T) {
	cfg := small(vfs.NewMem())
	s := mustOpen(t, cfg)
	b := s.db.NewBatch()
	if err := errors.Join(put(b, plainKey(keyFormat), strconv.AppendInt(nil, formatCounts+1, 10)), s.commit(b), b.Close()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("format %q", strconv.Itoa(formatCounts+1))) {
		t.Fatalf("open: %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	err := Config{Settings: Settings{InlineMax: 2 << 20, MinFree: -1, Ballast: -1, MemTable: 1, MemTables: 1, Cache: -1, SyncInterval: 2 * time.Second, SlowDisk: -1, Maintain: -1}}.Validate()
	for _, word := range []string{"Dir", "InlineMax", "MinFree", "Ballast", "MemTable", "MemTables", "Cache", "SyncInterval", "SlowDisk", "Maintain"} {
		if err == nil || !strings.Contains(err.Error(), word+" is ") {
			t.Errorf("no complaint about %s in: %v", word, err)
		}
	}
	if err := (Config{Settings: Settings{Dir: "x"}}).Validate(); err != nil {
		t.Error(err)
	}
}

// The directory may be opened to a group that needs the sockets in it. Its other
// contents must then stay closed, since they are other users' mail.
func TestMailIsNobodyElses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	s := open(t, Config{Settings: Settings{Dir: dir, MinFree: 1, Ballast: 1}})
	accept(t, s, mail.Envelope{Sender: "bob@example.com"}, addresses(1), text(100_000))
	for _, name := range []string{dir, filepath.Join(dir, "db"), filepath.Join(dir, "body")} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v; want mode 0700", name, info, err)
		}
	}
}

// The time of the last run is that of its last message, whatever the clock shows now.
func TestLastRun(t *testing.T) {
	cfg := small(vfs.NewMem())
	s := mustOpen(t, cfg)
	if at := s.LastRun(); at != 0 {
		t.Errorf("an empty spool has accepted a message at %v", at)
	}
	id := accept(t, s, mail.Envelope{}, addresses(1), text(10)).Envelope.ID
	mustClose(t, s)
	now := cfg.Now
	cfg.Now = func() mail.Instant { return now().Add(1000 * time.Hour) }
	s = open(t, cfg)
	if late := s.LastRun().Sub(id.Time()); late < 0 || late > time.Second {
		t.Errorf("the last run ended %v after its last message", late)
	}
}
