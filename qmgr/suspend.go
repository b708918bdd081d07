package qmgr

import (
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/backoff"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/suspend"
)

// Package suspend knows what is suspended, which mail that concerns and until when, and when mail has to be found again. What is
// left to the queue manager is to put off what waits in core, and what is bound.

// SuspensionView is one suspension in force.
type SuspensionView = suspend.View

// suspension returns what keeps a recipient of a message from being delivered by a transport; false if nothing does. nexthop is
// that of the route, and in is the queue; the zero way if that is not known yet.
func (q *Qmgr) suspension(m *message, transport, nexthop string, in way, to mail.Address) (s suspend.Suspension, is bool) {
	if !q.suspended.Any() {
		return s, false
	}
	return q.suspended.Of(&suspend.Mail{Way: in.on(transport), Nexthop: nexthop, To: to, Flow: &m.env.Flow})
}

// on returns the way as that of a transport.
func (w way) on(transport string) suspend.Way {
	return suspend.Way{Transport: transport, Name: w.name, Reach: w.reach}
}

// suspensionOf is suspension for a recipient of a waiting entry.
func (q *Qmgr) suspensionOf(e *sched.Entry, to mail.Address) (s suspend.Suspension, is bool) {
	d, nexthop := queueOf(e.Destination()), nexthopOf(e)
	if e.Domain == "" && strings.HasPrefix(d.nexthop, "{") { // domains share transactions: it was the recipient's
		nexthop = idn.Key(to.Domain())
	}
	return q.suspension(messageOf(e.Message), d.transport.Name, nexthop, d.way(), to)
}

// bindSuspended puts off a recipient because of a suspension. Of a message that was put off because
// of one before and is looked at for another reason than its time, the recipient is left as it
// is: a retry of all mail, or a scan for what another suspension kept, does not write it.
func (q *Qmgr) bindSuspended(m *message, b *bound, why mail.Reply, of mail.Origin) {
	switch m.from {
	case intake.FromFlush, intake.FromRetry, intake.FromResume, intake.FromWarmup:
		if suspend.Rests(m.place, q.now) {
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
	if !q.suspended.Any() || !slices.ContainsFunc(e.Recipients, func(r mail.Recipient) bool { _, is := q.suspensionOf(e, r.Address); return is }) {
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
		q.suspended.Keep(&m.suspension, s.Until)
		b := bound{recipient: r, queue: d, domain: e.Domain}
		q.hold(m, 1) // beside its place in e, which ends
		if q.bindToRetry(m, &b, s.Reply(), d.origin()); b.queue != nil {
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
		case d.source != nil && !q.maySend(d.source, d.transport, d.way(), addressees{all: e.Recipients}):
			q.bindEntryAnew(e)
		}
	}
	d.touch()
}

// suspendedDue is when a message is looked at again whose recipients all wait for suspensions to end.
func (q *Qmgr) suspendedDue(m *message) mail.Instant {
	cfg := &q.cfg.Backoff
	concern := min(backoff.Concern(cfg, m.env.Since(), m.env.Sender == "", m.env.Warned), q.now.Add(longestRest(cfg)))
	return q.suspended.Due(&m.suspension, max(concern, q.now.Add(time.Second)), q.now)
}

// longestRest is the longest time for which a message is put off that does not expire.
func longestRest(cfg *backoff.Config) time.Duration {
	return max(cfg.MaximalQueueLifetime, 24*time.Hour)
}

// beforeDeadline returns a due time that is not after a message's deadline, with a mark if it
// should have one.
func (q *Qmgr) beforeDeadline(m *message, due mail.Instant) mail.Instant {
	if !m.hasDeadline() || m.env.By.At <= q.now || due <= m.env.By.At {
		return due
	}
	if marked := intake.MarkUntil(m.env.By.At); m.suspension.Kept() && marked > q.now {
		return marked
	}
	return m.env.By.At
}

// suspend carries out an operator's order.
func (q *Qmgr) suspend(ev Suspend) {
	notice, done := q.suspended.Order(suspend.Key(ev.Scope, ev.Value), measure.Order{By: ev.By, Reason: ev.Reason}, ev.For, q.now)
	if done {
		q.putOffAllSuspended()
	}
	q.tellSuspensions(notice)
}

// tellSuspensions emits notices about suspensions.
func (q *Qmgr) tellSuspensions(all ...suspend.Notice) {
	for _, n := range all {
		kind := NoteSuspended
		if n.Ended {
			kind = NoteResumed
		}
		q.tellSuspension(kind, n, Refusers{})
	}
}

// tellRuleSuspension emits and counts a notice about a rule's.
func (q *Qmgr) tellRuleSuspension(n suspend.Notice, of Refusers) {
	q.counts.RuleSuspensions++
	q.tellSuspension(NoteSuspended, n, of)
}

func (q *Qmgr) tellSuspension(kind NoteKind, n suspend.Notice, of Refusers) {
	q.emit(Note{Kind: kind, Transport: n.Transport, Nexthop: n.Nexthop, Domain: n.Domain, Source: n.Source, At: n.Until, Text: n.Text, Refusers: of})
}

// suspendedBy reports whether the mail that a reply refused is suspended already.
func (q *Qmgr) suspendedBy(d *queue, m *mail.Measure) bool {
	domain := ""
	if m.Domains > 1 {
		domain = m.Refused.Domain
	}
	return q.suspended.OfDestination(d.way().on(d.transport.Name), domain, d.source.String()).Until != 0
}

// suspendDomainBy suspends a destination's mail to a domain because of a rule, from the source that was refused. At the limit of suspensions by
// rules, it goes on: its recipients are deferred one by one.
func (q *Qmgr) suspendDomainBy(d *queue, m *mail.Measure, lasts time.Duration) {
	notice, done := q.suspended.OrderByRule(suspend.DomainKey(d.way().on(d.transport.Name), m.Refused.Domain, d.source.String()), m, lasts, q.now)
	if !done {
		return
	}
	q.tellRuleSuspension(notice, d.measures.refusers(m, m.Refused.Domain, q.now))
	q.putOffAllSuspended()
}

// suspendBy suspends a destination because of a rule. If rules have suspended as many as they
// may, it rests: for the same time, but no longer than maxRestInstead.
func (q *Qmgr) suspendBy(d *queue, m *mail.Measure, lasts time.Duration) {
	notice, done := q.suspended.OrderByRule(suspend.DestinationKey(d.way().on(d.transport.Name), d.source.String()), m, lasts, q.now)
	if !done {
		q.restBy(d, &mail.Measure{Rule: m.Rule, Reply: m.Reply, Rest: min(lasts, maxRestInstead)})
		return
	}
	q.tellRuleSuspension(notice, d.measures.refusers(m, "", q.now))
	for other := range d.transport.destinations() {
		if other.name == d.name || other.nexthop == d.name {
			q.putOffSuspendedOf(other)
		}
	}
}

// maxRestInstead bounds the rest of a destination that should be suspended but cannot be: the rule may
// want it suspended until an operator resumes it.
const maxRestInstead = 24 * time.Hour

// reconsiderSuspended has suspended mail looked at again at a reload if its age leads to something at another time by the
// new configuration, or if it may leave from other sources: it would be returned days later than the operator wants, or
// wait for a suspension that does not concern it any more.
func (q *Qmgr) reconsiderSuspended(cfg *Config) {
	was, now := &q.cfg.Backoff, &cfg.Backoff
	if q.suspended.Any() && (now.MaximalQueueLifetime != was.MaximalQueueLifetime || now.BounceQueueLifetime != was.BounceQueueLifetime || now.DelayWarningTime != was.DelayWarningTime) {
		q.suspended.Again(q.now)
	}
	if !cfg.Sources.Equal(q.cfg.Sources) {
		q.suspended.AgainBySource(q.now)
	}
}

// scanResumed begins and ends the scan for mail that suspensions kept.
func (q *Qmgr) scanResumed() {
	if !q.halt && q.resumeWake() <= q.now {
		q.suspended.Begin(q.now)
		q.admission.BeginResume(q.now)
	}
	if q.suspended.Remembered() && !q.admission.UnderWay(ScanResume) {
		q.suspended.Over()
	}
}

// resumeWake returns when the next scan is to begin. It waits for the survey of buckets that have
// deferred mail.
func (q *Qmgr) resumeWake() mail.Instant {
	if at := q.suspended.WakeAt(); at != mail.Never && q.admission.MayBeginResume() {
		return at
	}
	return mail.Never
}

// learnedOrders takes the suspensions that were in force before the last stop.
func (q *Qmgr) learnedOrders(known []measure.Known) {
	some := q.suspended.Load(known, q.now)
	q.tellSuspensions(q.suspended.Leave(q.rules.Has, q.now)...)
	if some {
		q.putOffAllSuspended()
	}
}

// Suspensions returns all of them, by scope and value.
func (q *Qmgr) Suspensions() []SuspensionView { return q.suspended.All() }

// Suspension returns the one of a value; the zero value if there is none.
func (q *Qmgr) Suspension(scope measure.Scope, value string) SuspensionView {
	return q.suspended.View(scope, value)
}

// Known reports whether something of a scope and a value is configured, or is the destination or the
// flow of mail in core, for a warning about a mistyped value. It takes time in
// proportion to what is in core.
func (q *Qmgr) Known(scope measure.Scope, value string) bool {
	k := suspend.Key(scope, value)
	value = k.Name
	switch scope {
	case measure.Destination:
		t := q.transports[k.Transport]
		if t == nil || k.Source != "" && q.sources.Named(k.Source) == nil {
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
		return q.sources.Named(value) != nil
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
				if e.Domain == value || scope == measure.Domain && slices.ContainsFunc(e.Recipients, func(r mail.Recipient) bool { return idn.Key(r.Address.Domain()) == value }) {
					return true
				}
			}
		}
	}
	return false
}

// checkSuspensions checks that nothing waits in the scheduler that is suspended.
func (q *Qmgr) checkSuspensions() {
	q.suspended.Check(q.admission.UnderWay(ScanResume), func(yield func(*suspend.Stay) bool) {
		for _, m := range q.messages { //archtest:anyorder a sum
			if !yield(&m.suspension) {
				return
			}
		}
	})
	if !q.suspended.Any() {
		return
	}
	for t := range q.ring.All() {
		for d := range t.destinations() {
			for e := range d.entries() {
				for _, r := range e.Recipients {
					s, is := q.suspensionOf(e, r.Address)
					assert.That(!is, "%v waits for %s:%s, which is %s", messageOf(e.Message).ID, t.Name, d.nexthop, s.Reply().Text)
					assert.That(d.source == nil || q.suspended.OfSource(d.source.Name, d.way().on(t.Name), idn.Key(r.Address.Domain())).Until == 0, "%v waits for %s:%s from source %s, which is suspended", messageOf(e.Message).ID, t.Name, d.nexthop, d.source.String())
				}
			}
		}
	}
}
