package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/mail"
)

// Times between attempts to connect, after a refusal, and at most between orders.
const (
	connectPause = 5 * time.Millisecond
	refusalPause = 3 * time.Millisecond
	orderPause   = 60 * time.Millisecond
)

// submit submits messages until ctx ends, whether the daemon is there or not.
func (t *trial) submit(ctx context.Context, dice *rand.Rand) {
	for ctx.Err() == nil {
		c, err := feed.Dial(ctx, "tcp", t.daemon.Address)
		if err != nil {
			pause.For(ctx, connectPause)
			continue
		}
		for range 50 {
			r := c.Send(message(dice))
			switch r.Fate {
			case feed.Accepted:
				t.accepted.Add(1)
			case feed.Refused:
				t.refused.Add(1)
				pause.For(ctx, refusalPause)
			}
			if r.Err != nil || ctx.Err() != nil {
				break
			}
		}
		c.Close() //nolint:errcheck // all that matters was said before
	}
}

// senders is how many there are. Those with three digits are one flow.
const senders = 300

// message makes a message: small ones, some that are stored as files, and some that are
// broken off.
func message(dice *rand.Rand) feed.Message {
	n, size := dice.IntN(senders), 200+dice.IntN(4000)
	if dice.IntN(30) == 0 {
		size = 70<<10 + dice.IntN(100<<10)
	}
	m := feed.Message{Sender: mail.Address(fmt.Sprintf("s%d@origin.test", n)), Recipients: []mail.Address{"a@rcpt.test"}, Cut: dice.IntN(40) == 0}
	for i := range dice.IntN(4) {
		m.Recipients = append(m.Recipients, mail.Address(fmt.Sprintf("b%d@rcpt.test", i)))
	}
	body := bytes.Repeat([]byte("All work and no play makes Jack a dull boy.\r\n"), size/45)
	m.Content = fmt.Appendf(nil, "From: <%s>\r\nX-Posthaste-Tenant: t%d\r\nX-Posthaste-Class: %s\r\n\r\n%s", m.Sender, n%7, [...]string{"bulk", "normal", ""}[n%3], body)
	return m
}

// order is an operator who gives orders until ctx ends.
func (t *trial) order(ctx context.Context, dice *rand.Rand) {
	verbs := [...]client.Verb{client.Hold, client.Release, client.Drop, client.Bounce, client.Expire, client.Retry}
	for pause.For(ctx, time.Duration(dice.Int64N(int64(orderPause)))) {
		v := verbs[dice.IntN(len(verbs))]
		o := admin.Order{Filter: &admin.Filter{Sender: []string{fmt.Sprintf("s%d*@origin.test", dice.IntN(30))}}, Confirm: 1 << 20}
		if dice.IntN(3) == 0 {
			o.Filter.Recipient = []string{"b1@rcpt.test"} // which moves it out of its message
		}
		if v == client.Release {
			o = admin.Order{All: true}
		}
		if did, err := t.daemon.Admin.Order(ctx, v, o, nil); err == nil {
			t.ordered.Add(int64(did.Done + did.Pending))
		}
	}
}

// fullMax is how long there is no space, and until then space, at most.
const fullMax = 1500 * time.Millisecond

// eat uses up all space of the file system of the queue, and gives it back, until ctx ends.
func (t *trial) eat(ctx context.Context, dice *rand.Rand) {
	some := func() time.Duration { return time.Duration(dice.Int64N(int64(fullMax))) }
	for pause.For(ctx, some()) {
		t.eatFor(ctx, some())
	}
}

func (t *trial) eatFor(ctx context.Context, d time.Duration) {
	t.eating.Lock()
	defer t.eating.Unlock()
	f, err := os.Create(filepath.Join(t.daemon.Queue(), "eaten"))
	if err != nil {
		return
	}
	t.fills.Add(1)
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; pause.For(ctx, time.Millisecond) {
		for piece := make([]byte, 64<<10); len(piece) > 0; { // also what becomes free
			if _, err := f.Write(piece); err != nil {
				piece = piece[:len(piece)/2]
			}
		}
	}
	f.Close()           //nolint:errcheck // it is removed
	os.Remove(f.Name()) //nolint:errcheck // the next round would fail
}
