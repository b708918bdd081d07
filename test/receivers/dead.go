//go:build unix

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
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

const (
	// rounds are the first attempt and retries.
	rounds = 3
	// rest is for how long nothing is sent before: a message that was delivered a moment
	// ago would prove that our own network works. In a short run nothing ever was.
	rest = 25 * time.Second
	// firstWithin is the longest time that a message to a healthy host may take while mail for dead
	// ones is tried.
	firstWithin = 2 * time.Second
	// goodEvery and floodBudget are of the stream of good mail beside the flood.
	goodEvery   = 20 * time.Millisecond
	floodBudget = time.Second
)

// dead measures what a message to very many dead domains costs a message to a healthy
// host.
func dead(ctx context.Context, o options, f *measure.Figures) error {
	g, err := bury(o.domains)
	if err != nil {
		return err
	}
	defer g.close()
	// The first healthy host is spoken to before; each round has one more, to which
	// nothing was ever sent.
	arrived := make(chan string, 100)
	for i := range rounds + 1 {
		box, err := measure.Receive(sink.Config{Taken: func(d sink.Delivery) { arrived <- d.Key }}, fmt.Sprintf("127.66.0.%d:0", i+1))
		if err != nil {
			return err
		}
		defer box.Close() //nolint:errcheck // the channel has told
		if err := g.host(fmt.Sprintf("well%d.test", i), box.Address); err != nil {
			return err
		}
	}
	d, err := o.trial(ctx, "dead", g.settings(o), g.routes)
	if err != nil {
		return err
	}
	defer d.Abandon()
	t := &deadTrial{options: o, Daemon: d, figures: f, arrived: arrived}
	if !o.short {
		if _, err := t.try(ctx, "before", "well0.test"); err != nil {
			return err
		}
		if !pause.For(ctx, rest) {
			return ctx.Err()
		}
	}
	if err := t.bulk(ctx); err != nil {
		return err
	}
	for round := range t.rounds() {
		if err := t.round(ctx, round); err != nil {
			return err
		}
	}
	return d.StopClean()
}

// rounds is the number of attempts at the bulk that are measured.
func (t *deadTrial) rounds() int {
	if t.short {
		return 2
	}
	return rounds
}

type deadTrial struct {
	options
	*daemon.Daemon
	figures *measure.Figures
	arrived chan string
}

// bulk submits the message to all dead domains.
func (t *deadTrial) bulk(ctx context.Context) error {
	fmt.Printf("one message to %d dead domains\n", t.domains)
	var to []mail.Address
	for i := range t.domains {
		to = append(to, mail.Address(fmt.Sprintf("u@d%d.test", i)))
	}
	return measure.SubmitOne(ctx, "unix", t.Submission(), feed.Message{Sender: "s@origin.test", Recipients: to, Content: []byte("Subject: bulk\r\n\r\nHello.\r\n")})
}

// round waits until the bulk is tried, sends two messages to healthy hosts, and waits
// until the bulk is deferred.
func (t *deadTrial) round(ctx context.Context, n int) error {
	inCore := func(want bool) error {
		yes, err := every(ctx, 50*time.Millisecond, t.patience, func() (bool, error) {
			s, err := t.Admin.Status(ctx, 0)
			return (s.Core.Messages > 0) == want, errors.Join(err, t.Alive())
		})
		if err == nil && !yes {
			err = fmt.Errorf("the bulk is not tried (or not deferred) after %s", t.patience)
		}
		return err
	}
	if n > 0 { // else it comes back after as long as the attempt took, which is minutes
		if _, err := t.Admin.Flush(ctx); err != nil {
			return err
		}
	}
	if err := inCore(true); err != nil {
		return err
	}
	began := time.Now()
	if !pause.For(ctx, min(2*time.Second, t.connect/2)) {
		return ctx.Err()
	}
	name := "dead domains, first attempt: "
	if n > 0 {
		name = fmt.Sprintf("dead domains, retry %d: ", n)
	}
	for _, p := range []struct{ what, domain string }{{"to a healthy host that has rested", "well0.test"}, {"to one never spoken to", fmt.Sprintf("well%d.test", n+1)}} {
		took, err := t.try(ctx, fmt.Sprintf("<%d-%s>", n, p.domain), p.domain)
		if err != nil {
			return err
		}
		t.figures.Within(name+"message "+p.what, took, firstWithin)
	}
	if err := inCore(false); err != nil {
		return err
	}
	t.figures.Note(name+"all deferred after", "%s", measure.Brief(time.Since(began)))
	return nil
}

// try sends a message and returns the time until it has arrived, or the patience if
// it has not by then.
func (t *deadTrial) try(ctx context.Context, key, domain string) (time.Duration, error) {
	began := time.Now()
	c, err := feed.Dial(ctx, "tcp", t.Address)
	if err != nil {
		return 0, err
	}
	r := c.Send(feed.Message{Sender: "friend@good.test", Recipients: []mail.Address{mail.Address("u@" + domain)},
		Content: []byte("Message-ID: " + key + "\r\nSubject: good\r\n\r\nHello.\r\n")})
	if r.Fate != feed.Accepted {
		return 0, fmt.Errorf("good message: %s, %s: %w", r.Fate, r.Reply, r.Err)
	}
	end := time.After(t.patience)
	for {
		select {
		case got := <-t.arrived:
			if got == key {
				return time.Since(began), c.Close()
			}
		case <-end:
			return time.Since(began), c.Close()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// flood measures what very many messages to dead hosts cost a stream of good mail.
func flood(ctx context.Context, o options, f *measure.Figures) error {
	g, err := bury(o.hosts)
	if err != nil {
		return err
	}
	defer g.close()
	stream := &measure.Stream{To: "u@well.test", Every: goodEvery}
	box, err := measure.Receive(sink.Config{Taken: stream.Arrived}, "127.66.0.1:0")
	if err != nil {
		return err
	}
	defer box.Close() //nolint:errcheck // the stream has told
	if err := g.host("well.test", box.Address); err != nil {
		return err
	}
	d, err := o.trial(ctx, "flood", g.settings(o), g.routes)
	if err != nil {
		return err
	}
	defer d.Abandon()
	stopStream := stream.Start(ctx, d.Address)
	fmt.Printf("%d messages to %d dead hosts\n", o.messages, o.hosts)
	began := time.Now()
	if err := submitAll(ctx, d, o.messages, func(i int) mail.Address { return mail.Address(fmt.Sprintf("u%d@d%d.test", i, i%o.hosts)) }); err != nil {
		return err
	}
	took := time.Since(began)
	f.Note("flood: submitted", "%d in %s, %.0f/s", o.messages, measure.Brief(took), float64(o.messages)/took.Seconds())
	deferred := func() (bool, error) {
		s, err := d.Admin.Status(ctx, 0)
		return err == nil && s.Spool.Deferred >= int64(o.messages) && s.Core.Messages < 100, errors.Join(err, d.Alive())
	}
	yes, err := every(ctx, 100*time.Millisecond, o.patience, deferred)
	if err != nil {
		return err
	}
	f.Within("flood: all deferred after", time.Since(began), took+o.patience)
	if yes && !o.short {
		began = time.Now()
		if _, err := d.Admin.Flush(ctx); err != nil {
			return err
		}
		if !pause.For(ctx, time.Second) {
			return ctx.Err()
		}
		if _, err := every(ctx, 100*time.Millisecond, o.patience, deferred); err != nil {
			return err
		}
		f.Within("flood: all tried again after", time.Since(began), o.patience)
	}
	if err := stopStream(); err != nil {
		return err
	}
	stream.Report(f, "flood: ", floodBudget)
	return d.StopClean()
}
