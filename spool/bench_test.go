package spool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// cpuTime returns the CPU time used by the process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured runs a benchmark body and also reports messages per second and CPU time
// per message.
func measured(b *testing.B, body func()) {
	b.ReportAllocs()
	b.ResetTimer()
	cpu, start := cpuTime(), time.Now()
	body()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "msg/s")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/msg")
}

func benchSpool(b *testing.B) *Spool {
	s, err := Open(Config{Settings: Settings{Dir: b.TempDir()}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// benchBody is 4 KB of data that does not compress.
var benchBody = noise(1, 4096)

// benchFlow is a flow as the daemon gives one to every message.
var benchFlow = mail.Flow{Class: "normal", Tenant: "192.0.2.1", Flow: "sender@example.com"}

func benchAccept(b testing.TB, s *Spool) mail.Arrival {
	d, err := s.Begin(context.Background())
	if err != nil {
		b.Error(err)
		return mail.Arrival{}
	}
	if err := d.AddRecipient(mail.Recipient{Address: "somebody@example.org"}); err != nil {
		b.Error(err)
	}
	if _, err := d.Write(benchBody); err != nil {
		b.Error(err)
	}
	if err := d.Commit(context.Background(), mail.Envelope{
		Sender: "sender@example.com", Arrived: 1, Client: mail.Client{Helo: "client.example.com", Proto: "ESMTP"}, Flow: benchFlow,
	}); err != nil {
		b.Error(err)
	}
	return d.Arrival()
}

// writers calls do n times from 20 goroutines.
func writers(n int, do func()) {
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				do()
			}
		})
	}
	all.Wait()
}

func BenchmarkAccept(b *testing.B) {
	s := benchSpool(b)
	measured(b, func() { writers(b.N, func() { benchAccept(b, s) }) })
}

// BenchmarkAcceptRemove is the life of most mail: accepted, read for delivery,
// removed by the committer together with other changes.
func BenchmarkAcceptRemove(b *testing.B) {
	s := benchSpool(b)
	done := make(chan mail.Change, 4096)
	var committer sync.WaitGroup
	committer.Go(func() { benchCommitter(b, s, done) })
	measured(b, func() {
		writers(b.N, func() {
			a := benchAccept(b, s)
			if _, err := s.Content(context.Background(), a.Envelope.ID); err != nil {
				b.Error(err)
			}
			done <- mail.Change{Op: mail.ChangeRemove, ID: a.Envelope.ID, Place: a.Place}
		})
		close(done)
		committer.Wait()
	})
}

// benchCommitter applies changes in groups of all that are waiting.
func benchCommitter(b testing.TB, s *Spool, done <-chan mail.Change) {
	var group []mail.Change
	for c := range done {
		group = append(group[:0], c)
		for more := true; more && len(group) < 1000; {
			select {
			case c, ok := <-done:
				if more = ok; ok {
					group = append(group, c)
				}
			default:
				more = false
			}
		}
		if _, err := s.Apply(context.Background(), group); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkDefer pops due messages behind a cursor and defers them again, 100
// to a commit, as the core does during a round.
func BenchmarkDefer(b *testing.B) {
	s := benchSpool(b)
	const stock = 20000
	fill(b, s, stock, 1)
	first := mail.Cursor{Bucket: benchFlow.Bucket(), ID: 1}
	cursor, now := first, mail.Instant(1)
	reply := mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "try later", By: "mx.example.org[192.0.2.1]:25"}
	measured(b, func() {
		for n := 0; n < b.N; {
			found, err := s.Fetch(context.Background(), mail.AreaDeferred, cursor, now, 100)
			if err != nil {
				b.Fatal(err)
			}
			cursor = found.Next
			if !found.More {
				now, cursor = now+1, mail.Cursor{Bucket: first.Bucket, Due: now + 1}
			}
			changes := make([]mail.Change, len(found.Cursors))
			for i, c := range found.Cursors {
				changes[i] = mail.Change{
					Op: mail.ChangeDefer, ID: c.ID, Place: mail.Place{Area: mail.AreaDeferred, Due: c.Due, Touched: true, Bucket: c.Bucket},
					Outcomes: []mail.Outcome{{Result: mail.Deferred, Reply: reply, At: now}}, Due: now + 1, At: now,
				}
			}
			if _, err := s.Apply(context.Background(), changes); err != nil {
				b.Fatal(err)
			}
			n += len(changes)
		}
	})
}

// fill puts n messages into the deferred area, spread over dues.
func fill(b testing.TB, s *Spool, n int, dues int64) {
	var counter atomic.Int64
	done := make(chan mail.Change, 4096)
	var committer sync.WaitGroup
	committer.Go(func() { benchCommitter(b, s, done) })
	writers(n, func() {
		a := benchAccept(b, s)
		done <- mail.Change{
			Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, At: 1, Due: mail.Instant(1 + counter.Add(1)*7919%dues),
			Outcomes: []mail.Outcome{{Result: mail.Deferred, At: 1, Reply: mail.Reply{Code: 451, Text: fmt.Sprint("busy ", counter.Load())}}},
		}
	})
	close(done)
	committer.Wait()
}

// BenchmarkCounts is BenchmarkAcceptRemove with what quotas on the queue cost.
func BenchmarkCounts(b *testing.B) {
	for _, level := range []mail.CountLevel{mail.CountNothing, mail.CountTenants, mail.CountFlows} {
		b.Run(fmt.Sprint(level), func(b *testing.B) {
			s := benchSpool(b)
			s.SetCounts(level)
			counted(b, s)
			done := make(chan mail.Change, 4096)
			var committer sync.WaitGroup
			committer.Go(func() { benchCommitter(b, s, done) })
			measured(b, func() {
				writers(b.N, func() {
					a := benchAccept(b, s)
					done <- mail.Change{Op: mail.ChangeRemove, ID: a.Envelope.ID, Place: a.Place}
				})
				close(done)
				committer.Wait()
			})
		})
	}
}

// BenchmarkCounting is the counting of 100,000 messages that are in the spool when quotas are
// configured, of few senders and of as many as there are messages.
func BenchmarkCounting(b *testing.B) {
	const messages = 100_000
	for _, senders := range []int{100, messages} {
		b.Run(fmt.Sprint(senders), func(b *testing.B) {
			s := benchSpool(b)
			for first := 0; first < messages; first += 1000 {
				batch := s.db.NewBatch()
				for n := range 1000 {
					e := envelope{}
					e.ID, e.Size, e.Recipients = mail.QueueID(1<<40+first+n), 100, 1
					sender := (first + n) % senders
					e.Flow = mail.Flow{Class: "normal", Tenant: fmt.Sprintf("10.%d.%d.0/24", sender/256%256, sender%256), Flow: fmt.Sprintf("sender%d@example.com", sender)}
					if err := putEnvelope(batch, &e, nil); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.commit(batch); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				s.SetCounts(mail.CountFlows)
				counted(b, s)
				b.StopTimer()
				s.SetCounts(mail.CountNothing)
				for s.Waiting(mail.Flow{Class: "normal"}).Known {
					<-time.After(time.Millisecond)
				}
				b.StartTimer()
			}
		})
	}
}
