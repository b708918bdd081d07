package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A host runs the core as the recordings were made: whatever it asks of the
// spool or the router is answered on the spot, deliveries end when the
// recording says so, and messages are there from when it says so. They are
// admitted when the core asks for them and Postfix would read their names (take).
type host struct {
	core *qmgr.Qmgr
	now  mail.Instant
	// route says where a recipient of a message goes.
	route    func(id mail.QueueID, r mail.Recipient) mail.Route
	messages map[mail.QueueID]*stored
	names    []string // of messages; ID n is names[n-1]
	todo     []qmgr.Action
	// What the last event has brought about.
	started  []qmgr.Deliver
	selected string
	// seen, if not nil, is called with every action before it is answered.
	seen     func(qmgr.Action)
	fetching [3]bool // a scan has asked for messages
	// incoming and deferred are the names that each scan has still to read. turn is
	// the scan that is asked next.
	incoming, deferred []mail.QueueID
	turn               qmgr.Scan
}

// A stored message is what the model spool has of one.
type stored struct {
	envelope   mail.Envelope
	recipients []mail.Recipient
	settled    []bool
	place      mail.Place
	from       mail.Instant // when it can be admitted at the earliest
}

func newHost(cfg qmgr.Config, now mail.Instant, route func(mail.QueueID, mail.Recipient) mail.Route) (*host, error) {
	core, err := qmgr.New(cfg, 0)
	if err != nil {
		return nil, err
	}
	h := &host{core: core, now: now, route: route, messages: make(map[mail.QueueID]*stored)}
	h.step(qmgr.Wake{})
	return h, nil
}

func (h *host) name(id mail.QueueID) string {
	if id == 0 || int(id) > len(h.names) {
		return "?"
	}
	return h.names[id-1]
}

// step gives the core an event and answers everything but deliveries and
// scans.
func (h *host) step(ev qmgr.Event) {
	h.started, h.selected = h.started[:0], ""
	h.feed(ev)
	for len(h.todo) > 0 {
		a := h.todo[0]
		h.todo = h.todo[1:]
		if h.seen != nil {
			h.seen(a)
		}
		if answer := h.answer(a); answer != nil {
			h.feed(answer)
		}
	}
	h.core.Check()
}

func (h *host) feed(ev qmgr.Event) {
	h.todo = append(h.todo, h.core.Step(h.now, ev)...)
}

func (h *host) answer(a qmgr.Action) qmgr.Event {
	switch a := a.(type) {
	case qmgr.Fetch:
		h.fetching[a.Scan] = true // answered when something is found
	case qmgr.Open:
		return h.open(a)
	case qmgr.Read:
		return qmgr.Recipients{ID: a.ID, Batch: h.messages[a.ID].batch(a.From, a.Max)}
	case qmgr.Route:
		routes := make([]mail.Route, len(a.Recipients))
		for i, r := range a.Recipients {
			routes[i] = h.route(a.ID, r)
		}
		return qmgr.Routed{ID: a.ID, Routes: routes}
	case qmgr.Deliver:
		h.started = append(h.started, a)
	case qmgr.Change:
		return qmgr.Changed{Changed: h.change(a.Change)}
	case qmgr.Report:
		return qmgr.Reported(a)
	case qmgr.Selected:
		h.selected = a.Transport
	}
	return nil
}

func (h *host) open(a qmgr.Open) qmgr.Event {
	m := h.messages[a.ID]
	place := m.place
	// Postfix finds a message one second before it is due: what it compares
	// with the file's time is the whole second after the present one.
	place.Due = min(place.Due, h.now)
	return qmgr.Opened{Envelope: m.envelope, Place: place, Batch: m.batch(0, a.Max)}
}

// batch reads as Postfix does: when it has read as many as it was to read it
// does not look whether that was the last one.
func (m *stored) batch(from uint32, most int) mail.RecipientBatch {
	b := mail.RecipientBatch{Next: from}
	for i := int(from); i < len(m.recipients); i++ {
		if len(b.Recipients) == most {
			break
		}
		b.Next = uint32(i + 1)
		if !m.settled[i] {
			b.Recipients = append(b.Recipients, m.recipients[i])
		}
	}
	b.More = len(b.Recipients) == most
	return b
}

func (h *host) change(c mail.Change) mail.Changed {
	m := h.messages[c.ID]
	for _, o := range c.Outcomes {
		m.settled[o.Index] = m.settled[o.Index] || o.Result.Settled()
	}
	switch c.Op {
	case mail.ChangeDefer:
		m.place = mail.Place{Area: mail.AreaDeferred, Due: c.Due}
		m.envelope.Attempts++
		m.envelope.LastAttempt = c.At
	case mail.ChangeRemove:
		m.place = mail.Place{}
	case mail.ChangeExpire:
		for i := range m.settled {
			m.settled[i] = true
		}
	}
	return mail.Changed{ID: c.ID, Place: m.place}
}

// admit puts a message into the spool and lets the core find it.
func (h *host) admit(name string, addresses []string) {
	h.store(name, addresses, h.now)
	h.take()
}

// store puts a message into the spool, to be found at an instant or later.
func (h *host) store(name string, addresses []string, from mail.Instant) {
	h.names = append(h.names, name)
	id := mail.QueueID(len(h.names))
	m := &stored{from: from, place: mail.Place{Area: mail.AreaIncoming}, settled: make([]bool, len(addresses)),
		envelope: mail.Envelope{ID: id, Sender: "s@x.smtp", Recipients: uint32(len(addresses)), Arrived: max(h.now, from)}}
	for i, a := range addresses {
		m.recipients = append(m.recipients, mail.Recipient{Index: uint32(i), Address: mail.Address(a)})
	}
	h.messages[id] = m
	h.incoming = append(h.incoming, id)
}

// room reports whether the core takes one more message: it asks for some then.
func (h *host) room() bool { return h.fetching[qmgr.ScanIncoming] }

// take is one pass of Postfix's main loop, as far as it admits mail: each of its two
// scans is asked for at most one name, until a message is admitted. The next pass
// begins with the other scan, or with new mail if there is no room for more. It
// reports whether there was a name.
func (h *host) take() (read bool) {
	last := qmgr.ScanDeferred
	for i := qmgr.Scan(0); i < 2 && h.room(); i++ {
		last = (h.turn + i) % 2
		id, ok := h.nextName(last)
		if !ok {
			continue
		}
		read = true
		if h.admitOne(last, id) {
			break
		}
	}
	h.turn = qmgr.ScanIncoming
	if h.room() {
		h.turn = (last + 1) % 2
	}
	return read
}

// nextName returns the next name of a scan.
func (h *host) nextName(s qmgr.Scan) (id mail.QueueID, ok bool) {
	names := &h.incoming
	if s == qmgr.ScanDeferred {
		names = &h.deferred
	}
	if len(*names) == 0 {
		return 0, false
	}
	id, *names = (*names)[0], (*names)[1:]
	return id, true
}

// admitOne admits a message unless it is not due. What is compared with the time of a
// file is the whole second after the present one.
func (h *host) admitOne(s qmgr.Scan, id mail.QueueID) bool {
	m := h.messages[id]
	h.now = max(h.now, m.from)
	if m.place.Area != s.Area() || m.place.Due > h.now.Add(time.Second) {
		return false
	}
	h.find(s, mail.Cursor{Due: m.place.Due, ID: id})
	return true
}

// find lets a scan that has asked for messages find one.
func (h *host) find(s qmgr.Scan, c mail.Cursor) {
	h.fetching[s] = false
	next := c
	next.ID++
	h.step(qmgr.Found{Scan: s, Found: mail.Found{Cursors: []mail.Cursor{c}, Next: next, More: true, NextDue: mail.Never}})
}

// advance lets time pass up to an instant; what was to happen on the way
// happens at its own second.
func (h *host) advance(to mail.Instant) {
	for {
		wake, ok := h.core.NextWake()
		if !ok || wake > to {
			break
		}
		h.now = max(h.now, wake)
		h.step(qmgr.Wake{})
	}
	h.now = max(h.now, to)
	h.step(qmgr.Wake{})
}

// An ending is how a delivery ends.
type ending uint8

const (
	endOK    ending = iota // every recipient is delivered
	endSoft                // every recipient is deferred, nothing wrong with the destination
	endSite                // the destination is in trouble
	endCrash               // unknown
)

var siteDown = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "site down"}

func (h *host) finish(d qmgr.Deliver, how ending) {
	h.finishEach(d, how, func(mail.Recipient) bool { return how == endOK })
}

// finishEach ends a delivery in which only some recipients are delivered.
func (h *host) finishEach(d qmgr.Deliver, how ending, ok func(mail.Recipient) bool) {
	r := mail.DeliveryResult{Crashed: how == endCrash}
	if how == endSite {
		r.Site = siteDown
	}
	for _, rcpt := range d.Delivery.Recipients {
		o := mail.Outcome{Index: rcpt.Index, Result: mail.Deferred}
		if ok(rcpt) {
			o.Result = mail.Delivered
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	h.step(qmgr.Delivered{Entry: d.Entry, Result: r})
}

// offer offers an agent and returns what it is to deliver, if anything.
func (h *host) offer(transport string) (qmgr.Deliver, bool) {
	h.step(qmgr.AgentReady{Transport: transport})
	if len(h.started) == 0 {
		return qmgr.Deliver{}, false
	}
	return h.started[0], true
}

// addresses lists the recipients of a delivery.
func addresses(d qmgr.Deliver) []string {
	out := make([]string, len(d.Delivery.Recipients))
	for i, r := range d.Delivery.Recipients {
		out[i] = string(r.Address)
	}
	return out
}

// ErrNoRecording means that a text is not what it is taken for, so that there is
// nothing to compare with.
var ErrNoRecording = errors.New("it is no recording")

// A Difference is where the core and a recording part.
type Difference struct {
	Line      int // of the recording, from 1; 0 where the recording has no lines
	Where     string
	Got, Want string
}

func (d *Difference) Error() string {
	var b strings.Builder
	if d.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", d.Line)
	}
	if d.Where != "" {
		fmt.Fprintf(&b, "%s: ", d.Where)
	}
	fmt.Fprintf(&b, "got %q, recorded %q", d.Got, d.Want)
	return b.String()
}

func seconds(n int64) mail.Instant { return mail.Instant(0).Add(time.Duration(n) * time.Second) }

func sortedCopy(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
