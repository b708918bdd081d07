package record

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

// A file is one in memory. It may be full from some size on, or take its time.
type file struct {
	mu     sync.Mutex
	text   []byte
	writes int
	room   int           // octets; 0: no limit
	takes  time.Duration // each write
	closed bool
}

var errFull = errors.New("no space left on device")

func (f *file) Write(p []byte) (int, error) {
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	if n := f.room - len(f.text); f.room > 0 && len(p) > n {
		f.text = append(f.text, p[:n]...)
		return n, errFull
	}
	f.text = append(f.text, p...)
	return len(p), nil
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func (f *file) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.text)
}

// begin starts a recorder in a bubble; its log is returned.
func begin(t *testing.T, f *file, cfg Config) (*Recorder, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	r := New(func() (io.WriteCloser, error) { return f, nil }, cfg)
	if err := r.Begin(1_500_000_000, 7, qmgr.Config{}); err != nil {
		t.Fatal(err)
	}
	return r, &log
}

const head = "posthaste-trace 1 by=test seed=7 epoch=1s\nconfig\n"

// What has happened is in the file within a second, so that little is lost with a
// process that is killed; a stop completes it.
func TestWritesWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		r, log := begin(t, &f, Config{By: "test"})
		if f.String() != head {
			t.Fatalf("at first the file is %q", f.String())
		}
		r.Event(1_500_000_000, qmgr.Wake{})
		r.Actions(1_500_000_000, []qmgr.Action{qmgr.Fetch{Max: 2}, qmgr.Open{ID: 1, Max: 3}})
		synctest.Wait()
		if f.String() != head {
			t.Error("every line is a write")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		lines := "0.500000000s > wake\n0.500000000s fetch incoming max=2\n0.500000000s open 0000000000001 max=3\n"
		if f.String() != head+lines || f.writes != 2 {
			t.Errorf("after a second: %q in %d writes", f.String(), f.writes)
		}
		time.Sleep(time.Minute)
		r.Event(2_000_000_000, qmgr.Halt{})
		r.Actions(2_000_000_000, nil)
		r.End(true)
		if f.String() != head+lines+"1s > halt\nend\n" || !f.closed || f.writes != 3 || log.Len() > 0 {
			t.Errorf("at the end: %q in %d writes, closed %v; log %q", f.String(), f.writes, f.closed, log)
		}
	})
}

// A busy daemon does not wait for the second to pass, and nothing is lost on the
// way to the file.
func TestWritesWhatHasGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		r, _ := begin(t, &f, Config{By: "test"})
		const events = 20_000
		for range events {
			r.Event(1_500_000_000, qmgr.Hold{IDs: []mail.QueueID{1, 2, 3}})
		}
		synctest.Wait()
		if n := len(f.String()); n < flushAt/2 {
			t.Errorf("%d octets are in the file before a second is over", n)
		}
		r.End(true)
		if n := strings.Count(f.String(), "s > hold 0000000000001 0000000000002 0000000000003\n"); n != events {
			t.Errorf("%d of %d events are in the file", n, events)
		}
	})
}

// A core that panics leaves what led to it, at once and without the last line.
func TestEndOfAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		r, _ := begin(t, &f, Config{By: "test"})
		r.Event(1_500_000_000, qmgr.Halt{})
		start := time.Now()
		r.End(false)
		if f.String() != head+"0.500000000s > halt\n" || time.Since(start) != 0 {
			t.Errorf("after %v: %q", time.Since(start), f.String())
		}
	})
}

// A full disk ends the trace, not the daemon: one line is logged, and the written
// part can be replayed.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := file{room: 1000}
		r, log := begin(t, &f, Config{})
		for range 100 {
			r.Event(1_500_000_000, qmgr.Wake{})
			time.Sleep(300 * time.Millisecond)
		}
		r.End(true)
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), errFull.Error()) {
			t.Errorf("the log says %q", log)
		}
		if len(f.String()) != 1000 || !f.closed {
			t.Errorf("%d octets, closed %v", len(f.String()), f.closed)
		}
		if cap(r.gathered) > flushAt {
			t.Errorf("%d bytes were gathered without use", cap(r.gathered))
		}
		if _, err := trace.NewReader(strings.NewReader(f.String()), "x"); err != nil {
			t.Error(err)
		}
	})
}

// A file that takes nothing from the beginning is an error of the start.
func TestDiskFullAtFirst(t *testing.T) {
	f := file{room: 10}
	r := New(func() (io.WriteCloser, error) { return &f, nil }, Config{})
	if err := r.Begin(0, 1, qmgr.Config{}); !errors.Is(err, errFull) || !errors.Is(err, ErrUnwritable) || !f.closed {
		t.Errorf("%v, closed %v", err, f.closed)
	}
	r.End(true) // nothing has begun
}

// The file does not grow beyond its limit, and ends with a whole line.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		r, log := begin(t, &f, Config{Limit: 500})
		for range 100 {
			r.Event(1_500_000_000, qmgr.Wake{})
			r.Actions(1_500_000_000, []qmgr.Action{qmgr.Open{ID: 1}, qmgr.Open{ID: 2}})
		}
		r.End(true)
		if n := len(f.String()); n > 500 || n < 400 || f.text[n-1] != '\n' || strings.HasSuffix(f.String(), "end\n") {
			t.Errorf("%d octets, ending in %q", n, f.text[n-20:])
		}
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), ErrLimit.Error()) {
			t.Errorf("the log says %q", log)
		}
	})
}

// A disk that does not keep up neither stops the core nor fills the memory.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f file
		r, log := begin(t, &f, Config{})
		f.takes = time.Hour
		start := time.Now()
		long := qmgr.Hold{Reason: strings.Repeat("x", 1<<20)}
		for range 70 {
			r.Event(1_500_000_000, long)
		}
		if time.Since(start) != 0 || len(r.gathered) > gatheredMax+2<<20 {
			t.Errorf("after %v %d octets wait", time.Since(start), len(r.gathered))
		}
		r.End(true)
		if took := time.Since(start); took != endPatience {
			t.Errorf("the end took %v", took)
		}
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), ErrSlow.Error()) {
			t.Errorf("the log says %q", log)
		}
		time.Sleep(3 * time.Hour) // the writer comes to its end
	})
}

// The trace of the run before is kept once: after a crash it is needed, and the
// daemon has often been restarted by then. Only its owner may read it, since it is
// full of addresses.
func TestFileKeepsTheOneBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.trace")
	for i, want := range []string{"", "a", "b"} {
		f, err := File(path)()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte{"abc"[i]}); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if old, _ := os.ReadFile(path + ".old"); string(old) != want {
			t.Errorf("after run %d the one before is %q, want %q", i+1, old, want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := File(filepath.Join(path, "y"))(); err == nil {
		t.Error("a file below a file was opened")
	}
	if f, err := File(os.DevNull)(); err != nil { // nothing that is not a file is moved
		t.Error(err)
	} else if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkRecord(b *testing.B) {
	r := New(func() (io.WriteCloser, error) { return discard{}, nil }, Config{})
	if err := r.Begin(0, 1, qmgr.Config{}); err != nil {
		b.Fatal(err)
	}
	id := mail.NewQueueID(1e18, 1)
	arrival := mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "sender@example.com", Size: 4096, Recipients: 1, Arrived: 1e18, Client: mail.Client{Helo: "client.example.com", Proto: "ESMTP"}},
		Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: []mail.Recipient{{Address: "user@domain.test"}}, Next: 1}}
	route := mail.Route{Transport: "smtp", Nexthop: "domain.test"}
	deliver := qmgr.Deliver{Entry: 1, Delivery: mail.Delivery{Transport: "smtp", Nexthop: "domain.test", Envelope: arrival.Envelope, Recipients: arrival.Batch.Recipients}}
	done := mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: "Ok: queued as 4F2A3B", By: "mx.domain.test[192.0.2.1]"}
	outcomes := []mail.Outcome{{Result: mail.Delivered, Reply: done, At: 1e18}}
	b.ReportAllocs()
	for b.Loop() { // one message from its arrival to its end
		r.Event(1e18, qmgr.Arrived{Arrival: arrival})
		r.Actions(1e18, []qmgr.Action{qmgr.Route{ID: id, Recipients: arrival.Batch.Recipients}})
		r.Event(1e18, qmgr.Routed{ID: id, Routes: []mail.Route{route}})
		r.Actions(1e18, []qmgr.Action{deliver})
		r.Event(1e18, qmgr.Delivered{Entry: 1, Result: mail.DeliveryResult{Outcomes: outcomes, Host: "mx.domain.test[192.0.2.1]:25", Connect: 1e6, Send: 2e6}})
		r.Actions(1e18, []qmgr.Action{qmgr.Note{Kind: qmgr.NoteRemoved, ID: id, Sender: "sender@example.com"},
			qmgr.Change{Change: mail.Change{Op: mail.ChangeRemove, ID: id, Place: arrival.Place, At: 1e18, Outcomes: outcomes}}})
		r.Event(1e18, qmgr.Changed{Changed: mail.Changed{ID: id}})
		r.Actions(1e18, nil)
	}
	b.StopTimer()
	size := r.size
	r.End(true)
	b.ReportMetric(float64(size)/float64(b.N), "octets/op")
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }
