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
	unknown     uint64 // recipients of whom nobody knows whether a receiver has the message
	duplicates  uint64 // of these, those who got it twice
	hosts       []hostTally

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

func newMeasure(classes []string, hosts []*receiver) measure {
	m := measure{tallies: make([]tally, len(classes)), hosts: make([]hostTally, len(hosts))}
	if len(hosts) > 1 && len(hosts) <= hostsDrawn {
		m.series.hosts = len(hosts)
	}
	for i, r := range hosts {
		m.hosts[i].name = r.name
	}
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

func (m *measure) connected(w *world, r *receiver, more int) {
	m.connections += more
	m.peak = max(m.peak, m.connections)
	m.hosts[r.index].connected(w, more)
	if m.series.hosts > 0 {
		p := m.point(w)
		p.Connections = max(p.Connections, m.connections)
		p.Hosts[r.index] = max(p.Hosts[r.index], m.hosts[r.index].open)
	}
}

// point returns the point of the series that is now.
func (m *measure) point(w *world) *Point {
	p := m.series.at(w.now.Sub(w.start), m.connections)
	if m.series.hosts == 0 {
		return p
	}
	for i := len(m.series.Points) - 1; i >= 0 && m.series.Points[i].Hosts == nil; i-- {
		made := &m.series.Points[i]
		made.Waiting = w.spool.unsettled
		for h := range m.series.hosts {
			made.Hosts = append(made.Hosts, m.hosts[h].open)
		}
	}
	return p
}

// disconnected counts a connection that the core has asked for and that could not
// be made, or broke.
func (m *measure) disconnected(w *world, r *receiver) {
	m.hosts[r.index].failures++
	m.failures++
	m.attempts++
	p := m.point(w)
	p.Attempts++
	p.Failures++
}

// looking counts look-ups on account of a class; -1 is none.
func (m *measure) looking(w *world, class, more int) {
	m.lookups += more
	p := m.point(w)
	p.Lookups = max(p.Lookups, m.lookups)
	if class >= 0 {
		t := &m.tallies[class]
		t.lookups += more
		t.lookupsPeak = max(t.lookupsPeak, t.lookups)
	}
}

// started records a delivery that begins.
func (m *measure) started(w *world, e *errand) {
	switch {
	case e.message == nil:
	case len(m.slots) == slotsMax:
		m.slotsNotRecorded = true
	default:
		m.slots = append(m.slots, Slot{At: w.now.Sub(w.start), Job: e.message.number, Class: e.message.source.class})
	}
}

// finished counts an attempt that has ended. The core does not know yet.
func (m *measure) finished(w *world, to *destination, at *receiver, siteFailure bool) {
	m.attempts++
	p := m.point(w)
	p.Attempts++
	p.Connections = max(p.Connections, m.connections)
	if at != nil {
		m.hosts[at.index].deliveries++
	}
	if siteFailure {
		m.failures++
		p.Failures++
		if at != nil {
			m.hosts[at.index].failures++
		}
	}
	if q, ok := w.core.Peek(to.transport, to.name); ok && q.State == window.Ready {
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
		m.point(w).Delivered++
	case mail.Failed:
		t.failed++
	case mail.Deferred:
		if first {
			t.deferredFirst++
		}
		m.point(w).Deferred++
	}
}

// hostsDrawn is up to how many hosts are followed over time.
const hostsDrawn = 12

// A hostTally is what happened at one host.
type hostTally struct {
	name       string
	open       int // connections now, or being opened
	peak       int
	since      mail.Instant // when open changed last
	area       float64      // connections, times the seconds for which they were there
	deliveries uint64       // that ended at this host
	failures   uint64       // connections that could not be made, or broke
}

func (t *hostTally) connected(w *world, more int) {
	if t.since != 0 {
		t.area += float64(float64(t.open) * w.now.Sub(t.since).Seconds())
	}
	t.since = w.now
	t.open += more
	t.peak = max(t.peak, t.open)
}
