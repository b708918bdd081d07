package qmgr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// town returns a core that holds a message for each of so many destinations, none of
// which gets on, since there is one slot for all.
func town(b *testing.B, destinations int) *qmgr.Qmgr {
	cfg := qmgr.Config{ActiveLimit: destinations, RecipientLimit: destinations + 1000, DefaultTransport: qmgr.TransportConfig{ProcessLimit: 1}}
	q, now := started(b, cfg)
	rcpts := []mail.Recipient{{Address: "u@d.test"}}
	for n := range destinations {
		id := mail.QueueID(n + 1)
		q.Step(now, qmgr.Arrived{Arrival: mail.Arrival{Envelope: mail.Envelope{ID: id, Sender: "s@x.test", Arrived: now},
			Place: mail.Place{Area: mail.AreaIncoming}, Batch: mail.RecipientBatch{Recipients: rcpts, Next: 1}}})
		q.Step(now, qmgr.Routed{ID: id, Routes: []mail.Route{{Transport: "smtp", Nexthop: fmt.Sprintf("d%d.test", n)}}})
	}
	return q
}

// The core stands still while it is looked at, so a page of destinations and the
// status must cost little however many there are. One operation is one look at all of
// them.
func BenchmarkLook(b *testing.B) {
	const destinations = 100_000
	q := town(b, destinations)
	for _, c := range []struct {
		name string
		look func() int
	}{
		{"page=100", func() int { return q.Destinations(qmgr.DestinationQuery{Most: 100}).Matched }},
		{"page=1000", func() int { return q.Destinations(qmgr.DestinationQuery{Most: 1000}).Matched }},
		{"name", func() int {
			return q.Destinations(qmgr.DestinationQuery{Most: 100, Match: func(_, nexthop string) bool { return strings.Contains(nexthop, "test") }}).Matched
		}},
		{"status", func() int { return len(q.View(10).Transports) * destinations }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if n := c.look(); n < destinations {
					b.Fatalf("%d destinations", n)
				}
			}
		})
	}
}
