package driver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
	"github.com/posthaste-mta/posthaste/replies"
)

// A town is a set of hosts in memory with connections to them. It holds how each
// host behaves; the tests look at the mail that the hosts received.
type town struct {
	mu     sync.Mutex
	tiers  [][]mail.Host
	hosts  map[string]*resident // by name
	dials  []string             // names, in order
	asked  []string             // what was demanded of these connections
	broken int                  // number of dials whose context ended
	open   int
	most   int // open at once
	ends   []mail.CloseReason
	book   *replies.Book // nil: no rules
}

// A resident is one host.
type resident struct {
	refuses  mail.Reply       // in place of a greeting
	answers  time.Duration    // duration of a dial
	takes    time.Duration    // duration of a transaction
	breaks   int              // the connection is lost after this many transactions; 0: never
	ends     mail.CloseReason // how it is lost; CloseAsked stands for CloseIdle
	accepted []mail.Address
	dialled  time.Time // the last time
}

func newTown(tiers ...[]string) *town {
	x := &town{hosts: make(map[string]*resident)}
	for _, names := range tiers {
		var tier []mail.Host
		for _, name := range names {
			x.hosts[name] = &resident{takes: time.Second}
			addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(len(x.hosts))}), 25)
			tier = append(tier, mail.Host{Name: name, Addr: addr})
		}
		x.tiers = append(x.tiers, tier)
	}
	return x
}

func (x *town) Hosts(context.Context, string, string) (mail.HostSet, mail.Reply) {
	return mail.HostSet{Tiers: x.tiers, Until: mail.Never}, mail.Reply{}
}

func (x *town) Dial(ctx context.Context, o mail.Opening) (driver.Connection, mail.OpenedConnection) {
	x.mu.Lock()
	r := x.hosts[o.Host.Name]
	x.dials, x.asked = append(x.dials, o.Host.Name), append(x.asked, o.Security)
	r.dialled = time.Now()
	refuses, answers := r.refuses, r.answers
	x.mu.Unlock()
	select {
	case <-time.After(answers):
	case <-ctx.Done():
		x.mu.Lock()
		x.broken++
		x.mu.Unlock()
		return nil, mail.OpenedConnection{Reply: mail.Reply{Code: 451, Text: "given up"}}
	}
	if !refuses.IsZero() {
		return nil, mail.OpenedConnection{Reply: refuses}
	}
	x.mu.Lock()
	x.open++
	x.most = max(x.most, x.open)
	x.mu.Unlock()
	return &line{town: x, host: r, called: make(chan struct{}, 1)}, mail.OpenedConnection{Level: o.Level, RTT: time.Millisecond}
}

// A line is a connection to a host of the town. It carries one transaction after
// another.
type line struct {
	town   *town
	host   *resident
	called chan struct{}

	mu     sync.Mutex
	ids    []uint64
	mails  []mail.Delivery
	hungup bool
}

func (l *line) call() {
	select {
	case l.called <- struct{}{}:
	default:
	}
}

func (l *line) Send(id uint64, d mail.Delivery) {
	l.mu.Lock()
	l.ids, l.mails = append(l.ids, id), append(l.mails, d)
	l.mu.Unlock()
	l.call()
}

func (l *line) Hangup() {
	l.mu.Lock()
	l.hungup = true
	l.mu.Unlock()
	l.call()
}

// next returns the next transaction; over means that there will be none.
func (l *line) next() (id uint64, d mail.Delivery, ok, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ids) == 0 {
		return 0, d, false, l.hungup
	}
	id, d = l.ids[0], l.mails[0]
	l.ids, l.mails = l.ids[1:], l.mails[1:]
	return id, d, true, false
}

func (l *line) Run(ctx context.Context, done func(uint64, mail.DeliveryResult)) mail.Closing {
	why := l.talk(ctx, done)
	l.town.mu.Lock()
	defer l.town.mu.Unlock()
	l.town.open--
	l.town.ends = append(l.town.ends, why)
	cl := mail.Closing{Why: why}
	if why != mail.CloseAsked {
		cl.Reply = mail.Reply{Code: 451, Text: "connection lost"}
	}
	return cl
}

func (l *line) talk(ctx context.Context, done func(uint64, mail.DeliveryResult)) mail.CloseReason {
	for carried := 0; ; {
		id, d, ok, over := l.next()
		switch {
		case over:
			return mail.CloseAsked
		case !ok:
			select {
			case <-l.called:
			case <-ctx.Done():
				return mail.CloseAsked
			}
			continue
		case l.host.breaks > 0 && carried == l.host.breaks:
			return max(l.host.ends, mail.CloseIdle) // nothing of this one was sent
		}
		select {
		case <-time.After(l.host.takes):
		case <-ctx.Done():
			r := all(d, mail.Deferred)
			r.Crashed = true
			done(id, r)
			return mail.CloseAsked
		}
		carried++
		l.town.mu.Lock()
		for _, r := range d.Recipients {
			l.host.accepted = append(l.host.accepted, r.Address)
		}
		l.town.mu.Unlock()
		r := all(d, mail.Delivered)
		r.Send = l.host.takes
		done(id, r)
	}
}

// drives runs a driver over a world and a town.
func (x *town) drives(t *testing.T, w *world, store driver.HostStore, grace time.Duration, change ...func(*driver.Config)) (d *driver.Driver, stop func()) {
	t.Helper()
	cfg := driver.Config{Seed: 1, Grace: grace, Qmgr: qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": {Agents: qmgr.AgentsConnections}}}}
	for _, f := range change {
		f(&cfg)
	}
	ports := driver.Ports{Spool: w, Router: w, Reporter: w, Connector: x, Hosts: store, Agent: func(string) driver.Agent { return w }}
	if x.book != nil {
		ports.Replies = func() *replies.Book { return x.book }
	}
	d, err := driver.New(cfg, ports)
	if err != nil {
		t.Fatal(err)
	}
	return d, run(t, d)
}

// arrive stores messages for one recipient each and notifies the driver.
func arrive(d *driver.Driver, w *world, to ...mail.Address) {
	for i, a := range to {
		d.Arrived(w.store(mail.QueueID(i+1), a))
	}
}

func (x *town) accepted(name string) []mail.Address {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.hosts[name].accepted)
}

// lines returns the number of open connections, the largest number open at once,
// and how the others ended.
func (x *town) lines() (open, most int, ends []mail.CloseReason) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.open, x.most, slices.Clone(x.ends)
}

// Mail goes over connections that are opened for it; they are closed when there is
// nothing left to send, not before, and a stop does not wait for idle ones.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, x := newWorld(), newTown([]string{"mx1", "mx2"})
		d, stop := x.drives(t, w, nil, 0)
		arrive(d, w, "a@a.test", "b@a.test", "c@a.test", "d@a.test")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(x.accepted("mx1")) + len(x.accepted("mx2")); n != 4 || w.count() != 0 {
			t.Errorf("%d taken, %d messages are left", n, w.count())
		}
		open, most, _ := x.lines()
		if open == 0 || open != most {
			t.Errorf("%d connections of %d are open after 10 s", open, most)
		}
		v, held, err := d.Destination(t.Context(), "smtp", "a.test", 100)
		if !held || err != nil || len(v.Hosts) != 2 || len(v.Connections) != open || v.Queue.Connections.Ready != open {
			t.Errorf("with %d connections the view is %+v, %t, %v", open, v, held, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		open, _, ends := x.lines()
		if open != 0 || slices.ContainsFunc(ends, func(r mail.CloseReason) bool { return r != mail.CloseAsked }) {
			t.Errorf("%d connections are open after 20 s, the others ended by %v", open, ends)
		}
		arrive(d, w, "e@a.test")
		time.Sleep(2 * time.Second)
		start := time.Now()
		stop()
		if time.Since(start) > time.Second || x.open != 0 {
			t.Errorf("stopped after %v with %d connections", time.Since(start), x.open)
		}
	})
}

// A host that refuses connections does not delay mail that another host can take,
// and neither does one that closes each connection after a message.
func TestConnectionsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, x := newWorld(), newTown([]string{"dead", "short"}, []string{"spare"})
		x.hosts["dead"].refuses = mail.Reply{Code: 450, Text: "connection refused"}
		x.hosts["short"].breaks = 1
		d, stop := x.drives(t, w, nil, 0)
		start := time.Now()
		arrive(d, w, "a@a.test", "b@a.test", "c@a.test", "d@a.test", "e@a.test", "f@a.test")
		time.Sleep(40 * time.Second)
		stop()
		if got := x.accepted("short"); len(got) != 6 || len(x.accepted("spare")) != 0 {
			t.Errorf("short took %v, spare %v", got, x.accepted("spare"))
		}
		if at := x.hosts["dead"].dialled.Sub(start); at < 0 || at > time.Second {
			t.Errorf("the dead host was dialled last after %v", at)
		}
		if w.count() != 0 {
			t.Errorf("%d messages are left", w.count())
		}
	})
}

// A stop lets transactions finish within the grace period, then cuts them off, and
// cancels dials at once. Mail that was not delivered is still in the spool.
func TestConnectionsStop(t *testing.T) {
	for _, grace := range []time.Duration{time.Minute, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, x := newWorld(), newTown([]string{"slow"}, []string{"spare"})
			x.hosts["slow"].takes = 30 * time.Second
			d, stop := x.drives(t, w, nil, grace)
			arrive(d, w, "a@a.test")
			time.Sleep(time.Second)
			x.mu.Lock()
			x.hosts["slow"].answers = 100 * time.Second
			x.mu.Unlock()
			d.Arrived(w.store(9, "late@a.test"))
			time.Sleep(time.Second)
			start := time.Now()
			stop()
			want, left := 28*time.Second, 1
			if grace < want {
				want, left = grace, 2
			}
			if took := time.Since(start); took < want || took > want+time.Second || w.count() != left {
				t.Errorf("grace %v: stopped after %v with %d messages left, want %v and %d", grace, took, w.count(), want, left)
			}
			if x.broken != 1 || x.open != 0 {
				t.Errorf("grace %v: %d dials were broken off, %d connections are open", grace, x.broken, x.open)
			}
		})
	}
}

// A cellar is a HostStore in memory.
type cellar struct {
	mu      sync.Mutex
	records map[string][]byte
	saves   int
	failure error
}

// fail sets how saves end from now on.
func (c *cellar) fail(how error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = how
}

func (c *cellar) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.records)
}

func (c *cellar) SaveHosts(_ context.Context, records []mail.HostRecord) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saves++
	if c.failure != nil {
		return c.failure
	}
	for _, r := range records {
		if c.records[string(r.Key)] = bytes.Clone(r.Value); len(r.Value) == 0 {
			delete(c.records, string(r.Key))
		}
	}
	return nil
}

// SaveOrders keeps them among the records, where their keys are apart.
func (c *cellar) SaveOrders(ctx context.Context, records []mail.HostRecord) error {
	return c.SaveHosts(ctx, records)
}

// get returns what is saved under a key, and all everything that is.
func (c *cellar) get(key []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[string(key)]
}

func (c *cellar) all() map[string][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.records)
}

func (c *cellar) LoadOrders(context.Context, int, func(mail.HostRecord)) error { return nil }

func (c *cellar) LoadHosts(_ context.Context, most int, visit func(mail.HostRecord)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(c.records)) {
		if most--; most < 0 {
			delete(c.records, key)
			continue
		}
		visit(mail.HostRecord{Key: []byte(key), Value: c.records[key]})
	}
	return nil
}

// Host records survive a stop: a host that has failed is not tried by the next run,
// either. What a stop cuts off is not recorded as the host's failure.
func TestHostsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cellar{records: make(map[string][]byte)}
		w, x := newWorld(), newTown([]string{"dead"}, []string{"spare"})
		x.hosts["dead"].refuses = mail.Reply{Code: 450, Text: "connection refused"}
		x.hosts["spare"].answers = time.Hour
		d, stop := x.drives(t, w, c, time.Second)
		arrive(d, w, "a@a.test")
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(c.records) == 0 {
			t.Error("nothing has been saved after 15 s")
		}
		stop()
		x.dials, x.hosts["spare"].answers = nil, 0
		_, stop = x.drives(t, w, c, time.Second)
		time.Sleep(15 * time.Second)
		stop()
		if !slices.Equal(x.dials, []string{"spare"}) || len(x.accepted("spare")) != 1 {
			t.Errorf("the next run dialled %v, and spare has taken %v", x.dials, x.accepted("spare"))
		}
	})
}

// Warm-ups are removed from the configuration. Their records are kept for some time, since
// that may have been a mistake, and cost no host its record.
func TestHostsAreKeptBesideOldWarmups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cellar{records: make(map[string][]byte)}
		w, x := newWorld(), newTown([]string{"dead"}, []string{"spare"})
		x.hosts["dead"].refuses = mail.Reply{Code: 450, Text: "connection refused"}
		d, stop := x.drives(t, w, c, time.Second)
		arrive(d, w, "a@a.test")
		time.Sleep(15 * time.Second)
		stop()
		hosts, today := c.len(), warmup.DayOf(mail.Instant(time.Now().UnixNano()))
		const warmups = 30
		for i := range warmups {
			key := warmup.AppendKey(nil, warmup.Key{Source: "removed", Site: fmt.Sprintf("d%d.test", i)})
			c.records[string(key)] = warmup.AppendRecord(nil, warmup.Record{Allowed: 50, Used: today, Day: today})
		}
		x.dials = nil
		d, stop = x.drives(t, w, c, time.Second, func(cfg *driver.Config) { cfg.Qmgr.Hosts.HostLimit = 10 })
		d.Arrived(w.store(2, "b@a.test"))
		time.Sleep(15 * time.Second)
		stop()
		if len(x.dials) == 0 || slices.Contains(x.dials, "dead") {
			t.Errorf("after the warm-ups were removed, %v were dialled", x.dials)
		}
		if n := c.len(); n < hosts+warmups {
			t.Errorf("%d records are left of %d of hosts and %d of warm-ups", n, hosts, warmups)
		}
	})
}

// What could not be saved, as while the disk was full, is saved when that is possible
// again: while the program runs, or at its stop.
func TestHostsAreKeptAfterFailures(t *testing.T) {
	for _, atStop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &cellar{records: make(map[string][]byte), failure: errors.New("no room")}
			w, x := newWorld(), newTown([]string{"dead"}, []string{"spare"})
			x.hosts["dead"].refuses = mail.Reply{Code: 450, Text: "connection refused"}
			x.hosts["spare"].answers = time.Hour
			d, stop := x.drives(t, w, c, time.Second)
			arrive(d, w, "a@a.test")
			time.Sleep(16 * time.Second)
			synctest.Wait()
			c.fail(nil)
			if !atStop {
				time.Sleep(16 * time.Second)
				synctest.Wait()
				if c.len() == 0 {
					t.Error("nothing has been saved 15 s after that was possible again")
				}
			}
			stop()
			if len(c.records) == 0 {
				t.Error("nothing has been saved at the stop")
			}
		})
	}
}

// If all hosts had failed, the next run tries each at once, a single time: the
// operator may have fixed the cause before the restart, and due mail would
// otherwise wait for up to an hour.
func TestDeadHostsAreTriedAfterAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cellar{records: make(map[string][]byte)}
		w, x := newWorld(), newTown([]string{"dead"}, []string{"dying"})
		for _, name := range []string{"dead", "dying"} {
			x.hosts[name].refuses = mail.Reply{Code: 450, Text: "connection refused"}
		}
		d, stop := x.drives(t, w, c, time.Second)
		arrive(d, w, "a@a.test")
		time.Sleep(15 * time.Second)
		stop()
		if len(c.records) == 0 {
			t.Fatal("nothing has been saved")
		}
		x.dials = nil
		d, stop = x.drives(t, w, c, time.Second)
		arrive(d, w, "b@a.test")
		arrive(d, w, "c@a.test")
		time.Sleep(15 * time.Second)
		stop()
		if !slices.Equal(x.dials, []string{"dead", "dying"}) {
			t.Errorf("the next run dialled %v, want each host once", x.dials)
		}
		x.dials, x.hosts["dying"].refuses = nil, mail.Reply{}
		d, stop = x.drives(t, w, c, time.Second)
		arrive(d, w, "d@a.test")
		time.Sleep(15 * time.Second)
		stop()
		if len(x.accepted("dying")) == 0 {
			t.Errorf("a host that works again has taken nothing; dialled were %v", x.dials)
		}
	})
}

// A receiver says that it wants to be left alone, and a rule says for six hours. Neither a stop nor a kill ends
// that, if the latter comes three seconds later; only an operator who removes the rule does, be it while nothing runs.
func TestMeasuresAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cellar{records: make(map[string][]byte)}
		w, x := newWorld(), newTown([]string{"mx"})
		rule := replies.Rule{Name: "slow", Match: replies.Match{Words: []string{"too fast"}}, Rest: 6 * time.Hour}
		x.book = replies.New(nil, []replies.Rule{rule})
		x.hosts["mx"].refuses = mail.Reply{Code: 421, Text: "much too fast", By: "mx[192.0.2.1]"}
		w.deliver = func(_ context.Context, d mail.Delivery) mail.DeliveryResult { // of transport retry
			return mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: mail.Deferred, Reply: d.Said}}}
		}
		d, stop := x.drives(t, w, c, time.Second)
		arrive(d, w, "a@a.test")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		killed := maps.Clone(c.records) // what a kill leaves
		stop()
		x.hosts["mx"].refuses = mail.Reply{}

		resting := func(store *cellar, want bool) {
			t.Helper()
			x.dials = nil
			d, stop := x.drives(t, w, store, time.Second)
			defer stop()
			time.Sleep(2 * time.Hour) // the deferral has ended
			list, err := d.Destinations(t.Context(), qmgr.DestinationQuery{Most: 10})
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(list.Destinations, func(s qmgr.DestinationSummary) bool {
				return s.Queue.Rule == "slow" && s.Condition == qmgr.ConditionDead && s.Queue.Reason.Said().Text == "much too fast"
			})
			if found != want || (len(x.dials) == 0) != want {
				t.Errorf("it rests: %v, want %v; dialled %v; %+v", found, want, x.dials, list.Destinations)
			}
		}
		resting(&cellar{records: killed}, true)
		resting(c, true)
		x.book = replies.New(nil, []replies.Rule{{Name: "other", Match: rule.Match, Rest: time.Hour}})
		resting(c, false)
		if n := w.count(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}
