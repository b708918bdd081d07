package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A site is a host of web hooks: it answers as answer says and keeps a record.
type site struct {
	*httptest.Server
	answer func(nth int, path string) int // nth counts the requests for this path from 1

	mu         sync.Mutex
	now, peak  int
	paths      []string // of requests, in the order of their arrival
	ids        map[string]bool
	lastStart  map[string]time.Time
	firstPause time.Duration // shortest time between two requests for one path
}

func newSite(t *testing.T, takes time.Duration, answer func(nth int, path string) int) *site {
	s := &site{answer: answer, ids: make(map[string]bool), lastStart: make(map[string]time.Time), firstPause: time.Hour}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status := s.arrive(r, string(body))
		select {
		case <-time.After(takes):
		case <-r.Context().Done():
		}
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) arrive(r *http.Request, body string) (status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now++
	s.peak = max(s.peak, s.now)
	path := r.URL.Path
	s.paths = append(s.paths, path)
	s.ids[r.Header.Get("Webhook-Id")+" "+body] = true
	if last, ok := s.lastStart[path]; ok {
		s.firstPause = min(s.firstPause, time.Since(last))
	}
	s.lastStart[path] = time.Now()
	return s.answer(s.count(path), path)
}

func (s *site) count(path string) (n int) {
	for _, p := range s.paths {
		if p == path {
			n++
		}
	}
	return n
}

func always(status int) func(int, string) int { return func(int, string) int { return status } }

// urls makes n URLs of a site, /prefix0, /prefix1 …
func (s *site) urls(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s/%s%d", s.URL, prefix, i)
	}
	return all
}

func event(id string, urls []string) string {
	return fmt.Sprintf("{\"id\": %q, \"urls\": [\"%s\"], \"body\": {\"event\": %q}}\n", id, strings.Join(urls, `", "`), id)
}

// limits are main's with pauses short enough for a test.
func limits() (driver.Config, *strings.Builder) {
	said := new(strings.Builder) // slog's handler writes to it under a lock
	cfg := driver.Config{Grace: 5 * time.Second, Log: slog.New(slog.NewTextHandler(said, nil))}
	cfg.Qmgr.DoubleBounce = qmgr.DoubleBounceDiscard
	cfg.Qmgr.DefaultTransport.RecipientLimit = 1
	cfg.Qmgr.DefaultTransport.Window.Limit = 4
	cfg.Qmgr.Backoff.MinimalBackoffTime = 100 * time.Millisecond
	cfg.Qmgr.Backoff.MaximalBackoffTime = 100 * time.Millisecond
	return cfg, said
}

func expect(t *testing.T, said *strings.Builder, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(said.String(), text) {
			t.Errorf("nothing said of %q:\n%s", text, said)
		}
	}
}

// Each host has a window of its own, and a slow one does not hold up the others:
// what is for the fast host is done before a fraction of the rest is.
func TestWindows(t *testing.T) {
	t.Parallel()
	slow := newSite(t, 20*time.Millisecond, always(200))
	fast := newSite(t, 0, always(204))
	slowWhenFastWasDone := 0
	fast.answer = func(_ int, path string) int {
		slow.mu.Lock()
		defer slow.mu.Unlock()
		slowWhenFastWasDone = len(slow.paths)
		return 204
	}
	cfg, said := limits()
	in := event("bulk", append(slow.urls("b", 60), fast.urls("b", 60)...))
	if err := run(t.Context(), t.TempDir(), cfg, strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	if slow.peak != 4 || fast.peak > 4 {
		t.Errorf("%d requests at once to the slow host, %d to the fast one: want 4, and at most 4", slow.peak, fast.peak)
	}
	if slowWhenFastWasDone > 30 {
		t.Errorf("the fast host waited until %d of 60 requests had gone to the slow one", slowWhenFastWasDone)
	}
	if !slow.ids[`bulk {"event": "bulk"}`] || len(slow.ids) != 1 {
		t.Errorf("the slow host got %v", slow.ids)
	}
	expect(t, said, "msg=accepted event=bulk", "sent=120 refused=0 put_off=0 given_up=0 left=0")
}

// An event for one URL does not wait for one for hundreds that came first.
func TestOvertaking(t *testing.T) {
	t.Parallel()
	slow := newSite(t, 5*time.Millisecond, always(200))
	cfg, _ := limits()
	in := event("bulk", slow.urls("bulk", 300)) + event("single", slow.urls("single", 1))
	if err := run(t.Context(), t.TempDir(), cfg, strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	if at := slices.Index(slow.paths, "/single0"); len(slow.paths) != 301 || at < 0 || at > 150 {
		t.Errorf("the single event came at place %d of %d", at, len(slow.paths))
	}
}

// What fails for now is tried again after a pause until it is taken or too old;
// what fails for good is not. A host with too much to do gets less at once.
func TestRetries(t *testing.T) {
	t.Parallel()
	recovers := newSite(t, time.Millisecond, func(nth int, path string) int {
		switch nth {
		case 1:
			return http.StatusTooManyRequests
		case 2:
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	broken := newSite(t, 0, always(http.StatusInternalServerError))
	unknown := newSite(t, 0, always(http.StatusNotFound))
	elsewhere := newSite(t, 0, always(http.StatusFound))
	const down = "http://127.0.0.1:1" // no port that the server of another test may get
	cfg, said := limits()
	cfg.Qmgr.Backoff.BounceQueueLifetime = 4 * time.Second // a dead host is left alone for a second
	in := event("recovers", recovers.urls("r", 3)) + event("broken", broken.urls("b", 1)) + event("down", []string{down}) +
		event("unknown", unknown.urls("u", 2)) + event("moved", elsewhere.urls("m", 1)) + event("nonsense", []string{"::"})
	if err := run(t.Context(), t.TempDir(), cfg, strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	for path := range recovers.lastStart {
		if n := recovers.count(path); n != 3 {
			t.Errorf("%d requests for %s, want 3", n, path)
		}
	}
	if recovers.firstPause < 80*time.Millisecond {
		t.Errorf("tried again after %v", recovers.firstPause)
	}
	if n := broken.count("/b0"); n < 3 {
		t.Errorf("%d requests within 4 s to a host that fails", n)
	}
	if len(unknown.paths) != 2 || len(elsewhere.paths) != 1 {
		t.Errorf("refused for good, and tried %d and %d times", len(unknown.paths), len(elsewhere.paths))
	}
	expect(t, said, "sent=3 refused=4 ", "given_up=2 left=0", "404 Not Found", "not a URL", "connection refused", "msg=expired")
}

// A window follows what a host takes: one that takes two at a time gets far fewer
// refusals than requests, and in the end everything.
func TestOverload(t *testing.T) {
	t.Parallel()
	limited := newSite(t, 5*time.Millisecond, nil)
	refused := 0
	limited.answer = func(int, string) int {
		if limited.now > 2 { // the lock is held
			refused++
			return http.StatusTooManyRequests
		}
		return http.StatusOK
	}
	cfg, said := limits()
	cfg.Qmgr.DefaultTransport.Window.Limit = 50
	if err := run(t.Context(), t.TempDir(), cfg, strings.NewReader(event("bulk", limited.urls("l", 100)))); err != nil {
		t.Fatal(err)
	}
	if refused == 0 || refused > 100 || limited.peak > 20 {
		t.Errorf("%d refusals, at most %d requests at once", refused, limited.peak)
	}
	expect(t, said, "sent=100 refused=0", "left=0")
}

// An interrupt loses nothing: what was accepted is in the spool, what was cut off is
// repeated, and the next run does the rest without being told of it again.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	slow := newSite(t, 20*time.Millisecond, nil)
	slow.answer = func(int, string) int {
		if len(slow.paths) == 40 {
			interrupt()
		}
		return http.StatusOK
	}
	dir := t.TempDir()
	cfg, said := limits()
	cfg.Grace = -1 // cut off at once
	in, unfinished := io.Pipe()
	defer in.Close()
	go io.WriteString(unfinished, event("bulk", slow.urls("b", 100))+event("second", slow.urls("s", 5)))
	if err := run(ctx, dir, cfg, in); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	expect(t, said, "msg=accepted event=bulk", "msg=accepted event=second", "given_up=0 left=")
	slow.mu.Lock() // a request that was cut off may still be there
	slow.answer = always(http.StatusOK)
	slow.mu.Unlock()
	cfg, said = limits()
	if err := run(t.Context(), dir, cfg, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	expect(t, said, "left=0")
	if len(slow.lastStart) != 105 {
		t.Errorf("%d of 105 URLs were requested", len(slow.lastStart))
	}
	for path := range slow.lastStart {
		if n := slow.count(path); n > 2 {
			t.Errorf("%d requests for %s", n, path)
		}
	}
	if n := len(slow.paths); n > 105+4 {
		t.Errorf("%d requests for 105 URLs: more than what was cut off was repeated", n)
	}
}

// Input that is not JSON ends the run with an error; earlier events are kept. An
// event that goes nowhere is refused, and the next one is taken.
func TestInput(t *testing.T) {
	t.Parallel()
	hooks := newSite(t, 0, always(http.StatusOK))
	cfg, said := limits()
	dir := t.TempDir()
	err := run(t.Context(), dir, cfg, strings.NewReader(`{"id":"empty"}`+event("good", hooks.urls("g", 1))+`{"id":`))
	if err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("input cut off: %v", err)
	}
	expect(t, said, "msg=refused event=empty", "msg=accepted event=good")
	cfg, said = limits()
	if err := run(t.Context(), dir, cfg, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if expect(t, said, "left=0"); hooks.count("/g0") == 0 {
		t.Error("the event before bad input was lost")
	}
}
