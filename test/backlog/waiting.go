package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/measure"
)

const (
	// waitingPause is what the bulk's receiver takes for each message: 400 a second over 20
	// connections, so that nearly all of it waits all the time.
	waitingPause = 50 * time.Millisecond
	waitingTime  = 20 * time.Second
	// waitingBudget is for mail of another sender beside a million messages.
	waitingBudget = 500 * time.Millisecond
)

// waiting measures what many waiting messages of one sender, more than there is room for
// in core, cost another one, who sends single messages to the same destination and to
// another: while they wait, and after a kill and a start.
func waiting(ctx context.Context, o options, dir string, f *measure.Figures) error {
	o.domains = 1
	streams := map[mail.Address]*measure.Stream{}
	for _, to := range []mail.Address{"before@good.test", "after@good.test", "before@d0.test", "after@d0.test"} {
		streams[to] = &measure.Stream{To: to, Every: singlesEvery}
	}
	good, err := measure.Receive(sink.Config{Taken: func(d sink.Delivery) { streams[d.Recipients[0]].Arrived(d) }}, "")
	if err != nil {
		return err
	}
	defer good.Close() //nolint:errcheck // what counts is what has arrived
	routes, stopReceiving, err := o.receiveBulk(sink.Config{MessageDelay: waitingPause}, newTally(o.messages), streams)
	if err != nil {
		return err
	}
	defer stopReceiving()
	d, err := o.begin(ctx, dir, "in_flow_delay = 0\n", routes+fmt.Sprintf("\"good.test\" = %q\n", good.Target))
	if err != nil {
		return err
	}
	defer d.Abandon()
	began := time.Now()
	if err := measure.Submit(ctx, d.Address, o.clients, o.messages, func(i int) feed.Message {
		return feed.Message{Sender: "bulk@origin.test", Recipients: []mail.Address{o.recipient(i)},
			Content: fmt.Appendf(nil, "Message-ID: <bulk-%d>\r\nSubject: bulk\r\n\r\nHello.\r\n", i)}
	}); err != nil {
		return err
	}
	f.Note("waiting: accepted", "%d after %s", o.messages, measure.Brief(time.Since(began)))
	if err := beside(ctx, d.Address, streams["before@good.test"], streams["before@d0.test"]); err != nil {
		return err
	}
	streams["before@good.test"].Report(f, "waiting: ", waitingBudget)
	streams["before@d0.test"].Report(f, "waiting, same destination: ", waitingBudget)
	if _, err := d.Kill(); err != nil {
		return err
	}
	if err := d.Begin(ctx); err != nil {
		return err
	}
	if err := beside(ctx, d.Address, streams["after@good.test"], streams["after@d0.test"]); err != nil {
		return err
	}
	streams["after@good.test"].Report(f, "waiting, after a start: ", waitingBudget)
	streams["after@d0.test"].Report(f, "waiting, same destination, after a start: ", waitingBudget)
	return nil
}

// beside sends single messages for a while.
func beside(ctx context.Context, address string, singles ...*measure.Stream) error {
	var stops []func() error
	for _, single := range singles {
		stops = append(stops, single.Start(ctx, address))
	}
	pause.For(ctx, waitingTime)
	err := ctx.Err()
	for _, stop := range stops {
		err = errors.Join(err, stop())
	}
	return err
}
