package qmgr

import (
	"cmp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/stock"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/orders"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/suspend"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A bound recipient is one whose destination is known.
type bound struct {
	recipient mail.Recipient
	route     mail.Route
	queue     *queue
	domain    string // as entry.domain
}

// takeBatch takes recipients that were read and asks where they go.
func (q *Qmgr) takeBatch(m *message, b mail.RecipientBatch) {
	m.next = b.Next
	if m.order != orders.None {
		m.SetMore(b.More, m.Unread)
		m.left = m.left || b.More || len(b.Recipients) > 0
		return
	}
	b = q.chosenOf(m, b)
	unread := 0
	if b.More {
		unread = max(int(m.env.Recipients)-int(b.Next), 0)
	}
	m.SetMore(b.More, unread)
	m.Refilled = q.now
	if len(b.Recipients) == 0 {
		m.AllRead()
		return
	}
	m.unrouted = append(m.unrouted[:0], b.Recipients...)
	m.Unbound += len(m.unrouted)
	q.hold(m, len(m.unrouted))
	q.askRoutes(m)
}

// routeSender returns the sender on which the routes of a message depend.
func (q *Qmgr) routeSender(m *message) mail.Address {
	switch {
	case !q.cfg.RoutesBySender:
		return ""
	case m.env.Sender == "":
		return NullSender
	}
	return m.env.Sender
}

// routed binds recipients to their queues.
func (q *Qmgr) routed(ev Routed) {
	m := q.messages[ev.ID]
	if m == nil || !m.answered(awaitsRoute) {
		q.duplicate(ev.ID, "routed")
		return
	}
	assert.That(len(ev.Routes) == len(m.unrouted), "%d routes for %d recipients of %v", len(ev.Routes), len(m.unrouted), m.ID)
	if m.order != orders.None {
		m.Unbound -= len(m.unrouted)
		q.hold(m, -len(m.unrouted))
		m.unrouted, m.left = stock.Emptied(m.unrouted), true
		m.Touch()
	} else {
		q.assign(m, q.bindAll(m, ev.Routes))
		q.stocks.bound = stock.Emptied(q.stocks.bound)
	}
	m.AllRead()
	q.update(m)
	q.resume(m)
	q.attend(m)
}

// bindAll binds the unrouted recipients, in the order of their domains and
// addresses: that is the order in which new destinations are created, and it is
// Postfix's. What it returns is in the order in which recipients are assigned.
func (q *Qmgr) bindAll(m *message, routes []mail.Route) []bound {
	recipients := q.stocks.bound[:0]
	for i, r := range m.unrouted {
		recipients = append(recipients, bound{recipient: r, route: routes[i]})
	}
	q.stocks.bound = recipients
	m.Unbound -= len(m.unrouted)
	m.unrouted = stock.Emptied(m.unrouted)
	if len(recipients) > 1 {
		slices.SortStableFunc(recipients, q.compareAddress)
	}
	recipients = q.setAside(m, recipients)
	return q.bindEach(m, recipients)
}

// setAside takes out the recipients whose routes need a lookup, in place, and
// lets them wait for it.
func (q *Qmgr) setAside(m *message, recipients []bound) []bound {
	kept := 0
	for i := range recipients {
		if b := &recipients[i]; b.route.NeedsLookup {
			if m.from != intake.FromRetry { // which wants it tried
				b.route.Reply = q.lookups.Remembered(b.route.Nexthop, q.now)
			}
			if s, is := q.suspension(m, b.route.Transport, mail.FoldNexthop(b.route.Nexthop), way{}, b.recipient.Address); is && b.route.Reply.IsZero() {
				q.suspended.Keep(&m.suspension, s.Until)
				b.route.Reply = s.Reply() // and nothing is looked up for it
			}
			if b.route.Reply.IsZero() {
				q.lookups.Add(&m.routing, &m.Message, m.from, b.recipient, intake.Key{Transport: b.route.Transport, Nexthop: b.route.Nexthop, Credential: b.route.Credential, TLS: m.env.TLSAsked()}, q.now)
				continue
			}
		}
		if kept != i {
			recipients[kept] = recipients[i]
		}
		kept++
	}
	return recipients[:kept]
}

// bindEach binds recipients, in their order, and returns those that have a
// destination in the order in which they are assigned.
func (q *Qmgr) bindEach(m *message, recipients []bound) []bound {
	for i := range recipients {
		q.bind(m, &recipients[i])
	}
	recipients = slices.DeleteFunc(recipients, func(b bound) bool { return b.queue == nil })
	if len(recipients) > 1 {
		slices.SortStableFunc(recipients, q.compareBound)
	}
	return recipients
}

// bind says which destination a recipient has. One that leads nowhere, and one
// whose destination or transport is dead, goes to a transport whose nexthop is
// the reply. There is none if that is dead, too: then the recipient is deferred.
func (q *Qmgr) bind(m *message, b *bound) {
	to := b.route
	switch {
	case to.Reply.IsZero():
	case suspend.IsReason(to.Reply.Text):
		q.bindSuspended(m, b, to.Reply, originOf(to))
		return
	case !to.Reply.Permanent():
		q.bindToRetry(m, b, to.Reply, originOf(to))
		return
	}
	nexthop := mail.FoldNexthop(to.Nexthop)
	if to.Reply.Permanent() {
		to.Transport, nexthop = TransportError, replyText(to.Reply)
	}
	t := q.transport(to.Transport)
	name, reach := t.queueName(b.recipient.Address, nexthop), nexthop
	if to.Site != "" && !q.cfg.AsPostfix && !q.shapes.Names(nexthop) {
		reach = to.Site
		if name == nexthop {
			name = to.Site
		}
		if !t.cfg.MergeDomains {
			b.domain = nexthop
		}
	}
	if s, is := q.suspension(m, t.Name, nexthop, way{name, reach, to.Security}, b.recipient.Address); is {
		q.suspended.Keep(&m.suspension, s.Until)
		q.bindSuspended(m, b, s.Reply(), mail.Origin{Transport: t.Name, Nexthop: reach, Security: to.Security})
		return
	}
	if m.from == intake.FromRetry {
		q.restore(t) // an operator wants it tried
	}
	if t.dead() {
		q.bindToRetry(m, b, t.outage.reason, mail.Origin{Transport: t.Name, Nexthop: reach, Security: to.Security})
		return
	}
	from, why := q.chooseSource(m, t, way{name, reach, to.Security}, nexthop, addressees{one: b.recipient.Address})
	if !why.IsZero() {
		switch {
		case suspend.IsReason(why.Text):
			q.bindSuspended(m, b, why, mail.Origin{Transport: t.Name, Nexthop: reach, Security: to.Security})
		case !q.leaveAside(m, why):
			q.bindToRetry(m, b, why, mail.Origin{Transport: t.Name, Nexthop: reach, Security: to.Security})
		}
		return
	}
	b.queue = q.queue(t, name, reach, from, to.Security)
	if m.from == intake.FromRetry || m.from == intake.FromFlush && !b.queue.dead() {
		b.queue.reset = max(b.queue.reset, m.reset)
	}
	switch {
	case b.queue.window.State() != window.Dead:
		if m.from != intake.FromRetry && m.callout == nil && !q.mayWait(b.queue) {
			q.bindToRetry(m, b, b.queue.stuckReason(), b.queue.origin())
			return
		}
		b.queue = q.detourFor(b.queue, &b.recipient)
	case m.from == intake.FromRetry:
		q.revive(b.queue, CauseRevival)
		b.queue = q.detourFor(b.queue, &b.recipient)
	default:
		q.bindToRetry(m, b, b.queue.reason, b.queue.origin())
	}
}

// originOf is where mail would have gone if its nexthop could be found; zero if a
// rule defers it wherever it was to go.
func originOf(to mail.Route) mail.Origin {
	if to.Transport == TransportRetry || to.Transport == "" {
		return mail.Origin{}
	}
	return mail.Origin{Transport: to.Transport, Nexthop: mail.FoldNexthop(to.Nexthop), Security: to.Security}
}

// queueName is the name of a recipient's queue among those of the transport.
func (t *transport) queueName(to mail.Address, nexthop string) string {
	if !t.cfg.PerRecipientQueues || t.cfg.RecipientLimit != 1 || t.Name == TransportRetry || t.Name == TransportError {
		return nexthop
	}
	return strings.ToLower(to.Local()) + "@" + nexthop
}

// bindToRetry gives a recipient that cannot go where it was to go a destination
// of TransportRetry, if that can be had.
func (q *Qmgr) bindToRetry(m *message, b *bound, why mail.Reply, of mail.Origin) {
	b.domain = ""
	if b.queue = nil; m.callout == nil {
		b.queue = q.queueInstead(TransportRetry, why, of)
	}
	if b.queue != nil {
		return
	}
	q.deferNow(m, []mail.Recipient{b.recipient}, why)
	q.hold(m, -1)
}

// replyText is how a reply is written as the nexthop of TransportRetry and
// TransportError, without its code, which is in mail.Delivery.Said.
func replyText(r mail.Reply) string {
	if r.Status == (mail.Status{}) {
		return r.Text
	}
	return r.Status.String() + " " + r.Text
}

// compareBound orders by transport, destination, source, domain, address. Recipients
// that share a transaction come to stand side by side.
func (q *Qmgr) compareBound(a, b bound) int {
	if c := cmp.Compare(a.queue.transport.Name, b.queue.transport.Name); c != 0 {
		return c
	}
	if c := compareNames(a.queue, b.queue); c != 0 {
		return c
	}
	return q.compareAddress(a, b)
}

// compareAddress orders by domain, addresses without one last, then address.
func (q *Qmgr) compareAddress(a, b bound) int {
	x, y := a.recipient.Address, b.recipient.Address
	dx, dy := x.Domain(), y.Domain()
	if (dx == "") != (dy == "") {
		return cmp.Compare(len(dy), len(dx))
	}
	if c := compareFold(dx, dy); c != 0 {
		return c
	}
	if q.cfg.readsInTurn() {
		return compareFold(string(x), string(y))
	}
	return cmp.Compare(x, y)
}

// compareFold compares without regard to ASCII case and without allocating.
func compareFold(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if c := cmp.Compare(lower(a[i]), lower(b[i])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// assign puts recipients, in their order, into entries.
func (q *Qmgr) assign(m *message, recipients []bound) {
	a := sched.Assignment{Message: &m.Message}
	for i := range recipients {
		b := &recipients[i]
		most := b.queue.limits.recipients
		if !m.env.VERP.IsZero() {
			most = 1 // each recipient has its own sender (Postfix: single_rcpt)
		}
		a.Add(&b.queue.Claim(m.flow).Destination, b.recipient, b.domain, most)
	}
	a.Done()
}

// refill asks for more recipients of a message if none is in core, and between
// two looks of the selection if enough of them fit.
func (q *Qmgr) refill(m *message) {
	switch {
	case m.InCore == 0:
		q.read(m)
	case q.cfg.AsPostfix, q.cfg.readsInTurn():
	default:
		if m.WorthReading(q.now) {
			q.read(m)
		}
	}
}

// read asks for as many recipients as fit, and reports whether it did.
func (q *Qmgr) read(m *message) bool {
	n := q.room.NextRead(&m.Message)
	if !m.More || n < 1 || m.awaits&(awaitsRead|awaitsRoute) != 0 || m.order != orders.None || q.halt {
		return false
	}
	m.await(awaitsRead)
	m.Reading = true
	q.room.Reserve(&m.Message, n)
	q.emit(Read{ID: m.ID, From: m.next, Max: n})
	return true
}

func (q *Qmgr) recipientsRead(ev Recipients) {
	m := q.messages[ev.ID]
	if m == nil || !m.answered(awaitsRead) {
		q.duplicate(ev.ID, "recipients")
		return
	}
	m.Reading = false
	if !q.cfg.AsPostfix {
		ev.Batch = cut(ev.Batch, m.Reserved)
		q.room.Reserve(&m.Message, 0)
	}
	q.takeBatch(m, ev.Batch)
	q.update(m)
	q.resume(m)
	q.attend(m)
}
