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
	"github.com/posthaste-mta/posthaste/test/measure"
)

const (
	senderDomains = 50
	// receiverPause is what a receiver takes for each message.
	receiverPause = 20 * time.Millisecond
	singlesEvery  = 250 * time.Millisecond
	singlesBudget = 500 * time.Millisecond // DESIGN.md: singles beside 1,000,000 of another sender
)

// sender measures what one sender's many recipients cost another sender, who sends
// single messages to the same destinations: as messages of a thousand recipients, and
// as few large ones.
func sender(ctx context.Context, o options, dir string, f *measure.Figures) error {
	for _, each := range []int{1000, max(1000, o.recipients/4)} {
		sub := fmt.Sprintf("%s/%d", dir, each)
		if err := os.Mkdir(sub, 0o700); err != nil {
			return err
		}
		if err := senderBeside(ctx, o, sub, f, fmt.Sprintf("sender, %d recipients each: ", each), each); err != nil {
			return err
		}
	}
	return nil
}

func senderBeside(ctx context.Context, o options, dir string, f *measure.Figures, what string, each int) error {
	o.domains = senderDomains
	fmt.Printf("%s%d recipients\n", what, o.recipients)
	bulk, single := newTally(o.recipients), &measure.Stream{To: "friend@d0.test", Every: singlesEvery}
	routes, stopReceiving, err := o.receiveBulk(sink.Config{MessageDelay: receiverPause}, bulk, map[mail.Address]*measure.Stream{single.To: single})
	if err != nil {
		return err
	}
	defer stopReceiving()
	d, err := o.begin(ctx, dir, "smtpd_recipient_limit = 0\n", routes)
	if err != nil {
		return err
	}
	defer d.Abandon()
	stopSending := single.Start(ctx, d.Address)
	began := time.Now()
	if err := o.feedSender(ctx, d.Address, each); err != nil {
		return err
	}
	taken := time.Since(began)
	err = bulk.wait(ctx)
	if err := errors.Join(err, stopSending()); err != nil {
		return err
	}
	if _, err := d.Settled(ctx, 0); err != nil {
		return err
	}
	m, err := memoryOf(d.Pid())
	if err != nil {
		return err
	}
	f.Note(what+"accepted", "after %s, %.0f recipients/s", measure.Brief(taken), float64(o.recipients)/taken.Seconds())
	f.Note(what+"all delivered", "after %s", measure.Brief(bulk.last.Sub(began)))
	f.AtMost(what+"largest memory", m.peak, deliveryBudget, "MB")
	bulk.balance(f, what+"recipients")
	single.Report(f, what, singlesBudget)
	return d.StopClean()
}

// feedSender sends all messages of the one sender, over several connections.
func (o options) feedSender(ctx context.Context, address string, each int) error {
	messages := (o.recipients + each - 1) / each
	return measure.Submit(ctx, address, min(o.clients, messages), messages, func(i int) feed.Message {
		var to []mail.Address
		for n := i * each; n < min((i+1)*each, o.recipients); n++ {
			to = append(to, o.recipient(n))
		}
		return feed.Message{Sender: "bulk@origin.test", Recipients: to,
			Content: fmt.Appendf(nil, "Message-ID: <bulk-%d>\r\nSubject: bulk\r\n\r\nHello.\r\n", i)}
	})
}
