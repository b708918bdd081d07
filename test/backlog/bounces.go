package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// Good mail is sent at this interval while the bounces are under way. Its
// budget holds for the time from MAIL to the receiver's 250.
const (
	goodEvery  = 20 * time.Millisecond
	goodBudget = 500 * time.Millisecond
)

// bouncesPerPlace is how many bounces there are for each place in core, whatever the
// scale: 60,000 for the 20,000 places that there are by default. What fits into the core
// delays no other mail.
const bouncesPerPlace = 3

// bouncesTrial is the part about a flood of bounces.
type bouncesTrial struct {
	options
	*daemon.Daemon
	figures *measure.Figures
	what    string
	site    string          // where no server listens at first, and later one refuses all
	reports *tally          // what has reached the senders' host
	good    *measure.Stream //  other mail
	begun   time.Time       // the refusals
	reply   time.Duration   // what the senders' host takes for a message
}

// bounces measures what a flood of bounces costs other mail: once with a senders'
// host that takes the reports at once, and with one that takes its time.
func bounces(ctx context.Context, o options, dir string, f *measure.Figures) error {
	for _, way := range []struct {
		name  string
		reply time.Duration
		n     int
	}{{"fast", 0, o.bounces}, {"slow", 20 * time.Millisecond, o.bounces / 4}} {
		sub := dir + "/" + way.name
		if err := os.Mkdir(sub, 0o700); err != nil {
			return err
		}
		part := o
		part.messages = way.n
		if err := bounceAll(ctx, part, sub, f, fmt.Sprintf("bounces, %s host of the senders: ", way.name), way.reply); err != nil {
			return err
		}
	}
	return nil
}

func bounceAll(ctx context.Context, o options, dir string, f *measure.Figures, what string, reply time.Duration) error {
	t := &bouncesTrial{options: o, figures: f, what: what, reports: newTally(o.messages), good: &measure.Stream{To: "u@good.test", Every: goodEvery}, reply: reply}
	var err error
	if t.site, err = daemon.QuietAddress(sitePort); err != nil {
		return err
	}
	origin, err := measure.Receive(sink.Config{MessageDelay: reply, Taken: func(d sink.Delivery) {
		for _, to := range d.Recipients {
			t.reports.take("s%d@", string(to))
		}
	}}, "")
	if err != nil {
		return err
	}
	defer origin.Close() //nolint:errcheck // the tally has told
	good, err := measure.Receive(sink.Config{Taken: t.good.Arrived}, "")
	if err != nil {
		return err
	}
	defer good.Close() //nolint:errcheck // the tally has told
	routes := ""
	for domain, address := range map[string]string{"bad.test": t.site, "origin.test": origin.Address, "good.test": good.Address} {
		to, err := measure.Target(address)
		if err != nil {
			return err
		}
		routes += fmt.Sprintf("%q = %q\n", domain, to)
	}
	settings := fmt.Sprintf("minimal_backoff_time = \"1h\"\nqmgr_message_active_limit = %d\n", o.bounces/bouncesPerPlace)
	if t.Daemon, err = newDaemon(o, dir, settings, routes); err != nil {
		return err
	}
	defer t.Abandon()
	if err := t.Begin(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{t.pileUp, t.refuse} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return t.Daemon.StopClean()
}

// pileUp submits all that is going to bounce.
func (t *bouncesTrial) pileUp(ctx context.Context) error {
	fmt.Printf("%shanding in %d messages\n", t.what, t.messages)
	var next sync.Mutex
	i := 0
	errs := make([]error, t.clients)
	var clients sync.WaitGroup
	for c := range t.clients {
		clients.Go(func() {
			errs[c] = t.feedBounces(ctx, func() int {
				next.Lock()
				defer next.Unlock()
				i++
				return i - 1
			})
		})
	}
	clients.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := t.Settled(ctx, t.messages)
	return err
}

func (t *bouncesTrial) feedBounces(ctx context.Context, next func() int) error {
	c, err := feed.Dial(ctx, "tcp", t.Address)
	if err != nil {
		return err
	}
	for i := next(); i < t.messages && ctx.Err() == nil; i = next() {
		r := c.Send(feed.Message{Sender: mail.Address(fmt.Sprintf("s%d@origin.test", i)), Recipients: []mail.Address{"nobody@bad.test"},
			Content: fmt.Appendf(nil, "Message-ID: <%d>\r\nSubject: bounces\r\n\r\nHello.\r\n", i)})
		if r.Fate != feed.Accepted {
			return fmt.Errorf("message %d: %s, %s: %w", i, r.Fate, r.Reply, r.Err)
		}
	}
	return errors.Join(ctx.Err(), c.Close())
}

// refuse makes the destination refuse all recipients, and sends good mail until all
// senders have heard of it.
func (t *bouncesTrial) refuse(ctx context.Context) error {
	bad, err := measure.Receive(sink.Config{Faults: []sink.Fault{{Stage: sink.AtRecipient, Kind: sink.RefuseForGood, Share: 1}}}, t.site)
	if err != nil {
		return err
	}
	defer bad.Close() //nolint:errcheck // the tally has told
	fmt.Printf("%srefusing them\n", t.what)
	t.begun = time.Now()
	if _, err := t.Admin.Flush(ctx); err != nil {
		return err
	}
	sending, stopSending := context.WithCancel(ctx)
	defer stopSending()
	var sender sync.WaitGroup
	var sendErr error
	sender.Go(func() { sendErr = t.good.Run(sending, t.Address) })
	err = t.reports.wait(ctx)
	stopSending()
	sender.Wait()
	if err := errors.Join(err, sendErr); err != nil {
		return err
	}
	if _, err := t.Settled(ctx, 0); err != nil {
		return err
	}
	m, err := memoryOf(t.Pid())
	if err != nil {
		return err
	}
	took := t.reports.last.Sub(t.begun)
	t.figures.Note(t.what+"reported", "%d in %s, %.0f/s", t.messages, measure.Brief(took), float64(t.messages)/took.Seconds())
	t.figures.AtMost(t.what+"largest memory", m.peak, deliveryBudget, "MB")
	t.reports.balance(t.figures, t.what+"reports")
	t.good.Report(t.figures, t.what, goodBudget)
	return nil
}
