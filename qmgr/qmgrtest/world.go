// Package qmgrtest is a host of the core for tests: a model of the spool, the
// routes and the remote sites, all of it in memory and in virtual time. A test
// decides in which order outstanding actions are answered and how deliveries
// end; the model holds data and expects nothing.
package qmgrtest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

// A World is a core with a model of its environment.
type World struct {
	// Keep is for how long the sender of a message that is stored has it kept; 0: it does not.
	Keep time.Duration
	// By is the deadline of a message that is stored, with the mode ByNone for none; it is Within
	// from then.
	By     mail.ByMode
	Within time.Duration
	// Flow returns the flow of a message that is stored; nil: no flow.
	Flow func() mail.Flow
	Core *qmgr.Qmgr
	Now  mail.Instant
	// Outstanding are the actions that have not been answered, oldest first.
	Outstanding []qmgr.Action
	// Actions are those of the last Step, including notes.
	Actions  []qmgr.Action
	Messages map[mail.QueueID]*Message
	// Gone are the messages that have left the spool.
	Gone map[mail.QueueID]*Message
	// Violations are the rules that the core has violated.
	Violations []string
	// Routes are the routes of recipients by domain; others go to their domain by
	// smtp, except that nowhere.test has no route.
	Routes map[string]mail.Route
	// Lookups are the results of lookups by nexthop. A route to a nexthop that is
	// in it always needs a lookup; "*" stands for all others, whose route does not
	// change.
	Lookups map[string]mail.Route
	// Credentials are the names of those by which mail of some senders goes, if the core names senders.
	Credentials map[mail.Address]string
	// Trouble is the error of the next read of a message.
	Trouble map[mail.QueueID]qmgr.Trouble
	// ReportTrouble is the error of the next report on a message.
	ReportTrouble map[mail.QueueID]qmgr.Trouble
	// Conns are the connections requested by the core, Zones the hosts of nexthops
	// that differ from the default.
	Conns map[qmgr.ConnID]*Connection
	Zones map[string]Zone
	// Verifying are the verifications that have not been answered.
	Verifying map[qmgr.VerificationID]bool
	serial    uint16
	// Stepped, if not nil, is called with every event and its actions.
	Stepped func(ev qmgr.Event, actions []qmgr.Action)
	// Measure, if not nil, returns what a rule demands because of a refusal; nil if none
	// does.
	Measure func() *mail.Measure

	from netip.AddrPort // the host whose result is being given; invalid of an agent
	// Rules, if not nil, are the rules on replies that there are when a core is started anew.
	Rules []string
	// Suspended is until when an operator has suspended something.
	Suspended map[Suspended]mail.Instant
	feed      *qmgr.HostFeed
	saved     map[string][]byte
	// CheckEvery is the number of Steps that are made for each check of the core's invariants,
	// which takes linear time; 0 checks after every Step.
	CheckEvery int
	steps      int
	resumed    int  // the Step in which suspensions may have ended by an order or a reload; 0: none
	recovers   bool // what could not be tried for lack of an address may be tried before its time
	// Log, if not nil, is called with every event and action, as a line of a trace
	// in Format.
	Log    func(line string)
	Format trace.Format
}

// A Message is a message in the model of the spool.
type Message struct {
	Envelope   mail.Envelope
	Recipients []mail.Recipient
	Results    []mail.Result     // durable
	Owed       []mail.ReportKind // durable
	Reported   []mail.ReportKind // reports made
	Accepted   []int             // how often the remote site accepted each recipient
	Refused    []bool            // the remote site permanently refused it
	Dropped    bool
	Place      mail.Place
	busy       int
	trials     trials
}

// Unsettled returns the number of recipients that still need an attempt.
func (m *Message) Unsettled() int {
	n := 0
	for _, r := range m.Results {
		if !r.Settled() {
			n++
		}
	}
	return n
}

// started is when a world begins.
const started = mail.Instant(1000e9)

// New returns a world at the instant 1000 s with an empty spool; the core has
// taken its first Step.
func New(cfg qmgr.Config, seed uint64) (*World, error) {
	core, err := qmgr.New(cfg, seed)
	if err != nil {
		return nil, err
	}
	w := &World{Core: core, Now: started, recovers: len(cfg.Sources.Sources) > 0,
		Messages: make(map[mail.QueueID]*Message), Gone: make(map[mail.QueueID]*Message),
		Routes: make(map[string]mail.Route), Lookups: make(map[string]mail.Route), Credentials: make(map[mail.Address]string), Trouble: make(map[mail.QueueID]qmgr.Trouble), ReportTrouble: make(map[mail.QueueID]qmgr.Trouble),
		Conns: make(map[qmgr.ConnID]*Connection), Zones: make(map[string]Zone), Verifying: make(map[qmgr.VerificationID]bool), saved: make(map[string][]byte), Suspended: make(map[Suspended]mail.Instant)}
	w.Routes["nowhere.test"] = mail.Route{Reply: mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 2}, Text: "no such domain"}}
	w.Step(qmgr.Wake{})
	return w, nil
}

// Restart discards the core, as a crash does, and starts another one on the same
// spool, with what Save has saved. Outstanding actions are never answered.
func (w *World) Restart(cfg qmgr.Config, seed uint64) error {
	core, err := qmgr.New(cfg, seed)
	if err != nil {
		return err
	}
	w.Core, w.Outstanding, w.feed = core, nil, nil
	clear(w.Conns)
	clear(w.Verifying)
	for _, m := range w.Messages {
		m.busy, m.trials.unsure = 0, nil
	}
	w.recovers = w.recovers || len(cfg.Sources.Sources) > 0
	w.learn()
	w.Step(qmgr.Wake{})
	first := mail.Never
	for _, m := range w.Messages {
		if m.kept() {
			first = min(first, m.Place.Due)
		}
	}
	if first != mail.Never {
		w.Step(qmgr.Kept{Due: first})
	}
	return nil
}

// kept reports whether the message waits for the instant that its sender has named.
func (m *Message) kept() bool {
	return m.Place.Area == mail.AreaHold && m.Place.Due > 0 && m.Place.Due == m.Envelope.Release
}

// Step gives the core an event at the current instant.
func (w *World) Step(ev qmgr.Event) {
	if w.Log != nil {
		w.Log(string(w.Format.AppendEvent(nil, w.Now, ev)))
	}
	w.noteOrders(ev)
	w.Actions = slices.Clone(w.Core.Step(w.Now, ev))
	if w.Stepped != nil {
		w.Stepped(ev, w.Actions)
	}
	ordered := false
	for _, a := range w.Actions {
		if w.Log != nil {
			w.Log(string(w.Format.AppendAction(nil, w.Now, a)))
		}
		switch a := a.(type) {
		case qmgr.Note:
			ordered = w.ordered(a) || ordered
			continue
		case qmgr.Selected, qmgr.Feedback, qmgr.Preempted:
			continue
		case qmgr.Verified:
			w.checkVerified(a)
			continue
		case qmgr.Deliver:
			w.checkDeliver(a)
			w.checkSuspended(&a.Delivery)
		case qmgr.Send:
			w.checkSuspended(&a.Delivery)
		case qmgr.Change:
			w.notePut(&a.Change)
		}
		if !w.connecting(a) {
			w.Outstanding = append(w.Outstanding, a)
		}
	}
	if ordered {
		w.SaveOrders()
	}
	if w.steps++; w.steps%max(w.CheckEvery, 1) == 0 {
		w.Core.Check()
	}
}

func (w *World) violate(format string, args ...any) {
	w.Violations = append(w.Violations, fmt.Sprintf(format, args...))
}

// Verify starts a verification of a nexthop.
func (w *World) Verify(id qmgr.VerificationID, client netip.Addr, nexthop string) {
	w.Ask(qmgr.Verify{Verification: id, Client: client, Transport: "smtp", Nexthop: nexthop})
}

// Ask starts a verification with all details.
func (w *World) Ask(v qmgr.Verify) {
	w.Verifying[v.Verification] = true
	w.Step(v)
}

func (w *World) checkVerified(a qmgr.Verified) {
	if !w.Verifying[a.Verification] {
		w.violate("verification %d is answered twice, or was never asked for", a.Verification)
	}
	delete(w.Verifying, a.Verification)
}

func (w *World) checkDeliver(a qmgr.Deliver) {
	m := w.Messages[a.Delivery.Envelope.ID]
	if a.Delivery.Callout {
		if m != nil || len(a.Delivery.Recipients) != 1 {
			w.violate("a call-out about %d recipients of %v", len(a.Delivery.Recipients), a.Delivery.Envelope.ID)
		}
		return
	}
	if m == nil {
		w.violate("delivery of %v, which is gone", a.Delivery.Envelope.ID)
		return
	}
	if m.Place.Area == mail.AreaHold {
		w.violate("delivery of %v, which is held", a.Delivery.Envelope.ID)
	}
	if m.Envelope.Release > w.Now {
		w.violate("delivery of %v, whose sender has it kept until %v", a.Delivery.Envelope.ID, m.Envelope.Release)
	}
	if m.Envelope.By.Returns(w.Now) {
		w.violate("delivery of %v, whose deadline was %v", a.Delivery.Envelope.ID, m.Envelope.By.At)
	}
	w.checkDue(m, &a.Delivery)
	for _, r := range a.Delivery.Recipients {
		if m.Results[r.Index].Settled() {
			w.violate("recipient %d of %v is tried again although it is settled", r.Index, m.Envelope.ID)
		}
		if !slices.Equal(r.Doubts.All(), m.Recipients[r.Index].Doubts.All()) {
			w.violate("recipient %d of %v is tried with the doubts %v, and the spool has %v", r.Index, m.Envelope.ID, r.Doubts.All(), m.Recipients[r.Index].Doubts.All())
		}
		switch to := m.Recipients[r.Index].Ordered; {
		case (to == nil) != (r.Ordered == nil) || to != nil && *to != *r.Ordered:
			w.violate("recipient %d of %v is tried by the route %v, and an operator has ordered %v", r.Index, m.Envelope.ID, r.Ordered, to)
		case to != nil && a.Delivery.Transport == "smtp" && a.Delivery.Nexthop != to.Target:
			w.violate("recipient %d of %v is sent to %s, and an operator has ordered %s", r.Index, m.Envelope.ID, a.Delivery.Nexthop, to.Target)
		}
	}
	m.busy++
}

// Store puts a message into the spool without notifying the core.
func (w *World) Store(sender mail.Address, recipients []mail.Recipient) *Message {
	w.serial++
	id := mail.NewQueueID(w.Now, w.serial)
	m := &Message{Envelope: mail.Envelope{ID: id, Sender: sender, Arrived: w.Now, Recipients: uint32(len(recipients)), Size: 1000},
		Recipients: slices.Clone(recipients), Place: mail.Place{Area: mail.AreaIncoming, Chunks: 1},
		Results: make([]mail.Result, len(recipients)), Owed: make([]mail.ReportKind, len(recipients)),
		Accepted: make([]int, len(recipients)), Refused: make([]bool, len(recipients))}
	for i := range m.Recipients {
		m.Recipients[i].Index = uint32(i)
	}
	if w.By != mail.ByNone {
		m.Envelope.By = mail.DeliverBy{At: w.Now.Add(w.Within), Mode: w.By}
	}
	if w.Keep > 0 {
		m.Envelope.Release = w.Now.Add(w.Keep)
		m.Place = mail.Place{Area: mail.AreaHold, Due: m.Envelope.Release, Chunks: 1, Touched: true}
	}
	if w.Flow != nil {
		m.Envelope.Flow = w.Flow()
		m.Place.Bucket = m.Envelope.Flow.Bucket()
	}
	w.Messages[id] = m
	return m
}

// Arrive puts a message into the spool and notifies the core.
func (w *World) Arrive(sender mail.Address, recipients []mail.Recipient) *Message {
	m := w.Store(sender, recipients)
	w.Announce(m)
	return m
}

// CheckDeadlines is for a moment at which nothing is under way: then nothing is left of a message whose deadline has
// passed, and the sender knows of one that is late. New mail may wait for room in core.
func (w *World) CheckDeadlines() {
	empty := w.Core.View(0).Messages == 0
	for id, m := range w.Messages {
		by := m.Envelope.By
		if w.Now < by.At || m.Unsettled() == 0 || m.Place.Area != mail.AreaIncoming && m.Place.Area != mail.AreaDeferred || !empty && !w.Core.InCore(id) {
			continue
		}
		if by.Mode == mail.ByReturn || m.Envelope.BecomesLate() {
			w.violate("%v is in %v at %v, and its deadline was %v", id, m.Place, w.Now, by.At)
		}
	}
}

// Announce notifies the core of a message in the spool.
func (w *World) Announce(m *Message) { w.Step(m.Hint()) }

// Hint returns the event that notifies the core of the message in its current
// state.
func (m *Message) Hint() qmgr.Arrived {
	return qmgr.Arrived{Arrival: mail.Arrival{Envelope: m.Envelope, Place: m.Place, Batch: m.batch(0, mail.ArrivalRecipients)}}
}

func (m *Message) batch(from uint32, max int) mail.RecipientBatch {
	b := mail.RecipientBatch{Next: from}
	for i := from; i < uint32(len(m.Recipients)); i++ {
		if len(b.Recipients) == max {
			b.More = true
			break
		}
		b.Next = i + 1
		if !m.Results[i].Settled() {
			b.Recipients = append(b.Recipients, m.Recipients[i])
		}
	}
	return b
}

// GiveUp makes an operator give up recipients of a message, with or without a
// report.
func (w *World) GiveUp(m *Message, report mail.ReportKind, indexes ...uint32) {
	ev := qmgr.Settle{ID: m.Envelope.ID}
	waiting := m.Unsettled()
	for _, i := range indexes {
		ev.Outcomes = append(ev.Outcomes, mail.Outcome{Index: i, Result: mail.Failed, Report: report,
			Reply: mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "given up by an operator"}})
		if !m.Results[i].Settled() {
			waiting--
		}
	}
	ev.Last = waiting == 0
	w.Step(ev)
}

// HoldSome makes an operator hold some recipients of a message, and returns the ID
// of the message that they are moved to.
func (w *World) HoldSome(m *Message, indexes ...uint32) mail.QueueID {
	w.serial++
	ev := qmgr.Split{ID: m.Envelope.ID, Split: mail.Split{Into: mail.NewQueueID(w.Now, w.serial), Recipients: indexes, Reason: "some are held"}}
	w.Step(ev)
	return ev.Split.Into
}

// Requeue makes an operator requeue some recipients of a message, of which those in to get other addresses, and returns the ID of
// the new message.
func (w *World) Requeue(m *Message, to []mail.Replacement, indexes ...uint32) mail.QueueID {
	w.serial++
	waiting := m.Unsettled()
	for _, i := range indexes {
		if !m.Results[i].Settled() {
			waiting--
		}
	}
	ev := qmgr.Split{ID: m.Envelope.ID, Last: waiting == 0, Split: mail.Split{Into: mail.NewQueueID(w.Now, w.serial), Recipients: indexes,
		Requeue: &mail.Requeue{Sender: m.Envelope.Sender, Flow: m.Envelope.Flow, To: to}}}
	w.Step(ev)
	return ev.Split.Into
}

// Reroute makes an operator have some recipients of a message go to a nexthop, or where the configuration says for "".
func (w *World) Reroute(m *Message, nexthop string, indexes ...uint32) {
	r := mail.Reroute{Recipients: indexes}
	if nexthop != "" {
		r.To = &mail.OrderedRoute{Target: nexthop, By: "an operator"}
	}
	w.Step(qmgr.SetRoute{ID: m.Envelope.ID, Reroute: r})
}

// Take removes an outstanding action.
func (w *World) Take(i int) qmgr.Action {
	a := w.Outstanding[i]
	w.Outstanding = slices.Delete(w.Outstanding, i, i+1)
	return a
}

// Answer answers any action but Deliver.
func (w *World) Answer(a qmgr.Action) {
	switch a := a.(type) {
	case qmgr.Fetch:
		w.Step(qmgr.Found{Scan: a.Scan, Found: w.fetch(a)})
	case qmgr.Open:
		w.open(a)
	case qmgr.Read:
		m := w.Messages[a.ID]
		if w.broken(w.Trouble, a.ID, m) {
			return
		}
		w.Step(qmgr.Recipients{ID: a.ID, Batch: m.batch(a.From, a.Max)})
	case qmgr.Route:
		w.Step(qmgr.Routed{ID: a.ID, Routes: w.routes(a)})
	case qmgr.Lookup:
		to, ok := w.Lookups[a.Nexthop]
		if !ok {
			to = mail.Route{Transport: a.Transport, Nexthop: a.Nexthop}
		}
		to.Security += loggedIn(a.Credential) + asked[a.TLS]
		w.Step(qmgr.LookedUp{Lookup: a.Lookup, Route: to})
	case qmgr.Change:
		w.Step(qmgr.Changed{Changed: w.apply(a.Change)})
	case qmgr.Report:
		if m := w.Messages[a.ID]; m != nil && w.broken(w.ReportTrouble, a.ID, m) {
			return
		}
		w.report(a.ID)
		w.Step(qmgr.Reported(a))
	case qmgr.Resolve:
		w.Resolved(a)
	case qmgr.Dial:
		w.Dialed(a, mail.OpenedConnection{})
	default:
		panic(fmt.Sprintf("cannot answer %T", a))
	}
}

func (w *World) open(a qmgr.Open) {
	m := w.Messages[a.ID]
	if w.broken(w.Trouble, a.ID, m) {
		return
	}
	place := m.Place
	for _, k := range m.Owed {
		place.Owes = place.Owes || k != mail.ReportNone
	}
	w.Step(qmgr.Opened{Envelope: m.Envelope, Place: place, Batch: m.batch(0, a.Max)})
}

// broken answers a request to read a message that is gone, or whose read fails.
func (w *World) broken(trouble map[mail.QueueID]qmgr.Trouble, id mail.QueueID, m *Message) bool {
	why := trouble[id]
	delete(trouble, id)
	if m == nil {
		why = qmgr.TroubleGone
	}
	if why == 0 {
		return false
	}
	ev := qmgr.Broken{ID: id, Why: why}
	if why != qmgr.TroubleGone {
		ev.Text = "cannot be read"
	}
	w.Step(ev)
	return true
}

func (w *World) routes(a qmgr.Route) []mail.Route {
	out := make([]mail.Route, len(a.Recipients))
	credential := w.Credentials[a.Sender]
	for i, r := range a.Recipients {
		domain := r.Address.Domain()
		known, ok := w.Routes[domain]
		if r.Ordered != nil {
			known, ok = mail.Route{Transport: "smtp", Nexthop: r.Ordered.Target}, true
		}
		if !ok {
			known = mail.Route{Transport: "smtp", Nexthop: domain}
		}
		if w.looksUp(known) {
			known.Site, known.NeedsLookup, known.Credential = "", true, credential
		} else if known.Reply.IsZero() {
			known.Security += loggedIn(credential) + asked[a.TLS]
		}
		out[i] = known
	}
	return out
}

// loggedIn is how demands of mail end that goes by a credential.
func loggedIn(credential string) string {
	if credential == "" {
		return ""
	}
	return "+auth=" + credential
}

// asked is how demands end of mail that asks for REQUIRETLS.
var asked = map[mail.TLSRequest]string{mail.TLSRequired: "+requiretls", mail.TLSWanted: "+wants-requiretls"}

func (w *World) looksUp(r mail.Route) bool {
	_, one := w.Lookups[r.Nexthop]
	_, all := w.Lookups["*"]
	return (one || all) && r.Reply.IsZero()
}

func (w *World) fetch(a qmgr.Fetch) mail.Found {
	var area []mail.Cursor
	for id, m := range w.Messages {
		if m.Place.Area == a.Scan.Area() {
			area = append(area, m.Place.Cursor(id))
		}
	}
	latest := mail.Never
	if a.Scan.Timed() {
		latest = w.Now
	}
	return Search(area, a.From, latest, a.Max)
}

// Search returns what a spool finds among the messages of an area, which it changes: those
// of one bucket, from a cursor on, that are due at an instant.
func Search(area []mail.Cursor, from mail.Cursor, now mail.Instant, most int) mail.Found {
	f := mail.Found{Next: from, NextDue: mail.Never}
	survey := from == mail.Cursor{Bucket: from.Bucket}
	nextDue := mail.Never
	area = slices.DeleteFunc(area, func(c mail.Cursor) bool { // most of them, as a rule, and sorting takes long
		switch {
		case c.Before(from):
			return true
		case c.Bucket != from.Bucket:
			return !survey
		case c.Due > now:
			nextDue = min(nextDue, c.Due)
			return true
		}
		return false
	})
	slices.SortFunc(area, func(a, b mail.Cursor) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Due, b.Due), cmp.Compare(a.ID, b.ID))
	})
	last := from.Bucket
	for _, c := range area {
		switch {
		case c.Bucket > last && len(f.Buckets) < mail.BucketsFound:
			f.Buckets, last = append(f.Buckets, c), c.Bucket
		case c.Bucket != from.Bucket:
		case len(f.Cursors) == most:
			f.More = true
		default:
			f.Cursors, f.Next = append(f.Cursors, c), c
			f.Next.ID++
		}
	}
	if !f.More {
		f.NextDue = nextDue
	}
	return f
}

func (w *World) apply(c mail.Change) mail.Changed {
	m := w.Messages[c.ID]
	if m == nil {
		return mail.Changed{ID: c.ID}
	}
	if c.Place.Area != mail.AreaNone && (c.Place.Area != m.Place.Area || c.Place.Due != m.Place.Due || c.Place.Bucket != m.Place.Bucket) {
		w.violate("change %v of %v names place %v, it is in %v", c.Op, c.ID, c.Place, m.Place)
	}
	for _, o := range c.Outcomes {
		if m.Results[o.Index].Settled() {
			continue // settled recipients stay settled, as in the spool
		}
		m.Results[o.Index] = o.Result
		if o.Doubts != nil {
			m.Recipients[o.Index].Doubts = o.Doubts
		}
		m.Owed[o.Index] = o.Report
	}
	if len(c.Splits)+len(c.Reroutes) > 0 && c.Op == mail.ChangeRemove {
		w.violate("change %v of %v splits recipients off or reroutes them, and loses them", c.Op, c.ID)
	}
	for _, r := range c.Reroutes {
		w.applyReroute(m, r)
	}
	requeued := 0
	for i := range c.Splits {
		w.applySplit(m, &c.Splits[i], c.At)
		if c.Splits[i].Requeue != nil {
			requeued++
		}
	}
	w.applyOp(m, c)
	if requeued > 0 && m.Unsettled() == 0 && m.Place.Area != mail.AreaCorrupt && !slices.ContainsFunc(m.Owed, func(k mail.ReportKind) bool { return k != mail.ReportNone }) {
		if m.busy > 0 {
			w.violate("message %v is requeued while %d deliveries are under way", c.ID, m.busy)
		}
		m.Place = mail.Place{}
	}
	out := mail.Changed{ID: c.ID, Place: m.Place}
	for _, s := range c.Splits {
		if part := w.Messages[s.Into]; part != nil && s.Requeue != nil {
			out.Requeued = append(out.Requeued, mail.Requeued{ID: s.Into, Place: part.Place})
		}
	}
	for _, k := range m.Owed {
		out.Reports = out.Reports || k != mail.ReportNone
	}
	if m.Place.Area == mail.AreaNone {
		out.Reports = false
		delete(w.Messages, c.ID)
		w.Gone[c.ID] = m
	}
	return out
}

// applyReroute carries out the spool's part of a reroute.
func (w *World) applyReroute(m *Message, r mail.Reroute) {
	if m.Place.Area == mail.AreaCorrupt {
		return
	}
	for _, i := range r.Recipients {
		if !m.Results[i].Settled() {
			m.Recipients[i].Ordered = r.To
		}
	}
}

// applySplit carries out the spool's part of a split.
func (w *World) applySplit(m *Message, s *mail.Split, at mail.Instant) {
	if m.Place.Area == mail.AreaCorrupt {
		return
	}
	if w.Messages[s.Into] != nil || w.Gone[s.Into] != nil {
		w.violate("recipients of %v are put into %v, which is not new", m.Envelope.ID, s.Into)
	}
	part := &Message{Envelope: m.Envelope, Place: m.in(mail.AreaHold, 0)}
	part.Envelope.ID = s.Into
	if r := s.Requeue; r != nil {
		part.Envelope.Sender, part.Envelope.Flow, part.Envelope.Requeued = r.Sender, r.Flow, m.Envelope.ID
		part.Envelope.Attempts, part.Envelope.LastAttempt = 0, 0
		part.Place = mail.Place{Area: mail.AreaDeferred, Due: at, Chunks: 1, Touched: true, Bucket: r.Flow.Bucket()}
		if m.Place.Area == mail.AreaHold {
			part.Place.Area, part.Place.Due = mail.AreaHold, m.Place.Due
		}
	}
	for _, i := range s.Recipients {
		if m.Results[i].Settled() {
			continue
		}
		list, result := []mail.Recipient{m.Recipients[i]}, m.Results[i]
		if q := s.Requeue; q != nil {
			if instead := q.Replacements(i); len(instead) > 0 {
				list = nil
				for _, one := range instead {
					list = append(list, mail.Recipient{Address: one.Address, ORcpt: one.ORcpt, Notify: one.Notify})
				}
			}
			result = mail.Pending
		}
		for _, r := range list {
			r.Index = uint32(len(part.Recipients))
			if q := s.Requeue; q != nil && !q.KeepRoute {
				r.Ordered = nil
			}
			part.Recipients = append(part.Recipients, r)
			part.Results = append(part.Results, result)
			part.Owed = append(part.Owed, m.Owed[i])
			part.Accepted = append(part.Accepted, 0)
			part.Refused = append(part.Refused, false)
		}
		m.Results[i], m.Owed[i] = mail.Moved, mail.ReportNone
	}
	if part.Envelope.Recipients = uint32(len(part.Recipients)); part.Envelope.Recipients > 0 {
		w.Messages[s.Into] = part
	}
}

// in returns the place of a message that was changed.
func (m *Message) in(area mail.Area, due mail.Instant) mail.Place {
	return mail.Place{Area: area, Due: due, Chunks: 1, Touched: true, Bucket: m.Place.Bucket}
}

func (w *World) applyOp(m *Message, c mail.Change) {
	switch c.Op {
	case mail.ChangeDefer:
		if m.Place.Area == mail.AreaHold && slices.ContainsFunc(m.Results, func(r mail.Result) bool { return !r.Settled() }) {
			break
		}
		if (m.Envelope.By.Mode == mail.ByReturn || m.Envelope.BecomesLate()) && m.Unsettled() > 0 && c.Due > max(m.Envelope.By.At, w.Now) {
			w.violate("message %v is put off until %v, beyond its deadline of %v", c.ID, c.Due, m.Envelope.By.At)
		}
		m.Place = m.in(mail.AreaDeferred, c.Due)
		m.Envelope.Attempts++
		m.Envelope.LastAttempt = c.At
	case mail.ChangeRemove:
		if m.busy > 0 {
			w.violate("message %v is removed while %d deliveries are under way", c.ID, m.busy)
		}
		m.Place = mail.Place{}
	case mail.ChangeHold:
		if m.Place.Area != mail.AreaCorrupt {
			m.Place = m.in(mail.AreaHold, c.Due)
		}
	case mail.ChangeLapse:
		switch {
		case m.Place.Area != mail.AreaHold || m.Place.Due == 0 || m.Place.Due > c.At:
		case m.kept():
			m.Place = m.in(mail.AreaDeferred, c.At)
		default:
			m.Place = mail.Place{}
		}
	case mail.ChangeRelease:
		switch {
		case m.Place.Area != mail.AreaHold:
		case m.kept():
			m.Envelope.Release = c.At
			m.Place = m.in(mail.AreaDeferred, c.Due)
		case m.Envelope.Release > c.At && m.Unsettled() > 0: // an operator had held it
			m.Place = m.in(mail.AreaHold, m.Envelope.Release)
		default:
			m.Place = m.in(mail.AreaDeferred, c.Due)
		}
	case mail.ChangeExpire:
		if m.Place.Area == mail.AreaHold && m.Unsettled() > 0 {
			w.violate("message %v is held, and given up", c.ID)
		}
		for i, r := range m.Results {
			if !r.Settled() && !slices.Contains(c.Except, uint32(i)) {
				m.Results[i] = mail.Failed
				if m.Envelope.Sender == "" || m.Recipients[i].Notify.Failure() {
					m.Owed[i] = mail.ReportFailed
				}
			}
		}
	case mail.ChangeWarn, mail.ChangeLate:
		if done := map[mail.ChangeOp]*bool{mail.ChangeWarn: &m.Envelope.Warned, mail.ChangeLate: &m.Envelope.Late}[c.Op]; !*done {
			*done = true
		} else {
			w.violate("%v of %v for the second time", c.Op, c.ID)
		}
		for i, r := range m.Results {
			if !r.Settled() && m.Recipients[i].Notify.Delay() {
				m.Owed[i] = mail.ReportDelayed
			}
		}
	case mail.ChangeCorrupt:
		m.Place = m.in(mail.AreaCorrupt, 0)
	}
}

func (w *World) report(id mail.QueueID) {
	m := w.Messages[id]
	if m == nil {
		return
	}
	for i, k := range m.Owed {
		if k != mail.ReportNone {
			m.Reported = append(m.Reported, k)
			m.Owed[i] = mail.ReportNone
		}
	}
}

// An Ending is how a delivery ends.
type Ending uint8

const (
	Accepted Ending = iota // every recipient is accepted
	Rejected               // every recipient is permanently refused
	Later                  // every recipient is temporarily refused
	Mixed                  // some of each
	SiteDown               // no connection
	Crashed                // failed for a local reason
	endings
	// Further endings of transactions on a connection.
	Unsent  // it was not begun
	Unknown // it was sent, and no reply came
	Lost    // the connection was lost during it
	Mute    // the sender was refused, so that a call-out learned nothing of the recipient
)

// Endings is the number of endings.
const Endings = int(endings)

// Deliver ends a delivery. The retry and error transports have only one ending.
// more are the endings of further recipients.
func (w *World) Deliver(a qmgr.Deliver, how Ending, more ...Ending) {
	switch a.Delivery.Transport {
	case qmgr.TransportRetry:
		how, more = Later, nil
	case qmgr.TransportError:
		how, more = Rejected, nil
	}
	m := w.Messages[a.Delivery.Envelope.ID]
	if m != nil {
		m.busy--
	}
	r := mail.DeliveryResult{Crashed: how == Crashed}
	switch {
	case how == SiteDown || slices.Contains(more, SiteDown):
		r.Site = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: "connection refused"}
	case how == Unknown || how == Lost:
		r.Site = mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 2}, Text: "connection lost"}
	}
	for i, rcpt := range a.Delivery.Recipients {
		if i > 0 && i <= len(more) {
			how = more[i-1]
		}
		o := mail.Outcome{Index: rcpt.Index, Result: result(how, i), Unknown: how == Unknown || how == Mute}
		switch o.Result {
		case mail.Delivered:
			if m != nil {
				m.Accepted[rcpt.Index]++
			}
		case mail.Failed:
			o.Reply = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, Text: "no such user"}
			if m != nil {
				m.Refused[rcpt.Index] = true
			}
		case mail.Deferred:
			o.Reply = r.Site
			switch {
			case how == Mute:
				o.Reply = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "no bounces here"}
			case r.Site.IsZero():
				o.Reply = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2, Detail: 0}, Text: "not now"}
			}
		}
		if a.Delivery.Callout && r.Site.IsZero() && !r.Crashed && !o.Reply.IsZero() {
			o.Reply.By = "mx.test[192.0.2.1]"
		}
		if o.Unknown && !a.Delivery.Callout && w.from.IsValid() {
			o.Doubts = rcpt.Doubts.With(w.from)
		}
		if o.Unknown && m != nil {
			m.noteUnsure(rcpt.Index, w.Now)
		}
		r.Outcomes = append(r.Outcomes, o)
		if !o.Reply.IsZero() {
			r.Measure = w.measure()
		}
	}
	w.Step(qmgr.Delivered{Entry: a.Entry, Result: r})
}

func result(how Ending, i int) mail.Result {
	if how == Mixed {
		how = Ending(i % 3)
	}
	switch how {
	case Accepted:
		return mail.Delivered
	case Rejected:
		return mail.Failed
	case Unsent:
		return mail.Untried
	}
	return mail.Deferred
}
