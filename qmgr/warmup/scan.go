package warmup

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Scan decides when mail is looked at again that waits for the next day of a warm-up, because an allowance was
// raised before. There is one scan at a time, with a pause behind it that grows with its length. The owner makes it: it
// asks WakeAt, calls Begin, and calls End when the scan has ended or is of no use any more. The zero Scan is not wanted.
//
// Invariant: due is 0 unless a scan is under way; began, of and read belong to that one.
type Scan struct {
	wanted bool
	raised []Key        // whose allowances were raised; nil: any
	next   mail.Instant // when the next one may begin

	due   mail.Instant // of the scan under way: what it is for; 0: there is none
	began mail.Instant
	of    []Key // likewise: raised
	read  bool  // likewise: it has read a message
}

const (
	// scanPause is the shortest time between two such scans of which the first has found
	// anything, and scanRest how many times as long as it has taken the next one has to
	// wait: they take at most a fifth of the time, however often allowances are raised.
	scanPause = 10 * time.Second
	scanRest  = 4
	// raisedMost is the maximum number of sites that are kept apart.
	raisedMost = 16
)

// Want has the mail tried that waits for a raised allowance; for any if k is zero.
func (w *Scan) Want(k Key) {
	switch {
	case w.wanted && w.raised == nil, slices.Contains(w.raised, k):
	case k.Site == "", len(w.raised) == raisedMost:
		w.raised = nil
	default:
		w.raised = append(w.raised, k)
	}
	w.wanted = true
}

// WakeAt returns when the next scan may begin; Never if none is wanted, or one is under way.
func (w *Scan) WakeAt() mail.Instant {
	if !w.wanted || w.due != 0 {
		return mail.Never
	}
	return w.next
}

// Begin begins a scan for the mail that waits for the end of the present day, and returns that instant.
func (w *Scan) Begin(now mail.Instant) (due mail.Instant) {
	assert.That(w.WakeAt() <= now, "a scan for warm-ups begins before its time")
	w.due, w.began, w.of = DayOf(now).End(), now, w.raised
	w.wanted, w.raised = false, nil
	return w.due
}

// UnderWay returns what the scan is for that is under way: mail due at an instant that waits for one of some allowances,
// or for any if there are none. The instant is 0 if none is under way.
func (w *Scan) UnderWay() (due mail.Instant, of []Key) { return w.due, w.of }

// Read notes that the scan has read a message.
func (w *Scan) Read() { w.read = true }

// End ends the scan under way.
func (w *Scan) End(now mail.Instant) {
	if w.read {
		w.next = now.Add(max(scanPause, scanRest*now.Sub(w.began)))
	}
	w.due, w.of, w.read = 0, nil, false
}
