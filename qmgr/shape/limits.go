package shape

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// An Opt is a value that may be there or not.
type Opt[T any] struct {
	Value T
	Set   bool
}

// Some returns a value that is there.
func Some[T any](v T) Opt[T] { return Opt[T]{Value: v, Set: true} }

// Or returns the value if it is there, and standard otherwise.
func (o Opt[T]) Or(standard T) T {
	if o.Set {
		return o.Value
	}
	return standard
}

// or returns o, or other if o is not there.
func (o Opt[T]) or(other Opt[T]) Opt[T] {
	if o.Set {
		return o
	}
	return other
}

// Limits are what a destination has in place of its transport's limits, each
// if it is set. A number that is 0 means that there is no limit.
type Limits struct {
	// These are about a queue, whichever of its hosts its mail goes to.

	InitialConcurrency Opt[int] // at least 1
	ConcurrencyLimit   Opt[int] // connections, or deliveries by an agent
	RecipientLimit     Opt[int] // of one transaction
	RateDelay          Opt[time.Duration]
	Rate               Opt[rate.Limits] // messages
	ConnectionRate     Opt[rate.Limits] // new connections

	// These are about one host.

	HostConcurrencyLimit Opt[int] // connections
	Level                Opt[mail.Level]
	ReuseTimeLimit       Opt[time.Duration]
	ReuseCountLimit      Opt[int]
}

// Over returns l, completed by what only less has.
func (l Limits) Over(less Limits) Limits {
	return Limits{
		InitialConcurrency:   l.InitialConcurrency.or(less.InitialConcurrency),
		ConcurrencyLimit:     l.ConcurrencyLimit.or(less.ConcurrencyLimit),
		RecipientLimit:       l.RecipientLimit.or(less.RecipientLimit),
		RateDelay:            l.RateDelay.or(less.RateDelay),
		Rate:                 l.Rate.or(less.Rate),
		ConnectionRate:       l.ConnectionRate.or(less.ConnectionRate),
		HostConcurrencyLimit: l.HostConcurrencyLimit.or(less.HostConcurrencyLimit),
		Level:                l.Level.or(less.Level),
		ReuseTimeLimit:       l.ReuseTimeLimit.or(less.ReuseTimeLimit),
		ReuseCountLimit:      l.ReuseCountLimit.or(less.ReuseCountLimit),
	}
}
