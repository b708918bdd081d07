package admin

import (
	"fmt"
	"net/netip"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

func destinationOf(v *qmgr.DestinationSummary) Destination {
	q := &v.Queue
	d := Destination{
		Name: v.Transport + ":" + q.Nexthop, Transport: v.Transport, Nexthop: q.Nexthop, Source: q.Source, Security: q.Security, Sources: v.Sources, State: v.Condition.String(),
		Messages: v.Messages, Recipients: v.Recipients, Todo: q.Todo, Oldest: wallOrNil(v.Oldest), Busy: q.Busy, Window: q.Window,
		Open: q.Connections.Ready, Opening: q.Connections.Connecting, WaitReason: waitReasonOf(&q.WaitReason, v.Transport),
		Reason: q.Reason.String(), Until: wallOrNil(q.Until), Rule: q.Rule, Lowered: q.Lowered, LoweredEnd: wallOrNil(q.LoweredUntil), Failure: failureOf(v.Hosts.Failure, v.Hosts.FailedAt),
	}
	if v.Hosts.Up+v.Hosts.Retry > 0 {
		d.Hosts = &HostCounts{Up: v.Hosts.Up, Busy: v.Hosts.Busy, Retry: v.Hosts.Retry}
	}
	return d
}

func failureOf(why mail.Reply, at mail.Instant) *Failure {
	if at == 0 {
		return nil
	}
	return &Failure{Reply: why.String(), At: wall(at)}
}

func detailOfDestination(v *qmgr.DestinationView) DestinationDetail {
	d := DestinationDetail{Destination: destinationOf(&v.DestinationSummary), Remembered: v.Remembered, Limit: v.Ceiling, Tables: v.Tables,
		HostList: []HostStatus{}, Connections: []ConnectionStatus{}, Ended: []EndedConnection{}}
	for _, of := range []struct {
		name string
		uses []rate.Use
	}{{"destination_rate", v.Rate}, {"connection_rate", v.ConnectionRate}, {"transport_rate", v.TransportRate}} {
		for _, u := range of.uses {
			d.Rates = append(d.Rates, RateUse{Key: of.name, Limit: u.Limit.String(), Used: u.Used})
		}
	}
	for i := range v.Hosts {
		d.HostList = append(d.HostList, hostStatus(&v.Hosts[i]))
	}
	for i := range v.Connections {
		d.Connections = append(d.Connections, connectionStatus(&v.Connections[i]))
	}
	for i := range v.Ended {
		d.Ended = append(d.Ended, endedConnection(&v.Ended[i]))
	}
	return d
}

func hostStatus(h *conns.HostView) HostStatus {
	k := &h.Known
	status := HostStatus{
		Name: h.Host.Name, Address: addressText(h.Host.Addr), Source: h.Source, Security: h.Security, Tier: h.Tier + 1, State: hostState(h), BusyUntil: wallOrNil(h.BusyUntil),
		Connections: h.Connections, Idle: h.Idle, Limit: h.Limit, Failures: k.Failures, Failure: failureOf(k.Reason, k.FailedAt),
		Level: h.Level.String(), Configured: h.Configured.String(), RTT: k.RTT.Seconds(), Service: k.Service.Seconds(), Slow: k.Slow,
		Mails: k.MessagesMax, Offers: offers(k.Caps),
	}
	switch {
	case h.Unproven:
		status.Unproven, status.ProvedAt = true, wallOrNil(k.ProbeAt)
	case h.Level < h.Configured:
		status.LevelFixed, status.LevelUntil = k.HeldUntil == mail.Never || k.HeldUntil == 0 && k.Executes, wallOrNil(k.HeldUntil)
	}
	if h.Fell.Conn != 0 {
		fell := endedConnection(&h.Fell)
		status.Fell = &fell
	}
	if status.State == "retry" {
		if status.Until = wallOrNil(k.RetryAt); k.State == destdb.RetryLater || k.State == destdb.RetryDue {
			status.Until = wallOrNil(k.At)
		}
	}
	return status
}

func hostState(h *conns.HostView) string {
	switch k := &h.Known; {
	case h.Probing && h.Connecting > 0:
		return "probing"
	case h.Connections > h.Idle+h.Connecting:
		return "active"
	case h.Idle > 0:
		return "idle"
	case h.Connecting > 0:
		return "connecting"
	case k.State == destdb.RetryLater, k.State == destdb.RetryDue, k.RetryAt != 0:
		return "retry"
	case k.State == destdb.Closed:
		return "closed"
	}
	return "unused"
}

// offers names the extensions that a host offered.
func offers(c destdb.Caps) []string {
	var names []string
	for _, e := range []struct {
		bit  mail.Extensions
		name string
	}{{mail.ExtPipelining, "PIPELINING"}, {mail.ExtChunking, "CHUNKING"}, {mail.Ext8BitMIME, "8BITMIME"}, {mail.ExtSMTPUTF8, "SMTPUTF8"},
		{mail.ExtDSN, "DSN"}, {mail.ExtStartTLS, "STARTTLS"}, {mail.ExtRequireTLS, "REQUIRETLS"}, {mail.ExtBurl, "BURL"}} {
		if c.Extensions&e.bit != 0 {
			names = append(names, e.name)
		}
	}
	if c.SizeMax > 0 {
		names = append(names, fmt.Sprintf("SIZE %d", c.SizeMax))
	}
	return names
}

func connectionStatus(c *conns.ConnView) ConnectionStatus {
	return ConnectionStatus{ID: uint64(c.ID), Host: hostText(c.Host), Source: c.Source, Security: c.Security, TLS: c.Negotiated.String(), State: c.State.String(), Level: c.Level.String(), InFlight: c.Entries,
		Room: c.Room, Carried: c.Carried, Limit: c.Limit, Made: wall(c.Made), Idle: wallOrNil(c.IdleFrom),
		RTT: c.RTT.Seconds(), Service: c.Service.Seconds()}
}

// addressText returns an address with its port, or "unix:/path".
func addressText(a netip.AddrPort) string {
	if path, ok := mail.SocketPath(a); ok {
		return mail.SocketPrefix + path
	}
	return a.String()
}

func hostText(h mail.Host) string {
	if _, ok := mail.SocketPath(h.Addr); ok {
		return h.Label()
	}
	text := "[" + h.Addr.Addr().String() + "]"
	if h.Addr == (netip.AddrPort{}) {
		text = ""
	}
	return fmt.Sprintf("%s%s:%d", h.Name, text, h.Addr.Port())
}

func endedConnection(e *conns.Ending) EndedConnection {
	return EndedConnection{ID: uint64(e.Conn), Host: hostText(e.Host), Source: e.Source, Security: e.Security, Why: e.Closing.Why.String(), DrainReason: e.Drained.String(),
		Text: endingText(e), Reply: e.Closing.Reply.String(), Level: e.Level.String(), Carried: e.Carried, Made: wall(e.Made), At: wall(e.At)}
}

// endingText returns why a connection ended.
func endingText(e *conns.Ending) string {
	switch e.Closing.Why {
	case mail.CloseIdle:
		return "closed by the server while idle"
	case mail.CloseBusy:
		return "the server replied 421 during a transaction"
	case mail.CloseLost:
		return "the connection was lost during a transaction"
	case mail.CloseStep:
		return "the server did not follow pipelining level " + e.Closing.Level.String()
	case mail.CloseMixed:
		return "the server put a message under another message's envelope"
	case mail.CloseWrong:
		return "the server violated the protocol"
	}
	switch e.Drained {
	case conns.DrainIdle:
		return "idle for too long (connection_cache_time_limit)"
	case conns.DrainAge:
		return "reached its maximum age (connection_reuse_time_limit)"
	case conns.DrainCount:
		return "reached its maximum number of messages"
	case conns.DrainSlot:
		return "closed to make room for another connection"
	case conns.DrainBetterHost:
		return "a host of a better tier is available again"
	case conns.DrainLimit:
		return "the limit of connections was lowered by a rule on replies"
	case conns.DrainHostGone:
		return "the host no longer serves the destination"
	case conns.DrainStop:
		return "Posthaste is stopping"
	case conns.DrainProbe:
		return probeText(e.Closing.Proof)
	case conns.DrainOutdated:
		return "opened before the host was known to support streaming"
	}
	return "no longer needed"
}

// probeText returns the result of a probe connection, which tests whether its host
// supports streaming.
func probeText(p mail.Proof) string {
	text := "ended with the streaming probe, which "
	switch p {
	case mail.ProofPassed:
		return text + "the host passed"
	case mail.ProofFailed:
		return text + "the host failed"
	case mail.ProofExecutes:
		return text + "the host failed: it executed refused content as commands"
	}
	return text + "could not be made"
}

// messageDestinations returns a message's destinations in core.
func messageDestinations(v *qmgr.MessageView) []MessageDestination {
	var all []MessageDestination
	for i := range v.Places {
		all = append(all, messageDestination(&v.Places[i]))
	}
	return all
}

func messageDestination(p *qmgr.PlaceView) MessageDestination {
	d := MessageDestination{Name: p.Transport + ":" + p.Nexthop, Source: p.Source, Security: p.Security, Waiting: p.Waiting, Busy: p.Busy, WaitReason: waitReasonOf(&p.WaitReason, p.Transport)}
	if p.Sharing.Flows > 1 {
		sharing := sharingOf(p.Sharing)
		d.Sharing = &sharing
	}
	if p.Instead != (mail.Origin{}) {
		d.Name, d.Deferral = insteadOf(p.Instead), true
	}
	return d
}
