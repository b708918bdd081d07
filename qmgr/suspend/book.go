package suspend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
)

// A Book has the suspensions in force, and what the mail of those that have ended needs. It belongs to
// one goroutine.
type Book struct {
	orders *measure.Table
	exempt []string // transports

	of    [measure.Destination + 1]int // orders by their scope; of Resumed, whether its record is there
	ruled int                          // those of rules on replies
	ended uint64                       // number of those that have ended, or have been shortened

	scan
}

// New returns a book without suspensions. Exempt transports cannot be suspended, nor can their
// mail.
func New(exempt ...string) *Book { return &Book{orders: measure.NewOrders(), exempt: exempt} }

// Orders returns the table of what is in force, for whoever saves it.
func (b *Book) Orders() *measure.Table { return b.orders }

// Any reports whether there is a suspension.
func (b *Book) Any() bool { return b.active() > 0 }

func (b *Book) active() int { return b.orders.Len() - b.of[measure.Resumed] }

// Next returns when a suspension ends next; Never if none does.
func (b *Book) Next() mail.Instant { return b.orders.Next() }

// put changes an order; the zero Order ends it.
func (b *Book) put(k measure.Key, o measure.Order) {
	b.count(k, b.orders.Get(k).Order, -1)
	b.orders.Put(k, measure.Record{Order: o})
	b.count(k, o, 1)
}

func (b *Book) count(k measure.Key, o measure.Order, n int) {
	if o.Until == 0 {
		return
	}
	b.of[k.Scope] += n
	if o.Rule != "" {
		b.ruled += n
	}
}

// A Notice reports what has become of a suspension.
type Notice struct {
	// Of a Destination: its transport and name, the domain if only its mail to that is suspended, and the source unless it is suspended
	// from all.
	Transport, Nexthop, Domain, Source string
	Ended                              bool
	Until                              mail.Instant // 0 if it has ended or has no end
	Text                               string       // what, who and why, and why it cannot be done
}

func notice(k measure.Key, o measure.Order) Notice {
	n := Notice{Text: describe(k, o)}
	if k.Scope == measure.Destination {
		n.Transport, n.Nexthop, n.Domain, n.Source = k.Transport, k.Nexthop, k.Domain, k.Source
	}
	return n
}

// ending is a notice about one that has ended, and why.
func ending(k measure.Key, o measure.Order, why string) Notice {
	n := notice(k, o)
	n.Ended = true
	n.Text += why
	return n
}

// endless returns the end of an order for a notice.
func endless(until mail.Instant) mail.Instant {
	if until == mail.Never {
		return 0
	}
	return until
}

// Key returns the key of what an operator names. The ways of writing a domain have one key, which is that of its A-labels.
func Key(s measure.Scope, value string) measure.Key {
	k := measure.OrderKey(s, value)
	switch s {
	case measure.Site, measure.Destination:
		if k.Name = mail.FoldNexthop(k.Name); !strings.HasPrefix(k.Name, mail.SocketPrefix) {
			k.Name = idn.Nexthop(k.Name)
		}
		k.Domain = idn.Key(k.Domain)
	case measure.Domain:
		k.Name = idn.Key(k.Name)
	}
	k.Nexthop = k.Name
	return k
}

// Order carries out an operator's order, which has By and Reason, for a time; 0 and what leads beyond the end of time mean until
// it is revoked. What is suspended already is so for the new time and reason. It reports false if the order cannot be carried
// out; the notice says why.
func (b *Book) Order(k measure.Key, o measure.Order, after time.Duration, now mail.Instant) (n Notice, done bool) {
	was := b.orders.Get(k).Order
	n = notice(k, measure.Order{By: o.By, Reason: o.Reason})
	switch operators := b.active() - b.ruled; {
	case !slices.Contains(measure.Scopes(), k.Scope), !b.suspendable(k):
		n.Text += ": cannot be suspended"
		return n, false
	case (was.Until == 0 || was.Rule != "") && operators >= measure.OrderLimit:
		n.Text += fmt.Sprintf(": refused, because %d suspensions are in force, which is the limit", operators)
		return n, false
	}
	until := end(now, after)
	n.Until = endless(until)
	b.put(k, measure.Order{By: o.By, Reason: o.Reason, Since: now, Until: until})
	if until < was.Until {
		b.Again(now)
	}
	return n, true
}

// suspendable reports whether what a key is for can be suspended.
func (b *Book) suspendable(k measure.Key) bool {
	of := k.Transport
	switch k.Scope {
	case measure.Transport:
		of = k.Name
	case measure.Destination:
		if k.Transport == "" {
			return false
		}
	}
	return k.Name != "" && !slices.Contains(b.exempt, of)
}

// end returns when a suspension that begins now ends; mail.Never if it does not.
func end(now mail.Instant, after time.Duration) mail.Instant {
	if after <= 0 || now.Add(after) >= mail.Never-mail.Instant(time.Hour) {
		return mail.Never
	}
	return intake.MarkFrom(now.Add(after))
}

// DestinationKey returns the key of a destination from a source, or without one from all.
func DestinationKey(to Way, source string) measure.Key { return destination(&to, to.Name, source) }

// DomainKey returns the key of a destination's mail to the recipients of a domain, from a source, or without one from all. The
// domain is as package idn compares it.
func DomainKey(to Way, domain, source string) measure.Key {
	k := destination(&to, to.Name, source)
	k.Domain = domain
	return k
}

// OrderByRule suspends something for a time because of a rule. It reports false if the limit for rules is reached.
func (b *Book) OrderByRule(k measure.Key, m *mail.Measure, lasts time.Duration, now mail.Instant) (n Notice, done bool) {
	if b.ruled >= measure.OrderLimit {
		return Notice{}, false
	}
	o := measure.Order{Rule: m.Rule, Reason: m.Reply.Lines(), Since: now, Until: end(now, lasts)}
	b.put(k, o)
	n = notice(k, o)
	n.Until = endless(o.Until)
	return n, true
}

// Revoke carries out an operator's order that ends a suspension.
func (b *Book) Revoke(k measure.Key, o measure.Order, now mail.Instant) Notice {
	if b.orders.Get(k).Order.Until == 0 || k.Scope == measure.Resumed {
		return ending(k, o, ": is not suspended")
	}
	b.put(k, measure.Order{})
	b.Again(now)
	return ending(k, o, "")
}

// Leave ends the suspensions of rules that there are not any more.
func (b *Book) Leave(has func(rule string) bool, now mail.Instant) (all []Notice) {
	if b.ruled == 0 {
		return nil
	}
	for _, k := range b.orders.All() {
		if o := k.Record.Order; o.Rule != "" && !has(o.Rule) {
			b.put(k.Key, measure.Order{})
			all = append(all, ending(k.Key, o, ": there is no such rule any more"))
			b.Again(now)
		}
	}
	return all
}

// End ends those whose time is over; none before Next. The mail that they kept is due now.
func (b *Book) End(now mail.Instant) (all []Notice) {
	for k, was, ok := b.orders.End(now); ok; k, was, ok = b.orders.End(now) {
		b.ended++
		b.count(k, was.Order, -1)
		all = append(all, ending(k, was.Order, ": its time is over"))
	}
	return all
}

// Load takes the suspensions that were in force before the last stop, and reports whether there are any.
func (b *Book) Load(known []measure.Known, now mail.Instant) bool {
	ends := make(map[measure.Key]mail.Instant)
	for _, k := range known {
		ends[k.Key] = k.Record.Order.Until
	}
	taken := b.orders.Load(known, now)
	b.recount()
	for _, k := range taken {
		o := b.orders.Get(k).Order
		switch {
		case k.Scope == measure.Resumed:
			b.wanted = true
		case o.Until != ends[k]: // the clock was ahead when it was made
			o.Until = intake.MarkFrom(o.Until)
			b.put(k, o)
			b.Again(now)
		}
	}
	b.respell(taken, now)
	return len(taken) > 0
}

// respell gives the suspensions that were taken the keys that they have now: an earlier version knew domains by the letters that the
// operator had written. Of two that have one key now, that stays which lasts longer, but an order since the start comes first.
func (b *Book) respell(taken []measure.Key, now mail.Instant) {
	for _, k := range taken {
		to := Key(k.Scope, k.Value())
		if to == k || strings.EqualFold(to.Value(), k.Value()) { // a rule's may have upper-case letters
			continue
		}
		o, other := b.orders.Get(k).Order, b.orders.Get(to).Order
		b.put(k, measure.Order{})
		switch {
		case other.Until == 0, slices.Contains(taken, to) && o.Until > other.Until:
			b.put(to, o)
		case o.Until > other.Until:
			b.Again(now)
		}
	}
}

// recount counts the orders.
func (b *Book) recount() {
	clear(b.of[:])
	b.ruled = 0
	for _, k := range b.orders.All() {
		b.count(k.Key, k.Record.Order, 1)
	}
}

// AgainBySource is Again if some mail may wait because of the sources that it could leave from.
func (b *Book) AgainBySource(now mail.Instant) {
	if b.of[measure.Source]+b.of[measure.Destination] > 0 {
		b.Again(now)
	}
}

// AgainByRoute is Again if some mail may wait because of where it was routed.
func (b *Book) AgainByRoute(now mail.Instant) {
	if b.of[measure.Site]+b.of[measure.Destination]+b.of[measure.Transport]+b.of[measure.Source] > 0 {
		b.Again(now)
	}
}

// A View is one suspension in force.
type View struct {
	Scope measure.Scope
	Value string
	measure.Order
}

// All returns all of them, by scope and value.
func (b *Book) All() []View {
	var all []View
	for _, k := range b.orders.All() {
		if k.Key.Scope != measure.Resumed {
			all = append(all, View{k.Key.Scope, k.Key.Value(), k.Record.Order})
		}
	}
	return all
}

// View returns the one of a value; the zero View if there is none.
func (b *Book) View(scope measure.Scope, value string) View {
	k := Key(scope, value)
	if o := b.orders.Get(k).Order; o.Until != 0 {
		return View{k.Scope, k.Value(), o}
	}
	return View{}
}

// Check checks the book's invariants: scanning reports whether a scan is under way, and stays has those of the messages in
// core.
func (b *Book) Check(scanning bool, stays func(yield func(*Stay) bool)) {
	b.orders.Check()
	of, ruled := b.of, b.ruled
	b.recount()
	assert.That(of == b.of && ruled == b.ruled, "suspensions are %v, %d of rules, counted %v and %d", b.of, b.ruled, of, ruled)
	assert.That(b.of[measure.Resumed] > 0 || !b.wanted && !scanning, "a scan for resumed mail is not remembered")
	n := 0
	for s := range stays {
		if s.rested {
			n++
		}
	}
	assert.That(n == b.inCore, "%d messages in core rested because of a suspension, counted %d", n, b.inCore)
}
