package admin

import (
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
)

// An Obstacle is what keeps mail from going now: the first thing that would have
// to change.
type Obstacle struct {
	Kind  string     `json:"kind" enum:"stop,transport-dead,dead,destination-delay,destination-rate,transport-rate,transport-delay,process-limit,connection-limit,window,message-share,destination-share,slow-start,connection-rate,host-limit,host-busy,local-outage,host-look-up,connecting,transaction,turn,report-turn,look-ups"`
	Text  string     `json:"text" doc:"In words, without the time at which it is over."`
	Key   string     `json:"key,omitempty" doc:"The configuration parameter that is the reason, in full, such as transport.smtp.destination_rate; its value may come from the parameter for all transports. Absent if it is none's doing."`
	Until *time.Time `json:"until,omitempty" doc:"When it is over, if that depends on time alone."`
}

// obstacleOf puts an obstacle of a destination into words; nil if there is none.
func obstacleOf(o *qmgr.Obstacle, transport string) *Obstacle {
	if o.Kind == qmgr.ObstacleNone {
		return nil
	}
	return &Obstacle{Kind: o.Kind.String(), Text: obstacleText(o), Key: obstacleKey(o, transport), Until: wallOrNil(o.Until)}
}

func obstacleText(o *qmgr.Obstacle) string {
	switch o.Kind {
	case qmgr.ObstacleStop:
		return "Posthaste is stopping"
	case qmgr.ObstacleTransportDead:
		return "the transport is dead"
	case qmgr.ObstacleDead:
		return "the destination is dead"
	case qmgr.ObstacleDestinationDelay:
		return fmt.Sprintf("one delivery at a time, and a pause of %s after each", pauseText(o.Pause))
	case qmgr.ObstacleDestinationRate:
		return fmt.Sprintf("rate %v is used up", o.Rate)
	case qmgr.ObstacleTransportRate:
		return fmt.Sprintf("rate %v of the whole transport is used up", o.Rate)
	case qmgr.ObstacleTransportDelay:
		return fmt.Sprintf("a pause of %s before each delivery of the whole transport", pauseText(o.Pause))
	case qmgr.ObstacleConnectionRate:
		return fmt.Sprintf("rate %v of new connections is used up", o.Rate)
	case qmgr.ObstacleLocalOutage:
		return "hardly any host can be reached: our own network seems to be down"
	case qmgr.ObstacleHostLookup:
		return "its hosts are being looked up"
	case qmgr.ObstacleConnecting:
		return "a connection is being opened"
	case qmgr.ObstacleTurn:
		return "other mail of the transport goes first"
	case qmgr.ObstacleReportTurn:
		return "a report to the sender is owed, and many are being made"
	case qmgr.ObstacleLookups:
		return "the DNS has not told yet where its recipients go"
	}
	return fullText(o)
}

// fullText is for what there is as much of as may be.
func fullText(o *qmgr.Obstacle) string {
	what := "connections"
	if o.Deliveries {
		what = "deliveries"
	}
	switch o.Kind {
	case qmgr.ObstacleProcessLimit:
		return fmt.Sprintf("the transport has %d %s, as many as it may", o.Limit, what)
	case qmgr.ObstacleConnectionLimit:
		return fmt.Sprintf("all %d connections are in use", o.Limit)
	case qmgr.ObstacleWindow:
		if o.Most > 0 && o.Limit >= o.Most {
			return fmt.Sprintf("it has %d %s, as many as it may", o.Limit, what)
		}
		return fmt.Sprintf("it has as many %s as its window of %d allows, which grows with success", what, o.Limit)
	case qmgr.ObstacleMessageShare:
		return fmt.Sprintf("its message holds %d connections, as many as it may while others need them", o.Limit)
	case qmgr.ObstaclePart:
		return fmt.Sprintf("it has as many of the transport's %d connections as it may while others may need them", o.Limit)
	case qmgr.ObstacleSlowStart:
		return fmt.Sprintf("%d connections are being opened, as many as may be at once", o.Limit)
	case qmgr.ObstacleHostLimit:
		if o.Limit == 0 {
			return hostsSubject(&o.Hosts) + " being tried, or has as many connections as it may" + laterTiers(&o.Hosts)
		}
		return fmt.Sprintf("host limit: %d connections to each", o.Limit) + laterTiers(&o.Hosts)
	case qmgr.ObstacleHostBusy:
		return busyText(o)
	}
	return "its connections carry as much as they bear" // ObstacleTransaction
}

// busyText is for hosts that have said that they take no more connections.
func busyText(o *qmgr.Obstacle) string {
	h := &o.Hosts
	switch {
	case o.Callouts:
		return "a host has lately ended a connection over a question about a recipient, and nothing but such questions waits"
	case h.Full == 1:
		return fmt.Sprintf("%s, %s, takes no more connections than its %d", hostLabel(h.First), onlyHost(h), h.Count) + laterTiers(h)
	case h.Full < h.Hosts || h.Tier+h.Later > 0:
		return fmt.Sprintf("the %d usable hosts of tier %d take no more connections, or have as many as they may", h.Full, h.Tier+1) + laterTiers(h)
	}
	return "every host has said that it takes no more connections, or has as many as it may"
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

// onlyHost says in which respect a host is the only one.
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

// laterTiers says why hosts of the next tier do not help; "" if there is none.
func laterTiers(h *conns.TierView) string {
	if h.Later == 0 {
		return ""
	}
	names := hostLabel(h.Next)
	if h.More > 0 {
		names += fmt.Sprintf(" and %d more", h.More)
	}
	return fmt.Sprintf("; tier %d (%s) is for when none of tier %d answers", h.Tier+2, names, h.Tier+1)
}

// hostLabel is a host's name, or its address if it has none.
func hostLabel(h mail.Host) string {
	if h.Name == "" {
		return hostText(h)
	}
	return h.Name
}

// obstacleKey names the parameter to change.
func obstacleKey(o *qmgr.Obstacle, transport string) string {
	name := ""
	switch o.Kind {
	case qmgr.ObstacleDestinationDelay:
		name = "destination_rate_delay"
	case qmgr.ObstacleDestinationRate:
		name = "destination_rate"
	case qmgr.ObstacleTransportRate:
		name = "transport_rate"
	case qmgr.ObstacleTransportDelay:
		name = "transport_rate_delay"
	case qmgr.ObstacleProcessLimit:
		name = "process_limit"
	case qmgr.ObstacleConnectionLimit:
		return "smtp_connection_limit"
	case qmgr.ObstacleMessageShare:
		return "max_message_concurrency"
	case qmgr.ObstaclePart:
		name = "process_limit"
	case qmgr.ObstacleSlowStart:
		name = "initial_destination_concurrency"
	case qmgr.ObstacleConnectionRate:
		name = "connection_rate"
	case qmgr.ObstacleWindow:
		if o.Most <= 0 || o.Limit < o.Most {
			return ""
		}
		name = "destination_concurrency_limit"
	case qmgr.ObstacleHostLimit:
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

// pauseText is a length of time as it is written in the configuration.
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
