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
	Kind  string     `json:"kind" enum:"stop,transport-dead,dead,destination-delay,destination-rate,transport-rate,transport-delay,process-limit,connection-limit,window,message-share,destination-share,slow-start,connection-rate,host-limit,host-busy,local-outage,host-lookup,connecting,detour,transaction,spread,turn,report-turn,lookups,suspended"`
	Text  string     `json:"text" doc:"Description, without the time at which it ends."`
	Key   string     `json:"key,omitempty" doc:"Full name of the configuration parameter that causes it, such as transport.smtp.destination_rate; its value may come from the parameter for all transports. Absent if no parameter causes it."`
	Until *time.Time `json:"until,omitempty" doc:"When it ends, if that depends on time alone."`
	// Command is that of the command line.
	Command string `json:"command,omitempty" doc:"The command that ends it, of a suspension."`
}

// waitReasonOf describes a wait reason of a destination; nil if there is none.
func waitReasonOf(o *qmgr.WaitReason, transport string) *WaitReason {
	if o.Kind == qmgr.WaitNone {
		return nil
	}
	return &WaitReason{Kind: o.Kind.String(), Text: waitReasonText(o), Key: waitReasonKey(o, transport), Until: wallOrNil(o.Until)}
}

// waitTexts are the reasons that are the same for every destination.
var waitTexts = map[qmgr.WaitKind]string{
	qmgr.WaitStop:          "Posthaste is stopping",
	qmgr.WaitTransportDead: "the transport is dead",
	qmgr.WaitDead:          "the destination is dead",
	qmgr.WaitLocalOutage:   "hardly any host can be reached: the local network seems to be down",
	qmgr.WaitHostLookup:    "DNS lookup of its hosts in progress",
	qmgr.WaitConnecting:    "a connection is being opened",
	qmgr.WaitDetour:        "mail that avoids a host, which may have it already, waits for its turn on one connection",
	qmgr.WaitTransaction:   "its connections are at their limits of messages in flight",
	qmgr.WaitSpread:        "starts to this full destination are spread out: the next one is due",
	qmgr.WaitTurn:          "other mail of the transport goes first",
	qmgr.WaitReportTurn:    "waits to send a report to its sender; many reports are in progress",
	qmgr.WaitLookups:       "the DNS lookups for its recipients are slow",
}

// limitFormats describe limits that are reached, by the number that is their limit.
var limitFormats = map[qmgr.WaitKind]string{
	qmgr.WaitConnectionLimit:  "all %d connections are in use",
	qmgr.WaitMessageShare:     "its message is at its limit of %d connections while other mail needs them",
	qmgr.WaitDestinationShare: "at its part of the transport's %d connections; the rest is kept for other destinations",
	qmgr.WaitSlowStart:        "at the limit of %d connections being opened at once",
}

func waitReasonText(o *qmgr.WaitReason) string {
	if text := waitTexts[o.Kind]; text != "" {
		return text
	}
	if format := limitFormats[o.Kind]; format != "" {
		return fmt.Sprintf(format, o.Limit)
	}
	what := plural(o.Limit, "connection", "connections")
	if o.Deliveries {
		what = plural(o.Limit, "delivery", "deliveries")
	}
	switch o.Kind {
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
	case qmgr.WaitProcessLimit:
		return fmt.Sprintf("the transport is at its limit of %d %s", o.Limit, what)
	case qmgr.WaitWindow:
		if o.Most > 0 && o.Limit >= o.Most {
			return fmt.Sprintf("at its limit of %d %s", o.Limit, what)
		}
		return fmt.Sprintf("at its current window of %d %s, which grows with success", o.Limit, what)
	case qmgr.WaitHostLimit:
		if o.Limit == 0 {
			return hostsSubject(&o.Hosts) + " being probed or at its connection limit" + laterTiers(&o.Hosts)
		}
		return fmt.Sprintf("at the limit of %d connections to each host", o.Limit) + laterTiers(&o.Hosts)
	}
	return busyText(o) // WaitHostBusy
}

// plural chooses the form of a noun, or of a verb, for a number.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// busyText describes hosts that refuse further connections.
func busyText(o *qmgr.WaitReason) string {
	h := &o.Hosts
	switch {
	case o.Callouts:
		return "a host recently ended a connection during a call-out, and only call-outs wait"
	case h.Full == 1:
		return fmt.Sprintf("%s, %s, refuses more than its %d %s", hostLabel(h.First), onlyHost(h), h.Count, plural(h.Count, "connection", "connections")) + laterTiers(h)
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

// waitKeys are the transport's parameters to change.
var waitKeys = map[qmgr.WaitKind]string{
	qmgr.WaitDestinationDelay: "destination_rate_delay",
	qmgr.WaitDestinationRate:  "destination_rate",
	qmgr.WaitTransportRate:    "transport_rate",
	qmgr.WaitTransportDelay:   "transport_rate_delay",
	qmgr.WaitProcessLimit:     "process_limit",
	qmgr.WaitDestinationShare: "process_limit",
	qmgr.WaitSlowStart:        "initial_destination_concurrency",
	qmgr.WaitConnectionRate:   "connection_rate",
	qmgr.WaitWindow:           "destination_concurrency_limit",
	qmgr.WaitHostLimit:        "destination_host_concurrency_limit",
}

// waitReasonKey returns the name of the parameter to change; "" if there is none.
func waitReasonKey(o *qmgr.WaitReason, transport string) string {
	name := waitKeys[o.Kind]
	switch {
	case o.Kind == qmgr.WaitConnectionLimit:
		return "smtp_connection_limit"
	case o.Kind == qmgr.WaitMessageShare:
		return "max_message_concurrency"
	case name == "", o.Kind == qmgr.WaitWindow && (o.Most <= 0 || o.Limit < o.Most), o.Kind == qmgr.WaitHostLimit && o.Limit == 0:
		return ""
	case o.Table != "":
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
