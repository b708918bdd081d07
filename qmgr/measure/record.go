package measure

import (
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Scope is the kind of what a measure is for.
type Scope uint8

const (
	// Queue: what one transport has for one nexthop from one source with one demand of
	// security, of which rules on replies demand rests and lower limits.
	Queue Scope = iota + 1
	// What operators suspend: a nexthop or a set of MX hosts, the domain of a recipient's
	// address, a transport, a source address by its name, a tenant in any class, and a class.
	// Rules suspend a Domain, too.
	Site
	Domain
	Transport
	Source
	Tenant
	Class
	Resumed // mail has to be found that a suspension kept waiting
	// Destination: all queues of a transport for a nexthop, from one source or from any. Rules
	// suspend it, and operators may.
	Destination
	scopes
)

var scopeWords = [scopes]string{Queue: "queue", Site: "site", Domain: "domain", Transport: "transport", Source: "source", Tenant: "tenant", Class: "class", Resumed: "resumed", Destination: "destination"}

// String returns the word that commands and views show.
func (s Scope) String() string { return scopeWords[s] }

// Scopes returns those that operators can suspend, in their order.
func Scopes() []Scope { return []Scope{Site, Domain, Destination, Transport, Source, Tenant, Class} }

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
	// Of a Queue: its transport, its name among the queues of that and its nexthop, which
	// differ where each recipient has a queue, its source and its demand of security. The
	// last two may be empty. A Destination has a transport, a name and, unless it is
	// suspended from all sources, a source.
	Transport, Name, Nexthop, Source, Security string
	// Domain, of a Destination, is the domain of the recipients to whose mail it is limited; "" if it is not.
	Domain string
}

// OrderKey returns the key of what an operator suspends, which Value returns again. It is in Name
// and Nexthop, but for a Destination, of which the transport stands before a colon, the domain, if there is
// one, behind toDomain, and the source, if there is one, behind fromSource; without a transport, nothing has the key.
func OrderKey(s Scope, value string) Key {
	k := Key{Scope: s, Name: value, Nexthop: value}
	if s != Destination {
		return k
	}
	transport, name, ok := strings.Cut(value, ":")
	if !ok || transport == "" {
		return k
	}
	k.Transport = transport
	name, k.Source = cutLast(name, fromSource)
	name, k.Domain = cutLast(name, toDomain)
	k.Name, k.Nexthop = name, name
	return k
}

// cutLast divides text before and behind the last separator, if there is something on both sides.
func cutLast(text, separator string) (before, behind string) {
	if at := strings.LastIndex(text, separator); at > 0 && at+len(separator) < len(text) {
		return text[:at], text[at+len(separator):]
	}
	return text, ""
}

// toDomain and fromSource are between a destination and its domain and source.
const (
	toDomain   = " to "
	fromSource = " from "
)

// Value returns what the order is about, as an operator writes it.
func (k Key) Value() string {
	if k.Scope != Destination || k.Transport == "" {
		return k.Name
	}
	value := k.Transport + ":" + k.Name
	if k.Domain != "" {
		value += toDomain + k.Domain
	}
	if k.Source != "" {
		value += fromSource + k.Source
	}
	return value
}

// A Record holds the measures of one key, as a value that can be compared and saved. The zero Record
// demands nothing, and is not kept.
type Record struct {
	Rest  Rest
	Lower Lowering
	Order Order // of all scopes but Queue
}

// An Order is an operator's, or that of a rule on replies. The zero Order is none.
type Order struct {
	By           string       // the operator; "" if unknown
	Rule         string       // the rule; "" if an operator has given the order
	Reason       string       // of a rule, what the receiver said
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

// reasonMax and byMax are the maximum lengths in bytes of what is kept of a reply: its text, which
// is never cut (mail.ReplyTextMax), and the host's name.
const (
	reasonMax = mail.ReplyTextMax
	byMax     = 300
)

// ReasonMax and OperatorMax are the maximum lengths in bytes of an order's reason, which may be a
// reply with its code and status, and of its operator's name.
const (
	ReasonMax   = mail.ReplyTextMax + len("421 4.999.999 ")
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
