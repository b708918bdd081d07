package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// busy is a world without troubles, at a thousand recipients a second.
func busy(recipients, messages int) *Scenario {
	return &Scenario{Name: "busy", Seed: 1,
		Sites: []Site{{Name: "site", Copies: 200, Behaviour: Behaviour{
			Connect: Uniform(20*time.Millisecond, 60*time.Millisecond), Transaction: Exponential(300 * time.Millisecond),
			Recipient: Fixed(5 * time.Millisecond)}}},
		Arrivals: []Arrivals{{Class: "mail", Min: recipients, Max: recipients, To: []string{"site"}, Random: true,
			Pattern: PatternPoisson, Rate: 1000 / float64(recipients), Messages: messages}},
		Runs: []Run{{Name: "defaults", Core: qmgr.Config{DefaultTransport: qmgr.TransportConfig{ProcessLimit: 2000}}}},
	}
}

// One operation is one delivery, with all that belongs to it: arrival, routing,
// selection, connection, outcome, change. The aim is 300,000 a second on one
// core (run with -cpu 1).
func BenchmarkDelivery(b *testing.B) {
	for _, recipients := range []int{1, 50} {
		b.Run(fmt.Sprintf("recipients=%d", recipients), func(b *testing.B) {
			b.ReportAllocs()
			r, err := Simulate(busy(recipients, b.N/recipients+1), Options{})
			if err != nil {
				b.Fatal(err)
			}
			if r.Runs[0].Deliveries < uint64(b.N) || r.Verdict() != VerdictOK {
				b.Fatal(r.Runs[0])
			}
			b.ReportMetric(float64(r.Runs[0].Deliveries)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}

// The same where the core decides on connections: one operation is one
// transaction, over a connection that carries many.
func BenchmarkDeliveryOverConnections(b *testing.B) {
	s := busy(1, b.N+1)
	s.Sites[0].Behaviour.RTT, s.Sites[0].Behaviour.Pipelining = Fixed(20*time.Millisecond), mail.LevelOverlap
	t := &s.Runs[0].Core.DefaultTransport
	t.Agents, t.Connections.Level = qmgr.AgentsConnections, mail.LevelOverlap
	b.ReportAllocs()
	r, err := Simulate(s, Options{})
	if err != nil {
		b.Fatal(err)
	}
	if r.Runs[0].Deliveries < uint64(b.N) || r.Verdict() != VerdictOK {
		b.Fatal(r.Runs[0])
	}
	b.ReportMetric(float64(r.Runs[0].Deliveries)/b.Elapsed().Seconds(), "deliveries/s")
}
