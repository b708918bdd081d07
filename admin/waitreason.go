package admin

import (
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
)

// A WaitReason is the reason why mail is not being sent now: the first condition
// that would have to change.
type WaitReason struct {
	Kind  string     `json:"kind" enum:"stop,transport-dead,dead,destination-delay,destination-rate,transport-rate,transport-delay,process-limit,connection-limit,window,message-share,destination-share,slow-start,connection-rate,host-limit,host-busy,local-outage,host-lookup,connecting,transaction,turn,report-turn,lookups"`
	Text  string     `json:"text" doc:"Description, without the time at which it ends."`
	Key   string     `json:"key,omitempty" doc:"Full name of the configuration parameter that causes it, such as transport.smtp.destination_rate; its value may come from the parameter for all transports. Absent if no parameter causes it."`
	Until *time.Time `json:"until,omitempty" doc:"When it ends, if that depends on time alone."`
}

// waitReasonOf describes a wait reason of a destination; nil if there is none.
func waitReasonOf(o *qmgr.WaitReason, transport string) *WaitReason {
	if o.Kind == qmgr.WaitNone {
		return nil
	}
	return &WaitReason{Kind: o.Kind.String(), Text: waitReasonText(o), Key: waitReasonKey(o, transport), Until: wallOrNil(o.Until)}
}

func waitReasonText(o *qmgr.WaitReason) string {
	switch o.Kind {
	case qmgr.WaitStop:
		return "Posthaste is stopping"
	case qmgr.WaitTransportDead:
		return "the transport is dead"
	case qmgr.WaitDead:
		return "the destination is dead"
	case qmgr.WaitDestinationDelay:
		return fmt.Sprintf("one delivery at a time, with a delay of %s after each", pauseText(o.Pause))
	case qmgr.WaitDestinationRate:
		return fmt.Sprintf("at the rate limit of %v", o.Rate)
	case qmgr.WaitTransportRate:
		return fmt.Sprintf("at the transport's rate limit of %v", o.Rate)
	case qmgr.WaitTransportDelay:
		return fmt.Sprintf("transport delay: %s before each delivery", pauseText(o.Pause))
	case qmgr.WaitConnectionRate:
		return fmt.Sprintf("at the connection rate limit of %v", o.Rate)
	case qmgr.WaitLocalOutage:
		return "hardly any host can be reached: the local network seems to be down"
	case qmgr.WaitHostLookup:
		return "DNS lookup of its hosts in progress"
	case qmgr.WaitConnecting:
		return "a connection is being opened"
	case qmgr.WaitTurn:
		return "other mail of the transport goes first"
	case qmgr.WaitReportTurn:
		return "waits to send a report to its sender; many reports are in progress"
	case qmgr.WaitLookups:
		return "the DNS lookups for its recipients are slow"
	}
	return fullText(o)
}

// fullText describes limits that are reached.
func fullText(o *qmgr.WaitReason) string {
	what := "connections"
	if o.Deliveries {
		what = "deliveries"
	}
	switch o.Kind {
	case qmgr.WaitProcessLimit:
		return fmt.Sprintf("the transport is at its limit of %d %s", o.Limit, what)
	case qmgr.WaitConnectionLimit:
		return fmt.Sprintf("all %d connections are in use", o.Limit)
	case qmgr.WaitWindow:
		if o.Most > 0 && o.Limit >= o.Most {
			return fmt.Sprintf("at its limit of %d %s", o.Limit, what)
		}
		return fmt.Sprintf("at its current window of %d %s, which grows with success", o.Limit, what)
	case qmgr.WaitMessageShare:
		return fmt.Sprintf("its message is at its limit of %d connections while other mail needs them", o.Limit)
	case qmgr.WaitDestinationShare:
		return fmt.Sprintf("at its part of the transport's %d connections; the rest is kept for other destinations", o.Limit)
	case qmgr.WaitSlowStart:
		return fmt.Sprintf("at the limit of %d connections being opened at once", o.Limit)
	case qmgr.WaitHostLimit:
		if o.Limit == 0 {
			return hostsSubject(&o.Hosts) + " being probed or at its connection limit" + laterTiers(&o.Hosts)
		}
		return fmt.Sprintf("at the limit of %d connections to each host", o.Limit) + laterTiers(&o.Hosts)
	case qmgr.WaitHostBusy:
		return busyText(o)
	}
	return "its connections are at their limits of messages in flight" // WaitTransaction
}

// busyText describes hosts that refuse further connections.
func busyText(o *qmgr.WaitReason) string {
	h := &o.Hosts
	switch {
	case o.Callouts:
		return "a host recently ended a connection during a call-out, and only call-outs wait"
	case h.Full == 1:
		return fmt.Sprintf("%s, %s, refuses more than its %d connections", hostLabel(h.First), onlyHost(h), h.Count) + laterTiers(h)
	case h.Full < h.Hosts || h.Tier+h.Later > 0:
		return fmt.Sprintf("the %d usable hosts of tier %d refuse more connections or are at their limits", h.Full, h.Tier+1) + laterTiers(h)
	}
	return "every host refuses more connections or is at its limit"
}

// hostsSubject begins a sentence about hosts that are waited for.
func hostsSubject(h *conns.TierView) string {
	switch {
	case h.Full == 1:
		return hostLabel(h.First) + ", " + onlyHost(h) + ", is"
	case h.Full < h.Hosts || h.Tier+h.Later > 0:
		return fmt.Sprintf("every usable host of tier %d is", h.Tier+1)
	}
	return "every host is"
}

// onlyHost describes a host as the only one, of all or of its tier.
func onlyHost(h *conns.TierView) string {
	text := "the only "
	if h.Hosts > 1 {
		text += "usable "
	}
	if text += "host"; h.Tier+h.Later > 0 {
		text += fmt.Sprintf(" of tier %d", h.Tier+1)
	}
	return text
}

// laterTiers explains why hosts of the next tier are not used; "" if there is none.
func laterTiers(h *conns.TierView) string {
	if h.Later == 0 {
		return ""
	}
	names := hostLabel(h.Next)
	if h.More > 0 {
		names += fmt.Sprintf(" and %d more", h.More)
	}
	return fmt.Sprintf("; tier %d (%s) is used only if no host of tier %d answers", h.Tier+2, names, h.Tier+1)
}

// hostLabel returns a host's name, or its address if it has none.
func hostLabel(h mail.Host) string {
	if h.Name == "" {
		return hostText(h)
	}
	return h.Name
}

// waitReasonKey returns the name of the parameter to change.
func waitReasonKey(o *qmgr.WaitReason, transport string) string {
	name := ""
	switch o.Kind {
	case qmgr.WaitDestinationDelay:
		name = "destination_rate_delay"
	case qmgr.WaitDestinationRate:
		name = "destination_rate"
	case qmgr.WaitTransportRate:
		name = "transport_rate"
	case qmgr.WaitTransportDelay:
		name = "transport_rate_delay"
	case qmgr.WaitProcessLimit:
		name = "process_limit"
	case qmgr.WaitConnectionLimit:
		return "smtp_connection_limit"
	case qmgr.WaitMessageShare:
		return "max_message_concurrency"
	case qmgr.WaitDestinationShare:
		name = "process_limit"
	case qmgr.WaitSlowStart:
		name = "initial_destination_concurrency"
	case qmgr.WaitConnectionRate:
		name = "connection_rate"
	case qmgr.WaitWindow:
		if o.Most <= 0 || o.Limit < o.Most {
			return ""
		}
		name = "destination_concurrency_limit"
	case qmgr.WaitHostLimit:
		if o.Limit == 0 {
			return ""
		}
		name = "destination_host_concurrency_limit"
	default:
		return ""
	}
	if o.Table != "" {
		return "destination." + o.Table + "." + name
	}
	return "transport." + transport + "." + name
}

// pauseText formats a duration as in the configuration.
func pauseText(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		unit string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= u.of && d%u.of == 0 {
			return fmt.Sprintf("%d%s", d/u.of, u.unit)
		}
	}
	return d.String()
}
