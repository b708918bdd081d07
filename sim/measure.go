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
	refused     uint64 // connections that could not be made
	connections int    // open now, or being opened
	peak        int
	lookups     int // under way
	lastSuccess mail.Instant
	unknown     uint64 // recipients for whom it is unknown whether a receiver has the message
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
	expired       uint64    // given up because they were too old
	delays        Histogram // from arrival to delivery
	lookups       int       // under way
	lookupsPeak   int
	carried       gauge // connections of the core's that carry something of it
}

// A Slot is one delivery, in the order in which they were started.
type Slot struct {
	At    time.Duration // after the start
	Job   int           // the message, numbered from 1 in the order of arrival
	Class int           // of arrival, in the order of the scenario
}

// slotsMax is the number of deliveries that are recorded one by one.
const slotsMax = 4096

// newMeasure makes one. sessions reports whether the core decides on connections
// anywhere, flows whether some mail belongs to a flow.
func newMeasure(classes []string, hosts []*receiver, sessions, flows bool) measure {
	m := measure{tallies: make([]tally, len(classes)), hosts: make([]hostTally, len(hosts))}
	if len(hosts) > 1 && len(hosts) <= hostsDrawn {
		m.series.hosts = len(hosts)
	}
	if sessions && len(classes) > 1 && len(classes) <= hostsDrawn {
		m.series.groups = len(classes)
	}
	if flows && len(classes) > 1 && len(classes) <= hostsDrawn {
		m.series.shares = len(classes)
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
	var p *Point
	if m.series.hosts > 0 {
		p = m.point(w) // as it has been since the last one
	}
	h := &m.hosts[r.index].open
	h.add(w.now, more)
	m.connections += more
	m.peak = max(m.peak, m.connections)
	if p != nil {
		p.Connections = max(p.Connections, m.connections)
		p.Hosts[r.index] = max(p.Hosts[r.index], h.now)
	}
}

// point returns the point of the series that is now.
func (m *measure) point(w *world) *Point {
	p := m.series.at(w.now.Sub(w.start), Point{Connections: m.connections, Waiting: w.spool.unsettled})
	if m.series.hosts+m.series.groups+m.series.shares+m.series.from == 0 {
		return p
	}
	for i := len(m.series.Points) - 1; i >= 0 && m.series.Points[i].isBlank(); i-- {
		made := &m.series.Points[i]
		if m.series.shares > 0 {
			made.Starts = make([]int, m.series.shares)
		}
		if m.series.from > 0 {
			made.Sources = make([]int, m.series.from)
		}
		for h := range m.series.hosts {
			made.Hosts = append(made.Hosts, m.hosts[h].open.now)
		}
		for c := range m.series.groups {
			made.Classes = append(made.Classes, m.tallies[c].carried.now)
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

// looking counts lookups on account of a class; -1 is none.
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

// carrying counts the connections of the core's that carry something of a class,
// when a task begins or ends that is not among the letters of its session.
func (m *measure) carrying(w *world, e *task, more int) {
	if e.session == nil || e.message == nil {
		return
	}
	class := e.message.source.class
	for i := range e.session.letters {
		if l := &e.session.letters[i]; !l.answered && l.message != nil && l.message.source.class == class {
			return
		}
	}
	var p *Point
	if m.series.groups > 0 {
		p = m.point(w)
	}
	t := &m.tallies[class]
	t.carried.add(w.now, more)
	if p != nil {
		p.Classes[class] = max(p.Classes[class], t.carried.now)
	}
}

// end brings all that is counted over time up to the end.
func (m *measure) end(now mail.Instant) {
	for i := range m.hosts {
		m.hosts[i].open.pass(now)
	}
	for i := range m.tallies {
		m.tallies[i].carried.pass(now)
	}
}

// started records a delivery that begins.
func (m *measure) started(w *world, e *task) {
	if m.series.shares > 0 && e.message != nil {
		m.point(w).Starts[e.message.source.class]++
	}
	if m.series.from > 0 && e.session != nil {
		for i := range w.run.Core.Sources.Sources {
			if w.run.Core.Sources.Sources[i].Name == e.session.opening.Source {
				m.point(w).Sources[i]++
			}
		}
	}
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
	if q, ok := w.core.Peek(to.transport, to.name, "", ""); ok && q.State == window.Ready {
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

// expired counts what is given up of a message, because it is too old.
func (m *measure) expired(msg *message) {
	for _, st := range msg.states {
		if st&(stateDelivered|stateFailed) == 0 {
			m.tallies[msg.source.class].expired++
		}
	}
}

// hostsDrawn is up to how many hosts, or classes, are followed over time.
const hostsDrawn = 16

// A hostTally is what happened at one host.
type hostTally struct {
	name       string
	open       gauge  // connections, those being opened included
	deliveries uint64 // that ended at this host
	failures   uint64 // connections that could not be made, or broke
}

// A gauge is a number of things that come and go.
type gauge struct {
	now, peak int
	since     mail.Instant  // when it changed last
	area      float64       // of its curve, in things times seconds
	some      time.Duration // for how long there was any
}

func (g *gauge) add(now mail.Instant, more int) {
	g.pass(now)
	g.now += more
	g.peak = max(g.peak, g.now)
}

// pass brings area and some up to an instant.
func (g *gauge) pass(now mail.Instant) {
	if g.since != 0 && g.now > 0 {
		g.area += float64(float64(g.now) * now.Sub(g.since).Seconds())
		g.some += now.Sub(g.since)
	}
	g.since = now
}

// mean returns the mean over the time during which there was any.
func (g *gauge) mean() float64 {
	if g.some == 0 {
		return 0
	}
	return g.area / g.some.Seconds()
}
