//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

const (
	atOnce     = 6               // rogues in a group
	trusted    = 100             // messages that a rogue takes before it stalls
	submitted  = 200             // messages for each of them
	settle     = 5 * time.Second // time for all rogues to come to stall
	goodOnes   = 20
	goodWithin = 5 * time.Second
)

// hostile measures what good mail waits beside receivers that stall.
func hostile(ctx context.Context, o options, f *measure.Figures) error {
	for i := 0; i < len(ways); i += atOnce {
		if o.short && i >= 2*atOnce {
			break
		}
		if err := infested(ctx, o, f, fmt.Sprintf("hostile, group %d", i/atOnce+1), ways[i:i+atOnce], 0); err != nil {
			return err
		}
	}
	return nil
}

// slow does so beside receivers that take a minute for each message.
func slow(ctx context.Context, o options, f *measure.Figures) error {
	for _, n := range []int{atOnce, len(ways)} {
		if o.short && n > atOnce {
			continue
		}
		all := make([]way, n)
		for i := range all {
			all[i] = way{".", "slow"}
		}
		if err := infested(ctx, o, f, fmt.Sprintf("slow, %d", n), all, 0); err != nil {
			return err
		}
	}
	return nil
}

// crowd does so beside receivers of all kinds at once, which stall as soon as they have
// taken enough, or each at some instant within ten seconds.
func crowd(ctx context.Context, o options, f *measure.Figures) error {
	if err := infested(ctx, o, f, fmt.Sprintf("crowd, %d", len(ways)), ways, 0); err != nil || o.short {
		return err
	}
	return infested(ctx, o, f, fmt.Sprintf("crowd, %d, turning", len(ways)), ways, 10*time.Second)
}

// A way is a sink.Way.
type way struct{ stage, how string }

// ways are all that rogues do, in groups of six and one of the rest.
var ways = []way{
	{".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"}, {".", "octet"},
	{"greeting", "silent"}, {"EHLO", "silent"}, {"MAIL", "silent"}, {"RCPT", "silent"}, {"DATA", "silent"}, {".", "silent"},
	{"greeting", "drip"}, {"EHLO", "drip"}, {"MAIL", "drip"}, {"RCPT", "drip"}, {"DATA", "drip"}, {".", "drip"},
	{"greeting", "part"}, {"EHLO", "part"}, {"MAIL", "part"}, {"RCPT", "part"}, {"DATA", "part"}, {".", "part"},
	{"content", "deaf"}, {"content", "never"}, {"content", "never"}, {"content", "drip"}, {"MAIL", "never"}, {"EHLO", "octet"},
}

// infested measures what good mail waits beside receivers that stall. If turning is not
// zero each is a busy server that is well until some instant before that.
func infested(ctx context.Context, o options, f *measure.Figures, what string, ways []way, turning time.Duration) error {
	fmt.Printf("%s: %d receivers\n", what, len(ways))
	var good atomic.Int64
	box, err := measure.Receive(sink.Config{Taken: func(sink.Delivery) { good.Add(1) }}, "")
	if err != nil {
		return err
	}
	defer box.Close() //nolint:errcheck // the count has told
	routes := make(map[string]string)
	var rogues []*sink.Rogue
	add := func(domain, address string) error {
		target, err := measure.Target(address)
		routes[domain] = target
		return err
	}
	err = add("good.test", box.Address)
	for i, w := range ways {
		ln, e := net.Listen("tcp", "127.0.0.1:0")
		if e != nil {
			return e
		}
		r := sink.Infest(ln, sink.Way{Stage: w.stage, How: w.how}, trusted)
		defer r.Close()
		r.Delay = time.Minute
		if turning > 0 {
			r.Busy = 100 * time.Millisecond
			r.Good.Store(math.MaxInt64)
			at := time.AfterFunc(rand.N(turning), func() { r.Good.Store(0) })
			defer at.Stop()
		}
		rogues = append(rogues, r)
		err = errors.Join(err, add(fmt.Sprintf("d%d.test", i), r.Address()))
	}
	if err != nil {
		return err
	}
	d, err := o.trial(ctx, what, "", routes)
	if err != nil {
		return err
	}
	defer d.Abandon()
	messages := submitted
	if turning > 0 {
		messages *= 3
	}
	if err := provoke(ctx, d, rogues, messages); err != nil {
		return err
	}
	// All come to stall but those that other rogues leave no connection to.
	stalls := func() (bool, error) {
		for _, r := range rogues {
			if r.Stalled.Load() == 0 {
				return false, d.Alive()
			}
		}
		return true, nil
	}
	if _, err := every(ctx, 10*time.Millisecond, turning+settle, stalls); err != nil {
		return err
	}
	if !pause.For(ctx, time.Second) { // for all connections that they are given
		return ctx.Err()
	}
	began := time.Now()
	c, err := feed.Dial(ctx, "tcp", d.Address)
	if err != nil {
		return err
	}
	for n := range goodOnes {
		if r := c.Send(feed.Message{Sender: "s@origin.test", Recipients: []mail.Address{mail.Address(fmt.Sprintf("u%d@good.test", n))},
			Content: []byte("Subject: good\r\n\r\nHello.\r\n")}); r.Fate != feed.Accepted {
			return fmt.Errorf("good message: %s, %s: %w", r.Fate, r.Reply, r.Err)
		}
	}
	if _, err := every(ctx, time.Millisecond, o.patience, func() (bool, error) { return good.Load() >= goodOnes, d.Alive() }); err != nil {
		return err
	}
	took := time.Since(began)
	open, stalling := int64(0), 0
	for _, r := range rogues {
		open += r.Open.Load()
		if r.Stalled.Load() > 0 {
			stalling++
		}
	}
	c.Abort()
	f.Note(what+": receivers that stall, connections to them", "%d of %d, %d", stalling, len(rogues), open)
	f.Exactly(what+": good messages delivered", int(good.Load()), goodOnes)
	f.Within(what+": last of them after", took, goodWithin)
	for _, r := range rogues {
		r.Close()
	}
	return d.StopClean()
}

// provoke submits so many messages for each of the rogues.
func provoke(ctx context.Context, d *daemon.Daemon, rogues []*sink.Rogue, messages int) error {
	long := bytes.Repeat([]byte("All work and no play makes Jack a dull boy.\r\n"), 5000)
	errs := make([]error, len(rogues))
	var clients sync.WaitGroup
	for i, r := range rogues {
		clients.Go(func() {
			errs[i] = measure.Submit(ctx, d.Address, 1, messages, func(n int) feed.Message {
				m := feed.Message{Sender: "s@origin.test", Recipients: []mail.Address{mail.Address(fmt.Sprintf("u%d@d%d.test", n, i))},
					Content: []byte("Subject: bait\r\n\r\nHello.\r\n")}
				if r.Stage == "content" && n > trusted/2 {
					m.Content = append(m.Content, long...)
				}
				return m
			})
		})
	}
	clients.Wait()
	return errors.Join(errs...)
}
