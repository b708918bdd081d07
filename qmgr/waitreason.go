package qmgr

import (
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/views"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// waitReason returns what stands in the way of mail for a destination.
func (q *Qmgr) waitReason(d *queue) WaitReason { return q.sourced(d, q.unsourced(d)) }

// unsourced returns the same without Table.
func (q *Qmgr) unsourced(d *queue) WaitReason {
	t := d.transport
	switch {
	case d.Waiting == 0:
		return WaitReason{}
	case q.halt:
		return WaitReason{Kind: WaitStop}
	case t.dead():
		return WaitReason{Kind: WaitTransportDead, Until: t.outage.timer.At()}
	case d.dead():
		return WaitReason{Kind: WaitDead, Until: d.timer.At()}
	case d.window.State() == window.Suspended:
		return WaitReason{Kind: WaitDestinationDelay, Until: d.timer.At(), Pause: d.limits.rateDelay}
	case d.paused:
		limit, at := d.whole().rate.Binding(q.now)
		return WaitReason{Kind: WaitDestinationRate, Until: at, Rate: limit}
	case t.paused:
		return q.transportRate(t)
	case d.Startable > 0:
		return t.waitReason()
	case d.site == nil:
		return WaitReason{Kind: WaitWindow, Limit: d.window.Size(), Most: d.limits.window.Limit, Deliveries: true}
	}
	return q.siteWaitReason(d)
}

// transportRate distinguishes a limit by time that is used up from the transport's pause,
// which is one, too, where there are connections.
func (q *Qmgr) transportRate(t *transport) WaitReason {
	limit, at := t.rate.Binding(q.now)
	if t.spaced() && (t.Busy > 0 || t.delay.Until() >= at) {
		until := t.delay.Until()
		if t.Busy > 0 {
			until = 0 // it depends on what is under way
		}
		return WaitReason{Kind: WaitTransportDelay, Until: until, Pause: t.cfg.TransportRateDelay}
	}
	return WaitReason{Kind: WaitTransportRate, Until: at, Rate: limit}
}

// waitReason returns what keeps a transport from starting what could be started.
func (t *transport) waitReason() WaitReason {
	switch {
	case t.delay.Holds():
		return WaitReason{Kind: WaitTransportDelay, Until: t.delay.next(), Pause: t.cfg.TransportRateDelay}
	case t.cfg.Agents == AgentsOwn && t.Busy >= t.cfg.ProcessLimit:
		return WaitReason{Kind: WaitProcessLimit, Limit: t.cfg.ProcessLimit, Deliveries: true}
	}
	return WaitReason{Kind: WaitTurn}
}

// siteWaitReason returns why no connection takes what waits.
func (q *Qmgr) siteWaitReason(d *queue) WaitReason {
	switch {
	case !d.inTurn():
		return WaitReason{Kind: WaitDetour}
	case !d.site.Known():
		return WaitReason{Kind: WaitHostLookup}
	case d.spreading.Pausing() && d.site.Room() > 0:
		return WaitReason{Kind: WaitSpread, Until: d.spreading.pause.At()}
	case d.limits.rateDelay > 0 && d.Busy > 0:
		return WaitReason{Kind: WaitDestinationDelay, Pause: d.limits.rateDelay}
	case !d.Runs():
		return WaitReason{Kind: WaitTurn}
	}
	w := q.conns.Waits(d.site, q.now)
	if w.Why == conns.WaitWindow && d.main != nil {
		return WaitReason{Kind: WaitDetour} // the connection that there is for such mail is in use, or one of other mail has to end first
	}
	return views.FromSite(w, d.window.Size(), d.limits.window.Limit, d.site.View().Connecting > 0)
}

// sourced completes a wait reason with the destination of the configuration from
// which the limit comes.
func (q *Qmgr) sourced(d *queue, o WaitReason) WaitReason {
	if set := o.Setting(); set != nil {
		o.Table = q.shapes.Source(d.nexthop, d.site.Best(), set)
	}
	return o
}

// condition returns how a destination stands, whether mail waits for it or not. It does
// not search the configuration for the Table, as waitReason does.
func (q *Qmgr) condition(d *queue) Condition {
	switch {
	case q.suspended.Any() && q.suspended.OfQueue(d.way().on(d.transport.Name), d.nexthop, d.source.String()).Until != 0:
		return ConditionSuspended
	case d.dead(), d.transport.dead():
		return ConditionDead
	case d.whole().window.State() == window.Suspended:
		return ConditionPaused
	case d.paused:
		return ConditionLimited
	}
	return q.unsourced(d).Kind.Condition()
}
