package daemon

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/internal/cli/recording"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/trace/record"
)

// traces calls a command for traces and returns what it writes.
func traces(t *testing.T, args ...string) string {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd := recording.NewTraceCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&complaints)
	if err := cmd.Execute(); err != nil || complaints.Len() > 0 {
		t.Errorf("%q: %v\n%s%s", args, err, &out, &complaints)
	}
	return out.String()
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
		r := startTraced(t, dir, text, record.New(record.File(path), record.Config{By: "a test", Limit: 1 << 30, Log: quiet.Log}))
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
		if out := traces(t, "replay", file); !strings.Contains(out, ": equal\n") {
			t.Error(out)
		}
		out := traces(t, "show", "--summary", file)
		for _, kind := range []string{"arrived 201", "configure 1", "halt 1", "note"} {
			if !strings.Contains(out, kind) {
				t.Errorf("no %q in\n%s", kind, out)
			}
		}
	}
}

// BenchmarkTrace measures what a trace costs: a daemon relays mail to a receiver,
// without one and with one in turn, both ends of the mail in the same process.
// Figures are for one message: processor time, and bytes of the trace.
//
//	go test ./internal/daemon -run '^$' -bench Trace -benchtime 10x
func BenchmarkTrace(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.trace")
	const messages = 5000
	var plain, traced usage
	for b.Loop() {
		plain.add(relayAll(b, nil, messages))
		traced.add(relayAll(b, record.New(record.File(path), record.Config{By: "a benchmark", Log: quiet.Log}), messages))
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
	b.ReportMetric(float64(info.Size())/messages, "trace-bytes/msg")
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
func relayAll(b *testing.B, tracer driver.Tracer, messages int) usage {
	b.Helper()
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	arrived := make(chan struct{}, messages)
	receiver, err := sink.New(sink.Config{Taken: func(sink.Delivery) { arrived <- struct{}{} }})
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	cfg, err := config.Parse("bench.toml", fmt.Appendf(nil, "%sin_flow_delay = \"0\"\ndns.servers = [\"127.0.0.1:1\"]\n[routes]\n\"*\" = %q\n", common(dir), to(ln.Addr().String())),
		config.Environment{Hostname: "mta.test"})
	check(err)
	d, err := New(cfg, Options{Log: quiet.Log, Tracer: tracer})
	check(err)
	var all sync.WaitGroup
	all.Go(func() { _ = receiver.Serve(ctx, ln) })
	running, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
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
