package driver_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A viewing is an operator's view of a daemon that delivers to a town.
type viewing struct {
	*testing.T
	w *world
	x *town
	d *driver.Driver
	n int
}

// view runs a driver with one transport until the test ends.
func view(t *testing.T, x *town, log *slog.Logger, cfg qmgr.Config, do func(v *viewing)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for name, tr := range cfg.Transports {
			tr.Agents = qmgr.AgentsConnections
			cfg.Transports[name] = tr
		}
		d, err := driver.New(driver.Config{Seed: 1, Grace: -1, Log: log, Qmgr: cfg},
			driver.Ports{Spool: w, Router: w, Reporter: w, Connector: x, Agent: func(string) driver.Agent { return w }})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, d)
		do(&viewing{T: t, w: w, x: x, d: d})
		stop()
	})
}

// transport returns a configuration with a single transport.
func transport(t qmgr.TransportConfig) qmgr.Config {
	return qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": t}}
}

func (v *viewing) arrive(n int, to mail.Address) (last mail.QueueID) {
	for range n {
		v.n++
		v.d.Arrived(v.w.store(mail.QueueID(v.n), to))
	}
	return mail.QueueID(v.n)
}

func (v *viewing) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (v *viewing) list(q qmgr.DestinationQuery) qmgr.DestinationList {
	v.Helper()
	if q.Most == 0 {
		q.Most = 100
	}
	list, err := v.d.Destinations(v.Context(), q)
	if err != nil {
		v.Fatal(err)
	}
	return list
}

func (v *viewing) one(nexthop string) qmgr.DestinationView {
	v.Helper()
	view, held, err := v.d.Destination(v.Context(), "smtp", nexthop, 100)
	if err != nil || !held {
		v.Fatalf("%s is not in core, %v", nexthop, err)
	}
	return view
}

// Every reason for which mail waits has its own name, its limit, and its end if that
// depends on time: the question "why does this mail wait?" is asked at night, by an
// operator who did not write the configuration.
func TestWaitReasons(t *testing.T) {
	tenPerHour, err := rate.Parse("10/h, 1000/d")
	if err != nil {
		t.Fatal(err)
	}
	dead := func(x *town) { x.hosts["mx1"].refuses = mail.Reply{Code: 450, Text: "connection refused"} }
	slow := func(x *town) { x.hosts["mx1"].takes = time.Hour }
	silent := func(x *town) { x.hosts["mx1"].answers = time.Hour }
	for name, c := range map[string]struct {
		cfg       qmgr.Config
		town      func(*town)
		mails     int
		want      qmgr.WaitReason
		in        time.Duration // Until is that much later than now
		condition qmgr.Condition
	}{
		"rate": {transport(qmgr.TransportConfig{Rate: tenPerHour}), func(*town) {}, 12,
			qmgr.WaitReason{Kind: qmgr.WaitDestinationRate, Rate: rate.Limit{N: 10, Per: time.Hour}}, time.Hour, qmgr.ConditionLimited},
		"rate of a table": {qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": {}}, Destinations: []shape.Destination{
			{Name: "other", Domains: []string{"a.test"}, Limits: shape.Limits{ConcurrencyLimit: shape.Some(3)}},
			{Name: "strict", MX: []string{"mx1"}, Limits: shape.Limits{Rate: shape.Some(tenPerHour)}}}}, func(*town) {}, 12,
			qmgr.WaitReason{Kind: qmgr.WaitDestinationRate, Rate: rate.Limit{N: 10, Per: time.Hour}, Table: "strict"}, time.Hour, qmgr.ConditionLimited},
		"rate of the transport": {transport(qmgr.TransportConfig{TransportRate: tenPerHour}), func(*town) {}, 12,
			qmgr.WaitReason{Kind: qmgr.WaitTransportRate, Rate: rate.Limit{N: 10, Per: time.Hour}}, time.Hour, qmgr.ConditionLimited},
		"rate of connections": {transport(qmgr.TransportConfig{Connections: conns.GroupConfig{OpenRate: rateOf(t, "1/h")}}), slow, 2,
			qmgr.WaitReason{Kind: qmgr.WaitConnectionRate, Rate: rate.Limit{N: 1, Per: time.Hour}}, time.Hour, qmgr.ConditionLimited},
		"pause": {transport(qmgr.TransportConfig{RateDelay: 2 * time.Minute}), func(*town) {}, 2,
			qmgr.WaitReason{Kind: qmgr.WaitDestinationDelay, Pause: 2 * time.Minute}, 2 * time.Minute, qmgr.ConditionPaused},
		"pause of the transport": {transport(qmgr.TransportConfig{TransportRateDelay: 2 * time.Minute}), func(*town) {}, 2,
			qmgr.WaitReason{Kind: qmgr.WaitTransportDelay, Pause: 2 * time.Minute}, 2 * time.Minute, qmgr.ConditionPaused},
		"window": {transport(qmgr.TransportConfig{Window: window.Config{Limit: 3}}), slow, 12,
			qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 3, Most: 3}, 0, qmgr.ConditionFull},
		"process limit": {transport(qmgr.TransportConfig{ProcessLimit: 2}), slow, 12,
			qmgr.WaitReason{Kind: qmgr.WaitProcessLimit, Limit: 2}, 0, qmgr.ConditionFull},
		"connection limit": {qmgr.Config{ConnectionLimit: 2, Transports: map[string]qmgr.TransportConfig{"smtp": {}}}, slow, 12,
			qmgr.WaitReason{Kind: qmgr.WaitConnectionLimit, Limit: 2}, 0, qmgr.ConditionFull},
		"host limit": {transport(qmgr.TransportConfig{Connections: conns.GroupConfig{HostLimit: 3}}), slow, 12,
			qmgr.WaitReason{Kind: qmgr.WaitHostLimit, Limit: 3, Hosts: conns.TierView{Hosts: 1, Full: 1, First: newTown([]string{"mx1"}).tiers[0][0], Count: 3}}, 0, qmgr.ConditionFull},
		"being connected": {transport(qmgr.TransportConfig{}), silent, 2,
			qmgr.WaitReason{Kind: qmgr.WaitConnecting}, 0, qmgr.ConditionOpening},
		"window that has not grown": {transport(qmgr.TransportConfig{}), silent, 12,
			qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 5, Most: 20}, 0, qmgr.ConditionFull},
		"dead": {transport(qmgr.TransportConfig{}), dead, 2, qmgr.WaitReason{}, 0, qmgr.ConditionDead},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTown([]string{"mx1"})
			c.town(x)
			view(t, x, nil, c.cfg, func(v *viewing) {
				last := v.arrive(c.mails, "a@a.test")
				v.pass(20 * time.Second)
				got := v.one("a.test")
				if got.Condition != c.condition {
					v.Errorf("it is %v, want %v", got.Condition, c.condition)
				}
				waitReason := got.Queue.WaitReason
				until := time.Until(time.Unix(0, int64(waitReason.Until)))
				if c.in == 0 && waitReason.Until != 0 || c.in > 0 && (until <= 0 || until > c.in+c.in/8) {
					v.Errorf("it is over in %v, want up to %v", until, c.in)
				}
				if waitReason.Until = 0; waitReason != c.want {
					v.Errorf("%+v, want %+v", waitReason, c.want)
				}
				all, err := v.d.Explain(v.Context(), []mail.QueueID{last, 9999}, 10)
				if err != nil || all[1].Held || c.want.Kind != qmgr.WaitNone && (len(all[0].Places) != 1 || all[0].Places[0].WaitReason.Kind != c.want.Kind) {
					v.Errorf("of the last message: %+v, %v", all, err)
				}
			})
		})
	}
}

func rateOf(t *testing.T, text string) rate.Limits {
	t.Helper()
	l, err := rate.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// An operator sees the state of each host and why the last connections ended, with
// those that we closed distinct from those that were lost.
func TestHostsAndConnections(t *testing.T) {
	x := newTown([]string{"dead", "short", "well"}, []string{"spare"})
	x.hosts["dead"].refuses = mail.Reply{Code: 450, Text: "connection refused"}
	x.hosts["short"].breaks = 2
	view(t, x, nil, transport(qmgr.TransportConfig{}), func(v *viewing) {
		v.arrive(100, "a@a.test")
		v.pass(10 * time.Second)
		got := v.one("a.test")
		if s := got.DestinationSummary.Hosts; s.Up != 3 || s.Retry != 1 || s.Failure.Text != "connection refused" || s.FailedAt == 0 {
			t.Errorf("hosts: %+v", s)
		}
		for _, h := range got.Hosts {
			if failed := h.Host.Name == "dead"; failed != (h.Known.RetryAt != 0) || failed != (h.Known.FailedAt != 0) || failed != (h.Known.Reason.Text == "connection refused") {
				t.Errorf("host %s: %+v", h.Host.Name, h)
			}
			if (h.Host.Name == "spare") != (h.Tier == 1) || h.Limit != 20 {
				t.Errorf("host %s: tier %d, limit %d", h.Host.Name, h.Tier, h.Limit)
			}
		}
		broke := 0
		for i, e := range got.Ended {
			if i > 0 && e.At > got.Ended[i-1].At {
				t.Error("endings are not in their order")
			}
			if e.Closing.Why == mail.CloseIdle && e.Host.Name == "short" && e.Carried == 2 {
				broke++
			}
		}
		if broke == 0 || len(got.Connections) == 0 {
			t.Errorf("%d endings, %d connections", broke, len(got.Connections))
		}
		v.pass(time.Minute)
		v.x.hosts["well"].takes = time.Minute
		v.arrive(1, "a@a.test")
		v.pass(time.Second)
		got = v.one("a.test")
		if e := got.Ended[0]; e.Drained != conns.DrainIdle || e.Closing.Why != mail.CloseAsked {
			t.Errorf("the last connection of a quiet site ended by %+v", e)
		}
		all, err := v.d.View(v.Context(), 10)
		if err != nil || all.Closings[mail.CloseIdle] == 0 || all.Closings[mail.CloseAsked] == 0 || all.Mixed.Conn != 0 {
			t.Errorf("%v, mixed %+v, %v", all.Closings, all.Mixed, err)
		}
	})
}

// Mail under the wrong envelope is the worst failure, so it is logged at the
// highest level and stays visible.
func TestMixedIsToldLoudly(t *testing.T) {
	x := newTown([]string{"mx1"})
	x.hosts["mx1"].breaks, x.hosts["mx1"].ends = 1, mail.CloseMixed
	var log bytes.Buffer
	view(t, x, event.NewStrict(&log, nil, nil), transport(qmgr.TransportConfig{}), func(v *viewing) {
		v.arrive(60, "a@a.test")
		v.pass(10 * time.Second)
		all, err := v.d.View(v.Context(), 0)
		if err != nil || all.Mixed.Host.Name != "mx1" || all.Closings[mail.CloseMixed] == 0 {
			t.Errorf("%+v, %v", all, err)
		}
	})
	if text := log.String(); !strings.Contains(text, "level=ERROR msg=mixed transport=smtp nexthop=a.test reason=\"mx1[192.0.2.1]: 451") {
		t.Errorf("the log has: %s", text)
	}
}

// A list of any length is read page by page, destinations with the most waiting
// first; each destination is in it once.
func TestDestinationsPageByPage(t *testing.T) {
	x := newTown([]string{"mx1"})
	x.hosts["mx1"].takes = time.Hour
	view(t, x, nil, transport(qmgr.TransportConfig{ProcessLimit: 1}), func(v *viewing) {
		for i := range 50 {
			v.arrive(1+i%3, mail.Address(fmt.Sprintf("a@d%02d.test", i)))
		}
		v.pass(time.Second)
		seen, todo := map[string]bool{}, 99
		query := qmgr.DestinationQuery{Most: 7}
		for pages := 0; ; pages++ {
			list := v.list(query)
			if list.Matched != 50 {
				t.Fatalf("%d match", list.Matched)
			}
			for i := range list.Destinations {
				d := &list.Destinations[i]
				if seen[d.Queue.Nexthop] || d.Queue.Todo > todo || d.Messages != d.Queue.Todo || d.Recipients != d.Messages {
					t.Fatalf("%s with %d after %d, %d messages, %d recipients", d.Queue.Nexthop, d.Queue.Todo, todo, d.Messages, d.Recipients)
				}
				seen[d.Queue.Nexthop], todo = true, d.Queue.Todo
				if d.Messages > 0 && d.Oldest == 0 {
					v.Errorf("%s does not report the age of its mail", d.Queue.Nexthop)
				}
			}
			if !list.More {
				break
			}
			place := list.Destinations[len(list.Destinations)-1].Place()
			if query.After = &place; pages > 10 {
				t.Fatal("no end")
			}
		}
		if len(seen) != 50 {
			t.Errorf("%d destinations in all", len(seen))
		}
		some := v.list(qmgr.DestinationQuery{Match: func(_, nexthop string) bool { return strings.HasPrefix(nexthop, "d1") }, In: []qmgr.Condition{qmgr.ConditionFull}})
		if some.Matched != 10 || len(some.Destinations) < 9 || some.ByCondition[qmgr.ConditionFull] != len(some.Destinations) {
			t.Errorf("%+v", some)
		}
	})
}
