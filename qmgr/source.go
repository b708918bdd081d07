package qmgr

import (
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/suspend"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Receivers judge by the address that connects. So the source is a part of a queue's
// identity: window, connections, limits, and what is known of hosts are those of one
// destination from one source. A recipient gets its source where it gets its queue, and
// keeps it until the queue dies or the source is withdrawn.
//
// An address that cannot be used on this machine any more is withdrawn, and so is the
// source if it has no other: what waits for it is bound anew, and it is passed over until
// the address may be tried again, for which a pause is enough, since a dial that fails
// costs no mail anything. Where a pool has no other source the mail is deferred: it never
// leaves from an address that its pool does not have. When an address is tried again, so is
// that mail, as after an outage of our network (network.go).

// A way is where a message's mail goes, but for the source.
type way struct {
	name, reach string // the queue's name and nexthop
	security    string
}

// way returns that of a queue's mail.
func (q *queue) way() way { return way{q.name, q.nexthop, q.security} }

// chooseSource returns from which source a message's mail for a destination is to leave:
// nil where no pool wants it. A reply says why it can leave from none now.
//
// The sources of the pool take turns (source.Fleet). It must not leave from one that maySend
// refuses, nor from one whose allowance for the site is used up today, or will be by what waits. nexthop is that of the
// message's route.
func (q *Qmgr) chooseSource(m *message, t *transport, to way, nexthop string, who addressees) (*source.State, mail.Reply) {
	p := q.poolOf(m, t, nexthop)
	if p == nil {
		return nil, mail.Reply{}
	}
	c := source.Choice{Pool: p, Transport: t.Name, Name: to.name, Message: m.serial}
	if m.Entries > 0 {
		c.Beside = func(yield func(*source.State) bool) {
			for _, d := range t.queues.Variants(to.name).All() {
				if d.source != nil && d.security == to.security && d.Has(m.flow, &m.Message) && !yield(d.source) {
					return
				}
			}
		}
	}
	s := q.sources.Choose(c, func(s *source.State) source.Use {
		switch {
		case !q.maySend(s, t, to, who) || !q.allows(t, to.name, warmup.Key{Source: s.Name, Site: to.reach}):
			return source.UseNot
		case q.deadFrom(t, to, s):
			return source.UseDead
		}
		return source.UseWell
	})
	if s == nil {
		return nil, q.noSource(m, t, p, to, who)
	}
	return s, mail.Reply{}
}

// addressees are for whom mail needs a source: one recipient, or all those of an entry.
type addressees struct {
	one mail.Address
	all []mail.Recipient
}

// maySend reports whether mail may leave from a source for a destination at all.
func (q *Qmgr) maySend(s *source.State, t *transport, to way, who addressees) bool {
	return s.Up() && q.suspensionFrom(s, t, to, who).Until == 0
}

// suspensionFrom returns what keeps mail from leaving from a source, the suspension that lasts longest if there are several; the
// zero Suspension if nothing does.
func (q *Qmgr) suspensionFrom(s *source.State, t *transport, to way, who addressees) (longest suspend.Suspension) {
	if !q.suspended.Any() {
		return longest
	}
	longest = q.suspended.OfSource(s.Name, to.on(t.Name), idn.Key(who.one.Domain()))
	for _, r := range who.all {
		if one := q.suspended.OfSource(s.Name, to.on(t.Name), idn.Key(r.Address.Domain())); one.Until > longest.Until {
			longest = one
		}
	}
	return longest
}

// poolOf returns the pool that decides from where a message's mail for a nexthop leaves;
// nil if none does. Only connections have a source.
func (q *Qmgr) poolOf(m *message, t *transport, nexthop string) *source.Pool {
	if t.group == nil {
		return nil
	}
	return q.sources.Pool(source.Way{Flow: &m.env.Flow, Sender: m.env.Sender, Transport: t.Name, Nexthop: nexthop})
}

// noSource is why mail for a site waits whose pool has no source that can be used. It
// begins with WarmupPrefix if the site only has to wait for the next day, and is a suspension's if
// some of them are suspended and the others, if there are any, have to wait for the next day.
func (q *Qmgr) noSource(m *message, t *transport, p *source.Pool, to way, who addressees) mail.Reply {
	var down, spent []string
	var first suspend.Suspension
	suspended := 0
	for _, s := range q.sources.Members(p) {
		of := q.suspensionFrom(s, t, to, who)
		if of.Until != 0 {
			q.suspended.Keep(&m.suspension, of.Until)
			if suspended++; first.Until == 0 || of.Until < first.Until {
				first = of
			}
		}
		switch {
		case of.Until != 0:
		case !s.Up():
			down = append(down, s.Name+": "+s.WhyDown())
		case len(spent) < noSourceMax:
			spent = append(spent, q.warmup.Why(warmup.Key{Source: s.Name, Site: to.reach}, q.now))
		}
	}
	if suspended > 0 && len(down) == 0 {
		why := first.Reply()
		if len(spent) > 0 { // it goes when the day ends, or the suspension
			q.suspended.Keep(&m.suspension, intake.MarkFrom(q.warmupDue()))
			why.Text += "; " + strings.Join(spent, "; ")
		}
		return why
	}
	why := append(down, spent...)
	text := strings.Join(why[:min(len(why), noSourceMax)], "; ")
	if len(down) > 0 {
		q.sources.Strand(q.now)
		text = fmt.Sprintf("no source of pool %s can be used: %s", p.Name, text)
	}
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: text}
}

// noSourceMax bounds how many sources a reason names.
const noSourceMax = 4

// withdrawAddress takes an address out of use from which a connection could not be opened.
func (q *Qmgr) withdrawAddress(s *source.State, f source.Family, why mail.Reply) {
	first, ok := q.sources.Withdraw(s, f, why, q.now)
	if !ok {
		return // dialed before this was known
	}
	if first {
		q.emit(Note{Kind: NoteWithdrawn, Source: s.Name, Text: fmt.Sprintf("%s: %s", s.Address(f), why.Text)})
	}
	q.leaveSource(s)
}

// leaveSource binds mail anew that waits for a source of which an address has been withdrawn, and
// takes the hosts off the plans of its sites that it does not reach any more.
func (q *Qmgr) leaveSource(s *source.State) {
	for d := range q.queuesOf(s) {
		d.pin()
		q.hangupAll(q.conns.KeepOnly(d.site, s.Reaches))
		d.touch()
		if !s.Up() {
			q.bindAnew(d)
		}
		q.unpin(d)
	}
}

// tryAddresses lets withdrawn addresses be tried again whose pauses are over.
func (q *Qmgr) tryAddresses() {
	if tried := q.sources.TryDue(q.now); tried != nil {
		for _, s := range tried {
			q.lookAgain(s)
		}
		q.rescue()
	}
}

// rescue has the mail tried that was deferred because no source of its pool could be used.
func (q *Qmgr) rescue() {
	if since := q.sources.Rescue(); since != 0 {
		q.recovery.Want(since)
	}
}

// judgeAddress takes what a dial has shown about the address that it came from.
func (q *Qmgr) judgeAddress(s *source.State, to mail.Host, o *mail.OpenedConnection) {
	switch f := source.FamilyOf(to.Addr.Addr()); {
	case s == nil || o.Unavailable:
	case o.Unbound:
		q.withdrawAddress(s, f, o.Reply)
	case s.Restore(f):
		q.emit(Note{Kind: NoteRestored, Source: s.Name, Text: s.Address(f).String()})
	}
}

// lookAgain has the hosts of a source's destinations looked up when a connection is wanted
// next: it may reach others than before.
func (q *Qmgr) lookAgain(s *source.State) {
	for d := range q.queuesOf(s) {
		q.conns.KeepHosts(d.site, q.now)
	}
}

// queuesOf are the queues of a source. One may be freed while it is yielded.
func (q *Qmgr) queuesOf(s *source.State) func(yield func(*queue) bool) {
	return func(yield func(*queue) bool) {
		for t := range q.ring.All() {
			if t.group == nil {
				continue
			}
			for d := range t.destinations() {
				if d.source == s && !yield(d) {
					return
				}
			}
		}
	}
}

// bindAnew binds what waits for a destination whose source cannot carry it. Nothing comes
// back: chooseSource does not choose a source that may not send, or whose allowance is used
// up, and a queue that is dead puts off what it gets.
func (q *Qmgr) bindAnew(d *queue) {
	most := d.Waiting
	for e := d.Oldest(); e != nil; e = d.Oldest() {
		assert.That(most > 0, "mail that leaves %s comes back", d.name)
		most--
		q.bindEntryAnew(e)
	}
}

// bindEntryAnew gives a waiting entry to the queue of another source, or puts it off if
// there is none.
func (q *Qmgr) bindEntryAnew(e *sched.Entry) {
	d := queueOf(e.Destination())
	s, why := q.chooseSource(messageOf(e.Message), d.transport, d.way(), nexthopOf(e), addressees{all: e.Recipients})
	if !why.IsZero() {
		q.putOff(e, TransportRetry, why)
		return
	}
	to := q.queue(d.transport, d.name, d.nexthop, s, d.security)
	if !to.dead() {
		to = q.detourAnew(to, e)
	}
	if to.dead() {
		q.putOff(e, TransportRetry, to.reason)
		return
	}
	assert.That(to != d, "mail that leaves %s stays", d.name)
	q.moveTo(e, to)
}

// nexthopOf is the nexthop to which an entry was routed, as far as that is known still.
func nexthopOf(e *sched.Entry) string {
	if e.Domain != "" {
		return e.Domain
	}
	return queueOf(e.Destination()).nexthop
}

// outOfReach deals with a destination that has hosts, but none that its source reaches: it
// is dead until they are looked up again, and its mail goes to the other sources.
func (q *Qmgr) outOfReach(d *queue, until mail.Instant) {
	why := mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 4},
		Text: fmt.Sprintf("source %s has no address of the family of any host of %s", d.source.Name, d.nexthop)}
	q.forgetHosts(d)
	if d.window.State() == window.Suspended { // or it would get its own mail back
		q.timers.Stop(&d.timer)
		d.window.Resume()
	}
	if d.window.State() == window.Ready {
		d.window.Close()
		d.touch()
		q.dies(d, why, until)
	}
	q.rejoinAll(d)
	q.bindAnew(d)
}

// configureSources puts the sources and pools of the configuration in force.
func (q *Qmgr) configureSources(cfg *source.Config) {
	for _, s := range q.sources.Configure(cfg) {
		q.hangupSource(s)
	}
	q.rescue() // there may be other addresses and pools, and those that were withdrawn are tried
}

// hangupSource ends the connections of a source that is another one now, when they have
// done what they were given.
func (q *Qmgr) hangupSource(s *source.State) {
	for d := range q.queuesOf(s) {
		d.pin()
		q.hangupAll(q.conns.SetHosts(d.site, mail.HostSet{}, nil))
		d.touch()
		q.unpin(d)
	}
}

// fit binds mail anew for which another configuration has other sources.
func (q *Qmgr) fit() {
	for _, s := range q.sources.All() {
		if !s.Configured {
			q.hangupSource(s)
		}
	}
	for t := range q.ring.All() {
		if t.group == nil {
			continue
		}
		for d := range t.destinations() {
			var misfits []*sched.Entry
			for e := range d.entries() {
				if !q.fits(e) {
					misfits = append(misfits, e)
				}
			}
			d.pin()
			for _, e := range misfits {
				if !q.fits(e) { // those before it may have left enough of the source's allowance
					q.bindEntryAnew(e)
				}
			}
			q.unpin(d)
		}
	}
}

// fits reports whether the source of a waiting entry is one of its pool's.
func (q *Qmgr) fits(e *sched.Entry) bool {
	d := queueOf(e.Destination())
	p := q.poolOf(messageOf(e.Message), d.transport, nexthopOf(e))
	if p == nil || d.source == nil {
		return p == nil && d.source == nil
	}
	return p.Has(d.source.Name) && q.maySend(d.source, d.transport, d.way(), addressees{all: e.Recipients}) && !q.overbooked(d)
}
