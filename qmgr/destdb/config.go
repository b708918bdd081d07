package destdb

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// A Config says how long what is remembered. 0 stands for the default.
type Config struct {
	// RetryMin is for how long a host is left alone after a first failure; it
	// doubles with each further one (default 60 s). Raise it if probing dead
	// hosts is expensive.
	RetryMin time.Duration
	// RetryMax is the longest such time (default 1 h), give or take a fifth as
	// all of them. Lower it if hosts that come back are to be noticed sooner.
	RetryMax time.Duration
	// RetryGrace is for how long after that time a host is a last choice,
	// before it counts as unused again (default 15 min).
	RetryGrace time.Duration
	// FailureTTL is after which time without an attempt the next failure
	// counts as the first (default 24 h).
	FailureTTL time.Duration
	// ClosedTTL is for how long a host counts as closed, not as unused, after
	// its last connection (default 10 min). Raise it where mail is so rare that
	// equal hosts do not share it evenly.
	ClosedTTL time.Duration
	// FactsTTL is for how long what was learned of a host is kept after its
	// last use (default 30 days).
	FactsTTL time.Duration
	// HostLimit is of how many hosts without open connections something is
	// known (default 200,000). Lower it where memory is scarce.
	HostLimit int

	// StepDownTTL is for how long a host is not spoken to at a level that it
	// did not bear (default 24 h). It doubles with each such time, up to
	// StepDownMax (default 14 days).
	StepDownTTL, StepDownMax time.Duration
	// StepUpMessages is how many messages in order, over at least StepUpConns
	// connections, lift a host by a level after that (default 50 over 3).
	StepUpMessages, StepUpConns int
	// TarpitFactor is how many times slower than it can be a host may answer
	// before it counts as overloaded (default 3). See View.Slow.
	TarpitFactor int
}

// WithDefaults returns c with defaults in place of zero values.
func (c Config) WithDefaults() Config {
	c.RetryMin = cmp.Or(c.RetryMin, time.Minute)
	c.RetryMax = cmp.Or(c.RetryMax, time.Hour)
	c.RetryGrace = cmp.Or(c.RetryGrace, 15*time.Minute)
	c.FailureTTL = cmp.Or(c.FailureTTL, 24*time.Hour)
	c.ClosedTTL = cmp.Or(c.ClosedTTL, 10*time.Minute)
	c.FactsTTL = cmp.Or(c.FactsTTL, 30*24*time.Hour)
	c.HostLimit = cmp.Or(c.HostLimit, 200_000)
	c.StepDownTTL = cmp.Or(c.StepDownTTL, 24*time.Hour)
	c.StepDownMax = cmp.Or(c.StepDownMax, 14*24*time.Hour)
	c.StepUpMessages = cmp.Or(c.StepUpMessages, 50)
	c.StepUpConns = cmp.Or(c.StepUpConns, 3)
	c.TarpitFactor = cmp.Or(c.TarpitFactor, 3)
	return c
}

// Validate returns all that is wrong with c, nil if nothing is. Zero values
// are right.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value int64
	}{
		{"retry min", int64(c.RetryMin)}, {"retry max", int64(c.RetryMax)}, {"retry grace", int64(c.RetryGrace)},
		{"failure TTL", int64(c.FailureTTL)}, {"closed TTL", int64(c.ClosedTTL)}, {"facts TTL", int64(c.FactsTTL)},
		{"host limit", int64(c.HostLimit)}, {"step-down TTL", int64(c.StepDownTTL)},
		{"step-down max", int64(c.StepDownMax)}, {"step-up messages", int64(c.StepUpMessages)},
		{"step-up connections", int64(c.StepUpConns)}, {"tarpit factor", int64(c.TarpitFactor)},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s %d: want more than 0", d.name, d.value))
		}
	}
	full := c.WithDefaults()
	if full.RetryMin > full.RetryMax {
		errs = append(errs, fmt.Errorf("retry min %v: longer than retry max %v", full.RetryMin, full.RetryMax))
	}
	if full.StepDownTTL > full.StepDownMax {
		errs = append(errs, fmt.Errorf("step-down TTL %v: longer than step-down max %v", full.StepDownTTL, full.StepDownMax))
	}
	if longest := full.longest(); longest > maxTTL {
		errs = append(errs, fmt.Errorf("%v: want at most %v", longest, maxTTL))
	}
	return errors.Join(errs...)
}

// maxTTL bounds all times, so that sums of them and of instants of this
// century do not overflow.
const maxTTL = 10 * 365 * 24 * time.Hour

func (c *Config) longest() time.Duration {
	return max(c.RetryMax, c.RetryGrace, c.FailureTTL, c.ClosedTTL, c.FactsTTL, c.StepDownMax)
}
