//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

const (
	// A message takes this long, so that 20 connections take 200/s and the processor
	// is no limit.
	messageTime = 100 * time.Millisecond
	connections = 20
	// rise is the time after the first delivery in which the connections are opened;
	// it is not counted.
	rise       = 3 * time.Second
	cutsBudget = 95 // % of what is delivered without cuts
)

// cuts measures what a receiver costs itself that closes connections in the middle of
// transactions: of the deliveries that are made without cuts, few may be missing. All
// are measured at the same time, so that a busy machine delays them alike.
func cuts(ctx context.Context, o options, f *measure.Figures) error {
	fmt.Println("cutting transactions")
	type trial struct {
		percent int
		rate    float64
		peak    int
		err     error
	}
	trials := []*trial{{percent: 0}, {percent: 2}, {percent: 5}}
	var (
		all      sync.WaitGroup
		starting sync.Mutex
		errs     []error
	)
	for _, t := range trials {
		all.Go(func() { t.rate, t.peak, t.err = goodput(ctx, o, t.percent, &starting) })
	}
	all.Wait()
	for _, t := range trials {
		errs = append(errs, t.err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, t := range trials {
		what := fmt.Sprintf("cuts, %d %% of transactions: ", t.percent)
		f.Note(what+"delivered", "%.1f/s over at most %d connections", t.rate, t.peak)
		if t.percent > 0 {
			f.AtLeast(what+"share of what is delivered without cuts", 100*t.rate/trials[0].rate, cutsBudget, "%")
		}
	}
	return nil
}

// goodput returns the deliveries a second, and the largest number of connections. One
// program is started after the other, since each looks for a free port.
func goodput(ctx context.Context, o options, percent int, starting *sync.Mutex) (rate float64, peak int, err error) {
	cfg := sink.Config{MessageDelay: messageTime, Seed: 1}
	for _, stage := range []sink.Stage{sink.AtMail, sink.AtRecipient, sink.AtContent, sink.AtCommit} {
		cfg.Faults = append(cfg.Faults, sink.Fault{Stage: stage, Kind: sink.Drop, Share: float64(percent) / 100 / 4})
	}
	box, err := measure.Receive(cfg, "")
	if err != nil {
		return 0, 0, err
	}
	defer box.Close() //nolint:errcheck // the count has told
	starting.Lock()
	d, err := o.trial(ctx, fmt.Sprintf("cuts-%d", percent), "", map[string]string{"cuts.test": box.Target})
	starting.Unlock()
	if err != nil {
		return 0, 0, err
	}
	defer d.Abandon()
	// More than can be delivered, so that mail is always waiting.
	n := int(1.2 * connections * float64(rise+o.window) / float64(messageTime))
	if err := submitAll(ctx, d, n, func(i int) mail.Address { return mail.Address(fmt.Sprintf("u%d@cuts.test", i)) }); err != nil {
		return 0, 0, err
	}
	if !pause.For(ctx, rise) {
		return 0, 0, ctx.Err()
	}
	before, began := box.Stats().Messages, time.Now()
	if !pause.For(ctx, o.window) {
		return 0, 0, ctx.Err()
	}
	s, took := box.Stats(), time.Since(began)
	if int(s.Messages) >= n*99/100 {
		return 0, 0, errors.New("all mail was delivered before the end: the rate says nothing")
	}
	return float64(s.Messages-before) / took.Seconds(), s.Peak, d.StopClean()
}

// submitAll submits n messages over 20 connections.
func submitAll(ctx context.Context, d *daemon.Daemon, n int, to func(i int) mail.Address) error {
	return measure.Submit(ctx, d.Address, 20, n, func(i int) feed.Message {
		return feed.Message{Sender: "s@origin.test", Recipients: []mail.Address{to(i)},
			Content: fmt.Appendf(nil, "Message-ID: <%d>\r\nSubject: bulk\r\n\r\nHello.\r\n", i)}
	})
}
