package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// suspended measures what an operator's suspension costs where much mail waits. Half of the messages are for a
// domain that is suspended before they come, half for a site that does not answer. The program is killed, started
// again, and the domain is resumed: the figure is how long it takes until its last message has gone. Another sender
// submits single messages to another destination before the order, and until the last message has gone.
func suspended(ctx context.Context, o options, dir string, f *measure.Figures) error {
	o.domains = 1
	dead, err := daemon.QuietAddress(sitePort)
	if err != nil {
		return err
	}
	deadRoute, err := measure.Target(dead)
	if err != nil {
		return err
	}
	streams := map[mail.Address]*measure.Stream{}
	for _, to := range []mail.Address{"before@good.test", "resumed@good.test"} {
		streams[to] = &measure.Stream{To: to, Every: singlesEvery}
	}
	good, err := measure.Receive(sink.Config{Taken: func(d sink.Delivery) { streams[d.Recipients[0]].Arrived(d) }}, "")
	if err != nil {
		return err
	}
	defer good.Close() //nolint:errcheck // what counts is what has arrived
	half := o.messages / 2
	bulk := newTally(half)
	routes, stopReceiving, err := o.receiveBulk(sink.Config{}, bulk, nil)
	if err != nil {
		return err
	}
	defer stopReceiving()
	// Nothing that is not resumed is tried again meanwhile.
	d, err := o.begin(ctx, dir, "in_flow_delay = 0\nminimal_backoff_time = \"2h\"\nmaximal_backoff_time = \"4h\"\n", routes+fmt.Sprintf("\"good.test\" = %q\n\"dead.test\" = %q\n", good.Target, deadRoute))
	if err != nil {
		return err
	}
	defer d.Abandon()
	if _, err := d.Admin.Suspend(ctx, admin.SuspendOrder{Scope: "domain", Value: "d0.test", Reason: "measurement"}); err != nil {
		return err
	}
	fmt.Printf("submitting %d messages, half of them for a domain that is suspended\n", 2*half)
	began := time.Now()
	if err := measure.Submit(ctx, d.Address, o.clients, 2*half, func(i int) feed.Message {
		to := o.recipient(i / 2)
		if i%2 == 1 {
			to = mail.Address(fmt.Sprintf("u%d@dead.test", i))
		}
		return feed.Message{Sender: "bulk@origin.test", Recipients: []mail.Address{to}, Content: letter(i, o.size)}
	}); err != nil {
		return err
	}
	if _, err := d.Settled(ctx, 2*half); err != nil {
		return err
	}
	f.Note("suspended: put off", "%d messages, half of them suspended, after %s", 2*half, measure.Brief(time.Since(began)))
	if err := beside(ctx, d.Address, streams["before@good.test"]); err != nil {
		return err
	}
	streams["before@good.test"].Report(f, "suspended: ", waitingBudget)
	if _, err := d.Kill(); err != nil {
		return err
	}
	if err := d.Begin(ctx); err != nil {
		return err
	}
	f.Exactly("suspended: messages that went nevertheless", bulk.count(), 0)
	stop := streams["resumed@good.test"].Start(ctx, d.Address)
	began = time.Now()
	if _, err := d.Admin.Resume(ctx, admin.ResumeOrder{Scope: "domain", Value: "d0.test"}); err != nil {
		return err
	}
	f.Within("suspended: answer to the resume", time.Since(began), time.Second)
	if err := errors.Join(bulk.wait(ctx), stop()); err != nil {
		return err
	}
	f.Note("suspended: first of the resumed messages", "after %s", measure.Brief(bulk.first.Sub(began)))
	f.Note("suspended: all resumed messages delivered", "%d after %s, %.0f/s", half, measure.Brief(bulk.last.Sub(began)), float64(half)/bulk.last.Sub(began).Seconds())
	m, err := memoryOf(d.Pid())
	if err != nil {
		return err
	}
	f.AtMost("suspended: largest memory after the start", m.peak, deliveryBudget, "MB")
	bulk.balance(f, "suspended: messages")
	streams["resumed@good.test"].Report(f, "suspended, while they go: ", waitingBudget)
	if _, err := d.Settled(ctx, half); err != nil {
		return err
	}
	return d.StopClean()
}
