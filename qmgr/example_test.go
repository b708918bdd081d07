package qmgr_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/backoff"
)

// A host of the core in its shortest form: its spool is a slice, its clock jumps
// to the next thing to do, and it does one thing after the other. A host for
// production keeps messages on disk and runs what blocks on goroutines, whose
// results come back as events; package driver is one. The rules are the same.
type host struct {
	core   *qmgr.Qmgr
	now    mail.Instant
	spool  []*message
	serial uint16
}

// A message is what the spool has of one.
type message struct {
	envelope mail.Envelope
	place    mail.Place
	open     []mail.Recipient // not settled, by Index
}

// run steps the core with events until nothing is left to wait for.
func (h *host) run(events ...qmgr.Event) {
	for len(events) > 0 {
		for _, action := range h.core.Step(h.now, events[0]) {
			if answer := h.perform(action); answer != nil {
				events = append(events, answer)
			}
		}
		events = events[1:]
		if wake, ok := h.core.NextWake(); ok && len(events) == 0 {
			h.now = max(h.now, wake)
			events = append(events, qmgr.Wake{})
		}
	}
}

func (h *host) clock() string { return time.Unix(0, int64(h.now)).UTC().Format(time.TimeOnly) }

// perform does what the core asks for, and answers.
func (h *host) perform(action qmgr.Action) qmgr.Event {
	switch a := action.(type) {
	case qmgr.Fetch:
		return qmgr.Found{Scan: a.Scan, Found: h.fetch(a)}
	case qmgr.Open:
		m := h.message(a.ID)
		if m == nil {
			return qmgr.Broken{ID: a.ID, Why: qmgr.TroubleGone}
		}
		return qmgr.Opened{Envelope: m.envelope, Place: m.place, Batch: m.read(0, a.Max)}
	case qmgr.Read:
		m := h.message(a.ID)
		if m == nil {
			return qmgr.Broken{ID: a.ID, Why: qmgr.TroubleGone}
		}
		return qmgr.Recipients{ID: a.ID, Batch: m.read(a.From, a.Max)}
	case qmgr.Route:
		routes := make([]mail.Route, len(a.Recipients))
		for i, r := range a.Recipients {
			routes[i] = mail.Route{Transport: "example", Nexthop: r.Address.Domain()}
		}
		return qmgr.Routed{ID: a.ID, Routes: routes}
	case qmgr.Deliver:
		return qmgr.Delivered{Entry: a.Entry, Result: h.deliver(a.Delivery)}
	case qmgr.Change:
		return qmgr.Changed{Changed: h.apply(a.Change)}
	case qmgr.Report: // not without senders, or while DoubleBounce is not DoubleBounceReport
		return qmgr.Reported(a)
	}
	return nil // notes have no answer
}

// fetch names messages in the order of the scan's index.
func (h *host) fetch(a qmgr.Fetch) mail.Found {
	found := mail.Found{Next: a.From, NextDue: mail.Never}
	slices.SortFunc(h.spool, func(m, n *message) int {
		return cmp.Or(cmp.Compare(m.place.Due, n.place.Due), cmp.Compare(m.envelope.ID, n.envelope.ID))
	})
	for _, m := range h.spool {
		at := mail.Cursor{Due: m.place.Due, ID: m.envelope.ID}
		switch {
		case m.place.Area != a.Scan.Area() || at.Before(a.From):
		case a.Scan.Timed() && at.Due > h.now:
			found.NextDue = at.Due
			return found
		case len(found.Cursors) == a.Max:
			found.More = true
			return found
		default:
			found.Cursors = append(found.Cursors, at)
			found.Next = mail.Cursor{Due: at.Due, ID: at.ID + 1}
		}
	}
	return found
}

func (h *host) message(id mail.QueueID) *message {
	i := slices.IndexFunc(h.spool, func(m *message) bool { return m.envelope.ID == id })
	if i < 0 {
		return nil
	}
	return h.spool[i]
}

// read returns at most n of the recipients that are not settled.
func (m *message) read(from uint32, n int) mail.RecipientBatch {
	b := mail.RecipientBatch{Next: from}
	for _, r := range m.open {
		if r.Index < from {
			continue
		}
		if len(b.Recipients) == n {
			b.More = true
			break
		}
		b.Recipients, b.Next = append(b.Recipients, r), r.Index+1
	}
	return b
}

// deliver takes a second each time, and finds one mailbox busy at first.
func (h *host) deliver(d mail.Delivery) (result mail.DeliveryResult) {
	h.now = h.now.Add(time.Second)
	for _, r := range d.Recipients {
		o := mail.Outcome{Index: r.Index, Result: mail.Delivered, At: h.now}
		if r.Address == "lou@example.com" && d.Envelope.Attempts == 0 {
			o.Result, o.Reply = mail.Deferred, mail.Reply{Code: 450, Text: "mailbox busy"}
		}
		fmt.Println(h.clock(), d.Envelope.EnvID, "to", r.Address, o.Result)
		result.Outcomes = append(result.Outcomes, o)
	}
	return result
}

// apply makes a change; a spool on disk would have synced it before it answers.
func (h *host) apply(c mail.Change) mail.Changed {
	m := h.message(c.ID)
	if m == nil {
		return mail.Changed{ID: c.ID}
	}
	for _, o := range c.Outcomes {
		if o.Result.Settled() {
			m.open = slices.DeleteFunc(m.open, func(r mail.Recipient) bool { return r.Index == o.Index })
		}
	}
	switch c.Op {
	case mail.ChangeDefer:
		m.place = mail.Place{Area: mail.AreaDeferred, Due: c.Due}
		m.envelope.Attempts, m.envelope.LastAttempt = m.envelope.Attempts+1, c.At
	case mail.ChangeExpire:
		fmt.Println(h.clock(), m.envelope.EnvID, "given up:", len(m.open))
		m.open = nil
	case mail.ChangeRemove:
		m.place = mail.Place{}
		h.spool = slices.DeleteFunc(h.spool, func(n *message) bool { return n == m })
	case mail.ChangeHold:
		m.place = mail.Place{Area: mail.AreaHold}
	case mail.ChangeRelease:
		if m.place.Area == mail.AreaHold {
			m.place = mail.Place{Area: mail.AreaDeferred, Due: c.Due}
		}
	case mail.ChangeCorrupt:
		m.place = mail.Place{Area: mail.AreaCorrupt}
	}
	return mail.Changed{ID: c.ID, Place: m.place}
}

// accept puts a message into the spool. Only then it announces it to the core.
func (h *host) accept(name string, to ...mail.Address) qmgr.Event {
	m := &message{place: mail.Place{Area: mail.AreaIncoming}}
	for i, a := range to {
		m.open = append(m.open, mail.Recipient{Index: uint32(i), Address: a})
	}
	h.serial++
	m.envelope = mail.Envelope{ID: mail.NewQueueID(h.now, h.serial), EnvID: name,
		Recipients: uint32(len(to)), Arrived: h.now}
	h.spool = append(h.spool, m)
	return qmgr.Arrived{Arrival: mail.Arrival{Envelope: m.envelope, Place: m.place, Batch: m.read(0, mail.ArrivalRecipients)}}
}

// The password comes after the newsletter and overtakes it; the mailbox that was
// busy is tried again when the core says so.
func Example() {
	core, err := qmgr.New(qmgr.Config{
		DefaultTransport: qmgr.TransportConfig{ProcessLimit: 1, RecipientLimit: 1, SlotCost: 2, SlotLoan: -1, SlotDiscount: -1},
		Backoff:          backoff.Config{MinimalBackoffTime: time.Minute, JitterPercent: -1},
		DoubleBounce:     qmgr.DoubleBounceDiscard, // the messages have no sender to report to
	}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	h := &host{core: core, now: mail.Instant(9 * time.Hour)}
	h.run(qmgr.Wake{}) // the core looks at what a spool has kept, here nothing
	h.run(
		h.accept("newsletter", "ann@example.com", "lou@example.com", "bob@example.com", "eve@example.com", "kim@example.com", "pat@example.com"),
		h.accept("password", "joe@example.com"),
	)
	fmt.Println(h.clock(), "messages left:", len(h.spool))

	// Output:
	// 09:00:01 newsletter to ann@example.com sent
	// 09:00:02 newsletter to bob@example.com sent
	// 09:00:03 password to joe@example.com sent
	// 09:00:04 newsletter to eve@example.com sent
	// 09:00:05 newsletter to kim@example.com sent
	// 09:00:06 newsletter to lou@example.com deferred
	// 09:00:07 newsletter to pat@example.com sent
	// 09:01:08 newsletter to lou@example.com sent
	// 09:01:08 messages left: 0
}
