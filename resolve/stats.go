package resolve

import (
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/histogram"
)

// Stats are counts since the Counters were made.
type Stats struct {
	Lookups   uint64 // calls of Hosts
	Hits      uint64 // … answered from the cache
	Questions uint64 // questions put to servers
	Shared    uint64 // lookups that joined one under way
	Messages  uint64 // messages sent to servers
	TCP       uint64 // … of these by TCP
	Plain     uint64 // … of these without EDNS because the server refused it or was silent
	Failures  uint64 // questions without a usable answer
	Timeouts  uint64 // messages without any answer
	Refusals  uint64 // answers such as SERVFAIL or REFUSED
	Forged    uint64 // answers that do not match their question
	Stale     uint64 // expired records used because there was no answer
	Evictions uint64 // entries evicted from the cache

	Nexthops int // in the cache
	Records  int // in the cache
	UnderWay int // questions at this moment
	// SilentSince is the time since when no server has answered anything; zero if
	// the last question was answered. While it is set, failures mean nothing for
	// the domains that were looked up.
	SilentSince time.Time

	// Latency are the times that questions took, with all repetitions, in seconds.
	Latency histogram.Values
}

type counter = atomic.Uint64

// Counters hold the Stats while they are counted. Several Resolvers may have the same. The zero
// Counters are ready for use.
type Counters struct {
	latency                                                histogram.Histogram
	lookups, hits, questions, shared, messages, tcp, plain counter
	failures, timeouts, refusals, forged, stale, evictions counter
	silentSince                                            atomic.Int64 // ns since 1970; 0: not silent
}

// Stats returns the counts.
func (r *Resolver) Stats() Stats {
	c := r.counts
	s := Stats{
		Lookups: c.lookups.Load(), Hits: c.hits.Load(), Questions: c.questions.Load(), Shared: c.shared.Load(),
		Messages: c.messages.Load(), TCP: c.tcp.Load(), Plain: c.plain.Load(),
		Failures: c.failures.Load(), Timeouts: c.timeouts.Load(), Refusals: c.refusals.Load(), Forged: c.forged.Load(),
		Stale: c.stale.Load(), Evictions: c.evictions.Load(),
		Nexthops: r.sets.len(), Records: r.records.len(), UnderWay: len(r.slots) + len(r.slow),
	}
	s.Latency = c.latency.Snapshot()
	if ns := c.silentSince.Load(); ns != 0 {
		s.SilentSince = time.Unix(0, ns)
	}
	return s
}
