package destdb

import (
	"cmp"
	"time"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// A Config sets how long records are kept. 0 stands for the default.
type Config struct {
	// RetryMin is the time before a host is tried again after a first failure; it
	// doubles with each further one (default 60 s). Raise it if probing dead hosts
	// is expensive.
	RetryMin time.Duration
	// RetryMax is the maximum of that time (default 1 h), with the same jitter of a
	// fifth. Lower it to notice sooner that hosts are back.
	RetryMax time.Duration
	// RetryGrace is the time after that during which a host is a last choice,
	// before it counts as unused again (default 15 min).
	RetryGrace time.Duration
	// FailureTTL is the time without an attempt after which the next failure counts
	// as the first (default 24 h).
	FailureTTL time.Duration
	// ClosedTTL is the time after its last connection during which a host counts as
	// closed, not as unused (default 10 min). Raise it where mail is so rare that
	// equal hosts do not share it evenly.
	ClosedTTL time.Duration
	// FactsTTL is the time for which facts about a host are kept after its last use
	// (default 30 days).
	FactsTTL time.Duration
	// HostLimit is the maximum number of records of hosts without open connections
	// (default 200,000). Lower it where memory is scarce.
	HostLimit int

	// StepDownTTL is the time for which a host is held below a level that it did
	// not support (default 24 h). It doubles each time, up to StepDownMax (default
	// 14 days).
	StepDownTTL, StepDownMax time.Duration
	// StepUpMessages is the number of messages without anomaly, over at least
	// StepUpConns connections, that raise a host by a level after that (default 50
	// over 3).
	StepUpMessages, StepUpConns int
	// TarpitFactor is the ratio of a host's service time to its best one above
	// which it counts as overloaded (default 3). See View.Slow.
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

// Validate returns all errors of c, nil if there are none. Zero values are valid.
func (c Config) Validate() error {
	var wrong mistakes.List
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
		wrong.Unless(d.value >= 0, "%s %d: must be positive", d.name, d.value)
	}
	full := c.WithDefaults()
	wrong.Unless(full.RetryMin <= full.RetryMax, "retry min %v: longer than retry max %v", full.RetryMin, full.RetryMax)
	wrong.Unless(full.StepDownTTL <= full.StepDownMax, "step-down TTL %v: longer than step-down max %v", full.StepDownTTL, full.StepDownMax)
	wrong.Unless(full.longest() <= maxTTL, "%v: must be at most %v", full.longest(), maxTTL)
	return wrong.Join()
}

// maxTTL bounds all times, so that sums of them with instants of this century do
// not overflow.
const maxTTL = 10 * 365 * 24 * time.Hour

func (c *Config) longest() time.Duration {
	return max(c.RetryMax, c.RetryGrace, c.FailureTTL, c.ClosedTTL, c.FactsTTL, c.StepDownMax)
}
