package mail

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// An Address is an envelope address without the angle brackets, as it is
// written on the wire after minimum quoting: local-part "@" domain, or the
// empty text for the null reverse path (RFC 5321 4.5.5), or "postmaster"
// without a domain (RFC 5321 4.5.1). Local parts keep their case.
type Address string

// Domain returns what follows the last "@", or "" if there is none.
func (a Address) Domain() string {
	if i := strings.LastIndexByte(string(a), '@'); i >= 0 {
		return string(a)[i+1:]
	}
	return ""
}

// Key returns the form by which recipients are compared: the domain in lower case.
func (a Address) Key() Address {
	if i := strings.LastIndexByte(string(a), '@'); i >= 0 {
		return a[:i+1] + Address(strings.ToLower(string(a[i+1:])))
	}
	return a
}

// Local returns what precedes the last "@", or all of a if there is none.
func (a Address) Local() string {
	if i := strings.LastIndexByte(string(a), '@'); i >= 0 {
		return string(a)[:i]
	}
	return string(a)
}

// Ret is the part of the message that a failure report returns (RFC 3461 4.3).
type Ret uint8

const (
	RetUnset   Ret = iota // no RET parameter was given
	RetFull               // RET=FULL
	RetHeaders            // RET=HDRS
)

// String returns the parameter's value, "" if none was given.
func (r Ret) String() string {
	switch r {
	case RetFull:
		return "FULL"
	case RetHeaders:
		return "HDRS"
	}
	return ""
}

// Notify is the set of events about which the sender wants a report
// (RFC 3461 4.1). The zero value means that no NOTIFY parameter was given,
// which asks for failure reports and allows delay reports.
type Notify uint8

const (
	NotifySuccess Notify = 1 << iota
	NotifyFailure
	NotifyDelay
	NotifyNever // alone: no report at all
)

// Failure reports whether the sender wants a report about a failure.
func (n Notify) Failure() bool { return n == 0 || n&NotifyFailure != 0 }

// Delay reports whether a delay may be reported.
func (n Notify) Delay() bool { return n == 0 || n&NotifyDelay != 0 }

// Success reports whether the sender wants a report about a success.
func (n Notify) Success() bool { return n&NotifySuccess != 0 }

// String returns the parameter's value, as in "FAILURE,DELAY"; "" if none was
// given.
func (n Notify) String() string {
	if n&NotifyNever != 0 {
		return "NEVER"
	}
	var b []byte
	for i, word := range [...]string{"SUCCESS", "FAILURE", "DELAY"} {
		if n&(1<<i) == 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, word...)
	}
	return string(b)
}

// BodyType is the BODY parameter of MAIL (RFC 6152).
type BodyType uint8

const (
	Body7Bit     BodyType = iota // BODY=7BIT, or no BODY parameter
	Body8BitMIME                 // BODY=8BITMIME
)

// String returns the BODY parameter's value.
func (b BodyType) String() string {
	if b == Body8BitMIME {
		return "8BITMIME"
	}
	return "7BIT"
}

// A TLSRequest is the sender's request about the security of a message's path (RFC 8689).
type TLSRequest uint8

const (
	TLSUnset    TLSRequest = iota // nothing: policies decide
	TLSRequired                   // REQUIRETLS: each hop is under TLS, to a server that is known, and passes that on
	TLSOptional                   // TLS-Required: No: what the receiver's domain demands does not matter
	TLSWanted                     // TLSRequired where that can be had: of mail with the null sender, in no Envelope
)

// String returns "", "required", "optional" or "wanted".
func (r TLSRequest) String() string { return [...]string{"", "required", "optional", "wanted"}[r] }

// TLSAsked returns what the message asks for on its way. A message with the null sender must not be
// lost because no host on the way back offers REQUIRETLS (RFC 8689 5).
func (e *Envelope) TLSAsked() TLSRequest {
	if e.TLS == TLSRequired && e.Sender == "" {
		return TLSWanted
	}
	return e.TLS
}

// A VERP says how the recipient is encoded in the envelope sender of each transaction of a message, which
// has a single recipient then (variable envelope return path, package verp). The zero VERP means that all
// transactions have the message's own sender.
type VERP struct {
	Before, At byte // the delimiters: before the recipient, and in place of the recipient's "@"
	Tagged     bool // with a keyed hash, without which a report is not believed
}

// IsZero reports whether all transactions have the message's own sender.
func (v VERP) IsZero() bool { return v == VERP{} }

// verpTagged follows the delimiters in the text of a VERP with tags.
const verpTagged = "tag"

// String returns the delimiters, such as "+=", with "tag" behind them if there are tags; "" for the
// zero VERP.
func (v VERP) String() string {
	switch {
	case v.IsZero():
		return ""
	case v.Tagged:
		return string([]byte{v.Before, v.At}) + verpTagged
	}
	return string([]byte{v.Before, v.At})
}

// ParseVERP reads what String returns.
func ParseVERP(text string) (v VERP, err error) {
	if text == "" {
		return v, nil
	}
	if len(text) < 2 || text[2:] != "" && text[2:] != verpTagged {
		return v, fmt.Errorf("%q is not two delimiters, such as += or +=tag", text)
	}
	return VERP{Before: text[0], At: text[1], Tagged: text[2:] != ""}, nil
}

// A ByMode is what becomes of a message that has not been delivered by its deadline (RFC 2852).
type ByMode uint8

const (
	ByNone   ByMode = iota // it has no deadline
	ByNotify               // N: its sender receives a report on the delay, and it is tried as before
	ByReturn               // R: it is not tried any more, and its sender gets it back
)

// String returns "", "notify" or "return".
func (m ByMode) String() string { return [...]string{"", "notify", "return"}[m] }

// A DeliverBy is the deadline of a message (BY, RFC 2852 4). The zero DeliverBy is
// that of mail without a deadline.
type DeliverBy struct {
	// At is the deadline. With ByNotify it may have passed when the message arrives.
	At   Instant
	Mode ByMode
	// Trace asks each server that passes the message on to report that it has.
	Trace bool
}

// Returns reports whether the message must not be tried any more.
func (b DeliverBy) Returns(now Instant) bool { return b.Mode == ByReturn && now >= b.At }

// The lowest and the highest Envelope.Priority (RFC 6710 3).
const (
	PriorityMin = -9
	PriorityMax = 9
)

// ProtoLocal is the Proto of messages that the program itself has made.
const ProtoLocal = "LOCAL"

// IsReport reports whether the message is a report made by the program itself.
func (e *Envelope) IsReport() bool { return e.Sender == "" && e.Client.Proto == ProtoLocal }

// BecomesLate reports whether a report is due when the deadline of the message passes. None is if it
// had passed when the message arrived: a server that the message came from has reported that
// (RFC 2852 4.1.3).
func (e *Envelope) BecomesLate() bool {
	return e.By.Mode == ByNotify && e.By.At > e.Arrived && !e.Late && e.Sender != ""
}

// ReportsRelay reports whether the sender receives a report that a message with a deadline was passed on
// for a recipient at an instant, to a server that has taken the deadline over or not (RFC 2852 4.1.4).
func (e *Envelope) ReportsRelay(r *Recipient, taken bool, at Instant) bool {
	if e.Sender == "" || r.Notify&NotifyNever != 0 {
		return false
	}
	return e.By.Trace || e.By.Mode == ByNotify && !taken && at < e.By.At
}

// Since returns the instant from which the age of the message counts, for retries and
// for its lifetime: its arrival, or the end of the time for which the sender had it kept.
func (e *Envelope) Since() Instant { return max(e.Arrived, e.Release) }

// A Client is the origin of a message.
type Client struct {
	Addr  netip.Addr // invalid for mail that did not come by TCP
	Helo  string     // the client's name in EHLO or HELO
	Proto string     // the Received field's "with" value: ESMTP, SMTP, UTF8SMTP, LOCAL … (RFC 3848)
}

// An Envelope is everything known of a message except its recipients and its
// content. It never changes once the message is accepted, except for the
// fields at the end, which the spool updates.
type Envelope struct {
	ID       QueueID
	Sender   Address // the reverse path; "" is the null sender
	EnvID    string  // ENVID as received, xtext not decoded (RFC 3461 4.4); "" if none
	Ret      Ret
	Body     BodyType
	SMTPUTF8 bool       // MAIL had SMTPUTF8 (RFC 6531)
	Priority int8       // MT-PRIORITY (RFC 6710), from PriorityMin to PriorityMax; 0 is that of mail without it
	TLS      TLSRequest // what the sender has asked of the security of its way
	VERP     VERP       // zero if the sender is the null sender
	// Release is until when the sender has the message kept before it is tried first
	// (RFC 4865), or when an operator released it before that; 0 if it was to be sent at once.
	Release    Instant
	By         DeliverBy // its deadline (RFC 2852)
	Size       int64     // octets of content, CRLF line ends counted
	Recipients uint32
	Arrived    Instant // when the content was complete
	Client     Client
	Flow       Flow
	Requeued   QueueID // the message in whose place an operator has put it (Requeue); 0 if it has arrived itself

	Attempts    uint32  // rounds that ended with something to retry
	LastAttempt Instant // when the last such round ended; 0 if none
	Warned      bool    // the delay report was made
	Late        bool    // the report was made that the deadline of a message with ByNotify has passed
}

// A Recipient is one RCPT of a message.
type Recipient struct {
	Index   uint32 // 0 … Envelope.Recipients-1, in the order given
	Address Address
	ORcpt   string // ORCPT as received ("rfc822;a+40b"), xtext not decoded; "" if none
	Notify  Notify
	// Ordered is the route that an operator has ordered; nil if the configuration decides. It
	// is shared and must not be changed.
	Ordered *OrderedRoute
	// Doubts are the hosts that may have the message already; nil if there are none.
	Doubts *Doubts
}

// An OrderedRoute is where an operator has the mail for a recipient go, whatever the configuration
// says. The spool keeps it until another order replaces it or takes it back.
type OrderedRoute struct {
	Target string // as in a rule of the transport table: "smtp:[relay.example]:587" (package route)
	By     string // the operator
	Reason string // "" if none was given
	At     Instant
}

// Loses reports whether the mail is lost to its recipient there: it fails, or counts as delivered and goes nowhere.
func (r *OrderedRoute) Loses() bool {
	transport, _, _ := strings.Cut(r.Target, ":")
	return transport == TransportDiscard || transport == TransportError
}

// HasRecipient reports whether a list has the recipient with an index.
func HasRecipient(list []Recipient, index uint32) bool {
	return slices.ContainsFunc(list, func(r Recipient) bool { return r.Index == index })
}

// A RecipientBatch is a part of the unsettled recipients of a message, in the order
// of their index.
type RecipientBatch struct {
	Recipients []Recipient
	Next       uint32 // the index at which the next batch begins
	More       bool   // there may be unsettled recipients at Next or later
}
