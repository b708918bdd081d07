package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/spool"
	"github.com/posthaste-mta/posthaste/test/daemon"
	"github.com/posthaste-mta/posthaste/test/measure"
)

// Budgets for an operator's work on a backlog of a million messages.
const (
	lookBudget           = time.Second
	dropBudget           = time.Minute
	operatorMemoryBudget = 250 // MB
)

// The mail of the backlog: 100 domains with a host each, 50 tenants with 20 senders each.
const (
	operatorSites   = 100
	operatorTenants = 50
	operatorSenders = 1000
	rareMessages    = 10 // that the selective filters match
)

// refusals are the last replies, whose classes differ. All of the first five thousandths are greylisted.
func refusals() []mail.Reply {
	return []mail.Reply{
		{Code: 450, Status: mail.Status{Class: 4, Subject: 7, Detail: 1}, Text: "Greylisted, please try again in 5 minutes"},
		{Code: 452, Status: mail.Status{Class: 4, Subject: 2, Detail: 2}, Text: "The recipient's mailbox is over quota"},
		{Code: 421, Status: mail.Status{Class: 4, Subject: 7, Detail: 0}, Text: "Our system has detected an unusual rate of unsolicited mail originating from your IP address"},
		{Code: 451, Status: mail.Status{Class: 4, Subject: 3, Detail: 0}, Text: "Temporary server error. Please try again later"},
		{Code: 451, Status: mail.Status{Class: 4, Subject: 7, Detail: 500}, Text: "Server busy. Please try again later from [192.0.2.77]. (S77719)"},
	}
}

// operator measures what operators' work costs with many messages in the queue.
func operator(ctx context.Context, o options, dir string, f *measure.Figures) error {
	d, err := daemon.New(daemon.Config{Binary: o.binary, Dir: dir, Hostname: "backlog.test", FirstPort: daemonPort,
		Settings: o.settings + "\nminimal_backoff_time = \"1h\"\nmaximal_backoff_time = \"30d\"\n[routes]\n\"*\" = \"error:5.7.1 this test sends no mail\"\n"})
	if err != nil {
		return err
	}
	defer d.Abandon()
	if err := o.fillQueue(ctx, d.Queue()); err != nil {
		return err
	}
	if err := d.Begin(ctx); err != nil {
		return err
	}
	t := &operatorTrial{o, d, f}
	w := watchMemory(ctx, d.Pid(), func() int { return 0 })
	err = t.look(ctx)
	if err == nil {
		err = t.drop(ctx)
	}
	w.end()
	f.AtMost("operator: largest memory meanwhile", w.largest(), operatorMemoryBudget, "MB")
	return errors.Join(err, d.Stop())
}

// fillQueue makes the queue, or copies the one that an earlier run has left there.
func (o options) fillQueue(ctx context.Context, queue string) error {
	if o.queue == "" {
		return o.makeQueue(ctx, queue)
	}
	if _, err := os.Stat(o.queue); errors.Is(err, os.ErrNotExist) {
		if err := o.makeQueue(ctx, o.queue); err != nil {
			return err
		}
	}
	return exec.CommandContext(ctx, "cp", "-a", o.queue, queue).Run()
}

// makeQueue writes deferred messages into a queue that no program uses.
func (o options) makeQueue(ctx context.Context, queue string) error {
	fmt.Printf("writing %d deferred messages\n", o.messages)
	began := time.Now()
	if err := os.MkdirAll(queue, 0o700); err != nil {
		return err
	}
	s, err := spool.Open(spool.Config{Settings: spool.Settings{Dir: queue}})
	if err != nil {
		return err
	}
	m := &queueMaker{spool: s, due: mail.Instant(began.Add(10 * 24 * time.Hour).UnixNano()), now: mail.Instant(began.UnixNano()), total: o.messages, size: o.size,
		changes: make(chan mail.Change, 4096), replies: refusals()}
	err = errors.Join(m.run(ctx), s.Close())
	fmt.Printf("  written in %s\n", measure.Brief(time.Since(began)))
	return err
}

// A queueMaker writes messages as the program would have, without deliveries.
type queueMaker struct {
	spool    *spool.Spool
	due, now mail.Instant
	total    int
	size     int
	begun    atomic.Int64
	changes  chan mail.Change
	replies  []mail.Reply
}

func (m *queueMaker) run(ctx context.Context) error {
	var writers, committer sync.WaitGroup
	var mu sync.Mutex
	var failed error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, err)
	}
	committer.Go(func() {
		for group, more := m.group(); more; group, more = m.group() {
			if _, err := m.spool.Apply(ctx, group); err != nil {
				fail(err)
			}
		}
	})
	for range 50 {
		writers.Go(func() {
			for i := int(m.begun.Add(1)) - 1; i < m.total; i = int(m.begun.Add(1)) - 1 {
				c, err := m.message(ctx, i)
				if err != nil {
					fail(err)
					return
				}
				m.changes <- c
			}
		})
	}
	writers.Wait()
	close(m.changes)
	committer.Wait()
	return failed
}

// group returns the changes that have gathered; false at the end.
func (m *queueMaker) group() ([]mail.Change, bool) {
	c, ok := <-m.changes
	group := []mail.Change{c}
	for ok && len(group) < 1000 {
		select {
		case c, more := <-m.changes:
			if !more {
				return group, ok
			}
			group = append(group, c)
		default:
			return group, ok
		}
	}
	return group, ok
}

// message accepts a message and returns its deferral. Ten messages, spread over all, have properties that no other has.
func (m *queueMaker) message(ctx context.Context, i int) (mail.Change, error) {
	rare := i%max(m.total/rareMessages, 1) == 7
	site, sender, tenant := fmt.Sprintf("d%d.test", i%operatorSites), fmt.Sprintf("news%d@sender.test", i%operatorSenders), fmt.Sprintf("tenant%d", i%operatorTenants)
	reply := m.replies[i/7%len(m.replies)]
	if rare {
		site, sender, tenant, reply.Text = "rare.test", "rare@origin.test", "rare", "a rare reply"
	}
	reply.By = "mx1." + site + "[192.0.2." + fmt.Sprint(i%operatorSites) + "]"
	d, err := m.spool.Begin(ctx)
	if err != nil {
		return mail.Change{}, err
	}
	recipients := 1
	if i%10 == 3 {
		recipients = 3
	}
	var outcomes []mail.Outcome
	for r := range recipients {
		if err := d.AddRecipient(mail.Recipient{Address: mail.Address(fmt.Sprintf("user%d-%d@%s", i, r, site))}); err != nil {
			return mail.Change{}, err
		}
		outcomes = append(outcomes, mail.Outcome{Index: uint32(r), Result: mail.Deferred, At: m.now, Reply: reply})
	}
	if _, err := d.Write(letter(i, m.size)); err != nil {
		return mail.Change{}, err
	}
	class := "normal"
	if i%2 == 1 {
		class = "bulk"
	}
	err = d.Commit(ctx, mail.Envelope{Sender: mail.Address(sender), Arrived: m.now, Flow: mail.Flow{Class: class, Tenant: tenant, Flow: sender},
		Client: mail.Client{Addr: netip.MustParseAddr("192.0.2.1"), Helo: "client.test", Proto: "ESMTP"}})
	if err != nil {
		return mail.Change{}, err
	}
	a := d.Arrival()
	due := m.due + mail.Instant(int64(i)*7919%int64(3*time.Hour/time.Microsecond)*int64(time.Microsecond))
	return mail.Change{Op: mail.ChangeDefer, ID: a.Envelope.ID, Place: a.Place, At: m.now, Due: due, Outcomes: outcomes}, nil
}

// operatorTrial is the part about operators' work.
type operatorTrial struct {
	options
	*daemon.Daemon
	figures *measure.Figures
}

// look measures first pages and counts.
func (t *operatorTrial) look(ctx context.Context) error {
	selective := []struct {
		name   string
		filter admin.Filter
	}{
		{"sender", admin.Filter{Sender: []string{"rare@origin.test"}}},
		{"recipient", admin.Filter{Recipient: []string{"*@rare.test"}}},
		{"domain", admin.Filter{Domain: []string{"rare.test"}}},
		{"tenant", admin.Filter{Tenant: []string{"rare"}}},
		{"flow", admin.Filter{Flow: []string{"/^rare@/"}}},
		{"error", admin.Filter{Error: []string{"a rare reply"}}},
	}
	broad := []struct {
		name   string
		filter admin.Filter
	}{
		{"nothing", admin.Filter{}},
		{"class", admin.Filter{Class: []string{"bulk"}}},
		{"sender", admin.Filter{Sender: []string{"/[13579]@sender/"}}},
		{"domain", admin.Filter{Domain: []string{"/[13579]\\.test$/"}}},
		{"reply class", admin.Filter{ReplyClass: []string{"greylisted"}}},
		{"error", admin.Filter{Error: []string{"try again"}}},
	}
	half := t.messages / 2
	for _, q := range selective {
		if err := t.page(ctx, "10 messages by "+q.name, q.filter, rareMessages); err != nil {
			return err
		}
	}
	for _, q := range broad {
		if err := t.page(ctx, "many by "+q.name, q.filter, 100); err != nil {
			return err
		}
	}
	counts := []struct {
		by     string
		filter admin.Filter
		want   int
	}{{"", admin.Filter{}, t.messages}, {"area", admin.Filter{}, t.messages}, {"domain", admin.Filter{}, t.messages}, {"reply-class", admin.Filter{}, t.messages},
		{"sender", admin.Filter{}, t.messages}, {"tenant", admin.Filter{}, t.messages}, {"host", admin.Filter{}, t.messages}, {"", admin.Filter{Class: []string{"bulk"}}, half},
		{"reply-class", admin.Filter{Sender: []string{"/[13579]@sender/"}}, half}}
	for _, c := range counts {
		began := time.Now()
		got, err := t.Admin.Count(ctx, c.filter, c.by, nil)
		if err != nil {
			return err
		}
		t.figures.Within(strings.TrimSpace("operator: count of "+describe(&c.filter)+" by "+c.by), time.Since(began), lookBudget)
		if got.Messages < c.want-rareMessages || got.Messages > c.want+rareMessages {
			return fmt.Errorf("%d messages counted, want %d", got.Messages, c.want)
		}
	}
	return nil
}

func describe(f *admin.Filter) string {
	if f.Unconditional() {
		return "all"
	}
	return "half"
}

// page measures a first page.
func (t *operatorTrial) page(ctx context.Context, name string, f admin.Filter, want int) error {
	began, n := time.Now(), 0
	enough := errors.New("enough")
	err := t.Admin.List(ctx, client.Query{Filter: f, Limit: 100, Recipients: 1}, func(*admin.Summary) error {
		if n++; n == want {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return err
	}
	t.figures.Within("operator: list of "+name, time.Since(began), lookBudget)
	if n != want {
		return fmt.Errorf("%d messages listed by %s, want %d", n, name, want)
	}
	return nil
}

// drop measures a dry run, and drops half of the messages.
func (t *operatorTrial) drop(ctx context.Context) error {
	order := admin.Order{Filter: &admin.Filter{Class: []string{"bulk"}}, DryRun: true, Reason: "a test"}
	began := time.Now()
	dry, err := t.Admin.Order(ctx, client.Drop, order, nil)
	if err != nil {
		return err
	}
	t.figures.Within(fmt.Sprintf("operator: dry run of a drop of %d messages, %d recipients", dry.Matched, dry.Recipients), time.Since(began), dropBudget)
	order.DryRun, order.Confirm = false, dry.Matched
	began = time.Now()
	done, err := t.Admin.Order(ctx, client.Drop, order, nil)
	if err != nil {
		return err
	}
	t.figures.Within(fmt.Sprintf("operator: drop of %d messages", done.Matched), time.Since(began), dropBudget)
	s, err := t.Admin.Status(ctx, 0)
	if err != nil {
		return err
	}
	t.figures.Exactly("operator: messages left", int(s.Spool.Deferred+s.Spool.Incoming), t.messages-done.Matched)
	used, err := os.ReadDir(filepath.Join(t.Queue(), "db"))
	if err != nil {
		return err
	}
	t.figures.Note("operator: files of the store", "%d", len(used))
	return nil
}
