package config

import (
	"math"
	"time"

	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// counting is a positive number that 0 makes unlimited.
func counting(zero string) kind[int] {
	return integer(limit[int]{min: 1, max: 1_000_000, zero: zero})
}

// pausing is a pause between two deliveries.
func pausing() kind[time.Duration] {
	return period(time.Second, limit[time.Duration]{max: 24 * time.Hour, zero: "none"})
}

// carryingTime and carryingCount are the time, and the number of messages, after
// which a connection is no longer reused.
func carryingTime() kind[time.Duration] {
	return period(time.Second, limit[time.Duration]{min: time.Second, max: 24 * time.Hour, zero: "no limit"})
}

func carryingCount() kind[int] {
	return integer(limit[int]{min: 1, max: math.MaxInt32, zero: "no limit"})
}

// shaping returns the parameters that keep a transport within the rates and
// per-host limits of receivers.
func shaping() []parameter[Transport] {
	return []parameter[Transport]{
		transportParameter("destination_rate", rates(), func(t *Transport) *rate.Limits { return &t.Rate },
			"The number of messages to one destination in any span of the given length; all limits in the list apply together.",
			"Set it to the limit in the receiver's published rules.").from("default_destination_rate"),
		transportParameter("transport_rate", rates(), func(t *Transport) *rate.Limits { return &t.TransportRate },
			"The number of messages that the transport delivers to all destinations together in any span of the given length.",
			"Set it while a new IP address is building its reputation.").from("default_transport_rate"),
		transportParameter("transport_rate_delay", pausing(), func(t *Transport) *time.Duration { return &t.TransportRateDelay },
			"The pause before each delivery of the transport, whatever its destination; it implies one delivery at a time.",
			"Set it if a server behind the transport cannot handle more, or if a provider limits what you send to all of its customers' domains together.").from("default_transport_rate_delay"),
		transportParameter("connection_rate", rates(), func(t *Transport) *rate.Limits { return &t.Connections.OpenRate },
			"The number of connections opened to one destination in any span of the given length; all limits in the list apply together.",
			"Set it for receivers that limit how often you connect rather than the number of open connections.").from("smtp_connection_rate").forSMTP(),
		transportParameter("destination_host_concurrency_limit", zeroIsNone(counting("no limit")), func(t *Transport) *int { return &t.Connections.HostLimit },
			"The number of connections to one host at once, for all destinations of the transport together.",
			"Lower it if many destinations share a host that limits connections.").from("smtp_destination_host_concurrency_limit").forSMTP(),
	}
}
