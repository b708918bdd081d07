package qmgr_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// toManyDomains has mail delivered to so many domains, each of one recipient: in one
// message, or in as many messages as there are domains. It returns how many
// deliveries there were.
func toManyDomains(tb testing.TB, domains int, oneMessage bool) int {
	tb.Helper()
	cfg := qmgr.Config{Transports: map[string]qmgr.TransportConfig{"smtp": {Agents: qmgr.AgentsConnections, ProcessLimit: 100}}}
	q, now := started(tb, cfg)
	recipients := make([]mail.Recipient, domains)
	for i := range recipients {
		recipients[i] = mail.Recipient{Index: uint32(i), Address: mail.Address(fmt.Sprintf("u@d%d.test", i))}
	}
	var pending []qmgr.Action
	step := func(ev qmgr.Event) {
		now += 1000
		for _, a := range q.Step(now, ev) {
			switch a.(type) {
			case qmgr.Open, qmgr.Read, qmgr.Route, qmgr.Resolve, qmgr.Dial, qmgr.Send, qmgr.Hangup, qmgr.Change, qmgr.Fetch:
				pending = append(pending, a)
			}
		}
	}
	batch := func(from uint32, most int) mail.RecipientBatch {
		to := min(int(from)+most, domains)
		return mail.RecipientBatch{Recipients: recipients[from:to], Next: uint32(to), More: to < domains}
	}
	sent, hosts := 0, 0
	answer := func(a qmgr.Action) {
		switch a := a.(type) {
		case qmgr.Fetch:
			step(qmgr.Found{Scan: a.Scan, Found: mail.Found{NextDue: mail.Never}})
		case qmgr.Read:
			step(qmgr.Recipients{ID: a.ID, Batch: batch(a.From, a.Max)})
		case qmgr.Route:
			routes := make([]mail.Route, len(a.Recipients))
			for i, r := range a.Recipients {
				routes[i] = mail.Route{Transport: "smtp", Nexthop: r.Address.Domain()}
			}
			step(qmgr.Routed{ID: a.ID, Routes: routes})
		case qmgr.Resolve:
			hosts++
			addr := netip.AddrFrom4([4]byte{10, byte(hosts >> 16), byte(hosts >> 8), byte(hosts)})
			step(qmgr.Hosts{Transport: a.Transport, Nexthop: a.Nexthop, Set: mail.HostSet{Until: mail.Never,
				Tiers: [][]mail.Host{{{Name: "mx." + a.Nexthop, Addr: netip.AddrPortFrom(addr, 25)}}}}})
		case qmgr.Dial:
			step(qmgr.Dialed{Conn: a.Conn, Opened: mail.OpenedConnection{Level: mail.LevelOverlap, RTT: 1000}})
		case qmgr.Send:
			outcomes := make([]mail.Outcome, len(a.Delivery.Recipients))
			for i, r := range a.Delivery.Recipients {
				outcomes[i] = mail.Outcome{Index: r.Index, Result: mail.Delivered, Reply: mail.Reply{Code: 250}}
			}
			sent += len(outcomes)
			step(qmgr.Delivered{Entry: a.Entry, Result: mail.DeliveryResult{Outcomes: outcomes, Send: 1000}})
		case qmgr.Hangup:
			step(qmgr.Closed{Conn: a.Conn})
		case qmgr.Change:
			changed := mail.Changed{ID: a.Change.ID}
			if a.Change.Op == mail.ChangeRecord {
				changed.Place = a.Change.Place
			}
			step(qmgr.Changed{Changed: changed})
		}
	}
	arrive := func(id mail.QueueID, batch mail.RecipientBatch, n int) {
		step(qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Arrived: now, Recipients: uint32(n)},
			Place: mail.Place{Area: mail.AreaIncoming}, Batch: batch}})
	}
	if oneMessage {
		arrive(1, batch(0, 5000), domains)
	} else {
		for i := range recipients {
			r := recipients[i]
			r.Index = 0
			arrive(mail.QueueID(i+1), mail.RecipientBatch{Recipients: []mail.Recipient{r}, Next: 1}, 1)
		}
	}
	for rounds := 0; sent < domains; {
		for len(pending) > 0 {
			a := pending[0]
			pending = pending[1:]
			answer(a)
			rounds = 0
		}
		if rounds++; rounds > 3 {
			tb.Fatalf("%d of %d delivered, and nothing goes on", sent, domains)
		}
		if wake, ok := q.NextWake(); ok && sent < domains {
			now = max(now, wake)
			step(qmgr.Wake{})
		}
	}
	return sent
}

// What a recipient costs must not depend on how many there are, nor on whether they
// are those of one message. One operation is all of it.
func BenchmarkManyDomains(b *testing.B) {
	for _, domains := range []int{1000, 5000, 20000} {
		for _, one := range []bool{true, false} {
			b.Run(fmt.Sprintf("domains=%d/one-message=%t", domains, one), func(b *testing.B) {
				sent := 0
				for b.Loop() {
					sent += toManyDomains(b, domains, one)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sent), "ns/recipient")
			})
		}
	}
}

// Mail to many domains comes through, in one message and in many. What that costs is
// counted by test/steps, which runs this with DOMAINS at several sizes.
func TestManyDomains(t *testing.T) {
	domains := 400
	if text := os.Getenv("DOMAINS"); text != "" {
		fmt.Sscan(text, &domains)
	}
	for _, one := range []bool{true, false} {
		t.Run(fmt.Sprintf("one-message=%t", one), func(t *testing.T) {
			if sent := toManyDomains(t, domains, one); sent != domains {
				t.Errorf("%d deliveries, want %d", sent, domains)
			}
		})
	}
}
