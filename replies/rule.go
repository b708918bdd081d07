package replies

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Pattern gives a class to the replies that match.
type Pattern struct {
	Match
	Class  Class
	Source string // where the receiver, or a standard, says so
	Where  string // "file:line" of the pattern
}

// A Result is the outcome that a rule gives to a refusal.
type Result uint8

const (
	ResultKept      Result = iota // as the code says
	ResultPermanent               // the recipient fails, and the sender receives a report
	ResultTemporary               // the mail is tried again later
)

// A Rule says what follows from the replies that match.
type Rule struct {
	Name string
	Match
	Classes    []Class      // alternatives; none: any class
	Transports []string     // alternatives; none: any transport
	Stages     []mail.Stage // alternatives; none: any stage
	Result     Result
	// Times is the number of replies within the time Within at which the measures below
	// begin; up to 1 is the first.
	Times  int
	Within time.Duration
	// InARow, with Times, means that a message that the destination accepts begins the count anew.
	InARow bool
	// SenderDomains, Tenants and Recipients, with Times, are the numbers of those whose mail must have been refused; up to 1
	// is any. A reply that came before MAIL counts for all of them, one before RCPT for all recipients, and one to
	// mail without a tenant for all tenants. If one of them or RecipientDomains is above 1, each message counts once.
	SenderDomains, Tenants, Recipients int
	// RecipientDomains is that of recipients' domains for measures on the destination; replies about recipients of one domain
	// suspend that domain. Up to 1 means that the domain does not matter.
	RecipientDomains int
	// Rest is the time for which the destination is not used, 0 if it is.
	Rest time.Duration
	// Suspend is the time for which the destination is suspended, 0 if it is not; at
	// mail.Indefinitely, until an operator resumes it.
	Suspend time.Duration
	// SuspendFirst is the time of the first suspension; each further one lasts twice as long, up to Suspend, until
	// a message is accepted. 0 means that all last as long as Suspend.
	SuspendFirst time.Duration
	// Concurrency, and RateCount messages in each RatePer, are limits of the destination for
	// the time For; 0 means that there is none.
	Concurrency int
	RateCount   int
	RatePer     time.Duration
	For         time.Duration
}

// measure returns what the rule demands for the destination because of a reply; nil if
// it demands nothing.
func (r *Rule) measure(reply *mail.Reply) *mail.Measure {
	m := &mail.Measure{Rule: r.Name, Reply: *reply, Times: r.Times, Within: r.Within, InARow: r.InARow, Senders: r.SenderDomains, Tenants: r.Tenants, Recipients: r.Recipients, Domains: r.RecipientDomains, Rest: r.Rest, Suspend: r.Suspend, SuspendFirst: r.SuspendFirst, Concurrency: r.Concurrency, RateCount: r.RateCount, RatePer: r.RatePer, For: r.For}
	if m.Rest == 0 && m.Suspend == 0 && !m.Limits() {
		return nil
	}
	return m
}

// Covers reports whether the rule certainly matches every reply that other matches, so
// that other has no effect behind it.
func (r *Rule) Covers(other *Rule) bool {
	same := func(a, b Class) bool { return a == b }
	return r.Match.covers(&other.Match) && allIn(r.Classes, other.Classes, same) &&
		allIn(r.Transports, other.Transports, func(a, b string) bool { return a == b }) &&
		allIn(r.Stages, other.Stages, func(a, b mail.Stage) bool { return a == b })
}

// A compiled is a rule whose phrases have numbers.
type compiled struct {
	*Rule
	test test
}

func (c *compiled) matches(s *said, class Class, on Occasion) bool {
	return (len(c.Classes) == 0 || slices.Contains(c.Classes, class)) &&
		(len(c.Transports) == 0 || slices.Contains(c.Transports, on.Transport)) &&
		(len(c.Stages) == 0 || slices.Contains(c.Stages, on.Stage)) && c.test.matches(s)
}
