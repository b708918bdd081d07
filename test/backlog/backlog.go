package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// Budgets for the memory of the whole program, in MB. Delivering a backlog at
// full speed takes more than keeping it: 20,000 messages are in core, the
// store's cache and its memory tables are all in use. It does not depend on the
// backlog's size either.
const (
	memoryBudget   = 200
	deliveryBudget = 256
)

// growthFrom is how large a backlog must be for its growth to be significant: by a
// fifth of it, the store's memory has been filled once.
const growthFrom = 500_000

// backlogTrial is the part about a backlog.
type backlogTrial struct {
	options
	*daemon.Daemon
	figures *measure.Figures
	site    string // where no server listens at first
	tally   *tally
}

// backlog measures what a backlog costs.
func backlog(ctx context.Context, o options, dir string, f *measure.Figures) error {
	site, err := daemon.QuietAddress(sitePort) // not where the program listens
	if err != nil {
		return err
	}
	route, err := measure.Target(site)
	if err != nil {
		return err
	}
	// Mail comes back when it has all been submitted and measured.
	wait := 20*time.Second + time.Duration(o.messages)*time.Second/4500
	d, err := o.begin(ctx, dir, fmt.Sprintf("minimal_backoff_time = \"%ds\"\n", int(wait.Seconds())), fmt.Sprintf("\"dead.test\" = %q\n", route))
	if err != nil {
		return err
	}
	defer d.Abandon()
	t := &backlogTrial{o, d, f, site, newTally(o.messages)}
	for _, step := range []func(context.Context) error{t.pileUp, t.rest, t.restart, t.due, t.drain} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return d.StopClean()
}

// pileUp submits all messages and waits until they are deferred.
func (t *backlogTrial) pileUp(ctx context.Context) error {
	fmt.Printf("submitting %d messages for a dead destination\n", t.messages)
	pid := t.Pid()
	var begun atomic.Int64
	w := watchMemory(ctx, pid, func() int { return int(begun.Load()) })
	began := time.Now()
	err := t.feed(ctx, &begun)
	took := time.Since(began)
	if err == nil {
		_, err = t.Settled(ctx, t.messages)
	}
	w.end()
	if err != nil {
		return err
	}
	m, err := memoryOf(pid)
	if err != nil {
		return err
	}
	cpu, err := cpuOf(pid)
	if err != nil {
		return err
	}
	t.figures.Note("backlog: messages submitted and deferred", "%d in %s, %.0f/s, %.0f µs of processor each", t.messages, measure.Brief(took),
		float64(t.messages)/took.Seconds(), float64(cpu.Microseconds())/float64(t.messages))
	t.figures.Note("backlog: last one deferred after", "%s", measure.Brief(time.Since(began)))
	t.figures.AtMost("backlog: largest memory while it piles up", m.peak, memoryBudget, "MB")
	early, late := w.mean(t.messages*15/100, t.messages*25/100), w.mean(t.messages*90/100, t.messages)
	t.figures.Note("backlog: mean memory at 20 %, and at the end", "%.0f MB, %.0f MB", early, late)
	if t.messages >= growthFrom {
		t.figures.AtMost("backlog: growth in between", late-early, 25, "MB")
	}
	return nil
}

// feed submits the messages over some connections.
func (t *backlogTrial) feed(ctx context.Context, begun *atomic.Int64) error {
	return measure.Submit(ctx, t.Address, t.clients, t.messages, func(i int) feed.Message {
		begun.Add(1)
		return feed.Message{Sender: "s@origin.test", Recipients: []mail.Address{mail.Address(fmt.Sprintf("u%d@dead.test", i))}, Content: letter(i, t.size)}
	})
}

// letter is a message whose body is random, as encoded attachments are, so
// that no compression makes the backlog look small.
func letter(i, size int) []byte {
	dice := rand.New(rand.NewPCG(1, uint64(i)))
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	b := fmt.Appendf(nil, "Message-ID: <%d>\r\nSubject: backlog\r\nFrom: <s@origin.test>\r\n\r\n", i)
	for len(b) < size-2 {
		if len(b)%78 == 0 {
			b = append(b, "\r\n"...)
		}
		b = append(b, alphabet[dice.IntN(len(alphabet))])
	}
	return append(b, "\r\n"...)
}

// rest measures what a backlog costs that only waits.
func (t *backlogTrial) rest(ctx context.Context) error {
	used, err := t.Used()
	if err != nil {
		return err
	}
	t.figures.Note("backlog: disk space", "%.0f MB, %d octets a message of %d", float64(used)/(1<<20), used/int64(t.messages), t.size)
	if err := t.list(ctx); err != nil {
		return err
	}
	pid := t.Pid()
	before, err := cpuOf(pid)
	if err != nil {
		return err
	}
	const period = 10 * time.Second
	if !pause.For(ctx, period) {
		return ctx.Err()
	}
	after, err := cpuOf(pid)
	if err != nil {
		return err
	}
	t.figures.AtMost("backlog: processor while nothing is due", 100*float64(after-before)/float64(period), 2, "% of one")
	return nil
}

// list looks at the queue as an operator does.
func (t *backlogTrial) list(ctx context.Context) error {
	began := time.Now()
	n := 0
	err := t.Admin.List(ctx, client.Query{Limit: 100, Recipients: 1}, func(*admin.Summary) error {
		n++
		return nil
	})
	if err != nil {
		return err
	}
	t.figures.Within(fmt.Sprintf("backlog: list of the first %d messages", n), time.Since(began), 250*time.Millisecond)
	began = time.Now()
	if _, err := t.Admin.Status(ctx, 10); err != nil {
		return err
	}
	t.figures.Within("backlog: status, with all messages counted", time.Since(began), time.Second)
	return nil
}

// restart kills the program and waits for what starts again.
func (t *backlogTrial) restart(ctx context.Context) error {
	fmt.Println("killing it")
	if _, err := t.Kill(); err != nil {
		return err
	}
	at, err := t.Start()
	if err != nil {
		return err
	}
	var answered, greeted time.Time
	var askErr, greetErr error
	var asking sync.WaitGroup
	asking.Go(func() { answered, askErr = t.Answered(ctx) })
	asking.Go(func() { greeted, greetErr = t.Greeted(ctx) })
	asking.Wait()
	if err := errors.Join(askErr, greetErr); err != nil {
		return err
	}
	t.figures.Within("backlog: killed and started again: first greeting", greeted.Sub(at), 2*time.Second)
	t.figures.Within("backlog: killed and started again: first answer to status", answered.Sub(at), 2*time.Second)
	return nil
}

// due kills the program, waits until a message is due, opens the destination
// and sees how soon it is tried.
func (t *backlogTrial) due(ctx context.Context) error {
	var due time.Time
	stop := errors.New("one is enough")
	err := t.Admin.List(ctx, client.Query{Filter: admin.Filter{Areas: []string{"deferred"}}, Limit: 1}, func(s *admin.Summary) error {
		if s.Due != nil {
			due = *s.Due
		}
		return stop
	})
	if err != nil && !errors.Is(err, stop) {
		return err
	}
	if due.IsZero() {
		return errors.New("nothing is deferred")
	}
	if _, err := t.Kill(); err != nil {
		return err
	}
	fmt.Printf("waiting %s until the first message is due\n", measure.Brief(max(0, time.Until(due))))
	if !pause.For(ctx, time.Until(due)+time.Second) {
		return ctx.Err()
	}
	r, err := measure.Receive(sink.Config{Taken: func(d sink.Delivery) { t.tally.take("<%d>", d.Key) }}, t.site)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, r.Stop)
	at, err := t.Start()
	if err != nil {
		return err
	}
	if _, err := t.Until(ctx, func() error {
		if t.tally.count() == 0 {
			return errors.New("nothing has arrived")
		}
		return nil
	}); err != nil {
		return err
	}
	t.figures.Within("backlog: started when mail is due: first one delivered", t.tally.first.Sub(at), 2*time.Second)
	return nil
}

// drain delivers everything at once and counts.
func (t *backlogTrial) drain(ctx context.Context) error {
	fmt.Println("delivering everything")
	before, began := t.tally.count(), time.Now()
	cpu, err := cpuOf(t.Pid())
	if err != nil {
		return err
	}
	for {
		if _, err := t.Admin.Flush(ctx); err != nil {
			return err
		}
		s, err := t.Admin.Status(ctx, 0)
		if err != nil {
			return err
		}
		if s.Spool.Deferred == 0 || t.tally.count() == t.messages {
			break
		}
		if !pause.For(ctx, 5*time.Second) {
			return ctx.Err()
		}
	}
	if err := t.tally.wait(ctx); err != nil {
		return err
	}
	if _, err := t.Settled(ctx, 0); err != nil {
		return err
	}
	used, err := cpuOf(t.Pid())
	if err != nil {
		return err
	}
	n, took := t.tally.count()-before, t.tally.last.Sub(began)
	m, err := memoryOf(t.Pid())
	if err != nil {
		return err
	}
	t.figures.Note("backlog: delivered when the destination is back", "%d in %s, %.0f/s, %.0f µs of processor each", n, measure.Brief(took),
		float64(n)/took.Seconds(), float64((used-cpu).Microseconds())/float64(max(n, 1)))
	t.figures.AtMost("backlog: largest memory while it is delivered", m.peak, deliveryBudget, "MB")
	t.tally.balance(t.figures, "backlog: messages")
	return nil
}
