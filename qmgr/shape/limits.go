package shape

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// An Opt is an optional value.
type Opt[T any] struct {
	Value T
	Set   bool
}

// Some returns an Opt that is set.
func Some[T any](v T) Opt[T] { return Opt[T]{Value: v, Set: true} }

// Or returns the value if it is set, and standard otherwise.
func (o Opt[T]) Or(standard T) T {
	if o.Set {
		return o.Value
	}
	return standard
}

// or returns o if it is set, and other otherwise.
func (o Opt[T]) or(other Opt[T]) Opt[T] {
	if o.Set {
		return o
	}
	return other
}

// Limits replace those limits of a destination's transport for which a value is
// set. A value of 0 means no limit.
type Limits struct {
	// Limits of a queue, whichever of its hosts its mail goes to.

	InitialConcurrency Opt[int] // at least 1
	ConcurrencyLimit   Opt[int] // connections, or deliveries by an agent
	RecipientLimit     Opt[int] // of one transaction
	RateDelay          Opt[time.Duration]
	Rate               Opt[rate.Limits] // messages
	ConnectionRate     Opt[rate.Limits] // new connections

	// Limits of one host.

	HostConcurrencyLimit Opt[int] // connections
	Level                Opt[mail.Level]
	ReuseTimeLimit       Opt[time.Duration]
	ReuseCountLimit      Opt[int]
}

// Over returns l, with unset values taken from less.
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
