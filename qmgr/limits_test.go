package qmgr_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
)

// pacing is a run whose deliveries and connections are logged by when they
// started.
type pacing struct {
	t     *testing.T
	w     *qmgrtest.World
	r     prng.Source
	start map[string][]mail.Instant // by what is limited
	busy  map[string]int
	most  map[string]int
}

func newPacing(t *testing.T, cfg qmgr.Config, seed uint64) *pacing {
	w, err := qmgrtest.New(cfg, seed)
	if err != nil {
		t.Fatal(err)
	}
	p := &pacing{t: t, w: w, r: prng.New(seed), start: make(map[string][]mail.Instant), busy: make(map[string]int), most: make(map[string]int)}
	w.Stepped = p.stepped
	return p
}

func (p *pacing) log(what string) { p.start[what] = append(p.start[what], p.w.Now) }

func (p *pacing) delivery(d mail.Delivery) {
	p.log("message " + d.Nexthop)
	p.log("transport " + d.Transport)
	p.busy[d.Nexthop]++
	p.most[d.Nexthop] = max(p.most[d.Nexthop], p.busy[d.Nexthop])
}

func (p *pacing) stepped(_ qmgr.Event, actions []qmgr.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case qmgr.Deliver:
			p.delivery(a.Delivery)
		case qmgr.Send:
			p.delivery(a.Delivery)
		case qmgr.Dial:
			p.log("connection " + a.Opening.Nexthop)
		}
	}
}

// run answers everything, each transaction after a second, until all mail is gone.
func (p *pacing) run() {
	for range 100000 {
		if len(p.w.Outstanding) > 0 {
			a := p.w.Take(0)
			if d, is := a.(qmgr.Deliver); is {
				p.busy[d.Delivery.Nexthop]--
				p.w.Deliver(d, qmgrtest.Accepted)
				continue
			}
			p.w.Answer(a)
			continue
		}
		if p.converse() {
			continue
		}
		wake, ok := p.w.Core.NextWake()
		if !ok || len(p.w.Messages) == 0 {
			break
		}
		p.w.Now = max(p.w.Now, wake)
		p.w.Step(qmgr.Wake{})
	}
	if len(p.w.Messages) > 0 || len(p.w.Violations) > 0 {
		p.t.Errorf("%d messages are left: %v", len(p.w.Messages), p.w.Violations)
	}
}

func (p *pacing) converse() bool {
	for _, c := range p.w.Connections() {
		switch {
		case len(c.Sends) > 0:
			p.busy[c.Sends[0].Delivery.Nexthop]--
			p.w.Sent(c, qmgrtest.Accepted)
		case c.Hung:
			p.w.Close(c, mail.CloseAsked)
		default:
			continue
		}
		return true
	}
	return false
}

// check reports whether more of something started within a time than may.
func (p *pacing) check(what string, l rate.Limit) {
	p.t.Helper()
	log := p.start[what]
	for i := range log {
		if j := i + l.N; j < len(log) && log[j].Sub(log[i]) < l.Per {
			p.t.Errorf("%s: %d started within %v of %v, want at most %d in %v", what, l.N+1, log[j].Sub(log[i]), log[i], l.N, l.Per)
			return
		}
	}
}

// Limits by time hold over any span of time, for each destination, for the whole
// transport and for connections, with agents and with connections; and what they
// allow is made use of, or mail would wait for nothing.
func TestRates(t *testing.T) {
	perHost, all, dials := rate.Limit{N: 3, Per: 10 * time.Second}, rate.Limit{N: 7, Per: 10 * time.Second}, rate.Limit{N: 2, Per: time.Minute}
	for _, agents := range []qmgr.Agents{qmgr.AgentsOwn, qmgr.AgentsConnections} {
		t.Run(fmt.Sprint("agents ", agents), func(t *testing.T) {
			cfg := qmgr.Config{}
			cfg.DefaultTransport.Agents = agents
			cfg.DefaultTransport.Rate = limits(t, perHost)
			cfg.DefaultTransport.TransportRate = limits(t, all)
			cfg.DefaultTransport.Connections.OpenRate = limits(t, dials)
			cfg.DefaultTransport.Connections.CountLimit = 4 // so that connections have to be made again and again
			p := newPacing(t, cfg, 1)
			for i := range 120 {
				p.w.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address(fmt.Sprintf("u@d%d.test", i%4))}})
				if i%10 == 9 { // so that destinations fall idle in between, and are not forgotten
					p.run()
				}
			}
			p.run()
			for i := range 4 {
				p.check(fmt.Sprintf("message d%d.test", i), perHost)
				if agents == qmgr.AgentsConnections {
					p.check(fmt.Sprintf("connection d%d.test", i), dials)
				}
			}
			p.check("transport smtp", all)
			log := p.start["transport smtp"]
			if len(log) != 120 {
				t.Errorf("%d deliveries, want 120", len(log))
			}
			if took := log[len(log)-1].Sub(log[0]); agents == qmgr.AgentsOwn && took > 200*time.Second { // 171 s, if a bucket were exact
				t.Errorf("120 deliveries took %v, and seven are allowed in 10 s", took)
			}
		})
	}
}

func limits(t *testing.T, l ...rate.Limit) rate.Limits {
	t.Helper()
	all, err := rate.Of(l...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A destination that is named in the configuration, by its domain or by where its
// mail goes, has its own limits from its first delivery on, and new ones as soon
// as they are configured.
func TestDestinations(t *testing.T) {
	for _, c := range []struct {
		name   string
		agents qmgr.Agents
		d      shape.Destination
	}{
		{"domain, agents", qmgr.AgentsOwn, shape.Destination{Domains: []string{"d0.test"}}},
		{"domain, connections", qmgr.AgentsConnections, shape.Destination{Domains: []string{"d0.test"}}},
		{"hosts, connections", qmgr.AgentsConnections, shape.Destination{MX: []string{"near*.test"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.d.Name = "few"
			c.d.Limits.ConcurrencyLimit, c.d.Limits.RecipientLimit = shape.Some(2), shape.Some(3)
			cfg := qmgr.Config{Destinations: []shape.Destination{c.d}}
			cfg.DefaultTransport.Agents = c.agents
			p := newPacing(t, cfg, 1)
			p.w.Zones["d0.test"] = qmgrtest.Zone{Tiers: [][]mail.Host{{qmgrtest.HostAt("near1.test", 1)}}}
			p.w.Zones["d1.test"] = qmgrtest.Zone{Tiers: [][]mail.Host{{qmgrtest.HostAt("far1.test", 2)}}}
			arrive := func() {
				for i := range 40 {
					p.w.Arrive("s@x.test", []mail.Recipient{{Address: mail.Address(fmt.Sprintf("u@d%d.test", i%2))}})
				}
			}
			arrive()
			p.run()
			if p.most["d0.test"] != 2 || p.most["d1.test"] <= 2 {
				t.Errorf("at most %v deliveries at once, want 2 for d0.test and more for d1.test", p.most)
			}
			c.d.Limits.ConcurrencyLimit = shape.Some(1)
			p.w.Step(qmgr.Configure{Config: qmgr.Config{Destinations: []shape.Destination{c.d}, DefaultTransport: cfg.DefaultTransport}})
			clear(p.most)
			arrive()
			p.run()
			if c.agents == qmgr.AgentsOwn && p.most["d0.test"] != 1 {
				t.Errorf("at most %d deliveries at once after the limit was lowered to 1", p.most["d0.test"])
			}
		})
	}
}
