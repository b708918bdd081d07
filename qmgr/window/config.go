package window

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// A Rule determines how feedback moves a window; the package comment compares the
// rules.
type Rule uint8

const (
	RuleSource Rule = iota // as Postfix does
	RuleReadme             // as SCHEDULER_README says
)

// String returns the rule's name, as in the configuration.
func (r Rule) String() string {
	switch r {
	case RuleSource:
		return "source"
	case RuleReadme:
		return "readme"
	}
	return fmt.Sprintf("rule %d", uint8(r))
}

// UnmarshalText reads a rule's name.
func (r *Rule) UnmarshalText(text []byte) error {
	for _, known := range [...]Rule{RuleSource, RuleReadme} {
		if string(text) == known.String() {
			*r = known
			return nil
		}
	}
	return fmt.Errorf("feedback rule %q: must be source or readme", text)
}

// MarshalText returns the rule's name.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A Config is shared by all windows of one transport. The zero value, with its
// defaults, is Postfix's, except that it has no limits: Limit 20 and
// FailedCohortLimit 1 are Postfix's.
type Config struct {
	// Initial is the concurrency of a destination of which nothing is known; 0
	// means 5. Lower it where even a handful of connections from a stranger is
	// unwelcome; higher values make short bursts faster.
	Initial int
	// Limit is the maximum concurrency of a destination; 0 means no limit. Set it
	// to the limit in the receiver's published rules.
	Limit int
	// Positive and Negative are the feedback of one success and of one failure. 1,
	// the default, adapts within a few deliveries and overshoots; 1/concurrency
	// adapts as slowly as TCP does and hardly ever runs into a receiver's limit.
	Positive, Negative Feedback
	// FailedCohortLimit is the number of failed cohorts after which a destination
	// is dead; 0 means never. Raise it for a destination that is limited to one
	// connection and fails now and then.
	FailedCohortLimit int
	// Rule determines how feedback moves the window. RuleReadme exists for
	// comparison with the text and with other implementations of it.
	Rule Rule
}

const defaultInitial = 5

// WithDefaults returns c with defaults in place of zero values.
func (c Config) WithDefaults() Config {
	if c.Initial == 0 {
		c.Initial = defaultInitial
	}
	return c
}

// Validate returns all errors of c, nil if there are none. Zero values are valid.
func (c Config) Validate() error {
	var wrong mistakes.List
	wrong.Unless(c.Initial >= 0, "initial concurrency %d: must be at least 1", c.Initial)
	wrong.Unless(c.Limit >= 0, "concurrency limit %d: must be at least 1, or 0 for no limit", c.Limit)
	wrong.Unless(c.FailedCohortLimit >= 0, "failed cohort limit %d: must be at least 1, or 0 for never", c.FailedCohortLimit)
	wrong.Unless((c.Positive.form == formLevel) == (c.Negative.form == formLevel), "positive feedback %v with negative feedback %v: %q must be set for both or for neither", c.Positive, c.Negative, wordLevel)
	wrong.Unless(c.Rule <= RuleReadme, "feedback rule %v: must be source or readme", c.Rule)
	return wrong.Join()
}

// ByLevel reports whether the style is "level", which Validate allows only in
// both directions.
func (c *Config) ByLevel() bool { return c.Positive.form == formLevel }

// initial returns the size of a new window.
func (c *Config) initial() int {
	n := c.Initial
	if n == 0 {
		n = defaultInitial
	}
	return c.clamp(n)
}

// clamp lowers a size to the limit.
func (c *Config) clamp(size int) int {
	if c.Limit > 0 && size > c.Limit {
		return c.Limit
	}
	return size
}
