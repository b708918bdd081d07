package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/queue"
	"github.com/posthaste-mta/posthaste/internal/cli/socket"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/spool"
)

// A stop in the middle of everything loses nothing that was accepted, and
// nothing is delivered twice, for deliveries under way are finished. The next
// start goes on where this one ended.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{MessageDelay: 5 * time.Millisecond})
	dir, text := t.TempDir(), routes("d.test", box.address)
	accepted, unknown := make(copies), make(copies)
	n := 0
	for range 3 {
		r := start(t, dir, text)
		load := newLoad(r, 8, &n)
		r.until("mail under way", func() bool { return len(box.deliveries()) > load.base+50 })
		r.end()
		load.wait(accepted, unknown)
	}
	r := start(t, dir, text)
	r.settled()
	got := box.copies()
	for pair := range union(accepted, unknown) {
		least := accepted[pair]
		if got[pair] < least || got[pair] > least+unknown[pair] {
			t.Errorf("%s: delivered %d times, accepted %d times, unknown %d times", pair, got[pair], accepted[pair], unknown[pair])
		}
		delete(got, pair)
	}
	for pair := range got {
		t.Errorf("%s was delivered and never submitted", pair)
	}
	if len(accepted) < 150 {
		t.Errorf("only %d messages were accepted", len(accepted))
	}
}

// A load is some clients that submit mail until they cannot any more.
type load struct {
	base     int
	mu       sync.Mutex
	fates    map[string]feed.Fate
	finished sync.WaitGroup
}

func newLoad(r *rig, clients int, serial *int) *load {
	l := &load{base: *serial, fates: make(map[string]feed.Fate)}
	address := r.address()
	for range clients {
		l.finished.Go(func() {
			c, err := feed.Dial(context.Background(), "tcp", address)
			if err != nil {
				return
			}
			defer c.Abort()
			for {
				l.mu.Lock()
				*serial++
				key := key(*serial)
				l.mu.Unlock()
				got := c.Send(letter(key, "a@d.test"))
				l.mu.Lock()
				l.fates[key] = got.Fate
				l.mu.Unlock()
				if got.Fate != feed.Accepted {
					return
				}
			}
		})
	}
	return l
}

// wait waits for the clients and notes what they know.
func (l *load) wait(accepted, unknown copies) {
	l.finished.Wait()
	for key, fate := range l.fates {
		switch fate {
		case feed.Accepted:
			accepted.add(key, "a@d.test")
		case feed.Unknown:
			unknown.add(key, "a@d.test")
		}
	}
}

// A new configuration takes effect without a stop, mail that waits goes by the
// new routes, and a file with a mistake changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	first, second := receive(t, sink.Config{}), receive(t, sink.Config{})
	dir := t.TempDir()
	path := filepath.Join(t.TempDir(), "posthaste.toml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func() (*config.Config, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return config.Parse(path, text, config.Environment{Hostname: "mta.test"})
	}
	nobody := closed(t)
	target := func(address string) string { return tomlfile.QuoteText(to(address)) }
	r := start(t, dir, routes("d.test", first.address, "waits.test", nobody))
	r.feed(letter("<1>", "a@d.test", "a@waits.test"))
	r.waiting("one recipient left", census{mail.AreaDeferred: 1})

	write(common(dir) + "no_such_parameter = 1\nrelayhostt = \"\"\n")
	r.d.reloadFile(load)
	if r.log.count("mistake in the configuration", "no_such_parameter") != 1 || r.log.count("mistake in the configuration", "did you mean relayhost") != 1 {
		t.Error("the log does not report each mistake in a record of its own")
	}
	if r.log.count("the old one stays in force", "mistakes=2") != 1 {
		t.Error("the log does not say that the file is wrong")
	}
	r.feed(letter("<2>", "a@d.test"))
	r.waiting("one recipient left", census{mail.AreaDeferred: 1})
	first.copies().matches(t, copies{"<1> a@d.test": 1, "<2> a@d.test": 1})

	r.d.load = load
	byOrder := &reloads{r.d}
	var refused *admin.RefusedConfiguration
	for _, dryRun := range []bool{true, false} {
		if _, err := byOrder.Reload(t.Context(), dryRun); !errors.As(err, &refused) || len(refused.Mistakes) != 2 {
			t.Errorf("an order to reload, dry run %v: %v", dryRun, err)
		}
	}

	write(common(dir) + "smtpd_banner = \"ESMTP\"\n" + routes("d.test", second.address, "waits.test", second.address))
	want := admin.Reloaded{Restart: []string{"smtpd_banner"}, Warnings: []admin.ConfigWarning{}, Changes: []admin.ConfigChange{
		{Key: "smtpd_banner", Old: `"ESMTP Posthaste"`, New: `"ESMTP"`, Restart: true},
		{Key: "dns.servers", Old: `["127.0.0.1:1"]`, New: "[]"},
		{Key: `routes."d.test"`, Old: target(first.address), New: target(second.address)},
		{Key: `routes."waits.test"`, Old: target(nobody), New: target(second.address)}}}
	would, err := byOrder.Reload(t.Context(), true)
	if diff := cmp.Diff(want, would); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	did, err := byOrder.Reload(t.Context(), false)
	if diff := cmp.Diff(want, did); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	running, err := byOrder.Running(true, false)
	if err != nil || !strings.Contains(running.Text, target(second.address)) || len(running.Pending) != 1 || running.Pending[0] != want.Changes[0] {
		t.Errorf("%+v, %v", running, err)
	}
	if r.log.count("some changes need a restart", "smtpd_banner") != 1 {
		t.Error("the log does not say that smtpd_banner needs a restart")
	}
	r.d.reloadFile(load)
	if r.log.count("some changes need a restart", "smtpd_banner") != 2 {
		t.Error("a second reload does not say that smtpd_banner still needs a restart")
	}
	r.feed(letter("<3>", "a@d.test"))
	r.d.driver.RetryAll()
	r.settled()
	first.copies().matches(t, copies{"<1> a@d.test": 1, "<2> a@d.test": 1})
	second.copies().matches(t, copies{"<3> a@d.test": 1, "<1> a@waits.test": 1})

	write(common(dir) + routes("d.test", second.address))
	r.d.reloadFile(load)
	if r.log.count("configuration reloaded") != 3 || r.log.count("some changes need a restart", "smtpd_banner") != 2 {
		t.Error("the log says that smtpd_banner needs a restart although it is as the daemon started with it")
	}
	level := new(slog.LevelVar)
	r.d.level.level = level
	if _, err := r.d.reload(configure(t, dir, "log.level = \"warn\"\n"+routes("d.test", second.address, "waits.test", second.address))); err != nil || level.Level() != slog.LevelWarn {
		t.Errorf("the level of the log after a reload: %v, %v", level.Level(), err)
	}
}

// Reloads while mail flows disturb nothing: each replaces resolver, routes and
// connections.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{MessageDelay: time.Millisecond})
	text := routes("d.test", box.address)
	r := start(t, t.TempDir(), text)
	want := make(copies)
	var clients sync.WaitGroup
	clients.Go(func() {
		for i := range 300 {
			r.feed(letter(key(i), "a@d.test"))
			want.add(key(i), "a@d.test")
		}
	})
	for i := range 10 {
		r.until("some mail", func() bool { return len(box.deliveries()) > 25*i })
		if _, err := r.d.reload(configure(t, r.dir, fmt.Sprintf("default_destination_concurrency_limit = %d\n", 5+i)+text)); err != nil {
			t.Error(err)
		}
	}
	clients.Wait()
	r.settled()
	box.copies().matches(t, want)
}

// Without room on the disk, mail is refused for now and at once, and what is
// in the queue still goes out.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir, text := t.TempDir(), routes("d.test", box.address)
	r := start(t, dir, routes("d.test", closed(t)))
	r.feed(letter("<1>", "a@d.test"))
	r.waiting("a deferred message", census{mail.AreaDeferred: 1})
	r.end()

	r = start(t, dir, fmt.Sprintf("queue_minfree = %d\n", math.MaxInt64/4)+text)
	c := r.dial()
	defer c.Abort()
	for range 2 {
		got := c.Send(letter("<2>", "a@d.test"))
		if got.Fate != feed.Refused || got.Reply.Code != 452 || got.Reply.Status != (mail.Status{Class: 4, Subject: 3, Detail: 1}) || got.Err != nil {
			t.Errorf("result %s, %s, %v", got.Fate, got.Reply, got.Err)
		}
	}
	var status strings.Builder
	if err := queue.Call(t.Context(), command.Streams{Out: &status, Err: io.Discard}, &socket.Finder{}, "status", "--queue-directory", dir); err != nil {
		t.Error(err)
	}
	if !strings.Contains(status.String(), "\nFull    no mail is taken in: no room in the spool: ") {
		t.Errorf("the status:\n%s", status.String())
	}
	if n := r.log.count("no room for messages", `error="no room in the spool: `); n == 0 || r.log.count("no room in the spool: no room") > 0 {
		t.Errorf("%d lines of the log say why", n)
	}
	r.d.driver.RetryAll()
	r.settled()
	box.copies().matches(t, copies{"<1> a@d.test": 1})
}

// A spool belongs to one process. A second one says what is the matter and
// leaves everything alone.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	dir, text := t.TempDir(), routes("d.test", box.address)
	r := start(t, dir, text)
	d, err := New(configure(t, dir, text), quiet)
	if d != nil || !errors.Is(err, spool.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("the second daemon starts with error %v", err)
	}
	elsewhere := configure(t, t.TempDir(), "")
	elsewhere.Listen = []netip.AddrPort{netip.MustParseAddrPort(r.address())}
	d, err = New(elsewhere, quiet)
	if d != nil || !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("on an address that is in use a daemon starts with error %v", err)
	}
	c, err := feed.Dial(context.Background(), "unix", filepath.Join(dir, "submit.sock"))
	if err != nil {
		t.Fatalf("the first daemon's socket: %v", err)
	}
	if got := c.Send(letter("<1>", "a@d.test")); got.Fate != feed.Accepted {
		t.Errorf("the first daemon: %s, %v", got.Fate, got.Err)
	}
	c.Abort()
	r.settled()
	box.copies().matches(t, copies{"<1> a@d.test": 1})
}

// Everything that a daemon starts ends with it: listeners, sessions that are
// open, deliveries, the spool's maintenance, and a daemon that could not even
// be made.
func TestNothingIsLeftBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("", func(t *testing.T) {
		box := receive(t, sink.Config{})
		dir := t.TempDir()
		r := start(t, dir, routes("d.test", box.address, "dead.test", closed(t)))
		idle := r.dial()
		defer idle.Abort()
		r.feed(letter("<1>", "a@d.test", "a@dead.test"))
		r.waiting("a deferred message", census{mail.AreaDeferred: 1})
		if _, err := r.d.reload(configure(t, dir, "")); err != nil {
			t.Error(err)
		}
		if _, err := New(configure(t, dir, ""), quiet); err == nil {
			t.Error("a second daemon could be made")
		}
		r.end()
		for _, name := range []string{"submit.sock", "admin.sock"} {
			if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left (%v)", name, err)
			}
		}
	})
	goleak.VerifyNone(t, before)
}
