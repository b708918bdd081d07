package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/daemon"
	"github.com/posthaste-mta/posthaste/internal/sink"
)

// A demoSite is a receiver.
type demoSite struct {
	name  string
	about string
	share int // percent of the bulk's recipients
	sink  sink.Config
}

func (s demoSite) domain() string { return s.name + ".test" }

// demoSites are the receivers that the demonstration has.
func demoSites() []demoSite {
	return []demoSite{
		{"good", "answers at once", 15, sink.Config{}},
		{"slow", "takes 20 ms for each recipient", 60, sink.Config{RecipientDelay: 20 * time.Millisecond}},
		{"limited", "the same, but serves 5 connections and answers others with 421", 25,
			sink.Config{ConnectionLimit: 5, RecipientDelay: 20 * time.Millisecond}},
	}
}

// A demoWorld is the daemon and the receivers.
type demoWorld struct {
	sites     []demoSite
	sinks     []*sink.Server
	listeners []net.Listener // of the sinks
	nexthops  []string
	daemon    *daemon.Daemon
	address   string // of the daemon
}

// newDemoWorld opens everything; nothing runs yet. If it fails nothing stays
// open.
func newDemoWorld(dir string, tally *demoTally) (_ *demoWorld, err error) {
	w := &demoWorld{sites: demoSites()}
	defer func() {
		if err != nil {
			w.closeSinks()
		}
	}()
	for i, site := range w.sites {
		cfg := site.sink
		cfg.Hostname = site.domain()
		cfg.Taken = func(d sink.Delivery) { tally.taken(i, d) }
		s, err := sink.New(cfg)
		if err != nil {
			return nil, err
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		w.sinks, w.listeners = append(w.sinks, s), append(w.listeners, ln)
		port := ln.Addr().(*net.TCPAddr).Port
		w.nexthops = append(w.nexthops, fmt.Sprintf("[127.0.0.1]:%d", port))
	}
	cfg, err := config.Parse("demo.toml", []byte(w.config(dir)), config.Environment{Hostname: "demo.test"})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w.address = ln.Addr().String()
	if w.daemon, err = daemon.New(cfg, daemon.Options{Log: slog.New(tally.logHandler()), Listeners: []net.Listener{ln}}); err != nil {
		ln.Close() //nolint:errcheck // there is an error already
		return nil, err
	}
	return w, nil
}

// config is what an administrator would write, except that deferred mail is
// tried again after seconds: five minutes are too long to watch.
func (w *demoWorld) config(dir string) string {
	text := fmt.Sprintf(`
queue_directory = %q
admin_socket = ""
submission_socket = ""
shutdown_time = "1s"
smtpd_recipient_limit = 0
minimal_backoff_time = "1s"
maximal_backoff_time = "1s"
in_flow_delay = 0
queue_minfree = "16M"
dns.servers = ["127.0.0.1:1"] # never asked: the routes have addresses
spool.ballast_size = "64K"

[transport.smtp]
destination_recipient_limit = 10
destination_concurrency_positive_feedback = "1/concurrency"
destination_concurrency_negative_feedback = "1/concurrency"

[routes]
`, dir)
	for i, site := range w.sites {
		text += fmt.Sprintf("%q = \"smtp:%s\"\n", site.domain(), w.nexthops[i])
	}
	return text
}

// run runs all of it until ctx ends.
func (w *demoWorld) run(ctx context.Context) error {
	serving, stopSinks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSinks()
	errs := make([]error, len(w.sinks))
	var receivers sync.WaitGroup
	for i, s := range w.sinks {
		receivers.Go(func() { errs[i] = s.Serve(serving, w.listeners[i]) })
	}
	err := w.daemon.Run(ctx)
	stopSinks()
	receivers.Wait()
	return errors.Join(append(errs, err)...)
}

func (w *demoWorld) closeSinks() {
	for _, ln := range w.listeners {
		ln.Close() //nolint:errcheck // it was never used
	}
}

// A demoWindow is what the scheduler knows of a site.
type demoWindow struct {
	size, busy int
	state      string
}

// windows asks the core how it sees the sites; nil if it does not answer.
func (w *demoWorld) windows(ctx context.Context) []demoWindow {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	view, err := w.daemon.View(ctx, 100)
	if err != nil {
		return nil
	}
	windows := make([]demoWindow, len(w.sites))
	for _, t := range view.Transports {
		for _, q := range t.Queues {
			for i, nexthop := range w.nexthops {
				if q.Nexthop == nexthop {
					windows[i] = demoWindow{q.Window, q.Busy, q.State.String()}
				}
			}
		}
	}
	return windows
}
