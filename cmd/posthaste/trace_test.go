package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// command runs the program and returns its exit status and what it writes.
func command(args ...string) (code exitCode, out, complaints string) {
	var stdout, stderr bytes.Buffer
	code = run(context.Background(), "posthaste", args, streams{strings.NewReader(""), &stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

// What a daemon has done, on a real disk and over real connections, can be done
// again from its trace, after a reload and a stop in the middle of things. The
// next start keeps that trace.
func TestTraceOfADaemonReplays(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{Faults: []sink.Fault{{Stage: sink.AtRecipient, Kind: sink.RefuseForNow, Share: 0.2}}})
	dir := t.TempDir()
	path := filepath.Join(dir, "x.trace")
	text := "minimal_backoff_time = \"1s\"\nmaximal_backoff_time = \"1s\"\n" + routes("d.test", box.address, "dead.test", "127.0.0.1:1")
	for round := range 2 {
		r := startTraced(t, dir, text, &recordingTo{path: path, limit: "1G"})
		var clients sync.WaitGroup
		for c := range 4 {
			clients.Go(func() {
				for i := range 50 {
					key := fmt.Sprintf("<%d.%d.%d>", round, c, i)
					r.feed(letter(key, mail.Address(fmt.Sprintf("u%d@d.test", i)), "v@d.test", "w@dead.test"))
				}
			})
		}
		clients.Wait()
		if _, err := r.d.reload(configure(t, dir, "default_process_limit = 7\n"+text)); err != nil {
			t.Error(err)
		}
		r.feed(letter(fmt.Sprintf("<%d>", round), "u@d.test"))
		r.end()
	}
	for _, file := range []string{path + ".old", path} {
		code, out, complaints := command("trace", "replay", file)
		if code != exitOK || !strings.Contains(out, ": equal\n") || complaints != "" {
			t.Errorf("exit status %d\n%s%s", code, out, complaints)
		}
		code, out, _ = command("trace", "show", "--summary", file)
		for _, kind := range []string{"arrived 201", "configure 1", "halt 1", "note"} {
			if code != exitOK || !strings.Contains(out, kind) {
				t.Errorf("exit status %d, no %q in\n%s", code, kind, out)
			}
		}
	}
}

// A trace that cannot be written keeps the daemon from starting, with a reason;
// nothing stays open, so that it starts without.
func TestTraceThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, test := range []struct{ path, want string }{
		{filepath.Join(dir, "nowhere", "x.trace"), "no such file or directory"},
		{"/dev/full", "no space left on device"},
	} {
		tracer, err := (&recordingTo{path: test.path, limit: "4G"}).tracer(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		_, err = newDaemonOn(machine{}, configure(t, dir, ""), slog.New(slog.DiscardHandler), nil, tracer)
		if err == nil || !strings.Contains(err.Error(), "the trace cannot be written") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		if code, hint := codeOfStart(err); code != exitIO || !strings.Contains(hint, "--trace") {
			t.Errorf("%s: exit status %d, %q", test.path, code, hint)
		}
	}
	start(t, dir, "").end()
}

// BenchmarkTrace tells what a trace costs: a daemon relays mail to a receiver,
// without one and with one in turn, both ends of the mail in the same process.
// Figures are for one message: processor time, and octets of the trace.
//
//	go test ./cmd/posthaste -run '^$' -bench Trace -benchtime 10x
func BenchmarkTrace(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.trace")
	const messages = 5000
	var plain, traced usage
	for b.Loop() {
		plain.add(relayAll(b, &recordingTo{limit: "0"}, messages))
		traced.add(relayAll(b, &recordingTo{path: path, limit: "0"}, messages))
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	n := float64(b.N * messages)
	b.ReportMetric(n/plain.wall.Seconds(), "plain-msg/s")
	b.ReportMetric(n/traced.wall.Seconds(), "traced-msg/s")
	b.ReportMetric(float64(plain.processor.Microseconds())/n, "plain-cpu-µs/msg")
	b.ReportMetric(float64(traced.processor.Microseconds())/n, "traced-cpu-µs/msg")
	b.ReportMetric(float64(info.Size())/messages, "octets/msg")
}

// A usage is what something has taken.
type usage struct{ wall, processor time.Duration }

func (u *usage) add(o usage) { u.wall, u.processor = u.wall+o.wall, u.processor+o.processor }

func processorTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// relayAll relays messages of 4 KB from 20 clients to 100 destinations.
func relayAll(b *testing.B, trace *recordingTo, messages int) usage {
	b.Helper()
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	dir, log := b.TempDir(), slog.New(slog.DiscardHandler)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	arrived := make(chan struct{}, messages)
	receiver, err := sink.New(sink.Config{Taken: func(sink.Delivery) { arrived <- struct{}{} }})
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	cfg, err := config.Parse("bench.toml", fmt.Appendf(nil, "%sin_flow_delay = \"0\"\ndns.servers = [\"127.0.0.1:1\"]\n[routes]\n\"*\" = %q\n", common(dir), to(ln.Addr().String())),
		config.Environment{Hostname: "mta.test"})
	check(err)
	tracer, err := trace.tracer(log)
	check(err)
	d, err := newDaemonOn(machine{}, cfg, log, nil, tracer)
	check(err)
	var all sync.WaitGroup
	all.Go(func() { _ = receiver.Serve(ctx, ln) })
	running, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.run(running) }()
	start, before := time.Now(), processorTime(b)
	body := text("<key>", strings.Repeat("All work and no play makes Jack a dull boy.\r\n", 90))
	const clients = 20
	for c := range clients {
		all.Go(func() {
			client, err := feed.Dial(ctx, "tcp", d.addresses()[0])
			if err != nil {
				b.Error(err)
				return
			}
			defer client.Close()
			for i := range messages / clients {
				m := feed.Message{Sender: "sender@origin.test", Content: body,
					Recipients: []mail.Address{mail.Address(fmt.Sprintf("u%d@d%d.test", i, (c*7+i)%100))}}
				if r := client.Send(m); r.Fate != feed.Accepted {
					b.Errorf("%+v", r)
					return
				}
			}
		})
	}
	for range messages {
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			b.Fatal("mail does not arrive")
		}
	}
	used := usage{wall: time.Since(start)}
	end()
	check(<-ended)
	used.processor = processorTime(b) - before
	stop()
	all.Wait()
	return used
}
