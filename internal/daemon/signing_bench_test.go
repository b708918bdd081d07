package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// What signatures cost: twenty clients send messages of 4 KB, one after another, through a
// daemon to a receiver, all of them in this process. The metrics are messages a second until
// the last one is delivered, processor time per message, and the time that a client waits
// for a whole transaction; other-p50 and other-p99 are those of a client whose mail has no key,
// and who sends one message after another meanwhile.
func BenchmarkSigning(b *testing.B) {
	all := two("")
	for _, c := range []struct {
		name string
		keys [][3]string
	}{{"none", nil}, {"ed25519", all[1:]}, {"rsa", all[:1]}, {"both", all}} {
		b.Run(c.name, func(b *testing.B) { benchSigning(b, c.keys) })
	}
}

func benchSigning(b *testing.B, keys [][3]string) {
	t := &testing.T{} // for helpers that fail only if something is broken
	var delivered atomic.Int64
	receiver, err := sink.New(sink.Config{Taken: func(sink.Delivery) { delivered.Add(1) }})
	if err != nil {
		b.Fatal(err)
	}
	ln := listen(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go receiver.Serve(ctx, ln) // it ends with the benchmark
	dir := b.TempDir()
	cfg := configure(t, dir, routes("good.test", ln.Addr().String(), "thrown.test", "discard:")+make(records).newKeys(t, dir, keys...))
	d, err := New(cfg, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	running, end := context.WithCancel(ctx)
	go func() { ended <- d.Run(running) }()
	body := strings.Repeat("The quick brown fox jumps over the lazy dog, and then it has a rest.\r\n", 4096/70)
	content := text("<k>", body)

	const clients = 20
	var waits [clients][]time.Duration
	var left atomic.Int64
	var work sync.WaitGroup
	before := processorTime(b)
	b.ResetTimer()
	left.Store(int64(b.N))
	for i := range clients {
		work.Go(func() {
			c, err := feed.Dial(ctx, "tcp", d.addresses()[0])
			if err != nil {
				b.Error(err)
				return
			}
			for left.Add(-1) >= 0 {
				begin := time.Now()
				if got := c.Send(feed.Message{Sender: "sender@origin.test", Recipients: []mail.Address{"a@good.test"}, Content: content}); got.Fate != feed.Accepted {
					b.Errorf("%+v", got)
					return
				}
				waits[i] = append(waits[i], time.Since(begin))
			}
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		})
	}
	var others []time.Duration
	other, endOther := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		c, err := feed.Dial(ctx, "tcp", d.addresses()[0])
		if err != nil {
			b.Error(err)
			return
		}
		for other.Err() == nil {
			begin := time.Now()
			if got := c.Send(feed.Message{Sender: "sender@other.test", Recipients: []mail.Address{"a@thrown.test"}, Content: []byte("From: a@other.test\r\n\r\nx\r\n")}); got.Fate != feed.Accepted {
				b.Errorf("%+v", got)
			}
			others = append(others, time.Since(begin))
			<-time.After(5 * time.Millisecond)
		}
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	work.Wait()
	endOther()
	watching.Wait()
	for delivered.Load() < int64(b.N) && !b.Failed() {
		select {
		case <-time.After(time.Millisecond):
		case err := <-ended:
			b.Fatal(err)
		}
	}
	b.StopTimer()
	spent := processorTime(b) - before
	end()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	every := slices.Concat(waits[:]...)
	slices.Sort(every)
	slices.Sort(others)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/message")
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(every[(len(every)-1)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
		b.ReportMetric(float64(others[(len(others)-1)*p/100].Microseconds())/1000, fmt.Sprintf("other-p%d-ms", p))
	}
}
