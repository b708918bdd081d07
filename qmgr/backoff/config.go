package backoff

import (
	"cmp"
	"time"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// A Config is shared by all mail. Its zero value stands for the defaults, which are
// Postfix's except for the jitter.
type Config struct {
	// MinimalBackoffTime is the shortest wait between two attempts; 0 means
	// 300 s. Lower it where greylisting is common and mail is urgent.
	MinimalBackoffTime time.Duration
	// MaximalBackoffTime is the longest wait between two attempts; 0 means 4000 s.
	// If it is shorter than MinimalBackoffTime, the latter is used. Raise it to
	// spend less on destinations that are down for days.
	MaximalBackoffTime time.Duration
	// MaximalQueueLifetime is the age at which mail expires; 0 means 5 days (RFC
	// 5321 4.5.4.1 advises 4 to 5), negative means a single attempt. Lower it where
	// late mail is useless.
	MaximalQueueLifetime time.Duration
	// BounceQueueLifetime is the age at which mail from the null sender expires,
	// whose failure is not reported; 0 means 5 days, negative means a single
	// attempt. It is capped at MaximalQueueLifetime.
	BounceQueueLifetime time.Duration
	// DelayWarningTime is the age at which the sender is warned, once, that the
	// mail is still waiting; 0 or negative means never. 4 h is a good choice where
	// senders are people.
	DelayWarningTime time.Duration
	// JitterPercent is the maximum difference, in percent, between a wait and the
	// message's age; 0 means 10, negative means none. Raise it, up to 100, where
	// outages leave bursts of retries.
	JitterPercent int
}

const (
	defaultMinimal       = 300 * time.Second
	defaultMaximal       = 4000 * time.Second
	defaultLifetime      = 5 * 24 * time.Hour
	defaultJitterPercent = 10
)

// WithDefaults returns c with defaults in place of zero values. The functions
// of this package do not need it.
func (c Config) WithDefaults() Config {
	c.MinimalBackoffTime = cmp.Or(c.MinimalBackoffTime, defaultMinimal)
	c.MaximalBackoffTime = cmp.Or(c.MaximalBackoffTime, defaultMaximal)
	c.MaximalQueueLifetime = cmp.Or(c.MaximalQueueLifetime, defaultLifetime)
	c.BounceQueueLifetime = cmp.Or(c.BounceQueueLifetime, defaultLifetime)
	c.JitterPercent = cmp.Or(c.JitterPercent, defaultJitterPercent)
	return c
}

// Validate returns all errors of c, nil if there are none. Zero values are valid.
func (c Config) Validate() error {
	var wrong mistakes.List
	wrong.Unless(c.MinimalBackoffTime >= 0, "minimal backoff time %v: must be positive, or mail is retried without a pause", c.MinimalBackoffTime)
	wrong.Unless(c.MaximalBackoffTime >= 0, "maximal backoff time %v: must be positive", c.MaximalBackoffTime)
	wrong.Unless(c.JitterPercent <= 100, "jitter %d %%: must be at most 100", c.JitterPercent)
	return wrong.Join()
}

// bounds returns the shortest and the longest wait; the shortest wins.
func (c *Config) bounds() (shortest, longest time.Duration) {
	shortest = cmp.Or(c.MinimalBackoffTime, defaultMinimal)
	return shortest, max(shortest, cmp.Or(c.MaximalBackoffTime, defaultMaximal))
}

func (c *Config) lifetime(nullSender bool) time.Duration {
	life := cmp.Or(c.MaximalQueueLifetime, defaultLifetime)
	if nullSender {
		life = min(life, cmp.Or(c.BounceQueueLifetime, defaultLifetime))
	}
	return life
}
