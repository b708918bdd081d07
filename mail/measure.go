package mail

import (
	"math"
	"time"
)

// A Measure is what an operator's rule imposes on a destination because of a reply (package
// replies). It is decided outside the core, arrives with the result that had the reply, and is
// carried out by the core.
type Measure struct {
	Rule  string // the rule's name
	Reply Reply  // the reply that the rule matched
	// Times is the number of such replies of one destination, within the time Within, at
	// which the measure is taken; up to 1 is the first.
	Times  int
	Within time.Duration
	// InARow, with Times, means that a message that the destination accepts begins the count anew.
	InARow bool
	// Senders, Tenants and Recipients, with Times, are the numbers of sender domains, tenants and recipients
	// whose mail must have been refused; up to 1 is any. If one of them or Domains is set, each message counts once.
	Senders, Tenants, Recipients int
	// Domains is the number of recipients' domains that replies about recipients must have refused for a measure on the whole
	// destination. Replies about one domain alone suspend the mail to that domain. Up to 1 means that the domain does
	// not matter.
	Domains int
	// Refused is whose mail this reply refused.
	Refused Refused
	// Rest is the time for which no mail is sent to the destination; 0 means that it goes on.
	Rest time.Duration
	// Suspend is the time for which the destination is suspended, as by an operator, who can
	// resume it earlier; 0 means that it is not. At Indefinitely it has no end.
	Suspend time.Duration
	// SuspendFirst is the time of the first suspension. Each further one lasts twice as long, up to Suspend, unless a
	// message has been accepted in between. 0 means that all last as long as Suspend.
	SuspendFirst time.Duration
	// Concurrency and Rate are limits of the destination for the time For, beside those
	// that it has: the lower one holds. 0 means that there is none.
	Concurrency int // connections, or deliveries by an agent
	RateCount   int // messages in each RatePer
	RatePer     time.Duration
	For         time.Duration
}

// Parties reports whether it matters whose mail was refused.
func (m *Measure) Parties() bool {
	return m.Senders > 1 || m.Tenants > 1 || m.Recipients > 1 || m.Domains > 1
}

// SuspendAfter returns the time of a suspension after a number of earlier ones.
func (m *Measure) SuspendAfter(earlier int) time.Duration {
	if m.SuspendFirst <= 0 {
		return m.Suspend
	}
	t := m.SuspendFirst
	for range earlier {
		if t >= m.Suspend/2 {
			return m.Suspend
		}
		t *= 2
	}
	return min(t, m.Suspend)
}

// Refused is whose mail a reply refused. A field that is zero was not known to the receiver when it replied, so that
// the reply cannot have been about that, and counts for all of them. So does mail without a tenant.
type Refused struct {
	Message   QueueID
	Sender    string // its domain, "<>" for the null sender
	Tenant    string
	Recipient string // without the extension behind a plus sign
	Domain    string // the recipient's, as package idn compares domains
}

// Indefinitely is a time that does not end by itself.
const Indefinitely time.Duration = math.MaxInt64

// Limits reports whether the measure lowers a limit.
func (m *Measure) Limits() bool { return m.For > 0 && (m.Concurrency > 0 || m.RateCount > 0) }
