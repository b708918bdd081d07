package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A goodWorld is a receiver with faults that cost little, and as much as it and the
// client's connections can carry beside them.
type goodWorld struct {
	name        string
	scenario    *Scenario
	most        float64 // messages a second
	deferredPct float64 // at most
}

const (
	goodLength = 4 * time.Minute
	goodFrom   = 90 * time.Second // the window has grown by then
)

// randomGoodWorld draws one. Transactions are cut, connections are refused by some of the
// servers behind the address or end after a few messages, announced or not, and some
// messages are such that the receiver chokes on them.
func randomGoodWorld(r *rand.Rand) goodWorld {
	connections := 5 + r.IntN(20)
	cut := []float64{0, 2, 5}[r.IntN(3)]
	bad := [][2]int{{0, 1}, {1, 10}, {1, 4}}[r.IntN(3)]
	mails := []int{0, 1, 1, 4}[r.IntN(4)]
	rtt := time.Duration(1+r.IntN(100)) * time.Millisecond
	service := 100*time.Millisecond + time.Duration(r.IntN(900))*time.Millisecond
	b := Behaviour{Transaction: Uniform(service*8/10, service*12/10), RTT: Uniform(rtt, rtt), DropPercent: cut, MailsPerConnection: mails,
		AnnounceMails: r.IntN(2) == 0, Servers: bad[1], BadServers: bad[0], Random: true, Bad: []Fault{FaultBusy, FaultRefuse, FaultClose}[r.IntN(3)]}

	// In lockstep a message takes four round trips, and a connection three; one that is
	// refused takes two.
	each := service.Seconds() + 4*rtt.Seconds()
	lost, refused := cut/100, float64(bad[0])/float64(bad[1])
	ends := lost
	if mails > 0 {
		ends = max(ends, 1/float64(mails))
	}
	cost := (1-lost)*each + lost*each/2 + ends*(3+2*refused/(1-refused))*rtt.Seconds()
	f := goodWorld{most: float64(connections) * (1 - lost) / cost, deferredPct: cut + 2}

	rate, few := 1.3*f.most, r.IntN(3) == 0
	if few {
		rate, f.most = 0.05, 0
	}
	style := []string{"1", "1/concurrency", "level"}[r.IntN(3)]
	feedback, err := window.ParseFeedback(style)
	if err != nil {
		panic(err)
	}
	f.name = fmt.Sprintf("%d connections, %v + %v, %v%% cut, %d of %d bad (%d), %d mails each (%t), %.2f/s, %s", connections, service, rtt, cut, bad[0], bad[1], b.Bad,
		mails, b.AnnounceMails, rate, style)
	core := qmgr.Config{DoubleBounce: qmgr.DoubleBounceDiscard, DefaultTransport: qmgr.TransportConfig{Agents: qmgr.AgentsConnections,
		Window: window.Config{Limit: connections, Positive: feedback, Negative: feedback}}}
	core.DefaultTransport.Connections.HostLimit = connections
	site := Site{Name: "site", Behaviour: b}
	if bad[0] > 0 && b.Bad != FaultBusy {
		// A host that has never taken mail and refuses without a word is left alone for a
		// minute: so it begins well.
		site.Behaviour.BadServers = 0
		site.Changes = []Change{{At: goodFrom / 2, Behaviour: b}}
	}
	f.scenario = &Scenario{Name: "good", Seed: r.Uint64(), Duration: goodLength, Sites: []Site{site},
		Arrivals: []Arrivals{
			{Class: "mail", To: []string{"site"}, Pattern: PatternRegular, Rate: rate},
			{Class: "poison", To: []string{"site"}, Pattern: PatternRegular, Rate: 0.005, Poison: true},
		},
		Runs: []Run{{Name: "run", Core: core}}}
	if few {
		f.scenario.Duration = 3 * time.Hour
		// One of eleven messages is poison. Where one of four servers is bad a host is given
		// up after four refusals in a row, which one dial in 256 begins.
		f.deferredPct += 18
	}
	return f
}

// Whatever goes wrong with single transactions, messages and connections costs these,
// and neither the number of connections nor the mail that has nothing to do with it.
// POSTHASTE_RUNS says how many worlds are tried, and draws others than a plain run has.
func TestGoodputInRandomWorlds(t *testing.T) {
	t.Parallel()
	runs, seed := randomWorlds("POSTHASTE_RUNS", 4)
	for n := range runs {
		f := randomGoodWorld(rand.New(rand.NewPCG(seed, uint64(n))))
		r, err := Simulate(f.scenario, Options{})
		if err != nil {
			t.Fatalf("seed %d, world %d: %v", seed, n, err)
		}
		run := &r.Runs[0]
		for name, text := range run.Checks {
			if text != ok {
				t.Errorf("seed %d, world %d (%s): %s: %s", seed, n, f.name, name, text)
			}
		}
		series := &run.Pictures.Series
		delivered := 0
		for i := range series.Points {
			if at := time.Duration(i) * series.Step; at >= goodFrom && at < goodLength {
				delivered += series.Points[i].Delivered
			}
		}
		if got := float64(delivered) / (goodLength - goodFrom).Seconds(); got < 0.9*f.most {
			t.Errorf("seed %d, world %d (%s): %.2f messages a second, of %.2f", seed, n, f.name, got, f.most)
		}
		if run.DeferredPct > f.deferredPct {
			t.Errorf("seed %d, world %d (%s): %.1f %% deferred, at most %.1f %% need be", seed, n, f.name, run.DeferredPct, f.deferredPct)
		}
	}
}
