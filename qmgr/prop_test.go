package qmgr_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/addrdb"
	"github.com/posthaste-mta/posthaste/qmgr/backoff"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// chaos is a run in which everything that may happen does happen, in any
// order.
type chaos struct {
	t     *testing.T
	w     *qmgrtest.World
	r     prng.Source
	cfg   qmgr.Config
	whole qmgr.Config // cfg with its defaults, as the core has it
	all   []*qmgrtest.Message
	ids   []mail.QueueID
	calm  bool
	asked qmgr.VerificationID
	// crashes says that the core may lose its memory. Without crashes it must
	// not need one to find its mail again.
	crashes bool
	// dead are the transports, and the destinations as transport, nexthop, source and demand of
	// security, that are dead, if one believes the core's notes.
	dead map[[4]string]bool
	// security is what mail for domains demands of connections.
	security map[string]string
	// reloaded says that limits may have become smaller than what is in core.
	reloaded bool
	dropped  map[mail.QueueID]bool
	late     []qmgr.Arrived // hints that have not come yet
	// doubting says that recipients have doubts about some of their hosts, in thousandths.
	doubting int
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{t: t, r: prng.New(seed), crashes: seed%2 == 0, dead: make(map[[4]string]bool), security: make(map[string]string), dropped: make(map[mail.QueueID]bool)}
	c.cfg = qmgr.Config{
		ActiveLimit: 1 + c.r.IntN(8), RecipientLimit: 1 + c.r.IntN(40), RecipientMinimum: 1 + c.r.IntN(5),
		VerifyLimit: 1 + c.r.IntN(3), VerifyNetworkLimit: 1 + c.r.IntN(2),
		ActionsPerStep: 1 + c.r.IntN(10), LookupLimit: 1 + c.r.IntN(4), MessageConcurrency: 1 + c.r.IntN(3), ConcurrencyScale: c.r.IntN(4) - 1,
		DoubleBounce: qmgr.DoubleBounce(c.r.IntN(3)),
		Backoff: backoff.Config{MinimalBackoffTime: 10 * time.Second, MaximalBackoffTime: 100 * time.Second,
			MaximalQueueLifetime: time.Hour, DelayWarningTime: 20 * time.Minute},
		DefaultTransport: qmgr.TransportConfig{ProcessLimit: 1 + c.r.IntN(6), RecipientLimit: 1 + c.r.IntN(4), RefillLimit: 1 + c.r.IntN(10),
			SlotCost: 1 + c.r.IntN(4), SlotLoan: c.r.IntN(4) - 1, MinimumSlots: c.r.IntN(4) - 1, RecipientPool: 1 + c.r.IntN(50), ExtraRecipients: 1 + c.r.IntN(20)},
	}
	c.drawBackoff()
	c.cfg.DefaultTransport.Window.Initial = 1 + c.r.IntN(3)
	c.cfg.DefaultTransport.Window.Limit = 4
	if c.r.Permille(200) {
		c.cfg.DefaultTransport.RateDelay = 3 * time.Second
	}
	if c.r.Permille(100) {
		c.cfg.DefaultTransport.TransportRateDelay = time.Second
	}
	if c.r.Permille(200) {
		c.cfg.DefaultTransport.Scheduler = qmgr.Scheduler(1 + c.r.IntN(2))
		c.cfg.FudgeFactor = 10 + c.r.IntN(91)
	}
	if c.r.Permille(200) {
		other := c.cfg.DefaultTransport
		other.Scheduler = qmgr.Scheduler(c.r.IntN(3))
		c.cfg.Transports = map[string]qmgr.TransportConfig{"smtp": other}
	}
	c.cfg.Addresses = addrdb.Config{Limit: 1 + c.r.IntN(20), PositiveTime: 10 * time.Minute, PositiveRefresh: time.Minute, NegativeTime: 2 * time.Minute, NegativeRefresh: time.Minute}
	c.connections()
	w, err := qmgrtest.New(c.cfg, seed)
	if err != nil {
		t.Fatal(err)
	}
	c.w = w
	c.whole = c.cfg.WithDefaults()
	w.Stepped = c.watch
	c.flows()
	c.rules()
	c.lookups()
	c.w.Zones["d0.test"] = qmgrtest.Zone{Tiers: [][]mail.Host{{qmgrtest.HostAt("mx1.test", 1), {Name: "mx2.test", Addr: netip.MustParseAddrPort("[2001:db8::25]:25")}}}}
	return c
}

// drawBackoff draws the longest wait: longer or shorter than what is due by another one, and shorter than the pause of a message
// whose fate is unknown.
func (c *chaos) drawBackoff() {
	c.cfg.Backoff.MaximalBackoffTime = []time.Duration{20 * time.Second, 100 * time.Second, 100 * time.Second, 400 * time.Second}[c.r.IntN(4)]
}

// flows gives each message a flow, in half of the runs.
func (c *chaos) flows() {
	if c.r.Permille(500) {
		c.drawFlows()
	}
}

// rules has rules on replies demand something now and then, in a third of the runs.
func (c *chaos) rules() {
	if c.r.Permille(667) {
		return
	}
	c.w.Measure = func() *mail.Measure {
		if c.r.Permille(800) {
			return nil
		}
		m := &mail.Measure{Rule: fmt.Sprint("r", c.r.IntN(12)), Reply: mail.Reply{Code: 421, Text: "slow down", By: "mx"}, Times: c.r.IntN(4), Within: time.Duration(c.r.IntN(600)) * time.Second}
		if c.r.Permille(500) {
			m.Rest = time.Duration(1+c.r.IntN(600)) * time.Second
		}
		if c.r.Permille(500) {
			m.Concurrency, m.For = c.r.IntN(4), time.Duration(1+c.r.IntN(600))*time.Second
			m.RateCount, m.RatePer = c.r.IntN(5), time.Minute
		}
		if c.r.Permille(300) {
			if m.Suspend = mail.Indefinitely; c.r.Permille(700) {
				m.Suspend = time.Duration(1+c.r.IntN(300)) * time.Second
			}
			m.Domains, m.InARow = c.r.IntN(3), c.r.Permille(500)
			m.SuspendFirst = time.Duration(c.r.IntN(60)) * time.Second
			m.Refused.Domain = []string{"", "d0.test", "d1.test", "d2.test"}[c.r.IntN(4)]
		}
		return m
	}
}

// drawFlows gives each message a flow: of a few, so that each has mail at every destination,
// or of many with hardly more than a message each.
func (c *chaos) drawFlows() {
	most := 2 + c.r.IntN(3)
	if c.r.Permille(300) {
		most = 200
	}
	c.w.Flow = func() mail.Flow {
		draw := func(name string, n int) string { return fmt.Sprint(name, c.r.IntN(n)) }
		if c.r.Permille(100) {
			return mail.Flow{}
		}
		return mail.Flow{Class: draw("c", 3), Tenant: draw("t", 2), Flow: draw("f", most)}
	}
}

// drawShares returns rules for classes, tenants and flows, in half of the cases.
func (c *chaos) drawShares() (r fair.Rules) {
	if c.r.Permille(500) {
		return r
	}
	for i := range c.r.IntN(4) {
		class := fair.Class{Name: fmt.Sprint("c", i), Weight: c.r.IntN(6), Strict: c.r.Permille(300), MaxShare: 100 + c.r.IntN(190)}
		r.Classes = append(r.Classes, class)
	}
	r.Tenants = map[string]int{"t0": 1 + c.r.IntN(4)}
	r.Flows = map[string]int{"f0": 1 + c.r.IntN(4)}
	r.Memory = c.r.IntN(4) // 0 is the default
	return r
}

// connections has the core decide on them, in half of the runs.
func (c *chaos) connections() {
	if c.r.Permille(500) {
		return
	}
	t := c.cfg.DefaultTransport
	t.Agents = qmgr.AgentsConnections
	t.Connections.HostLimit = c.r.IntN(4) - 1
	t.Connections.Initial = 1 + c.r.IntN(3)
	t.Connections.Level = mail.Level(c.r.IntN(4))
	t.Connections.CountLimit = c.r.IntN(4)
	t.Connections.NoProbe = c.r.Permille(200)
	t.UnknownOutcome = qmgr.UnknownOutcome(c.r.IntN(2))
	if c.r.Permille(700) {
		c.doubting = c.r.IntN(800)
	}
	c.cfg.ConnectionLimit = 1 + c.r.IntN(8)
	if c.cfg.Transports == nil {
		c.cfg.Transports = make(map[string]qmgr.TransportConfig)
	}
	if other, ok := c.cfg.Transports["smtp"]; ok {
		t.Scheduler = other.Scheduler
	}
	c.cfg.Transports["smtp"] = t
	if c.r.Permille(500) {
		c.cfg.Sources = c.drawSources()
		c.cfg.Warmup = c.drawWarmups()
	}
}

// drawWarmups returns warm-ups of some of the sources, with few messages a day.
func (c *chaos) drawWarmups() (cfg warmup.Config) {
	cfg.SiteLimit = 1 + c.r.IntN(5)
	for _, s := range c.cfg.Sources.Sources {
		if c.r.Permille(500) {
			plan := warmup.Plan{Name: "p", Allowances: warmup.Grow(1+c.r.IntN(4), c.r.IntN(100), 1+c.r.IntN(4))}
			cfg.Sources = append(cfg.Sources, warmup.Source{Name: s.Name, Start: warmup.Day(c.r.IntN(3) / 2), Plan: plan})
		}
	}
	return cfg
}

// drawSources returns up to four sources, one of which reaches no host that has only an IPv4
// address, and up to three pools.
func (c *chaos) drawSources() (cfg source.Config) {
	for i := range 1 + c.r.IntN(4) {
		s := source.Source{Name: fmt.Sprint("s", i)}
		if i != 2 {
			s.Addresses = append(s.Addresses, netip.AddrFrom4([4]byte{203, 0, 113, byte(c.r.IntN(250))}))
		}
		if i == 2 || c.r.Permille(300) {
			s.Addresses = append(s.Addresses, netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 15: byte(i + 1)}))
		}
		cfg.Sources = append(cfg.Sources, s)
	}
	for i := range c.r.IntN(4) {
		p := source.Pool{Name: fmt.Sprint("p", i)}
		for _, s := range cfg.Sources {
			if len(p.Members) == 0 || c.r.Permille(700) {
				p.Members = append(p.Members, source.Member{Source: s.Name, Weight: 1 + c.r.IntN(3)})
			}
		}
		switch c.r.IntN(4) {
		case 0:
			p.Match.Classes = []string{"c0"}
		case 1:
			p.Match.Routes = []string{"smtp:d1*", "smtp:d2.test"}
		case 2:
			p.Match.Senders = []string{"<>"}
		}
		cfg.Pools = append(cfg.Pools, p)
	}
	return cfg
}

// converse has a connection take its next step, whichever that is.
func (c *chaos) converse() bool {
	list := c.w.Connections()
	if len(list) == 0 {
		return false
	}
	conn := list[c.r.IntN(len(list))]
	switch {
	case !c.calm && c.r.Permille(100):
		c.w.Close(conn, mail.CloseReason(1+c.r.IntN(5)), c.lastWords()...)
	case len(conn.Sends) > 0:
		how, more := qmgrtest.Accepted, []qmgrtest.Ending(nil)
		if !c.calm {
			how = qmgrtest.Ending(c.r.IntN(int(qmgrtest.SiteDown)))
			if c.r.Permille(100) {
				more = []qmgrtest.Ending{qmgrtest.Unsent}
			}
			if conn.Sends[0].Delivery.Callout && c.r.Permille(200) {
				how = qmgrtest.Mute
			}
		}
		c.w.Sent(conn, how, more...)
	case conn.Hung:
		c.w.Close(conn, mail.CloseAsked)
	default:
		return false
	}
	return true
}

// lastWords is how the transactions of a connection end that breaks.
func (c *chaos) lastWords() []qmgrtest.Ending {
	switch c.r.IntN(5) {
	case 0:
		return []qmgrtest.Ending{qmgrtest.Unknown}
	case 1:
		return []qmgrtest.Ending{qmgrtest.Accepted, qmgrtest.Unsent}
	case 2:
		return []qmgrtest.Ending{qmgrtest.Unsent, qmgrtest.Unsent, qmgrtest.Unsent}
	case 3:
		return []qmgrtest.Ending{qmgrtest.Lost, qmgrtest.Unsent}
	}
	return nil
}

// lookups makes some of the domains need a lookup: two of them share a site, and
// one leads nowhere now and then.
func (c *chaos) lookups() {
	if c.r.Permille(300) {
		return
	}
	for _, domain := range []string{"d1.test", "d2.test"} {
		if _, drawn := c.security[domain]; !drawn {
			c.security[domain] = []string{"", "", "verify", "sts"}[c.r.IntN(4)]
		}
		c.w.Lookups[domain] = mail.Route{Transport: "smtp", Nexthop: domain, Site: "{mx.test}", Security: c.security[domain]}
	}
	c.w.Lookups["d3.test"] = mail.Route{Transport: "smtp", Nexthop: "d3.test"}
	if c.r.Permille(300) {
		c.w.Lookups["d3.test"] = mail.Route{Reply: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 3}, Text: "no answer"}}
	}
	if c.r.Permille(300) {
		c.w.Lookups["*"] = mail.Route{}
	}
}

// checkMemory compares what is in core with the bound of SCHEDULER_README.
func (c *chaos) checkMemory() {
	cfg := &c.whole
	v := c.w.Core.View(0)
	pools := func(t qmgr.TransportConfig) int { return max(t.RecipientPool, 0) + max(t.ExtraRecipients, 0) }
	bound := cfg.RecipientMinimum * cfg.ActiveLimit
	if len(v.Transports) == 0 { // there will be one
		least := pools(cfg.DefaultTransport)
		for _, t := range cfg.Transports {
			least = min(least, pools(t))
		}
		bound += least
	}
	for _, t := range v.Transports {
		of, own := cfg.Transports[t.Name]
		if !own {
			of = cfg.DefaultTransport
		}
		bound += pools(of)
	}
	if bound = max(bound, cfg.RecipientLimit); v.Recipients > bound && !c.reloaded {
		c.t.Errorf("%d recipients in core, the bound is %d", v.Recipients, bound)
	}
	if n, most := c.w.Core.Recipients(); n != v.Recipients || most != bound {
		c.t.Errorf("the core has %d recipients in core and a bound of %d, it is %d and %d", n, most, v.Recipients, bound)
	}
}

// watch keeps track of what is dead: nothing may be delivered there.
func (c *chaos) watch(_ qmgr.Event, actions []qmgr.Action) {
	c.checkMemory()
	for _, a := range actions {
		switch a := a.(type) {
		case qmgr.Note:
			switch a.Kind {
			case qmgr.NoteDead:
				c.dead[[4]string{a.Transport, a.Nexthop, a.Source, a.Security}] = true
			case qmgr.NoteAlive:
				if key := [4]string{a.Transport, a.Nexthop, a.Source, a.Security}; !c.dead[key] {
					c.t.Errorf("%v is alive and was not dead", key)
				} else {
					delete(c.dead, key)
				}
			}
		case qmgr.Deliver:
			security := ""
			if d := &a.Delivery; strings.HasPrefix(d.Nexthop, "{") { // agents do not care, but the queues are apart
				security = c.security[d.Recipients[0].Address.Domain()]
			}
			c.watchDelivery(&a.Delivery, security)
		case qmgr.Send:
			security := c.w.Conns[a.Conn].Opening.Security
			c.watchDelivery(&a.Delivery, security)
			for _, r := range a.Delivery.Recipients {
				nexthop := r.Address.Domain()
				if r.Ordered != nil {
					nexthop = r.Ordered.Target
				}
				if want := c.security[nexthop]; security != want && !a.Delivery.Callout { // call-outs have the route that the client gave
					c.t.Errorf("mail for %s is sent to %s:%s over a connection that was opened for %q, want %q", r.Address, a.Delivery.Transport, a.Delivery.Nexthop, security, want)
				}
			}
		}
	}
}

func (c *chaos) watchDelivery(d *mail.Delivery, security string) {
	if c.dead[[4]string{d.Transport, d.Nexthop, d.Source, security}] || c.dead[[4]string{d.Transport}] {
		c.t.Errorf("a delivery to %s:%s from %q with %q, which is dead", d.Transport, d.Nexthop, d.Source, security)
	}
}

func (c *chaos) restart(seed uint64) {
	clear(c.dead)
	c.reloaded, c.late = false, nil
	if c.r.Permille(500) {
		c.w.Save()
	}
	if err := c.w.Restart(c.cfg, seed); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chaos) arrive() {
	n := 1 + c.r.IntN(4)
	if c.r.Permille(50) {
		n = 300
	}
	rcpts := make([]mail.Recipient, n)
	for i := range rcpts {
		domain := fmt.Sprintf("d%d.test", c.r.IntN(4))
		if c.r.Permille(30) {
			domain = "nowhere.test"
		}
		rcpts[i] = mail.Recipient{Address: mail.Address(fmt.Sprintf("u%d@%s", i, domain)), Notify: mail.Notify(c.r.IntN(8)), Doubts: c.drawDoubts(domain)}
	}
	sender := mail.Address("s@x.test")
	if c.r.Permille(100) {
		sender = ""
	}
	var m *qmgrtest.Message
	if c.w.Keep = 0; c.r.Permille(50) {
		c.w.Keep = time.Duration(1+c.r.IntN(7200)) * time.Second
	}
	if c.w.By = mail.ByNone; c.r.Permille(200) {
		c.w.By, c.w.Within = mail.ByMode(1+c.r.IntN(2)), c.w.Keep+c.r.Between(0, 2*time.Minute)
		if c.w.By == mail.ByNotify && c.r.Permille(100) {
			c.w.Within = -time.Second // a server before has said so
		}
	}
	switch {
	case c.crashes && c.r.Permille(100):
		m = c.w.Store(sender, rcpts) // the hint is lost: found at the next start
	case c.r.Permille(100):
		m = c.w.Store(sender, rcpts)
		c.late = append(c.late, m.Hint())
	default:
		m = c.w.Arrive(sender, rcpts)
	}
	c.all = append(c.all, m)
	c.ids = append(c.ids, m.Envelope.ID)
}

// drawDoubts returns doubts about some of the hosts of a domain.
func (c *chaos) drawDoubts(domain string) (d *mail.Doubts) {
	if !c.r.Permille(c.doubting) {
		return nil
	}
	if site := c.w.Lookups[domain].Site; site != "" {
		domain = site
	}
	tiers, _ := c.w.HostsOf(domain)
	for _, h := range slices.Concat(tiers...) {
		for range c.r.IntN(2) * (2 + c.r.IntN(2)) {
			d = d.With(h.Addr)
		}
	}
	return d
}

// hint gives the core a hint that is late.
func (c *chaos) hint() {
	if n := len(c.late); n > 0 {
		i := c.r.IntN(n)
		h := c.late[i]
		c.late = slices.Delete(c.late, i, i+1)
		c.w.Step(h)
	}
}

// answer answers a random outstanding action.
func (c *chaos) answer() {
	if len(c.w.Outstanding) == 0 || c.r.Permille(500) {
		if c.converse() || len(c.w.Outstanding) == 0 {
			return
		}
	}
	switch a := c.w.Take(c.r.IntN(len(c.w.Outstanding))).(type) {
	case qmgr.Deliver:
		how := qmgrtest.Accepted
		if !c.calm {
			how = qmgrtest.Ending(c.r.IntN(qmgrtest.Endings))
		}
		c.w.Deliver(a, how)
	case qmgr.Dial:
		o := mail.OpenedConnection{Level: mail.Level(c.r.IntN(4))}
		if !c.calm && c.r.Permille(300) {
			o.Reply = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connection refused"}
			if c.r.Permille(300) {
				o.Reply.Code = 421
			}
			if a.Opening.Source != "" && c.r.Permille(500) {
				o.Unbound = true
			} else if a.Opening.Security != "" && c.r.Permille(300) {
				o.Insecure = true
			} else if c.r.Permille(100) {
				o.Unavailable = true
				c.w.Step(qmgr.AgentUnavailable{Transport: a.Opening.Transport, Reply: o.Reply})
			}
		}
		if c.r.Permille(200) {
			o.Mails = 1 + c.r.IntN(3)
		}
		c.w.Dialed(a, o)
	default:
		c.w.Answer(a)
	}
}

// verify lets a client of one of three networks ask for a domain that mail goes to,
// or for one that is known nowhere else, or for an address there.
func (c *chaos) verify() {
	c.asked++
	v := qmgr.Verify{Verification: c.asked, Client: netip.AddrFrom4([4]byte{192, 0, byte(c.r.IntN(3)), 1}), Transport: "smtp", Nexthop: fmt.Sprintf("d%d.test", c.r.IntN(9))}
	if c.r.Permille(700) {
		v.Recipient = mail.Address(fmt.Sprintf("u%d@%s", c.r.IntN(20), v.Nexthop))
		v.Routed = c.r.Permille(500)
	}
	c.w.Ask(v)
}

// setRoute has some recipients of a message go to one of two relays, or again where the configuration says.
func (c *chaos) setRoute(id mail.QueueID) {
	m := c.w.Messages[id]
	if m == nil {
		return
	}
	var some []uint32
	for i := range m.Recipients {
		if len(m.Recipients) == 1 || c.r.Permille(500) {
			some = append(some, uint32(i))
		}
	}
	c.w.Reroute(m, []string{"", "relay1.test", "relay2.test"}[c.r.IntN(3)], some...)
}

// requeue requeues some recipients of a message, or all, a few of them under one or two other addresses.
func (c *chaos) requeue(id mail.QueueID) {
	m := c.w.Messages[id]
	if m == nil {
		return
	}
	var some []uint32
	var to []mail.Replacement
	share := []int{300, 1000}[c.r.IntN(2)]
	for i := range m.Recipients {
		if !c.r.Permille(share) {
			continue
		}
		some = append(some, uint32(i))
		for n := range c.r.IntN(3) {
			if len(m.Recipients) < 10 {
				to = append(to, mail.Replacement{Of: uint32(i), Address: mail.Address(fmt.Sprintf("r%d-%d@d%d.test", i, n, c.r.IntN(4))), Notify: m.Recipients[i].Notify})
			}
		}
	}
	if len(some) > 0 {
		c.ids = append(c.ids, c.w.Requeue(m, to, some...))
	}
}

func (c *chaos) operate() {
	if len(c.ids) == 0 {
		return
	}
	ids := []mail.QueueID{c.ids[c.r.IntN(len(c.ids))]}
	switch c.r.IntN(15) {
	case 14:
		c.requeue(ids[0])
	case 13:
		c.setRoute(ids[0])
	case 11:
		c.suspend()
	case 12:
		c.w.ResumeSome(func() bool { return c.r.Permille(500) })
	case 10:
		if m := c.w.Messages[ids[0]]; m != nil {
			var some []uint32
			for i := range m.Recipients {
				if c.r.Permille(300) {
					some = append(some, uint32(i))
				}
			}
			if len(some) > 0 {
				c.ids = append(c.ids, c.w.HoldSome(m, some...))
			}
		}
	case 9:
		if m := c.w.Messages[ids[0]]; m != nil {
			report := mail.ReportNone
			if m.Envelope.Sender != "" && c.r.Permille(500) {
				report = mail.ReportFailed
			}
			var some []uint32
			for i := range m.Recipients {
				if len(m.Recipients) == 1 || c.r.Permille(500) {
					some = append(some, uint32(i))
				}
			}
			c.w.GiveUp(m, report, some...)
		}
	case 0:
		c.w.Step(qmgr.Hold{IDs: ids, Reason: "test"})
	case 1, 2:
		c.w.Step(qmgr.Release{IDs: ids})
	case 3:
		if c.r.Permille(300) {
			for _, m := range c.all {
				m.Dropped = m.Dropped || m.Envelope.ID == ids[0]
			}
			c.dropped[ids[0]] = true // a message that is being split off is not there yet
			c.w.Step(qmgr.Drop{IDs: ids})
		}
	case 4, 5:
		c.w.Step(qmgr.Retry{IDs: ids})
	case 6:
		c.w.Step(qmgr.RetryAll{})
	case 7:
		c.cfg.DefaultTransport.Window.Limit = 1 + c.r.IntN(6)
		c.cfg.ActiveLimit = 1 + c.r.IntN(8)
		c.reloaded = true
		if c.r.Permille(300) {
			c.cfg.DefaultTransport.TransportRateDelay = time.Duration(c.r.IntN(3)) * time.Second
		}
		if c.r.Permille(300) {
			c.cfg.DefaultTransport.RecipientPool = 1 + c.r.IntN(50)
		}
		if c.w.Flow != nil {
			c.cfg.Shares = c.drawShares()
		}
		if c.r.Permille(300) {
			c.drawBackoff()
		}
		if smtp := c.cfg.Transports["smtp"]; smtp.Agents == qmgr.AgentsConnections {
			if c.r.Permille(300) {
				c.cfg.Sources = c.drawSources()
				c.cfg.Warmup = c.drawWarmups()
			}
			if c.doubting > 0 {
				smtp.Window.Limit = c.r.IntN(6)
				smtp.Window.Initial = min(smtp.Window.Initial, max(smtp.Window.Limit, 1))
				smtp.RateDelay = 0
				if c.r.Permille(200) {
					smtp.RateDelay = time.Second
				}
				c.cfg.Transports = maps.Clone(c.cfg.Transports)
				c.cfg.Transports["smtp"] = smtp
			}
		}
		c.whole = c.cfg.WithDefaults()
		if err := c.whole.Validate(); err != nil {
			c.t.Fatal(err) // the core would ignore it
		}
		c.w.Step(qmgr.Configure{Config: c.cfg})
		if c.r.IntN(2) == 0 {
			c.w.Step(qmgr.Reroute{})
		}
		if c.r.Permille(300) {
			o := warmup.Order{Key: warmup.Key{Source: fmt.Sprint("s", c.r.IntN(4)), Site: []string{"", "d1.test", "d2.test"}[c.r.IntN(3)]}, Kind: warmup.OrderKind(c.r.IntN(4)), Day: 1 + c.r.IntN(4)}
			c.w.Step(qmgr.AdjustWarmup{Order: o})
		}
		if c.w.Measure != nil && c.r.Permille(500) {
			c.w.Rules = []string{}
			for i := range 12 {
				if c.r.Permille(800) {
					c.w.Rules = append(c.w.Rules, fmt.Sprint("r", i))
				}
			}
			c.w.Step(qmgr.Rules{Names: c.w.Rules})
		}
	case 8:
		c.w.Step(qmgr.AgentUnavailable{Transport: []string{"smtp", qmgr.TransportRetry, qmgr.TransportError}[c.r.IntN(3)]})
	}
}

// suspend suspends something, for a while or without an end.
func (c *chaos) suspend() {
	s := measure.Scopes()[c.r.IntN(len(measure.Scopes()))]
	values := map[measure.Scope][]string{measure.Site: {"d1.test", "d3.test", "{mx.test}"}, measure.Domain: {"d0.test", "d1.test", "d2.test"},
		measure.Destination: {"smtp:d1.test", "smtp:{mx.test}", "smtp:d2.test from s1", "smtp:{mx.test} from s0"}, measure.Transport: {"smtp"}, measure.Source: {"s0", "s1", "s2"}, measure.Tenant: {"t0", "t1"}, measure.Class: {"c0", "c1"}}[s]
	ev := qmgr.Suspend{Scope: s, Value: values[c.r.IntN(len(values))], By: "jo", Reason: "test"}
	if c.r.Permille(700) {
		ev.For = c.r.Between(time.Second, 5*time.Minute)
	}
	c.w.Suspend(ev)
}

func (c *chaos) tick(d time.Duration) {
	c.w.Now = c.w.Now.Add(d)
	c.w.Step(qmgr.Wake{})
}

func (c *chaos) step() {
	switch n := c.r.IntN(100); {
	case n < 14:
		c.arrive()
	case n < 15:
		c.hint()
	case n < 80:
		c.answer()
	case n < 92:
		c.tick(c.r.Between(0, 20*time.Second))
	case n < 96:
		c.operate()
	case n < 99:
		c.verify()
	case c.crashes:
		c.restart(c.r.Uint64())
	}
}

// settle lets everything come to rest: no more trouble, time passes, what is
// held is released.
func (c *chaos) settle() {
	c.calm = true
	c.cfg.Backoff.MaximalBackoffTime = 100 * time.Second // shorter waits would make too many attempts until mail expires
	if c.crashes {
		c.restart(1)
	} else {
		c.w.Step(qmgr.Configure{Config: c.cfg})
	}
	for len(c.late) > 0 {
		c.hint()
	}
	c.w.ResumeAll()
	resumed := c.w.Now.Add(20 * time.Minute)
	for round := 0; round < 3; round++ {
		for i := 0; i < 100000; i++ {
			if len(c.w.Outstanding) > 0 || c.talking() {
				c.answer()
				continue
			}
			wake, ok := c.w.Core.NextWake()
			if !ok {
				break
			}
			if wake > c.w.Now {
				c.w.CheckDeadlines()
			}
			if c.w.Now >= resumed && c.w.Core.View(0).Messages == 0 { // whatever has filled the core
				c.w.CheckResumed()
				resumed = mail.Never
			}
			c.w.Now = max(c.w.Now, wake)
			c.w.Step(qmgr.Wake{})
		}
		c.w.Step(qmgr.Release{IDs: c.held()})
	}
}

// talking reports whether some connection has something left to do.
func (c *chaos) talking() bool {
	return slices.ContainsFunc(c.w.Connections(), func(k *qmgrtest.Connection) bool { return len(k.Sends) > 0 || k.Hung })
}

func (c *chaos) held() []mail.QueueID {
	var ids []mail.QueueID
	for _, id := range c.ids {
		if m := c.w.Messages[id]; m != nil && m.Place.Area == mail.AreaHold {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestChaos: whatever happens in whatever order, every recipient is delivered,
// refused, given up or dropped; nothing is tried again that was settled, nor before its time without an order, nor after its deadline, which it does not outlive;
// nothing is removed before its reports are made; and in the end the core is
// empty.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= uint64(golden.Runs(1)); seed++ {
		c := newChaos(t, seed)
		c.w.CheckEvery = checkOfMany()
		for range 1500 {
			c.step()
			c.checkLookups(seed)
			if len(c.w.Violations) > 0 {
				t.Fatalf("seed %d: %v", seed, c.w.Violations)
			}
		}
		c.settle()
		if len(c.w.Violations) > 0 {
			t.Fatalf("seed %d: %v", seed, c.w.Violations)
		}
		c.checkEnd(seed)
		if t.Failed() {
			return
		}
	}
}

// checkLookups: no more lookups are under way than allowed, those included that take
// long and that have been given up; nor more call-outs.
func (c *chaos) checkLookups(seed uint64) {
	all, verifying := 0, 0
	for _, a := range c.w.Outstanding {
		if look, is := a.(qmgr.Lookup); is {
			all++
			if look.For == 0 {
				verifying++
			}
		}
	}
	if v := c.w.Core.View(0); v.Callouts.InCore-v.Callouts.Late > c.cfg.VerifyLimit || v.Callouts.Known > c.cfg.Addresses.Limit {
		c.t.Fatalf("seed %d: %+v; the limits are %d and %d", seed, v.Callouts, c.cfg.VerifyLimit, c.cfg.Addresses.Limit)
	}
	if most := min(c.cfg.VerifyLimit, max(c.cfg.LookupLimit/2, 1)); all > 21*c.cfg.LookupLimit || verifying > 21*most {
		c.t.Fatalf("seed %d: %d lookups are under way, %d of them for verification; the limits are %d and %d", seed, all, verifying, c.cfg.LookupLimit, most)
	}
}

func (c *chaos) checkEnd(seed uint64) {
	t := c.t
	for id, m := range c.w.Messages {
		if m.Place.Area != mail.AreaHold || m.Envelope.Sender != "" || c.cfg.DoubleBounce != qmgr.DoubleBounceHold {
			t.Errorf("seed %d: message %v is still in %v: %+v", seed, id, m.Place, m.Results)
		}
	}
	for id, m := range c.w.Gone {
		owed := 0
		for i, r := range m.Results {
			if m.Dropped || c.dropped[id] {
				continue
			}
			if !r.Settled() && m.Accepted[i] == 0 && !m.Refused[i] {
				t.Errorf("seed %d: message %v is gone, recipient %d is %v", seed, id, i, r)
			}
			// To the null sender nothing is owed; its debts are marks for the policy.
			if m.Owed[i] != mail.ReportNone && (m.Envelope.Sender != "" || c.cfg.DoubleBounce == qmgr.DoubleBounceReport) {
				owed++
			}
		}
		if owed > 0 {
			t.Errorf("seed %d: message %v is gone and owes %d reports", seed, id, owed)
		}
	}
	if len(c.w.Verifying) > 0 {
		t.Errorf("seed %d: verifications %v were never answered", seed, c.w.Verifying)
	}
	if v := c.w.Core.View(10); v.Lookups != (qmgr.LookupsView{}) || v.Callouts.InCore+v.Callouts.Waiting != 0 || v.Messages != 0 || v.Busy != 0 || v.Recipients != 0 {
		t.Errorf("seed %d: core is not empty: %+v", seed, v)
	}
}
