package conns

import (
	"cmp"
	"time"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// Config is what all transports share. It has no defaults.
type Config struct {
	// Limit bounds the connections that are open at once, at least 1.
	Limit int
	// MessageLimit and Scale say how many of them one message may hold or open: see
	// package share.
	MessageLimit, Scale int
}

// GroupConfig is what the connections of one transport share.
type GroupConfig struct {
	// Limit bounds the connections of the transport. The queue manager sets it
	// to the transport's process limit.
	Limit int
	// HostLimit bounds the connections to one host; default 20, negative for
	// none.
	HostLimit int
	// Initial is the number of connections that may be opened at once to a site that has
	// none ready; default 5. After that as many as are ready.
	Initial int
	// IdleTime is the time for which a connection is kept that has nothing to carry
	// (connection_cache_time_limit); default 15 s, negative: not at all.
	IdleTime time.Duration
	// ActiveTime is how old a connection may become, give or take a tenth
	// (connection_reuse_time_limit); default 300 s, negative for no limit.
	ActiveTime time.Duration
	// CountLimit is the number of transactions a connection carries
	// (connection_reuse_count_limit); default 0, no limit.
	CountLimit int
	// Level is the highest level of pipelining that is used; the default is
	// mail.LevelLockStep.
	Level mail.Level
	// InFlight is the number of messages that may be under way on one connection at level
	// mail.LevelStream; default 4, at most 16.
	InFlight int
	// OpenRate bounds by time how many connections are opened to a site; default:
	// no bounds.
	OpenRate rate.Limits
	// NoProbe leaves out hosts that have failed even when they may be tried
	// again, as long as another host works.
	NoProbe bool
}

// maxInFlight bounds GroupConfig.InFlight.
const maxInFlight = 16

// WithDefaults returns the configuration with every zero field replaced by its
// default; Limit has none.
func (c GroupConfig) WithDefaults() GroupConfig {
	c.HostLimit = cmp.Or(c.HostLimit, 20)
	c.Initial = cmp.Or(c.Initial, 5)
	c.IdleTime = cmp.Or(c.IdleTime, 15*time.Second)
	c.ActiveTime = cmp.Or(c.ActiveTime, 300*time.Second)
	c.InFlight = cmp.Or(c.InFlight, 4)
	return c
}

// Validate returns everything that is wrong with a configuration that has its
// defaults.
func (c GroupConfig) Validate() error {
	var wrong mistakes.List
	wrong.Unless(c.Initial >= 1, "initial connections %d: want at least 1", c.Initial)
	wrong.Unless(c.CountLimit >= 0, "reuse count limit %d: want at least 1, or 0 for none", c.CountLimit)
	wrong.Unless(c.Level <= mail.LevelStream, "%v: want lockstep, group, overlap or stream", c.Level)
	wrong.Unless(c.InFlight >= 1 && c.InFlight <= maxInFlight, "messages in flight %d: want 1 to %d", c.InFlight, maxInFlight)
	return wrong.Join()
}
