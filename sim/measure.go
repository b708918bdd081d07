package sim

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A measure is everything that is counted in one run.
type measure struct {
	tallies []tally // of the classes of arrival

	messages    int
	attempts    uint64 // that ended
	failures    uint64 // of them, site failures
	connections int    // open now, or being opened
	peak        int
	lookups     int // under way
	lastSuccess mail.Instant

	// Windows, sampled when an attempt ends, as it was during the attempt: so
	// the README's figures were got, from a line of the log for each delivery.
	windows          uint64
	windowSum        uint64
	windowSquares    uint64
	series           Series
	slots            []Slot
	slotsNotRecorded bool
}

// A tally is what became of the recipients of one class.
type tally struct {
	class         string
	accepted      uint64 // recipients
	tried         uint64 // whose first attempt has ended
	deferredFirst uint64 // of these, deferred
	delivered     uint64
	failed        uint64
	delays        Histogram // from arrival to delivery
	lookups       int       // under way
	lookupsPeak   int
}

// A Slot is one delivery, in the order in which they were started.
type Slot struct {
	At    time.Duration // after the start
	Job   int           // the message, numbered from 1 in the order of arrival
	Class int           // of arrival, in the order of the scenario
}

// slotsMax is how many deliveries are recorded one by one.
const slotsMax = 4096

func newMeasure(classes []string) measure {
	m := measure{tallies: make([]tally, len(classes))}
	for i, name := range classes {
		m.tallies[i].class = name
	}
	return m
}

// arrived counts a message and returns its number.
func (m *measure) arrived(msg *message) int {
	m.messages++
	m.tallies[msg.source.class].accepted += uint64(len(msg.states))
	return m.messages
}

func (m *measure) connected(more int) {
	m.connections += more
	m.peak = max(m.peak, m.connections)
}

// looking counts look-ups on account of a class; -1 is none.
func (m *measure) looking(w *world, class, more int) {
	m.lookups += more
	p := m.series.at(w.now.Sub(w.start), m.connections)
	p.Lookups = max(p.Lookups, m.lookups)
	if class >= 0 {
		t := &m.tallies[class]
		t.lookups += more
		t.lookupsPeak = max(t.lookupsPeak, t.lookups)
	}
}

// started records a delivery that begins.
func (m *measure) started(w *world, a *attempt) {
	switch {
	case a.message == nil:
	case len(m.slots) == slotsMax:
		m.slotsNotRecorded = true
	default:
		m.slots = append(m.slots, Slot{At: w.now.Sub(w.start), Job: a.message.number, Class: a.message.source.class})
	}
}

// finished counts an attempt that has ended. The core does not know yet.
func (m *measure) finished(w *world, a *attempt, siteFailure bool) {
	m.attempts++
	p := m.series.at(w.now.Sub(w.start), m.connections)
	p.Attempts++
	p.Connections = max(p.Connections, m.connections)
	if siteFailure {
		m.failures++
		p.Failures++
	}
	if q, ok := w.core.Peek(a.to.transport, a.to.name); ok && q.State == window.Ready {
		m.windows++
		m.windowSum += uint64(q.Window)
		m.windowSquares += uint64(q.Window) * uint64(q.Window)
		p.window(q.Window)
	}
}

// outcome counts what an attempt meant for one recipient.
func (m *measure) outcome(w *world, msg *message, r mail.Result, first bool) {
	t := &m.tallies[msg.source.class]
	if first {
		t.tried++
	}
	switch r {
	case mail.Delivered:
		t.delivered++
		t.delays.Add(w.now.Sub(msg.arrived))
		m.lastSuccess = w.now
		m.series.at(w.now.Sub(w.start), m.connections).Delivered++
	case mail.Failed:
		t.failed++
	case mail.Deferred:
		if first {
			t.deferredFirst++
		}
		m.series.at(w.now.Sub(w.start), m.connections).Deferred++
	}
}
