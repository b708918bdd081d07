package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/mail"
)

// A demoLoad submits the mail: singles all the time, and the bulk in the
// middle.
type demoLoad struct {
	plan    demoPlan
	sites   []demoSite
	address string
	tally   *demoTally
	dice    *rand.Rand // of the goroutine of run until the bulk begins, then of the singles
}

func newDemoLoad(plan demoPlan, world *demoWorld, tally *demoTally) *demoLoad {
	return &demoLoad{plan: plan, sites: world.sites, address: world.address, tally: tally,
		dice: rand.New(rand.NewPCG(plan.seed, 0))}
}

// bulkKey names the bulk message, as its Message-ID does.
const bulkKey = "<bulk@demo.test>"

// run submits everything. Singles end when the bulk is delivered.
func (l *demoLoad) run(ctx context.Context) error {
	recipients := l.bulkRecipients()
	bulk := make(chan error, 1)
	go func() { bulk <- l.bulk(ctx, recipients) }()
	err := l.singles(ctx)
	return errors.Join(err, <-bulk)
}

// bulkRecipients are spread over the sites by their shares, in a random order.
func (l *demoLoad) bulkRecipients() []mail.Address {
	var all []mail.Address
	for i, site := range l.sites {
		n := l.plan.recipients * site.share / 100
		if i == len(l.sites)-1 {
			n = l.plan.recipients - len(all)
		}
		l.tally.expectBulk(i, n)
		for k := range n {
			all = append(all, mail.Address(fmt.Sprintf("reader%d@%s", k+1, site.domain())))
		}
	}
	l.dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (l *demoLoad) bulk(ctx context.Context, recipients []mail.Address) error {
	client, err := feed.Dial(ctx, "tcp", l.address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, client.Abort)()
	if !pause.For(ctx, l.plan.lead) {
		return ctx.Err()
	}
	r := client.Send(feed.Message{
		Sender:     "news@demo.test",
		Recipients: recipients,
		Content:    demoContent(bulkKey, "The news", 8<<10),
	})
	if err := demoAccepted(r); err != nil {
		return fmt.Errorf("submit the bulk message: %w", err)
	}
	l.tally.bulkAccepted()
	return client.Close()
}

// singles submits one message after another, evenly in time whatever the
// server does, to a site drawn for each.
func (l *demoLoad) singles(ctx context.Context) error {
	client, err := feed.Dial(ctx, "tcp", l.address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, client.Abort)()
	ticker := time.NewTicker(time.Second / time.Duration(l.plan.rate))
	defer ticker.Stop()
	for n := 1; !l.tally.bulkDelivered(); n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		site := l.dice.IntN(len(l.sites))
		key := fmt.Sprintf("<single%d@demo.test>", n)
		l.tally.handingIn(site, key)
		r := client.Send(feed.Message{
			Sender:     "shop@demo.test",
			Recipients: []mail.Address{mail.Address(fmt.Sprintf("buyer%d@%s", n, l.sites[site].domain()))},
			Content:    demoContent(key, "Your order", 1<<10),
		})
		if err := demoAccepted(r); err != nil {
			return fmt.Errorf("submit a single message: %w", err)
		}
	}
	return client.Close()
}

func demoAccepted(r feed.Result) error {
	if r.Fate == feed.Accepted {
		return nil
	}
	return errors.Join(fmt.Errorf("%s %s", r.Fate, r.Reply), r.Err)
}

// demoContent makes a message of about some size.
func demoContent(key, subject string, size int) []byte {
	const line = "The quick brown fox jumps over the lazy dog, and no one has to wait for it.\r\n"
	head := "Message-ID: " + key + "\r\nFrom: demo@demo.test\r\nSubject: " + subject + "\r\n\r\n"
	return []byte(head + strings.Repeat(line, size/len(line)))
}
