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
	// Senders, with Times, is the number of domains of which senders must have been refused; up to 1 is any.
	// Sender is the domain of the sender that this reply refused ("<>" for the null sender), or "" if the
	// reply came before there was one: then it is about us, and counts for all of them.
	Senders int
	Sender  string
	// Rest is the time for which no mail is sent to the destination; 0 means that it goes on.
	Rest time.Duration
	// Suspend is the time for which the destination is suspended, as by an operator, who can
	// resume it earlier; 0 means that it is not. At Indefinitely it has no end.
	Suspend time.Duration
	// Concurrency and Rate are limits of the destination for the time For, beside those
	// that it has: the lower one holds. 0 means that there is none.
	Concurrency int // connections, or deliveries by an agent
	RateCount   int // messages in each RatePer
	RatePer     time.Duration
	For         time.Duration
}

// Indefinitely is a time that does not end by itself.
const Indefinitely time.Duration = math.MaxInt64

// Limits reports whether the measure lowers a limit.
func (m *Measure) Limits() bool { return m.For > 0 && (m.Concurrency > 0 || m.RateCount > 0) }
