package main

import (
	"context"
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// idleBudget is what an idle inbound connection may cost, in KB of 2^10
// octets.
const idleBudget = 16

// idle measures what connections cost that do nothing.
func idle(ctx context.Context, o options, dir string, f *measure.Figures) error {
	fmt.Printf("opening %d connections\n", o.idle)
	// Far below the limit, beyond which idle clients have less time.
	d, err := o.begin(ctx, dir, fmt.Sprintf("smtpd_connection_limit = %d\n", 2*o.idle), "")
	if err != nil {
		return err
	}
	defer d.Abandon()
	before, err := memoryOf(d.Pid())
	if err != nil {
		return err
	}
	began := time.Now()
	clients := make([]*feed.Client, o.idle)
	for i := range clients {
		if clients[i], err = feed.Dial(ctx, "tcp", d.Address); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		defer clients[i].Abort()
	}
	took := time.Since(began)
	if !pause.For(ctx, 5*time.Second) {
		return ctx.Err()
	}
	after, err := memoryOf(d.Pid())
	if err != nil {
		return err
	}
	f.Note("idle: connections greeted, one after the other", "%d in %s", o.idle, measure.Brief(took))
	f.AtMost("idle: memory of each connection", (after.own-before.own)*1024/float64(o.idle), idleBudget, "KB")
	f.AtMost("idle: memory in all", after.peak, memoryBudget, "MB")
	for i, c := range clients {
		if err := c.Close(); err != nil {
			return fmt.Errorf("connection %d, which was idle: %w", i, err)
		}
	}
	return d.StopClean()
}
