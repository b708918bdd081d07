package qmgr_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/qmgrtest"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// doubtsAt are those of a recipient who had the message often enough at hosts.
func doubtsAt(hosts ...mail.Host) (d *mail.Doubts) {
	for _, h := range hosts {
		for range mail.DoubtsEnough {
			d = d.With(h.Addr)
		}
	}
	return d
}

// avoid has a message for a.test come in that avoids hosts.
func (o *office) avoid(hosts ...mail.Host) {
	o.Now++
	o.ids = append(o.ids, o.Arrive("s@x.test", []mail.Recipient{{Address: "u@a.test", Doubts: doubtsAt(hosts...)}}).Envelope.ID)
}

// Mail that avoids hosts says that it waits for its turn, and other mail of the destination that it is at the limit, which the
// connection of such mail counts within; a list has one line for all, with that limit.
func TestWhyMailThatAvoidsHostsWaits(t *testing.T) {
	mx1, mx2, mx3 := qmgrtest.HostAt("mx1", 1), qmgrtest.HostAt("mx2", 2), qmgrtest.HostAt("mx3", 3)
	tc := qmgr.TransportConfig{Agents: qmgr.AgentsConnections, Window: window.Config{Initial: 3, Limit: 3}}
	o := newOffice(t, qmgr.Config{DefaultTransport: tc})
	o.Zones["a.test"] = qmgrtest.Zone{Tiers: [][]mail.Host{{mx1, mx2, mx3}}}
	reasons := func(step string, want ...qmgr.WaitReason) {
		t.Helper()
		var got []qmgr.WaitReason
		for _, v := range o.Core.Explain(o.ids, 5) {
			for _, p := range v.Places {
				if p.Waiting > 0 {
					got = append(got, p.WaitReason)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the reasons are %+v, want %+v", step, got, want)
		}
		list := o.Core.Destinations(qmgr.DestinationQuery{Most: 5})
		if len(list.Destinations) != 1 || list.Destinations[0].Queue.Window != 3 || list.Destinations[0].Condition != qmgr.ConditionFull || list.Destinations[0].Queue.State != window.Ready {
			t.Errorf("%s: the list is %+v", step, list)
		}
	}
	for range 5 {
		o.arrive("a.test")
	}
	o.answer()
	full, turn := qmgr.WaitReason{Kind: qmgr.WaitWindow, Limit: 3, Most: 3}, qmgr.WaitReason{Kind: qmgr.WaitDetour}
	reasons("three connections", full, full)
	o.avoid(mx1)
	o.avoid(mx1)
	o.avoid(mx2)
	o.answer()
	reasons("one of them has to end first", full, full, turn, turn, turn)
	o.end(func(c *qmgrtest.Connection) bool { return c.Hung })
	o.answer()
	reasons("the detour has it", full, full, turn, turn)
	if d, _ := o.Core.Destination("smtp", "a.test", 9); len(d.Connections) != 3 || d.Ceiling != 3 {
		t.Errorf("the destination is %+v", d)
	}
}

// end ends the transactions of connections, and those of them that have been hung up.
func (o *office) end(which func(*qmgrtest.Connection) bool) {
	for _, c := range o.Connections() {
		if !which(c) {
			continue
		}
		for len(c.Sends) > 0 {
			o.Sent(c, qmgrtest.Accepted)
		}
		if c.Hung {
			o.Close(c, mail.CloseAsked)
		}
	}
}

// Of mail that avoids a host and waits for the destination's rate, that is the reason.
func TestMailThatAvoidsHostsAtARateLimit(t *testing.T) {
	mx1, mx2 := qmgrtest.HostAt("mx1", 1), qmgrtest.HostAt("mx2", 2)
	hourly := rate.Limit{N: 1, Per: time.Hour}
	o := newOffice(t, qmgr.Config{DefaultTransport: qmgr.TransportConfig{Agents: qmgr.AgentsConnections, Rate: limits(t, hourly)}})
	o.Zones["a.test"] = qmgrtest.Zone{Tiers: [][]mail.Host{{mx1, mx2}}}
	o.avoid(mx1)
	o.answer()
	o.end(func(*qmgrtest.Connection) bool { return true })
	o.avoid(mx1)
	o.answer()
	place := o.Core.Explain(o.ids, 5)[1].Places[0]
	if r := place.WaitReason; r.Kind != qmgr.WaitDestinationRate || r.Rate != hourly || r.Until <= o.Now || r.Until > o.Now.Add(hourly.Per+hourly.Per/8) {
		t.Errorf("the reason is %+v", r)
	}
	if paced := o.Core.Paced("smtp", "a.test"); !slices.Equal(paced, []bool{true, true}) {
		t.Errorf("whether starts of main queue and detour are limited by time: %v", paced)
	}
	if d, _ := o.Core.Destination("smtp", "a.test", 9); len(d.Rate) != 1 || d.Rate[0].Used != 1 {
		t.Errorf("of the rate, what is used is %+v", d.Rate)
	}
}

// A throng is a destination with several hosts that lose messages, and a limit of connections.
type throng struct {
	*qmgrtest.World
	t       *testing.T
	r       prng.Source
	seed    uint64
	limit   int
	hosts   []mail.Host
	all     []mail.QueueID
	avoided int // messages sent that avoided some of the hosts
}

// Whatever hosts each message avoids, and however connections end: no connection is opened beyond the limit of the destination, a
// message is sent to a host that it avoids only if it avoids all, and all mail is sent in the end.
func TestDetoursKeepToTheLimit(t *testing.T) {
	t.Parallel()
	avoided := 0
	for seed := uint64(1); seed <= uint64(golden.Runs(4)); seed++ {
		c := newThrong(t, seed)
		for range 300 {
			c.step()
		}
		c.settle()
		avoided += c.avoided
		if len(c.Violations) > 0 {
			t.Fatalf("seed %d: %v", seed, c.Violations)
		}
		if t.Failed() {
			return
		}
	}
	if avoided == 0 {
		t.Error("no message avoided a host")
	}
}

func newThrong(t *testing.T, seed uint64) *throng {
	t.Helper()
	c := &throng{t: t, seed: seed, r: prng.New(seed)}
	c.limit = []int{0, 2, 2, 3, 5}[c.r.IntN(5)]
	cfg := qmgr.Config{DefaultTransport: qmgr.TransportConfig{Agents: qmgr.AgentsConnections, Window: window.Config{Initial: 1 + c.r.IntN(5), Limit: c.limit}}}
	cfg.DefaultTransport.Connections.HostLimit = c.r.IntN(4) - 1
	cfg.DefaultTransport.Connections.CountLimit = c.r.IntN(4)
	cfg.DefaultTransport.ProcessLimit = 2 + c.r.IntN(8)
	w, err := qmgrtest.New(cfg, seed)
	if err != nil {
		t.Fatal(err)
	}
	c.World = w
	for i := range 2 + c.r.IntN(4) {
		c.hosts = append(c.hosts, qmgrtest.HostAt(fmt.Sprint("mx", i+1), byte(i+1)))
	}
	best := 1 + c.r.IntN(len(c.hosts))
	zone := qmgrtest.Zone{Tiers: [][]mail.Host{c.hosts[:best]}}
	if best < len(c.hosts) {
		zone.Tiers = append(zone.Tiers, c.hosts[best:])
	}
	w.Zones["a.test"] = zone
	w.Stepped = c.watch
	return c
}

// watch counts the connections when one is dialed: those that carry or will carry something.
func (c *throng) watch(_ qmgr.Event, actions []qmgr.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case qmgr.Dial:
			n := 0
			for _, k := range c.Conns {
				if !k.Hung || len(k.Sends) > 0 {
					n++
				}
			}
			if c.limit > 0 && n > c.limit {
				c.t.Errorf("seed %d: connection %d is dialed, and there are %d with it, the limit is %d", c.seed, a.Conn, n, c.limit)
			}
		case qmgr.Send:
			avoids := a.Delivery.Recipients[0].Doubts.Avoided()
			some := slices.ContainsFunc(c.hosts, func(h mail.Host) bool { return !slices.Contains(avoids, h.Addr) })
			if len(avoids) == 0 || !some {
				continue
			}
			c.avoided++
			if to := c.Conns[a.Conn].Opening.Host.Addr; slices.Contains(avoids, to) {
				c.t.Errorf("seed %d: %v is sent to %v, and avoids %v", c.seed, a.Delivery.Envelope.ID, to, avoids)
			}
		}
	}
}

func (c *throng) step() {
	switch n := c.r.IntN(100); {
	case n < 30:
		r := mail.Recipient{Address: "u@a.test"}
		if c.r.Permille(600) {
			var hosts []mail.Host
			for _, h := range c.hosts {
				if len(hosts) < mail.DoubtsMost && c.r.Permille(500) {
					hosts = append(hosts, h)
				}
			}
			r.Doubts = doubtsAt(hosts...)
		}
		c.all = append(c.all, c.Arrive("s@x.test", []mail.Recipient{r}).Envelope.ID)
	case n < 35:
		c.Now = c.Now.Add(c.r.Between(0, 20*time.Second))
		c.Step(qmgr.Wake{})
	case n < 37 && len(c.all) > 0:
		c.Step(qmgr.Retry{IDs: []mail.QueueID{c.all[c.r.IntN(len(c.all))]}})
	default:
		c.converse(true)
	}
}

// converse answers something that is outstanding, or has a connection take its next step. Trouble says that messages are lost.
func (c *throng) converse(trouble bool) bool {
	list := slices.DeleteFunc(c.Connections(), func(k *qmgrtest.Connection) bool { return len(k.Sends) == 0 && !k.Hung })
	switch n := len(c.Outstanding) + len(list); {
	case n == 0:
		return false
	case c.r.IntN(n) < len(c.Outstanding):
		a := c.Take(c.r.IntN(len(c.Outstanding)))
		if d, is := a.(qmgr.Deliver); is {
			c.Deliver(d, qmgrtest.Later)
		} else {
			c.Answer(a)
		}
	default:
		switch k := list[c.r.IntN(len(list))]; {
		case len(k.Sends) == 0:
			c.Close(k, mail.CloseAsked)
		case trouble && c.r.Permille(300):
			c.Close(k, mail.CloseBusy, qmgrtest.Accepted)
		case trouble && c.r.Permille(300):
			c.Sent(k, qmgrtest.Unknown) // and the connection goes on, so that no host is left alone
		default:
			c.Sent(k, qmgrtest.Accepted)
		}
	}
	return true
}

// settle has time pass until everything is sent.
func (c *throng) settle() {
	for range 100_000 {
		if c.converse(false) {
			continue
		}
		wake, ok := c.Core.NextWake()
		if !ok || c.Core.Idle() {
			break
		}
		c.Now = max(c.Now, wake)
		c.Step(qmgr.Wake{})
	}
	for _, m := range c.Messages {
		c.t.Errorf("seed %d: %v is left in %v: %v", c.seed, m.Envelope.ID, m.Place, m.Results)
	}
}
