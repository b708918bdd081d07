package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	bad, err := measure.Target(t.site)
	if err != nil {
		return err
	}
	routes := fmt.Sprintf("\"bad.test\" = %q\n\"origin.test\" = %q\n\"good.test\" = %q\n", bad, origin.Target, good.Target)
	settings := fmt.Sprintf("minimal_backoff_time = \"1h\"\nqmgr_message_active_limit = %d\n", o.bounces/bouncesPerPlace)
	if t.Daemon, err = o.begin(ctx, dir, settings, routes); err != nil {
		return err
	}
	defer t.Abandon()
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
	err := measure.Submit(ctx, t.Address, t.clients, t.messages, func(i int) feed.Message {
		return feed.Message{Sender: mail.Address(fmt.Sprintf("s%d@origin.test", i)), Recipients: []mail.Address{"nobody@bad.test"},
			Content: fmt.Appendf(nil, "Message-ID: <%d>\r\nSubject: bounces\r\n\r\nHello.\r\n", i)}
	})
	if err == nil {
		_, err = t.Settled(ctx, t.messages)
	}
	return err
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
	stopSending := t.good.Start(ctx, t.Address)
	err = t.reports.wait(ctx)
	if err := errors.Join(err, stopSending()); err != nil {
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
