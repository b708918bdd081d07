package scenario

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/sim"
)

// hostsOf returns what a run did at the hosts whose names begin so.
func hostsOf(run *sim.RunReport, prefix string) (all []sim.HostReport) {
	for _, h := range run.Hosts {
		if strings.HasPrefix(h.Name, prefix) {
			all = append(all, h)
		}
	}
	return all
}

// between joins what happened from one time to another.
func between(run *sim.RunReport, from, until time.Duration) sim.Point {
	series := &run.Pictures.Series
	var all sim.Point
	for i := range series.Points {
		if at := time.Duration(i) * series.Step; at >= from && at < until {
			p := series.Points[i]
			if all.Hosts == nil && all.Classes == nil {
				all.Hosts, all.Classes = make([]int, len(p.Hosts)), make([]int, len(p.Classes))
			}
			all.Join(&p)
		}
	}
	return all
}

// meanOfClass returns the mean over time of the connections that carried something of
// a class, the most of them in each piece of time.
func meanOfClass(run *sim.RunReport, class int, from, until time.Duration) float64 {
	series := &run.Pictures.Series
	sum, n := 0, 0
	for i := range series.Points {
		if at := time.Duration(i) * series.Step; at >= from && at < until {
			sum += series.Points[i].Classes[class]
			n++
		}
	}
	return float64(sum) / float64(n)
}

// A dead host costs nothing but what its own share of the capacity is: what is
// sent to the others takes no longer, and they carry all that they can. This is
// what agents cannot do: they find out about the dead host with every delivery.
func TestOneOfFourHostsDead(t *testing.T) {
	figures(t)
	t.Parallel()
	runs := byName(simulateOnce(t, "one-of-four-hosts-dead", 1))
	relay := runs["relay"]
	if dying, well := relay.DelayMS["dying"].P99, relay.DelayMS["well"].P99; dying > 1.2*well {
		t.Errorf("p99 is %v ms with a dead host, %v ms without", dying, well)
	}
	if full, three := relay.DelayMS["full"].Max, relay.DelayMS["three"].Max; full > 1.05*three {
		t.Errorf("three hosts of four took %v ms for what three took %v ms for", full, three)
	}
	// Ten connections to each of three hosts, 240 ms for each message: 125 messages a
	// second.
	if full := relay.DelayMS["full"].Max / 1000; full > 9000/125.0*1.05 {
		t.Errorf("9000 recipients took %v s; three hosts can do it in 72 s", full)
	}
	if relay.DeferredPct > 0.01 {
		t.Errorf("%v %% of the mail was deferred because of one dead host of four", relay.DeferredPct)
	}
	if dead := hostsOf(&relay, "bad.full")[0]; dead.Deliveries != 0 || dead.Failures > 20 {
		t.Errorf("a host that was dead for the whole time was tried %d times", dead.Failures)
	}
}

// When a wave of mail is over, one connection is left of twenty, and it goes from
// host to host.
func TestLoadDown(t *testing.T) {
	t.Parallel()
	run := simulateOnce(t, "load-down", 1).Runs[0]
	if peak := run.ConnectionsPeak; peak != 20 {
		t.Errorf("%d connections in the wave, want the limit, 20", peak)
	}
	// The wave takes a minute and 4 s, and idle connections are kept for 15 s.
	if soon := between(&run, 85*time.Second, 2*time.Minute); soon.Connections != 1 {
		t.Errorf("%d connections 20 s after the wave", soon.Connections)
	}
	if after := between(&run, 2*time.Minute, 30*time.Minute); after.Connections > 2 || after.Connections < 1 {
		t.Errorf("%d connections at once long after the wave", after.Connections)
	}
	for _, h := range hostsOf(&run, "mx") {
		if h.Deliveries < run.Deliveries/4 {
			t.Errorf("host %s had %d of %d deliveries", h.Name, h.Deliveries, run.Deliveries)
		}
	}
}

// Four equal hosts get the same over a day, although one connection at a time is
// all that is needed.
func TestSpread(t *testing.T) {
	figures(t)
	t.Parallel()
	run := simulateOnce(t, "spread", 1).Runs[0]
	for _, h := range run.Hosts {
		if share := float64(h.Deliveries) / float64(run.Deliveries); math.Abs(share-0.25) > 0.025 {
			t.Errorf("host %s has %.1f %% of the mail", h.Name, 100*share)
		}
	}
	all := 0.0
	for _, h := range run.Hosts {
		all += h.ConnectionsMean
	}
	if all > 2.2 { // one that carries mail, and those that are idle for the last 15 s
		t.Errorf("%.2f connections on average: %+v", all, run.Hosts)
	}
}

// Mail goes to the best hosts that can be reached, from tier to tier and back, and
// hardly any is deferred on the way.
func TestFallbackTier(t *testing.T) {
	t.Parallel()
	run := simulateOnce(t, "fallback-tier", 1).Runs[0]
	const best1, best2, second, relay = 0, 1, 2, 3
	for _, phase := range []struct {
		from, until time.Duration
		used        []int
	}{
		{time.Minute, 9 * time.Minute, []int{best1, best2}},
		{12 * time.Minute, 19 * time.Minute, []int{second}},
		{22 * time.Minute, 39 * time.Minute, []int{relay}},
		{50 * time.Minute, 59 * time.Minute, []int{best1, best2}},
	} {
		p := between(&run, phase.from, phase.until)
		for _, h := range []int{best1, best2, second, relay} {
			used, want := p.Hosts[h] > 1, false // one connection may be a probe
			for _, u := range phase.used {
				want = want || u == h
			}
			if used && !want || want && p.Hosts[h] == 0 {
				t.Errorf("from %v to %v there were %d connections to %s", phase.from, phase.until, p.Hosts[h], run.Hosts[h].Name)
			}
		}
	}
	if run.DeferredPct > 0.1 {
		t.Errorf("%v %% of the mail was deferred, although there was a host for all of it", run.DeferredPct)
	}
}

// A slow host has no more connections than others, so that it does not slow down
// the mail that they could carry. With agents, which go to any host as if they were
// equal, it holds most of them.
func TestSlowHost(t *testing.T) {
	figures(t)
	t.Parallel()
	for _, run := range simulateOnce(t, "slow-host", 1).Runs {
		quick, slow := hostsOf(&run, "quick"), hostsOf(&run, "slow")[0]
		if strings.HasPrefix(run.Name, "agents") {
			if slow.ConnectionsMean < 10 {
				t.Errorf("agents: the slow host has %.2f of 20 connections; there is nothing to see in this scenario", slow.ConnectionsMean)
			}
			continue
		}
		for _, h := range quick {
			if slow.ConnectionsMean > 1.2*h.ConnectionsMean {
				t.Errorf("%s: the slow host has %.2f connections on average, %s has %.2f", run.Name, slow.ConnectionsMean, h.Name, h.ConnectionsMean)
			}
		}
		if share := float64(slow.Deliveries) / float64(run.Deliveries); share > 0.1 {
			t.Errorf("%s: the slow host has %.1f %% of the mail", run.Name, 100*share)
		}
		if all := run.DelayMS["all"]; all.P50 > 250 || all.P99 > 2000 {
			t.Errorf("%s: delays %+v", run.Name, all)
		}
	}
}

// When our own network is back, mail goes out within a minute or two, however long
// it was away; and while a single site is away the others do not notice.
func TestOutage(t *testing.T) {
	figures(t)
	t.Parallel()
	run := simulateOnce(t, "outage", 1).Runs[0]
	for _, c := range []struct {
		what    string
		at      time.Duration
		waiting int // recipients, of 5.5 a second
	}{
		{"before the first outage", 19 * time.Minute, 50},
		{"two minutes after it", 26 * time.Minute, 100},
		{"while a site is away", 80 * time.Minute, 700}, // its own mail, of 20 minutes
		{"a minute after an hour without network", 181 * time.Minute, 50},
	} {
		if p := between(&run, c.at, c.at+time.Minute); p.Waiting > c.waiting {
			t.Errorf("%s %d recipients wait", c.what, p.Waiting)
		}
	}
	// 19,800 came in that hour.
	if back := between(&run, 179*time.Minute, 181*time.Minute); back.Delivered < 19000 {
		t.Errorf("%d recipients were delivered in the first minute after an hour without network", back.Delivered)
	}
	if sick := between(&run, 65*time.Minute, 85*time.Minute); sick.Delivered < 20*5*60*95/100 {
		t.Errorf("%d recipients were delivered in 20 minutes in which one site was away", sick.Delivered)
	}
}

// Of a hundred connections one large message has 91 (10 of 11 parts), and of two each
// has 47 or 48 (10 of 21); small mail finds one at once.
func TestBigEnvelope(t *testing.T) {
	figures(t)
	t.Parallel()
	run := simulateOnce(t, "big-envelope", 1).Runs[0]
	if alone := between(&run, 0, 2*time.Minute).Classes[0]; alone != 91 {
		t.Errorf("the first large message had %d connections while it was alone", alone)
	}
	if m := meanOfClass(&run, 0, 10*time.Second, 2*time.Minute); math.Abs(m-90) > 1 {
		t.Errorf("the first large message carried something over %.1f connections on average while it was alone", m)
	}
	for class, name := range []string{"first", "second"} {
		// Ten of 21 parts are 47.6.
		if m := meanOfClass(&run, class, 150*time.Second, 7*time.Minute); math.Abs(m-47.6) > 1 {
			t.Errorf("of two large messages the %s carried something over %.1f connections on average", name, m)
		}
	}
	if small := run.DelayMS["small"]; small.P99 > 1000 {
		t.Errorf("small mail took %v ms at p99", small.P99)
	}
}

// A receiver that greets surplus connections with 421 costs no message anything,
// whatever the style of feedback, and gets all that it takes.
func TestLimit421Relay(t *testing.T) {
	figures(t)
	t.Parallel()
	for _, run := range simulateOnce(t, "limit421-relay", 1).Runs {
		if strings.HasPrefix(run.Name, "agents") {
			continue
		}
		if run.DeferredPct >= 1 {
			t.Errorf("%s: %.2f %% deferred", run.Name, run.DeferredPct)
		}
		if five := hostsOf(&run, "five")[0]; float64(five.Deliveries) < 0.99*5*1200 {
			t.Errorf("%s: the receiver of five had %d deliveries in 20 minutes, and could have 6000", run.Name, five.Deliveries)
		}
		// Ten connections of a second each for five minutes, twenty, ten, and five.
		if moody := hostsOf(&run, "moody")[0]; moody.Deliveries > 13500+20 {
			t.Errorf("%s: the receiver whose limit changes had %d deliveries in 20 minutes, and takes 13,500", run.Name, moody.Deliveries)
		}
		for _, phase := range []struct {
			from, until time.Duration
			limit       float64
		}{{1, 5, 10}, {6, 10, 20}, {11, 15, 10}, {16, 18, 5}} {
			p := between(&run, phase.from*time.Minute, phase.until*time.Minute)
			// Both receivers take a second for each message.
			got := float64(p.Delivered) / ((phase.until - phase.from) * time.Minute).Seconds()
			if want := phase.limit + 5; got < 0.97*want {
				t.Errorf("%s: from %d to %d minutes %.2f recipients a second, of %.0f", run.Name, phase.from, phase.until, got, want)
			}
		}
	}
}

// A transaction that is cut says nothing about how many connections a receiver takes,
// nor about the level at which it is spoken to: it gets nearly what twenty connections
// can carry, whatever the style of feedback.
func TestCutTransactions(t *testing.T) {
	figures(t)
	t.Parallel()
	for _, run := range simulateOnce(t, "cut-transactions", 1).Runs {
		for _, c := range []struct {
			host       string
			cut        float64
			each, dial float64 // seconds that a message takes on its connection, and what a new one costs
		}{{"two-percent", 0.02, 1.01, 0.03}, {"five-percent", 0.05, 1.01, 0.03}, {"far", 0.05, 0.2, 0.4}} {
			h := hostsOf(&run, c.host)[0]
			got := float64(h.Deliveries-h.Failures) / (5 * 60)
			// One that is cut takes half the time. Then comes another connection, on
			// which the first envelope is not sent with the content before it.
			can := 20 * (1 - c.cut) / ((1-c.cut)*c.each + c.cut*(c.each/2+c.dial))
			if got < 0.95*can {
				t.Errorf("%s: %s had %.2f messages a second, and could have %.2f", run.Name, c.host, got, can)
			}
		}
		if little := run.DelayMS["little"]; little.P90 > 2500 {
			t.Errorf("%s: little mail for a receiver that cuts one transaction of twenty waited %v ms at p90", run.Name, little.P90)
		}
	}
}

// A message at which a receiver chokes costs itself only, and a server that says it is
// busy is asked again while nothing else is there.
func TestPoison(t *testing.T) {
	t.Parallel()
	run := simulateOnce(t, "poison", 3).Runs[0]
	if d := run.DelayMS["letters"]; d.Max > 2000 {
		t.Errorf("letters waited up to %v ms beside a message at which the server chokes", d.Max)
	}
	// Four in a row are refused once in 256 times, and then mail waits for a minute.
	if run.DeferredPct > 1.5 {
		t.Errorf("%.2f %% of the mail were deferred", run.DeferredPct)
	}
	if d := run.DelayMS["balanced"]; d.P90 > 3000 {
		t.Errorf("mail for four servers of which one is busy waited %v ms at p90", d.P90)
	}
}

// A receiver that takes one message on each connection gets as many connections as any
// other: each is replaced when it ends, and a round trip does not make them fewer.
func TestOneEach(t *testing.T) {
	figures(t)
	t.Parallel()
	for _, run := range simulateOnce(t, "one-each", 1).Runs {
		for _, c := range []struct {
			host    string
			refused float64
		}{{"closing", 0}, {"announced", 0}, {"balanced", 0.1}} {
			h := hostsOf(&run, c.host)[0]
			got := float64(h.Deliveries) / (3 * 60)
			// Half a second for each, and two round trips for each failed attempt.
			can := 20 / (0.5 + 0.2*c.refused/(1-c.refused))
			if strings.HasPrefix(run.Name, "agents") && c.refused > 0 {
				continue
			}
			if got < 0.95*can {
				t.Errorf("%s: %s had %.2f messages a second, and could have %.2f", run.Name, c.host, got, can)
			}
		}
		if run.DeferredPct > 0.1 && !strings.HasPrefix(run.Name, "agents") {
			t.Errorf("%s: %.2f %% of the mail were deferred", run.Name, run.DeferredPct)
		}
	}
}

// Where one of four servers behind an address is down, a receiver gets as much as the
// other three can take, whatever the style of feedback.
func TestNoisyRelay(t *testing.T) {
	figures(t)
	t.Parallel()
	for _, run := range simulateOnce(t, "noisy-relay", 1).Runs {
		if strings.HasPrefix(run.Name, "agents") {
			continue
		}
		// From the second minute on twenty connections carry one message a second each, to
		// each of three sites. One of four transactions on the first message of a connection
		// is lost at one of them, and connections last for five minutes.
		p := between(&run, time.Minute, 5*time.Minute)
		if got := float64(p.Delivered) / (4 * 60); got < 0.95*60 {
			t.Errorf("%s: %.2f messages a second, of 60", run.Name, got)
		}
	}
}
