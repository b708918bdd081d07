package qmgr

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/backoff"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// An operator can suspend a site, a domain, a destination of a transport, a transport, a source, a
// tenant or a class, and a rule on replies a destination. No delivery starts then to, by, from or for
// what is suspended; what is under way goes on. The orders are in a table of their own (package
// measure), which is kept over restarts. A rule's order differs from an operator's only in that it
// ends if the rule does.
//
// Mail that is suspended does not wait in core, where it would take the place of other mail for
// hours. When an order comes, what waits in core for what it suspends is deferred without an attempt,
// and so is mail that comes later, when it is bound. So no entry of the scheduler is suspended,
// and a selection need not ask; without suspensions all this costs a comparison for each recipient
// that is bound. Mail of a pool whose source is suspended, altogether or for a destination, goes to
// the other sources of the pool.
//
// The deferral is no attempt, and its due time follows from the suspension, not from the
// message's age: it is the end of the suspension, or the instant at which the message expires
// or its sender is warned of the delay, if that comes first. So each suspended message is read and written once,
// however long that lasts. If the order is revoked earlier, a scan finds what it kept by the
// mark in its due time (intake.ScanResume) and brings it into core at once. A message of which
// other recipients were deferred by their receivers keeps the time that follows from its age, but with
// the mark.
//
// The scan has to be completed even if the process is killed meanwhile. So the table has a
// record of the scope Resumed from the end of a suspension until no message is in core any more
// that was put off because of one. A core that loads this record makes the scan again.

// Prefixes begin the reason of mail that is deferred because of a suspension. The scope and the
// value follow, and of a rule's, behind reasonMark, what the receiver said.
const (
	SuspensionPrefix     = "suspended by an operator: "
	RuleSuspensionPrefix = "suspended by a rule: "
	reasonMark           = "; "
)

// Suspended returns the scope and the value, with a space between them, of the suspension for which
// mail was deferred, by the reason for that, with its code and status or without; false if it was
// for another reason.
func Suspended(why string) (what string, is bool) {
	if len(why) > 4 && why[0] == '4' && why[3] == ' ' { // the code, which depends on what has deferred it
		why = why[4:]
	}
	why = strings.TrimPrefix(why, suspensionStatus.String()+" ")
	for _, prefix := range [...]string{SuspensionPrefix, RuleSuspensionPrefix} {
		if what, is := strings.CutPrefix(why, prefix); is {
			what, _, _ = strings.Cut(what, reasonMark)
			return what, true
		}
	}
	return "", false
}

// isSuspension reports whether a reason, with its status or without, is a suspension's.
func isSuspension(why string) bool {
	_, is := Suspended(why)
	return is
}

// suspensionStatus is "system not accepting network messages" (RFC 3463), as when it is halted by an
// operator.
var suspensionStatus = mail.Status{Class: 4, Subject: 3, Detail: 2}

// suspensions are what operators have suspended.
type suspensions struct {
	orders *measure.Table
	active int                           // suspensions in force
	ruled  int                           // of these, those of rules on replies
	has    [measure.Destination + 1]bool // whether some of a scope are; of Resumed, whether its record is there
	ended  uint64                        // number of those that have ended, or have been shortened

	wanted bool         // a scan is to begin for what they kept
	next   mail.Instant // when it may
	inCore int          // messages in core that rested with a mark when they came, and would not have been due
}

// resumePause is the shortest time between the beginnings of two scans for resumed mail. One that is under way then
// begins anew: what it has found and not taken would keep the mail of the second suspension waiting
// for room in core in front of it.
const resumePause = time.Second

// A suspension is one that concerns some mail.
type suspension struct {
	key   measure.Key
	until mail.Instant
	ruled bool   // a rule's
	said  string // ruled: what the receiver said
}

// reply is the reason of mail that it keeps waiting.
func (s suspension) reply() mail.Reply {
	text := s.key.Scope.String() + " " + s.key.Value()
	if s.ruled {
		text = mail.CutText(RuleSuspensionPrefix+text+reasonMark+s.said, mail.ReplyTextMax)
	} else {
		text = SuspensionPrefix + text
	}
	return mail.Reply{Code: 451, Status: suspensionStatus, Text: text}
}

// consider makes s the suspension of a value if that lasts longer.
func (v *suspensions) consider(s *suspension, scope measure.Scope, value string) {
	if v.has[scope] && value != "" {
		v.considerKey(s, measure.OrderKey(scope, value))
	}
}

func (v *suspensions) considerKey(s *suspension, k measure.Key) {
	if o := v.orders.Get(k).Order; o.Until > s.until {
		*s = suspension{key: k, until: o.Until}
		if s.ruled = o.Rule != ""; s.ruled {
			s.said = o.Reason
		}
	}
}

// considerWay makes s the suspension of a destination from a source, if that lasts longer; without a
// source, that from all of them.
func (v *suspensions) considerWay(s *suspension, transport string, to way, source string) {
	if !v.has[measure.Destination] {
		return
	}
	v.considerKey(s, measure.Key{Scope: measure.Destination, Transport: transport, Name: to.name, Nexthop: to.name, Source: source})
	if to.reach != to.name {
		v.considerKey(s, measure.Key{Scope: measure.Destination, Transport: transport, Name: to.reach, Nexthop: to.reach, Source: source})
	}
}

// suspension returns what keeps a recipient of a message from being delivered by a transport, the
// one that lasts longest if there are several; false if nothing does. nexthop is that of the
// route, and in is the queue, whose nexthop may be a site; the zero way if that is not known yet. What
// keeps it from one source only is no such thing (suspendedSource).
func (q *Qmgr) suspension(m *message, transport, nexthop string, in way, to mail.Address) (s suspension, is bool) {
	v := &q.suspended
	if v.active == 0 || transport == TransportRetry || transport == TransportError {
		return s, false
	}
	v.consider(&s, measure.Transport, transport)
	v.considerWay(&s, transport, in, "")
	v.consider(&s, measure.Site, in.reach)
	v.consider(&s, measure.Site, nexthop)
	v.consider(&s, measure.Domain, strings.ToLower(to.Domain()))
	v.consider(&s, measure.Class, m.env.Flow.Class)
	v.consider(&s, measure.Tenant, m.env.Flow.Tenant)
	return s, s.until != 0
}

// suspensionOf is suspension for a recipient of a waiting entry.
func (q *Qmgr) suspensionOf(e *sched.Entry, to mail.Address) (s suspension, is bool) {
	d, nexthop := queueOf(e.Destination()), nexthopOf(e)
	if e.Domain == "" && strings.HasPrefix(d.nexthop, "{") { // domains share transactions: it was the recipient's
		nexthop = strings.ToLower(to.Domain())
	}
	return q.suspension(messageOf(e.Message), d.transport.Name, nexthop, d.way(), to)
}

// suspendedSource returns the suspension of a source, altogether or for a destination; the zero
// suspension if there is none.
func (q *Qmgr) suspendedSource(s *sourceState, transport string, to way) (of suspension) {
	if q.suspended.active > 0 && s != nil {
		q.suspended.consider(&of, measure.Source, s.Name)
		q.suspended.considerWay(&of, transport, to, s.Name)
	}
	return of
}

// suspendedQueue returns the suspension of a destination, from its source or from all; the zero
// suspension if there is none.
func (q *Qmgr) suspendedQueue(d *queue) (of suspension) {
	q.suspended.considerWay(&of, d.transport.Name, d.way(), "")
	if d.source != nil {
		q.suspended.considerWay(&of, d.transport.Name, d.way(), d.source.Name)
	}
	return of
}

// noteSuspension notes that some recipient of a message waits until a suspension ends.
func (q *Qmgr) noteSuspension(m *message, s suspension) {
	if !m.kept {
		m.kept, m.keptUntil, m.endedBefore = true, s.until, q.suspended.ended
	}
	m.keptUntil = min(m.keptUntil, s.until)
}

// bindSuspended puts off a recipient because of a suspension. Of a message that was put off because
// of one before and is looked at for another reason than its time, the recipient is left as it
// is: a retry of all mail, or a scan for what another suspension kept, does not write it.
func (q *Qmgr) bindSuspended(m *message, b *bound, why mail.Reply, of mail.Origin) {
	switch m.from {
	case intake.FromFlush, intake.FromRetry, intake.FromResume, intake.FromWarmup:
		if m.place.Area == mail.AreaDeferred && intake.Marked(m.place.Due) && m.place.Due > q.now {
			m.deferring(why.Text)
			m.retry, m.aside, b.queue = true, true, nil
			q.hold(m, -1)
			return
		}
	}
	q.bindToRetry(m, b, why, of)
}

// putOffSuspended defers the recipients of a waiting entry that are suspended. The others stay in
// it. It reports whether none did, and the entry has ended.
func (q *Qmgr) putOffSuspended(e *sched.Entry) bool {
	if q.suspended.active == 0 || !slices.ContainsFunc(e.Recipients, func(r mail.Recipient) bool { _, is := q.suspensionOf(e, r.Address); return is }) {
		return false
	}
	m, d := messageOf(e.Message), queueOf(e.Destination())
	var staying []mail.Recipient
	var away []bound
	taken := 0
	for _, r := range e.Recipients {
		s, is := q.suspensionOf(e, r.Address)
		if !is {
			staying = append(staying, r)
			continue
		}
		taken++
		q.noteSuspension(m, s)
		b := bound{recipient: r, queue: d, domain: e.Domain}
		q.hold(m, 1) // beside its place in e, which ends
		if q.bindToRetry(m, &b, s.reply(), d.origin()); b.queue != nil {
			away = append(away, b)
		}
	}
	slices.SortStableFunc(away, q.compareBound)
	q.assign(m, away)
	q.attend(m)
	if len(staying) == 0 {
		q.finish(e)
		return true
	}
	e.Keep(staying)
	q.hold(m, -taken)
	return false
}

// putOffAllSuspended does so for all that waits in core, and has what waits for a source that is
// suspended bound to another one.
func (q *Qmgr) putOffAllSuspended() {
	for t := range q.ring.All() {
		for d := range t.destinations() {
			q.putOffSuspendedOf(d)
		}
	}
}

// putOffSuspendedOf does so for what waits for a destination.
func (q *Qmgr) putOffSuspendedOf(d *queue) {
	if d.Waiting == 0 {
		return
	}
	if !d.pinned { // by the caller of a rule's
		d.pin()
		defer q.unpin(d)
	}
	for _, e := range slices.Collect(d.entries()) {
		switch {
		case q.putOffSuspended(e):
		case d.source != nil && !q.maySend(d.source, d.transport, d.way()):
			q.bindEntryAnew(e)
		}
	}
	d.touch()
}

// suspendedDue is when a message is looked at again whose recipients all wait for suspensions to end.
// One that ended after the first of them was put off may have been that one's: it is tried now.
func (q *Qmgr) suspendedDue(m *message) mail.Instant {
	if m.endedBefore != q.suspended.ended {
		return q.now
	}
	cfg := &q.cfg.Backoff
	concern := min(backoff.Concern(cfg, m.env.Since(), m.env.Sender == "", m.env.Warned), q.now.Add(longestRest(cfg)))
	return min(m.keptUntil, intake.MarkFrom(max(concern, q.now.Add(time.Second))))
}

// longestRest is the longest time for which a message is put off that does not expire.
func longestRest(cfg *backoff.Config) time.Duration {
	return max(cfg.MaximalQueueLifetime, 24*time.Hour)
}

// keptDue is when a message is tried again of which some recipients wait for a suspension to end, and
// others for their receivers until an instant.
func (q *Qmgr) keptDue(m *message, due mail.Instant) mail.Instant {
	if m.endedBefore != q.suspended.ended {
		return q.now
	}
	return min(m.keptUntil, intake.MarkFrom(due))
}

// beforeDeadline returns a due time that is not after a message's deadline, with a mark if it
// should have one.
func (q *Qmgr) beforeDeadline(m *message, due mail.Instant) mail.Instant {
	if !m.hasDeadline() || m.env.By.At <= q.now || due <= m.env.By.At {
		return due
	}
	if marked := intake.MarkUntil(m.env.By.At); m.kept && marked > q.now {
		return marked
	}
	return m.env.By.At
}

// orderKey returns the key of what an operator names.
func orderKey(s measure.Scope, value string) measure.Key {
	switch s {
	case measure.Site:
		value = foldNexthop(value)
	case measure.Domain:
		value = strings.ToLower(value)
	}
	k := measure.OrderKey(s, value)
	if s == measure.Destination {
		k.Name = foldNexthop(k.Name)
		k.Nexthop = k.Name
	}
	return k
}

// suspend carries out an operator's order. What is suspended already is so for the new time and reason.
func (q *Qmgr) suspend(ev Suspend) {
	v, k := &q.suspended, orderKey(ev.Scope, ev.Value)
	was := v.orders.Get(k).Order
	note := orderNote(NoteSuspended, k, measure.Order{By: ev.By, Reason: ev.Reason})
	switch {
	case !slices.Contains(measure.Scopes(), ev.Scope), !suspendable(k):
		note.Text += ": cannot be suspended"
	case (was.Until == 0 || was.Rule != "") && v.active-v.ruled >= measure.OrderLimit:
		note.Text += fmt.Sprintf(": refused, because %d suspensions are in force, which is the limit", v.active-v.ruled)
	default:
		until := q.suspensionEnd(ev.For)
		if until != mail.Never {
			note.At = until
		}
		v.orders.Put(k, measure.Record{Order: measure.Order{By: ev.By, Reason: ev.Reason, Since: q.now, Until: until}})
		if until < was.Until {
			q.unsuspended()
		}
		v.recount()
		q.putOffAllSuspended()
	}
	q.emit(note)
}

// suspendable reports whether what a key is for can be suspended.
func suspendable(k measure.Key) bool {
	of := k.Transport
	switch k.Scope {
	case measure.Transport:
		of = k.Name
	case measure.Destination:
		if k.Transport == "" {
			return false
		}
	}
	return k.Name != "" && of != TransportRetry && of != TransportError
}

// suspensionEnd returns when a suspension that begins now ends; mail.Never if it does not.
func (q *Qmgr) suspensionEnd(after time.Duration) mail.Instant {
	if after <= 0 || q.now.Add(after) >= mail.Never-mail.Instant(time.Hour) {
		return mail.Never
	}
	return intake.MarkFrom(q.now.Add(after))
}

// suspendBy suspends a destination because of a rule. If rules have suspended as many as they
// may, it rests: for the same time, but no longer than maxRestInstead.
func (q *Qmgr) suspendBy(d *queue, m *mail.Measure) {
	v := &q.suspended
	if v.ruled >= measure.OrderLimit {
		q.restBy(d, &mail.Measure{Rule: m.Rule, Reply: m.Reply, Rest: min(m.Suspend, maxRestInstead)})
		return
	}
	k := measure.Key{Scope: measure.Destination, Transport: d.transport.Name, Name: d.name, Nexthop: d.name, Source: d.source.name()}
	o := measure.Order{Rule: m.Rule, Reason: m.Reply.Lines(), Since: q.now, Until: q.suspensionEnd(m.Suspend)}
	v.orders.Put(k, measure.Record{Order: o})
	v.recount()
	q.counts.RuleSuspensions++
	note := orderNote(NoteSuspended, k, o)
	if o.Until != mail.Never {
		note.At = o.Until
	}
	q.emit(note)
	for other := range d.transport.destinations() {
		if other.name == d.name || other.nexthop == d.name {
			q.putOffSuspendedOf(other)
		}
	}
}

// maxRestInstead is how long a destination rests at most that can only be suspended until an operator
// resumes it, and cannot be suspended.
const maxRestInstead = 24 * time.Hour

// leaveOrders ends the suspensions of rules that there are not any more.
func (q *Qmgr) leaveOrders() {
	v := &q.suspended
	if v.ruled == 0 {
		return
	}
	for _, k := range v.orders.All() {
		if o := k.Record.Order; o.Rule != "" && !q.rules.has(o.Rule) {
			v.orders.Put(k.Key, measure.Record{})
			note := orderNote(NoteResumed, k.Key, o)
			note.Text += ": there is no such rule any more"
			q.emit(note)
			q.unsuspended()
		}
	}
	v.recount()
}

// orderNote is a note about a suspension of a rule, or of a destination.
func orderNote(kind NoteKind, k measure.Key, o measure.Order) Note {
	n := Note{Kind: kind, Text: orderText(k, o)}
	if k.Scope == measure.Destination {
		n.Transport, n.Nexthop, n.Source = k.Transport, k.Nexthop, k.Source
	}
	return n
}

// revoke carries out an operator's order that ends a suspension.
func (q *Qmgr) revoke(ev Resume) {
	v, k := &q.suspended, orderKey(ev.Scope, ev.Value)
	note := orderNote(NoteResumed, k, measure.Order{By: ev.By, Reason: ev.Reason})
	if v.orders.Get(k).Order.Until == 0 || k.Scope == measure.Resumed {
		note.Text += ": is not suspended"
	} else {
		v.orders.Put(k, measure.Record{})
		q.unsuspended()
		v.recount()
	}
	q.emit(note)
}

// orderText describes an order.
func orderText(k measure.Key, o measure.Order) string {
	text := k.Scope.String() + " " + k.Value()
	switch {
	case o.Rule != "":
		text += " by rule " + o.Rule
	case o.By != "":
		text += " by " + o.By
	}
	if o.Reason != "" {
		text += ": " + strings.ReplaceAll(o.Reason, "\n", " / ")
	}
	return text
}

// unsuspended has the mail found that waits for the end of a suspension that has ended early.
func (q *Qmgr) unsuspended() {
	v := &q.suspended
	v.ended++
	v.wanted = true
	v.orders.Put(measure.Key{Scope: measure.Resumed}, measure.Record{Order: measure.Order{Since: q.now, Until: mail.Never}})
}

// reconsiderSuspended has suspended mail looked at again at a reload if its age leads to something at another time by the
// new configuration, or if it may leave from other sources: it would be returned days later than the operator wants, or
// wait for a suspension that does not concern it any more.
func (q *Qmgr) reconsiderSuspended(cfg *Config) {
	was, now := &q.cfg.Backoff, &cfg.Backoff
	lifetimes := now.MaximalQueueLifetime != was.MaximalQueueLifetime || now.BounceQueueLifetime != was.BounceQueueLifetime || now.DelayWarningTime != was.DelayWarningTime
	if q.suspended.active > 0 && lifetimes || (q.suspended.has[measure.Source] || q.suspended.has[measure.Destination]) && !cfg.Sources.Equal(q.cfg.Sources) {
		q.unsuspended()
		q.suspended.recount()
	}
}

// rerouteSuspended has mail looked at again that waits because of where it was routed.
func (q *Qmgr) rerouteSuspended() {
	if v := &q.suspended; v.has[measure.Site] || v.has[measure.Destination] || v.has[measure.Transport] || v.has[measure.Source] {
		q.unsuspended()
		v.recount()
	}
}

// recount brings up to date which scopes have suspensions. It is called after each change of the table.
func (v *suspensions) recount() {
	clear(v.has[:])
	v.active, v.ruled = 0, 0
	for _, k := range v.orders.All() {
		if v.has[k.Key.Scope] = true; k.Key.Scope != measure.Resumed {
			v.active++
		}
		if k.Record.Order.Rule != "" {
			v.ruled++
		}
	}
}

// endSuspensions ends those whose time is over. The mail that they kept is due now.
func (q *Qmgr) endSuspensions() {
	v := &q.suspended
	for k, was, ok := v.orders.End(q.now); ok; k, was, ok = v.orders.End(q.now) {
		v.ended++
		v.recount()
		note := orderNote(NoteResumed, k, was.Order)
		note.Text += ": its time is over"
		q.emit(note)
	}
}

// scanResumed begins and ends the scan for mail that suspensions kept.
func (q *Qmgr) scanResumed() {
	v := &q.suspended
	if !v.has[measure.Resumed] {
		return
	}
	if !q.halt && q.resumeWake() <= q.now {
		v.wanted, v.next = false, q.now.Add(resumePause)
		q.admission.BeginResume(q.now)
	}
	if !v.wanted && v.inCore == 0 && !q.admission.UnderWay(ScanResume) {
		v.orders.Put(measure.Key{Scope: measure.Resumed}, measure.Record{})
		v.recount()
	}
}

// resumeWake returns when the next scan is to begin. It waits for the survey of buckets that have
// deferred mail.
func (q *Qmgr) resumeWake() mail.Instant {
	if v := &q.suspended; v.wanted && q.admission.MayBeginResume() {
		return v.next
	}
	return mail.Never
}

// comesKept counts a message that comes into core before it is due because of a suspension.
func (q *Qmgr) comesKept(m *message) {
	if m.place.Area == mail.AreaDeferred && intake.Marked(m.place.Due) && m.place.Due > q.now {
		m.rested = true
		q.suspended.inCore++
	}
}

// leavesKept is for a message that leaves. A suspension may have ended after it was put off, and the
// scan for it may have ended before it came to rest.
func (q *Qmgr) leavesKept(m *message) {
	if m.rested {
		q.suspended.inCore--
	}
	if m.kept && m.endedBefore != q.suspended.ended && m.place.Area == mail.AreaDeferred && m.place.Due > q.now {
		q.suspended.wanted = true
		if !q.suspended.has[measure.Resumed] {
			q.suspended.orders.Put(measure.Key{Scope: measure.Resumed}, measure.Record{Order: measure.Order{Since: q.now, Until: mail.Never}})
			q.suspended.recount()
		}
	}
}

// learnedOrders takes the suspensions that were in force before the last stop.
func (q *Qmgr) learnedOrders(known []measure.Known) {
	v := &q.suspended
	ends := make(map[measure.Key]mail.Instant)
	for _, k := range known {
		ends[k.Key] = k.Record.Order.Until
	}
	taken := v.orders.Load(known, q.now)
	for _, k := range taken {
		r := v.orders.Get(k)
		switch {
		case k.Scope == measure.Resumed:
			v.wanted = true
		case r.Order.Until != ends[k]: // the clock was ahead when it was made
			r.Order.Until = intake.MarkFrom(r.Order.Until)
			v.orders.Put(k, r)
			q.unsuspended()
		}
	}
	v.recount()
	q.leaveOrders()
	if len(taken) > 0 {
		q.putOffAllSuspended()
	}
}

// A SuspensionView is one suspension in force.
type SuspensionView struct {
	Scope measure.Scope
	Value string
	measure.Order
}

// Suspensions returns all of them, by scope and value.
func (q *Qmgr) Suspensions() []SuspensionView {
	var all []SuspensionView
	for _, k := range q.suspended.orders.All() {
		if k.Key.Scope != measure.Resumed {
			all = append(all, SuspensionView{k.Key.Scope, k.Key.Value(), k.Record.Order})
		}
	}
	return all
}

// Suspension returns the one of a value; the zero value if there is none.
func (q *Qmgr) Suspension(scope measure.Scope, value string) SuspensionView {
	k := orderKey(scope, value)
	if r := q.suspended.orders.Get(k); r.Order.Until != 0 {
		return SuspensionView{k.Scope, k.Value(), r.Order}
	}
	return SuspensionView{}
}

// Known reports whether something of a scope and a value is configured, or is the destination or the
// flow of mail in core, for a warning about a mistyped value. It takes time in
// proportion to what is in core.
func (q *Qmgr) Known(scope measure.Scope, value string) bool {
	k := orderKey(scope, value)
	value = k.Name
	switch scope {
	case measure.Destination:
		t := q.transports[k.Transport]
		if t == nil || k.Source != "" && q.sources.byName[k.Source] == nil {
			return false
		}
		for d := range t.destinations() {
			if d.name == value || d.nexthop == value {
				return true
			}
		}
		return false
	case measure.Transport:
		_, configured := q.cfg.Transports[value]
		return configured || q.transports[value] != nil
	case measure.Source:
		return q.sources.byName[value] != nil
	case measure.Tenant:
		for name := range q.tenants { //archtest:anyorder whether there is one
			if name.tenant == value {
				return true
			}
		}
		return false
	case measure.Class:
		for name := range q.tenants { //archtest:anyorder whether there is one
			if name.class == value {
				return true
			}
		}
		for i := range q.cfg.Shares.Classes {
			if q.cfg.Shares.Classes[i].Name == value {
				return true
			}
		}
		return false
	}
	for t := range q.ring.All() {
		for d := range t.destinations() {
			if d.nexthop == value || d.instead.Nexthop == value {
				return true
			}
			for e := range d.entries() {
				if e.Domain == value || scope == measure.Domain && slices.ContainsFunc(e.Recipients, func(r mail.Recipient) bool { return strings.EqualFold(r.Address.Domain(), value) }) {
					return true
				}
			}
		}
	}
	return false
}

// checkSuspensions checks that nothing waits in the scheduler that is suspended.
func (q *Qmgr) checkSuspensions() {
	v, n := &q.suspended, 0
	v.orders.Check()
	was := *v
	v.recount()
	assert.That(was.active == v.active && was.ruled == v.ruled && was.has == v.has, "%d suspensions in force, %d of rules, counted %d and %d", v.active, v.ruled, was.active, was.ruled)
	assert.That(v.has[measure.Resumed] || !v.wanted && !q.admission.UnderWay(ScanResume), "a scan for resumed mail is not remembered")
	for _, m := range q.messages { //archtest:anyorder a sum
		if m.rested {
			n++
		}
	}
	assert.That(n == v.inCore, "%d messages in core rested because of a suspension, counted %d", n, v.inCore)
	if v.active == 0 {
		return
	}
	for t := range q.ring.All() {
		for d := range t.destinations() {
			for e := range d.entries() {
				for _, r := range e.Recipients {
					s, is := q.suspensionOf(e, r.Address)
					assert.That(!is, "%v waits for %s:%s, and %v is suspended", messageOf(e.Message).ID, t.Name, d.nexthop, s.key)
				}
				assert.That(q.suspendedSource(d.source, t.Name, d.way()).until == 0, "%v waits for %s:%s from source %s, which is suspended", messageOf(e.Message).ID, t.Name, d.nexthop, d.source.name())
			}
		}
	}
}
