package sim

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/backoff"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

const second, minute = time.Second, time.Minute

// oneSite is a world with one receiver and one way for mail to come.
func oneSite(b Behaviour, a Arrivals) *Scenario {
	a.Class, a.To = "mail", []string{"site"}
	return &Scenario{Name: "test", Seed: 1, Sites: []Site{{Name: "site", Behaviour: b}}, Arrivals: []Arrivals{a},
		Runs: []Run{{Name: "run", Core: qmgr.Config{
			Backoff:          backoff.Config{JitterPercent: -1},
			DefaultTransport: qmgr.TransportConfig{RecipientLimit: 1, Window: window.Config{FailedCohortLimit: -1}}}}}}
}

// play runs a scenario's first run, and fails the test if a checker complains.
func play(t *testing.T, s *Scenario) *RunReport {
	t.Helper()
	r, err := Simulate(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range r.Runs[0].Checks {
		if text != ok {
			t.Errorf("%s: %s", name, text)
		}
	}
	return &r.Runs[0]
}

// near reports whether a delay in milliseconds is the given one, to the width of
// a histogram's bucket.
func near(ms float64, want time.Duration) bool {
	w := float64(want) / float64(time.Millisecond)
	return ms >= w && ms <= w*(1+1.0/64)+0.001
}

// This is how the tests of the model look: a receiver, some mail, and what
// became of it. A message to a receiver that takes two seconds for the
// transaction and one for each recipient is delivered after three.
func TestOneMessage(t *testing.T) {
	s := oneSite(Behaviour{Connect: Fixed(500 * time.Millisecond), Transaction: Fixed(2 * second), Recipient: Fixed(second)}, Arrivals{Messages: 1})
	r := play(t, s)
	if r.Deliveries != 1 || r.Delivered != 1 || r.DeferredPct != 0 || r.ConnectionsPeak != 1 {
		t.Errorf("%+v", r)
	}
	if !near(r.DelayMS["mail"].Max, 3500*time.Millisecond) || r.DurationS != 3.5 {
		t.Errorf("it took %v ms of %v s", r.DelayMS["mail"].Max, r.DurationS)
	}
}

// Each way in which a connection fails costs the client the time that it costs
// in the world; the message is tried again after the shortest back-off, when the
// outage is over.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault Fault
		cost  time.Duration
	}{
		{"refuse", FaultRefuse, second},
		{"timeout", FaultTimeout, 30 * second},
		{"silent", FaultSilent, 301 * second},
		{"busy", FaultBusy, second},
	} {
		s := oneSite(Behaviour{Connect: Fixed(second)}, Arrivals{Messages: 1})
		s.Sites[0].Outages = []Outage{{Until: minute, Fault: c.fault}}
		r := play(t, s)
		wait := max(c.cost, 300*second) // the age, at least the minimal back-off
		want := c.cost + wait + second
		if !near(r.DelayMS["mail"].Max, want) {
			t.Errorf("%s: delivered after %v ms, want %v", c.name, r.DelayMS["mail"].Max, want)
		}
		if r.Failures != 1 || r.Deliveries != 2 || r.DeferredPct != 100 {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	// A connection that is lost costs a part of the transaction.
	s := oneSite(Behaviour{Transaction: Fixed(10 * second)}, Arrivals{Messages: 1})
	s.Sites[0].Outages = []Outage{{Until: minute, Fault: FaultDrop}}
	r := play(t, s)
	if d := r.DelayMS["mail"].Max; d < 310e3 || d > 321e3 || r.Failures != 1 {
		t.Errorf("lost: delivered after %v ms; %+v", d, r)
	}
}

// The sixth connection of five is greeted with 421 and counts for nothing: the
// five go on, and none is ever counted twice.
func TestConnectionLimit(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(second), ConnectionLimit: 5}, Arrivals{Min: 600, Max: 600, Messages: 1})
	s.Until = UntilFirstRound
	s.Runs[0].Core.DefaultTransport.Window.Initial = 8
	r := play(t, s)
	if r.Delivered+r.Failures != 600 || r.Failures < 3 {
		t.Errorf("%d delivered, %d refused of 600", r.Delivered, r.Failures)
	}
	if r.GoodputPerS < 4.9 || r.GoodputPerS > 5.0001 {
		t.Errorf("%.3f recipients a second; five at a time can be 5", r.GoodputPerS)
	}
}

// With a process for each of two and room for three, the sixth connection finds
// the kernel's queue full. What becomes of it depends on the kernel.
func TestBacklog(t *testing.T) {
	for _, c := range []struct {
		name     string
		overflow Overflow
		client   Client
		last     time.Duration // when the sixth is over
		failures uint64
	}{
		// It fails at once, and is delivered after the back-off.
		{"refuse", OverflowRefuse, DefaultClient(), 310 * second, 1},
		// It comes into the queue with the packet that is sent again after
		// 1+2+4+8 s, and is served with the one ahead of it at 20 s.
		{"SYN", OverflowDropSYN, DefaultClient(), 30 * second, 0},
		{"ACK", OverflowDropACK, DefaultClient(), 30 * second, 0},
		// Its client does not wait that long.
		{"SYN, impatient", OverflowDropSYN, Client{ConnectTimeout: 9 * second, GreetingTimeout: 100 * second}, 9*second + 300*second + 10*second, 1},
	} {
		s := oneSite(Behaviour{Recipient: Fixed(10 * second), Processes: 2, Backlog: 3, Overflow: c.overflow}, Arrivals{Messages: 6})
		s.Runs[0].Core.DefaultTransport.Window.Initial = 10
		s.Runs[0].Clients = map[string]Client{"smtp": c.client}
		r := play(t, s)
		if r.Failures != c.failures || !near(r.DelayMS["mail"].Max, c.last) {
			t.Errorf("%s: %d failures, the last after %v ms; want %d and %v", c.name, r.Failures, r.DelayMS["mail"].Max, c.failures, c.last)
		}
	}
}

// A client that waits in the queue for its greeting gives up after the greeting
// timeout; whoever is behind it moves up.
func TestGreetingTimeout(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(10 * second), Processes: 1, Backlog: 5}, Arrivals{Messages: 3})
	s.Runs[0].Clients = map[string]Client{"smtp": {ConnectTimeout: second, GreetingTimeout: 15 * second}}
	r := play(t, s)
	if r.Failures != 1 || r.Delivered != 3 {
		t.Errorf("%d failures, want the third to give up after 15 s", r.Failures)
	}
}

// One of four servers is bad: in turn exactly every fourth connection fails.
func TestServersInTurn(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(second), Servers: 4, BadServers: 1, Bad: FaultBusy}, Arrivals{Min: 400, Max: 400, Messages: 1})
	s.Until = UntilFirstRound
	if r := play(t, s); r.Failures != 100 {
		t.Errorf("%d of 400 connections failed, want every fourth", r.Failures)
	}
	s.Sites[0].Behaviour.Random = true
	if r := play(t, s); r.Failures < 70 || r.Failures > 130 || r.Failures == 100 {
		t.Errorf("%d of 400 connections failed at random", r.Failures)
	}
}

// A greylisting site takes the message at the first attempt that comes late
// enough: the second, for 5 minutes; the third, for 10.
func TestGreylisting(t *testing.T) {
	for _, c := range []struct {
		greylist   time.Duration
		deliveries uint64
	}{{5 * minute, 2}, {10 * minute, 3}} {
		r := play(t, oneSite(Behaviour{Greylist: c.greylist}, Arrivals{Messages: 20}))
		if r.Deliveries != 20*c.deliveries || r.Delivered != 20 || r.Failures != 0 {
			t.Errorf("greylisted for %v: %d deliveries of 20 messages, %d site failures", c.greylist, r.Deliveries, r.Failures)
		}
	}
}

// Recipients that are refused for good end in a report to the sender; those of
// the null sender end in nothing. All that is checked by the checkers; here the
// shares are.
func TestRefusals(t *testing.T) {
	s := oneSite(Behaviour{SoftPercent: 10, HardPercent: 20}, Arrivals{Min: 1000, Max: 1000, Messages: 2})
	r := play(t, s)
	if r.DeferredPct < 8 || r.DeferredPct > 12 {
		t.Errorf("%.1f %% deferred, want 10", r.DeferredPct)
	}
	if r.Failed < 340 || r.Failed > 460 || r.Delivered+r.Failed != 2000 {
		t.Errorf("%d failed, %d delivered of 2000; want a fifth to fail", r.Failed, r.Delivered)
	}
	s.Arrivals[0].NullSender = true
	s.Runs[0].Core.DoubleBounce = qmgr.DoubleBounceDiscard
	if r := play(t, s); r.Delivered+r.Failed != 2000 {
		t.Errorf("from the null sender: %d failed, %d delivered of 2000", r.Failed, r.Delivered)
	}
}

// A client that keeps connections makes as many as it has deliveries at once;
// one that does not makes one for each.
func TestConnectionReuse(t *testing.T) {
	connections := func(c Client) (uint64, *RunReport) {
		s := oneSite(Behaviour{Connect: Fixed(second), Recipient: Fixed(second)}, Arrivals{Min: 100, Max: 100, Messages: 1})
		s.Runs[0].Core.DefaultTransport.Window.Limit = 5
		s.Runs[0].Clients = map[string]Client{"smtp": c}
		r := play(t, s)
		// A delivery takes two seconds on a new connection, one on an old one.
		return uint64(r.DurationS*5+0.5) - 100, r
	}
	c := DefaultClient()
	if n, _ := connections(c); n != 100 {
		t.Errorf("%d connections for 100 deliveries without a cache", n)
	}
	c.CacheTime = 2 * second
	if n, r := connections(c); n != 5 || r.ConnectionsPeak != 5 {
		t.Errorf("%d connections for 100 deliveries with a cache, %d at once", n, r.ConnectionsPeak)
	}
	c.ReuseCount = 4
	if n, _ := connections(c); n != 25 {
		t.Errorf("%d connections for 100 deliveries, four each", n)
	}
	c.ReuseCount, c.ReuseTime = 0, 5*second
	if n, _ := connections(c); n != 20 {
		t.Errorf("%d connections for 100 deliveries in which none is older than 5 s", n)
	}
}

// A connection without use is closed after its time, and makes room for others at
// the receiver.
func TestIdleConnectionsClose(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(second), ConnectionLimit: 1}, Arrivals{Pattern: PatternRegular, Rate: 0.1, Messages: 10})
	c := DefaultClient()
	c.CacheTime = 2 * second
	s.Runs[0].Clients = map[string]Client{"smtp": c}
	if r := play(t, s); r.Failures != 0 || r.ConnectionsPeak != 1 {
		t.Errorf("%d failures, %d connections", r.Failures, r.ConnectionsPeak)
	}
}

// A change of a receiver is in force from its instant on.
func TestChange(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(second)}, Arrivals{Pattern: PatternRegular, Rate: 0.1, Messages: 10})
	s.Sites[0].Changes = []Change{{At: 45 * second, Behaviour: Behaviour{Recipient: Fixed(4 * second)}}}
	r := play(t, s)
	if h := r.Pictures.Delays[0]; !near(float64(h.Quantile(0.5))/1e6, second) || !near(float64(h.Quantile(0.6))/1e6, 4*second) {
		t.Errorf("half took %v, more took %v; want 5 of 10 to take 1 s", h.Quantile(0.5), h.Quantile(0.6))
	}
}

// Looking a site up costs its time once, whether the core asks for it or a delivery
// does it. A name server that always fails defers everything; only where a delivery
// finds that out does it count as a failure of the site.
func TestDNS(t *testing.T) {
	for _, byDelivery := range []bool{false, true} {
		s := oneSite(Behaviour{}, Arrivals{Pattern: PatternRegular, Rate: 1, Messages: 10})
		s.DNS = DNS{Delay: Fixed(100 * time.Millisecond), TTL: time.Hour, ByDelivery: byDelivery}
		if h := play(t, s).Pictures.Delays[0]; h.Quantile(0.9) != 0 || !near(float64(h.Max())/1e6, 100*time.Millisecond) {
			t.Errorf("by delivery %t: nine took %v, the first %v", byDelivery, h.Quantile(0.9), h.Max())
		}
		s.DNS = DNS{FailurePercent: 100, ByDelivery: byDelivery}
		s.Until = UntilFirstRound
		if r := play(t, s); r.DeferredPct != 100 || (r.Failures > 0) != byDelivery {
			t.Errorf("by delivery %t: %+v", byDelivery, r)
		}
	}
}

// While one batch is synced, the next gathers: a thousand changes do not cost a
// thousand syncs.
func TestDisk(t *testing.T) {
	s := oneSite(Behaviour{}, Arrivals{Messages: 1000})
	s.Disk = Disk{Commit: Fixed(second), Read: Fixed(10 * time.Millisecond)}
	s.Runs[0].Core.DefaultTransport.Window.Limit = -1
	if r := play(t, s); r.DurationS > 5 {
		t.Errorf("a thousand removals took %v s", r.DurationS)
	}
}

// A million messages are not in core: what comes when the core is full waits in
// the spool, and nothing is forgotten there.
func TestActiveLimit(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(time.Millisecond)}, Arrivals{Messages: 5000})
	s.Runs[0].Core.ActiveLimit = 50
	if r := play(t, s); r.Delivered != 5000 {
		t.Errorf("%d of 5000 messages were delivered", r.Delivered)
	}
}

// Mail that no receiver accepts expires after its lifetime, with a report.
func TestExpiry(t *testing.T) {
	s := oneSite(Behaviour{SoftPercent: 100}, Arrivals{Messages: 3})
	s.Runs[0].Core.Backoff.MaximalQueueLifetime = 3 * time.Hour
	r := play(t, s)
	if r.Delivered != 0 || r.DurationS < 3*3600 || r.DurationS > 5*3600 {
		t.Errorf("%+v", r)
	}
}
