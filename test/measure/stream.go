package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// streamClients is the number of connections a Stream submits over, so that a slow
// reply does not keep the next message back.
const streamClients = 20

// A Stream is mail at a fixed rate, each message timed from the instant at which it
// was due, whether or not the one before had been accepted by then: a client that is
// kept waiting must not hide it.
type Stream struct {
	To    mail.Address
	Every time.Duration

	mu    sync.Mutex
	begun map[string]time.Time
	taken []time.Duration // from due to accepted
	done  []time.Duration // from due to delivered
}

// Start begins to send to a server at an address. Stop ends that, and waits a second for
// the last messages to arrive.
func (s *Stream) Start(ctx context.Context, address string) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, address) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func (s *Stream) run(ctx context.Context, address string) error {
	due := make(chan time.Time, 10_000)
	errs := make([]error, streamClients)
	var all sync.WaitGroup
	for i := range streamClients {
		all.Go(func() { errs[i] = s.send(address, due, i) })
	}
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case at := <-tick.C:
			due <- at
		case <-ctx.Done():
		}
	}
	close(due)
	all.Wait()
	pause.For(context.WithoutCancel(ctx), time.Second)
	return errors.Join(errs...)
}

func (s *Stream) send(address string, due <-chan time.Time, client int) error {
	c, err := feed.Dial(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	n := 0
	for at := range due {
		key := fmt.Sprintf("<good-%d-%d>", client, n)
		n++
		s.sent(key, at)
		r := c.Send(feed.Message{Sender: "friend@good.test", Recipients: []mail.Address{s.To},
			Content: []byte("Message-ID: " + key + "\r\nSubject: good\r\n\r\nHello.\r\n")})
		if r.Fate != feed.Accepted {
			return fmt.Errorf("good message: %s, %s: %w", r.Fate, r.Reply, r.Err)
		}
		s.accepted(key, time.Now())
	}
	return c.Close()
}

func (s *Stream) sent(key string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun == nil {
		s.begun = make(map[string]time.Time)
	}
	s.begun[key] = at
}

func (s *Stream) accepted(key string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, at.Sub(s.begun[key]))
}

// Arrived is for the receiver to call with each delivery.
func (s *Stream) Arrived(d sink.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun, ok := s.begun[d.Key]; ok {
		s.done = append(s.done, d.At.Sub(begun))
	}
}

// Report adds the latencies to the figures, of which the 99th percentile from due to
// delivered has a budget.
func (s *Stream) Report(f *Figures, what string, budget time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.taken)
	slices.Sort(s.done)
	f.Note(what+"good mail meanwhile", "%d; accepted p50 %s, p99 %s; delivered p50 %s, max %s", len(s.done),
		Brief(Percentile(s.taken, 50)), Brief(Percentile(s.taken, 99)), Brief(Percentile(s.done, 50)), Brief(Percentile(s.done, 100)))
	f.Within(what+"good mail delivered, p99", Percentile(s.done, 99), budget)
	f.Exactly(what+"good mail that did not arrive", len(s.begun)-len(s.done), 0)
}

// Percentile returns the value that a share of sorted values does not exceed; 0 if
// there are none.
func Percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100]
}
