package driver_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
	"github.com/posthaste-mta/posthaste/trace/record"
	"github.com/posthaste-mta/posthaste/trace/replay"
)

// A tape is a file in memory.
type tape struct{ bytes.Buffer }

func (*tape) Close() error { return nil }

func (t *tape) open() (io.WriteCloser, error) { return t, nil }

// replayed replays a tape and returns the result.
func replayed(t *testing.T, text string) replay.Result {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(text), "tape")
	if err != nil {
		t.Fatal(err)
	}
	result, err := replay.Run(r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// What a daemon did can be replayed from its trace alone, whatever happened:
// retries, a dead site, lookups, disk errors, orders, a reload, a stop with
// deliveries under way.
func TestTraceReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.syncTakes = 3 * time.Millisecond
		w.errors["apply"], w.errors["open"] = 2, 1
		w.deliver = roughly
		for i := range 40 {
			w.store(mail.QueueID(i+1), "old@a.test")
		}
		var file tape
		d, stop := w.start(t, driver.Config{Trace: record.New(file.open, record.Config{By: "a test"}),
			Qmgr: qmgr.Config{ActiveLimit: 60, LookupLimit: 3, DefaultTransport: qmgr.TransportConfig{ProcessLimit: 8, RecipientLimit: 2}}})
		var ids []mail.QueueID
		for i := range 200 {
			id := mail.NewQueueID(mail.Instant(time.Now().UnixNano()), uint16(i))
			ids = append(ids, id)
			d.Arrived(w.store(id, "u@a.test", "v@down.test", "w@far.test", "x@a.test", "y@b.test"))
			if i%10 == 0 {
				time.Sleep(700 * time.Millisecond)
			}
		}
		d.Hold(ids[5:9], "a look")
		time.Sleep(10 * time.Minute)
		d.Release(ids[6:8])
		d.Retry(ids[20:30])
		d.Drop(ids[40:45])
		if err := d.Configure(driver.Config{Qmgr: qmgr.Config{ActiveLimit: 30}}); err != nil {
			t.Error(err)
		}
		if _, err := d.View(t.Context(), 5); err != nil { // which changes nothing
			t.Error(err)
		}
		d.RetryAll()
		time.Sleep(2 * time.Hour)
		d.Arrived(w.store(9000, "u@a.test", "v@a.test", "w@a.test"))
		stop()
		text := file.String()
		result := replayed(t, text)
		if result.Difference != nil || !strings.HasSuffix(text, "\nend\n") {
			t.Fatalf("%+v: %+v", result, result.Difference)
		}
		for _, kind := range []string{"> configure", "> hold", "> looked-up", "> delivered", "> opened", "> broken", "note dead", "> halt"} {
			if !strings.Contains(text, "s "+kind) {
				t.Errorf("the trace has no %q: the test shows less than it says", kind)
			}
		}
	})
}

// roughly delivers with every kind of result.
func roughly(ctx context.Context, d mail.Delivery) mail.DeliveryResult {
	select {
	case <-time.After(time.Duration(len(d.Recipients)) * 20 * time.Millisecond):
	case <-ctx.Done():
		r := all(d, mail.Deferred)
		r.Crashed = true
		return r
	}
	switch {
	case d.Nexthop == "down.test":
		r := all(d, mail.Deferred)
		r.Site = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connection refused"}
		return r
	case uint64(d.Envelope.ID)%7 == 0 && d.Envelope.Attempts < 2:
		return all(d, mail.Deferred)
	case uint64(d.Envelope.ID)%11 == 0:
		return all(d, mail.Failed)
	}
	return all(d, mail.Delivered)
}

// brokenTracer refuses to begin.
type brokenTracer struct{ driver.Tracer }

func (brokenTracer) Begin(mail.Instant, uint64, qmgr.Config) error { return io.ErrShortWrite }

// A trace that cannot be started keeps the driver from starting: otherwise the
// operator who asked for it would find none later.
func TestTraceThatCannotBegin(t *testing.T) {
	w := newWorld()
	_, err := driver.New(driver.Config{Trace: brokenTracer{}}, driver.Ports{Spool: w, Router: w, Reporter: w, Agent: func(string) driver.Agent { return w }})
	if !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
}

// lastWords records how a trace ends.
type lastWords struct {
	*record.Recorder
	clean atomic.Int32 // 1: yes, -1: no
}

func (l *lastWords) End(clean bool) {
	l.clean.Store(-1)
	if clean {
		l.clean.Store(1)
	}
	l.Recorder.End(clean)
}

// If the core panics, the process ends, and the trace must show why: its last line
// is the event on which the core panicked.
func TestTraceOfAPanic(t *testing.T) {
	var file tape
	words := &lastWords{Recorder: record.New(file.open, record.Config{})}
	w := newWorld()
	w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult { return all(d, mail.Pending) } // which no agent may return
	d, err := driver.New(driver.Config{Trace: words}, driver.Ports{Spool: w, Router: w, Reporter: w, Agent: func(string) driver.Agent { return w }})
	if err != nil {
		t.Fatal(err)
	}
	d.Arrived(w.store(1, "u@a.test"))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the core did not panic")
			}
		}()
		_ = d.Run(t.Context())
	}()
	if words.clean.Load() != -1 {
		t.Error("the trace was ended as if all were well")
	}
	result := replayed(t, file.String())
	if result.Difference == nil || !strings.Contains(result.Difference.Panic, "is pending") || !strings.Contains(result.Difference.Event, "pending=0") {
		t.Errorf("%+v, %+v in\n%s", result, result.Difference, file.String())
	}
}
