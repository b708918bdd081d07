package driver

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Which of the histograms an attempt counts in: a connection that was there already has no delay of its own, a second
// attempt is not the first, what was not tried goes on elsewhere, and the whole delay is the sum of all parts.
func TestAttemptCounts(t *testing.T) {
	type counts struct {
		before, connect, send, delivery uint64
		first                           int
		whole                           float64
	}
	for name, c := range map[string]struct {
		result   mail.Result
		attempts uint32
		connect  time.Duration
		want     counts
	}{
		"delivered at once":       {mail.Delivered, 0, 2 * time.Second, counts{1, 1, 1, 1, 1, 7}},
		"delivered at the second": {mail.Delivered, 1, 2 * time.Second, counts{1, 1, 1, 1, 0, 7}},
		"connection reused":       {mail.Delivered, 0, 0, counts{1, 0, 1, 1, 1, 5}},
		"refused":                 {mail.Failed, 0, 2 * time.Second, counts{1, 1, 1, 0, 1, 0}},
		"deferred":                {mail.Deferred, 0, 2 * time.Second, counts{1, 1, 1, 0, 1, 0}},
		"untried":                 {mail.Untried, 0, 2 * time.Second, counts{}},
	} {
		var all counters
		a := &mail.Delivery{Envelope: mail.Envelope{Attempts: c.attempts}}
		all.attempt(a, &mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: c.result}}}, &[3]time.Duration{time.Second, c.connect, 4 * time.Second})
		got := counts{all.before.Snapshot().Count, all.connect.Snapshot().Count, all.send.Snapshot().Count, all.delivery.Snapshot().Count, 0, all.delivery.Snapshot().Sum}
		if list := all.first.Load(); list != nil {
			got.first = len(*list)
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
