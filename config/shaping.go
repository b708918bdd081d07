package config

import (
	"math"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// counting is a number of things that may be without limit.
func counting(zero string) kind[int] {
	return integer(limit[int]{min: 1, max: 1_000_000, zero: zero})
}

// pausing is a pause between two deliveries.
func pausing() kind[time.Duration] {
	return period(time.Second, limit[time.Duration]{max: 24 * time.Hour, zero: "none"})
}

// carryingTime and carryingCount are how long, and for how many messages, a
// connection lasts.
func carryingTime() kind[time.Duration] {
	return period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour, zero: "no limit"})
}

func carryingCount() kind[int] {
	return integer(limit[int]{min: 1, max: math.MaxInt32, zero: "no limit"})
}

// shaping returns the parameters that keep a transport within what receivers
// allow by time and by host.
func shaping() []parameter[Transport] {
	return []parameter[Transport]{
		define("destination_rate", rates(), func(t *Transport) *rate.Limits { return &t.Rate }, rate.Limits{},
			"How many messages go to a destination by time, all limits at once; in no span of such a length are there more.",
			"Set it to what the receiver's published rules allow.").from("default_destination_rate"),
		define("transport_rate", rates(), func(t *Transport) *rate.Limits { return &t.TransportRate }, rate.Limits{},
			"How many messages the transport delivers by time, to all destinations together.",
			"Set it while an address is new and has to earn a reputation.").from("default_transport_rate"),
		define("transport_rate_delay", pausing(), func(t *Transport) *time.Duration { return &t.TransportRateDelay }, 0,
			"The pause before each delivery of the transport, whatever its destination; it implies that there is one at a time.",
			"Set it for a server behind the transport that can bear no more, or a provider that limits what all of its customers' domains get from you.").from("default_transport_rate_delay"),
		define("connection_rate", rates(), func(t *Transport) *rate.Limits { return &t.SMTP.ConnectionRate }, rate.Limits{},
			"How many connections to a destination are opened by time, all limits at once.",
			"Set it for receivers that count connections by time rather than at once.").from("smtp_connection_rate").forSMTP(),
		define("destination_host_concurrency_limit", counting("no limit"), func(t *Transport) *int { return &t.SMTP.HostConcurrencyLimit }, 20,
			"How many connections there are to one host at once, all of the transport's destinations together.",
			"Lower it where many destinations share a host that counts connections.").from("smtp_destination_host_concurrency_limit").forSMTP(),
	}
}
