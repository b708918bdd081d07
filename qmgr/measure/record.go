package measure

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Scope is the kind of what a measure is for.
type Scope uint8

const (
	// Destination: one queue, which is what one transport has for one nexthop from one source
	// with one demand of security.
	Destination Scope = iota + 1
	// What operators suspend: a nexthop or a set of MX hosts, the domain of a recipient's
	// address, a transport, a source address by its name, a tenant in any class, and a class.
	Site
	Domain
	Transport
	Source
	Tenant
	Class
	Resumed // mail has to be found that a suspension kept waiting
	scopes
)

var scopeWords = [scopes]string{Destination: "destination", Site: "site", Domain: "domain", Transport: "transport", Source: "source", Tenant: "tenant", Class: "class", Resumed: "resumed"}

// String returns the word that commands and views show.
func (s Scope) String() string { return scopeWords[s] }

// Scopes returns those that operators can suspend, in their order.
func Scopes() []Scope { return []Scope{Site, Domain, Transport, Source, Tenant, Class} }

// ParseScope reads the word of a scope that operators can suspend; false if there is none.
func ParseScope(word string) (Scope, bool) {
	for _, s := range Scopes() {
		if word == scopeWords[s] {
			return s, true
		}
	}
	return 0, false
}

// A Key identifies the mail to which a measure applies.
type Key struct {
	Scope Scope
	// Of a Destination: its transport, its name among the queues of that and its nexthop, which
	// differ where each recipient has a queue, its source and its demand of security. The
	// last two may be empty.
	Transport, Name, Nexthop, Source, Security string
}

// OrderKey returns the key of what an operator suspends, whose value is in Name and Nexthop.
func OrderKey(s Scope, value string) Key { return Key{Scope: s, Name: value, Nexthop: value} }

// A Record holds the measures of one key, as a value that can be compared and saved. The zero Record
// demands nothing, and is not kept.
type Record struct {
	Rest  Rest
	Lower Lowering
	Order Order // of all scopes but Destination
}

// An Order is an operator's. The zero Order is none.
type Order struct {
	By           string // the operator; "" if unknown
	Reason       string
	Since, Until mail.Instant // Never: until it is resumed
}

// A Rest means that no mail goes to the destination. The zero Rest is none.
type Rest struct {
	Rule         string // that demands it
	Since, Until mail.Instant
	Reason       mail.Reply // what the receiver said
}

// A Lowering means that limits apply besides the destination's own. The zero Lowering is none.
type Lowering struct {
	Rule         string // that demands it
	Since, Until mail.Instant
	Concurrency  int           // connections, or deliveries by an agent; 0: no limit
	Count        int           // messages in each Per; 0: no limit
	Per          time.Duration // 0 if Count is
}

// reasonMax and byMax are the maximum lengths in bytes of what is kept of a reply: its text and the host's
// name. A mailbox list of a receiver may be 4 KB long, and there may be many records.
const (
	reasonMax = 500
	byMax     = 300
)

// ReasonMax and OperatorMax are the maximum lengths in bytes of an order's reason and its
// operator's name.
const (
	ReasonMax   = reasonMax
	OperatorMax = 100
)

// cut returns the record that is kept for r.
func (r Record) cut() Record {
	r.Rest.Reason.Text = mail.CutText(r.Rest.Reason.Text, reasonMax)
	r.Rest.Reason.By = mail.CutText(r.Rest.Reason.By, byMax)
	r.Order.Reason, r.Order.By = mail.CutText(r.Order.Reason, ReasonMax), mail.CutText(r.Order.By, OperatorMax)
	return r
}

// end is when something of the record ends first; 0 if it demands nothing.
func (r *Record) end() mail.Instant {
	first := mail.Instant(0)
	for _, until := range [...]mail.Instant{r.Rest.Until, r.Lower.Until, r.Order.Until} {
		if until != 0 && (first == 0 || until < first) {
			first = until
		}
	}
	return first
}

// over returns what remains of the record at an instant.
func (r Record) over(now mail.Instant) Record {
	if r.Rest.Until <= now {
		r.Rest = Rest{}
	}
	if r.Lower.Until <= now {
		r.Lower = Lowering{}
	}
	if r.Order.Until <= now {
		r.Order = Order{}
	}
	return r
}

// clamped returns the record with ends that are no farther away than they were at the
// beginning: the clock may have been ahead then.
func (r Record) clamped(now mail.Instant) Record {
	clamp(&r.Rest.Since, &r.Rest.Until, now)
	clamp(&r.Lower.Since, &r.Lower.Until, now)
	clamp(&r.Order.Since, &r.Order.Until, now)
	return r
}

func clamp(since, until *mail.Instant, now mail.Instant) {
	if *until == mail.Never {
		*since = min(*since, now)
		return
	}
	if *since > now {
		*since, *until = now, now.Add(until.Sub(*since))
	}
}
