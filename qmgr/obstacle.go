package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// An Obstacle is what keeps the mail that waits for a destination from going now:
// the first thing that would have to change. It says nothing about what would
// stand in the way after that.
type Obstacle struct {
	Kind  ObstacleKind
	Until mail.Instant  // when it is over at the latest; 0 if that depends on other things than time
	Limit int           // of which there are as many as may be, where it is a number
	Most  int           // ObstacleWindow: the most that the window may be; 0 for no limit
	Rate  rate.Limit    // where it is a limit by time
	Pause time.Duration // where it is a pause between two deliveries
	// Deliveries means that deliveries by agents are counted, not connections.
	Deliveries bool
	// Callouts, with ObstacleHostBusy, means that a host has lately ended a connection
	// over a call-out, and that only call-outs wait.
	Callouts bool
	Hosts    conns.TierView // ObstacleHostLimit, and ObstacleHostBusy without Callouts: those that are waited for
	// Table is the destination of Config.Destinations that says so, "" if the
	// transport or Config does.
	Table string
}

// An ObstacleKind says what an Obstacle is.
type ObstacleKind uint8

const (
	ObstacleNone             ObstacleKind = iota // nothing waits
	ObstacleStop                                 // nothing is started any more
	ObstacleTransportDead                        // the transport's deliveries cannot be begun
	ObstacleDead                                 // the destination is dead
	ObstacleDestinationDelay                     // the pause after each delivery, or the delivery before that
	ObstacleDestinationRate                      // a limit by time of the destination is reached
	ObstacleTransportRate                        // the transport has
	ObstacleTransportDelay                       // the transport's pause before each delivery, or the delivery before that
	ObstacleProcessLimit                         // the transport has as many connections or deliveries as it may
	ObstacleConnectionLimit                      // all transports together have as many connections as they may
	ObstacleWindow                               // the destination has as many connections or deliveries as its window allows
	ObstacleMessageShare                         // the message at its head holds as many connections as it may while others need them
	ObstaclePart                                 // the destination holds as many connections as it may while others may need them
	ObstacleSlowStart                            // enough connections are being opened
	ObstacleConnectionRate                       // enough connections were opened lately
	ObstacleHostLimit                            // every usable host of a tier is at its limit of connections, or is being tried
	ObstacleHostBusy                             // every usable host of a tier has enough, and some have said so lately
	ObstacleLocalOutage                          // our own network is down
	ObstacleHostLookup                           // its hosts are being looked up
	ObstacleConnecting                           // a connection is being opened
	ObstacleTransaction                          // every connection carries as much as it can
	ObstacleTurn                                 // it could go: other mail of the transport goes first
	ObstacleReportTurn                           // of a message: it is parked until it is its turn to be reported on
	ObstacleLookups                              // of a message: it is parked until it is known where its recipients go

	obstacles = iota
)

// Obstacles returns all kinds of them, in the order of their numbers.
func Obstacles() []ObstacleKind {
	all := make([]ObstacleKind, obstacles)
	for i := range all {
		all[i] = ObstacleKind(i)
	}
	return all
}

// String returns the word that views show.
func (k ObstacleKind) String() string {
	return [...]string{"none", "stop", "transport-dead", "dead", "destination-delay", "destination-rate", "transport-rate",
		"transport-delay", "process-limit", "connection-limit", "window", "message-share", "destination-share", "slow-start", "connection-rate",
		"host-limit", "host-busy", "local-outage", "host-look-up", "connecting", "transaction", "turn", "report-turn", "look-ups"}[k]
}

// obstacle returns what stands in the way of mail for a destination.
func (q *Qmgr) obstacle(d *queue) Obstacle { return q.sourced(d, q.unsourced(d)) }

// unsourced is obstacle without Table.
func (q *Qmgr) unsourced(d *queue) Obstacle {
	t := d.transport
	switch {
	case d.Todo.Empty():
		return Obstacle{}
	case q.halt:
		return Obstacle{Kind: ObstacleStop}
	case t.dead():
		return Obstacle{Kind: ObstacleTransportDead, Until: t.outage.timer.at}
	case d.Dead():
		return Obstacle{Kind: ObstacleDead, Until: d.timer.at}
	case d.window.State() == window.Suspended:
		return Obstacle{Kind: ObstacleDestinationDelay, Until: d.timer.at, Pause: d.limits.rateDelay}
	case d.paused:
		limit, at := d.rate.Binding(q.now)
		return Obstacle{Kind: ObstacleDestinationRate, Until: at, Rate: limit}
	case t.paused:
		return q.transportRate(t)
	case d.Startable > 0:
		return t.obstacle()
	case d.site == nil:
		return Obstacle{Kind: ObstacleWindow, Limit: d.window.Size(), Most: d.limits.window.Limit, Deliveries: true}
	}
	return q.siteObstacle(d)
}

// transportRate distinguishes a limit by time that is used up from the transport's pause,
// which is one, too, where there are connections.
func (q *Qmgr) transportRate(t *transport) Obstacle {
	limit, at := t.rate.Binding(q.now)
	if t.spaced() && (t.Busy > 0 || t.delay.until >= at) {
		until := t.delay.until
		if t.Busy > 0 {
			until = 0 // it depends on what is under way
		}
		return Obstacle{Kind: ObstacleTransportDelay, Until: until, Pause: t.cfg.TransportRateDelay}
	}
	return Obstacle{Kind: ObstacleTransportRate, Until: at, Rate: limit}
}

// obstacle returns what keeps a transport from starting what could be started.
func (t *transport) obstacle() Obstacle {
	switch {
	case t.delay.holds():
		return Obstacle{Kind: ObstacleTransportDelay, Until: t.delay.next(), Pause: t.cfg.TransportRateDelay}
	case t.cfg.Agents == AgentsOwn && t.Busy >= t.cfg.ProcessLimit:
		return Obstacle{Kind: ObstacleProcessLimit, Limit: t.cfg.ProcessLimit, Deliveries: true}
	}
	return Obstacle{Kind: ObstacleTurn}
}

// siteObstacle returns why no connection takes what waits.
func (q *Qmgr) siteObstacle(d *queue) Obstacle {
	switch {
	case !d.site.Known():
		return Obstacle{Kind: ObstacleHostLookup}
	case d.limits.rateDelay > 0 && d.Busy > 0:
		return Obstacle{Kind: ObstacleDestinationDelay, Pause: d.limits.rateDelay}
	case !d.transport.RunsTo(&d.Destination):
		return Obstacle{Kind: ObstacleTurn}
	}
	w := q.conns.Waits(d.site, q.now)
	o := Obstacle{Until: w.Until, Limit: w.Limit, Rate: w.Rate, Hosts: w.Hosts}
	switch w.Why {
	case conns.WaitWindow:
		o.Kind, o.Limit, o.Most = ObstacleWindow, d.window.Size(), d.limits.window.Limit
	case conns.WaitShare:
		o.Kind = ObstacleMessageShare
	case conns.WaitPart:
		o.Kind = ObstaclePart
	case conns.WaitSlot:
		if o.Kind = ObstacleProcessLimit; w.Shared {
			o.Kind = ObstacleConnectionLimit
		}
	case conns.WaitStart:
		o.Kind = ObstacleSlowStart
	case conns.WaitRate:
		o.Kind = ObstacleConnectionRate
	case conns.WaitHost:
		o.Kind = ObstacleHostLimit
	case conns.WaitBusy, conns.WaitCallout:
		o.Kind, o.Callouts = ObstacleHostBusy, w.Why == conns.WaitCallout
	case conns.WaitOutage:
		o.Kind = ObstacleLocalOutage
	case conns.WaitNone:
		if o.Kind = ObstacleTransaction; d.site.View().Connecting > 0 {
			o.Kind = ObstacleConnecting
		}
	}
	return o
}

// sourced completes an obstacle with the destination of the configuration from
// which the limit comes.
func (q *Qmgr) sourced(d *queue, o Obstacle) Obstacle {
	var set func(*shape.Limits) bool
	switch o.Kind {
	case ObstacleDestinationDelay:
		set = func(l *shape.Limits) bool { return l.RateDelay.Set }
	case ObstacleDestinationRate:
		set = func(l *shape.Limits) bool { return l.Rate.Set }
	case ObstacleConnectionRate:
		set = func(l *shape.Limits) bool { return l.ConnectionRate.Set }
	case ObstacleHostLimit:
		set = func(l *shape.Limits) bool { return l.HostConcurrencyLimit.Set }
	case ObstacleWindow:
		if o.Most <= 0 || o.Limit < o.Most {
			return o
		}
		set = func(l *shape.Limits) bool { return l.ConcurrencyLimit.Set }
	default:
		return o
	}
	o.Table = q.shapes.Source(d.nexthop, d.site.Best(), set)
	return o
}

// A Condition is how a destination stands, whether anything waits for it or not.
type Condition uint8

const (
	ConditionReady   Condition = iota // it takes mail
	ConditionOpening                  // its hosts are being looked up, or connections opened
	ConditionFull                     // it has reached a limit of what it may have at once
	ConditionLimited                  // a limit by time of the destination is reached
	ConditionPaused                   // it is left alone for a moment, as configured
	ConditionDead                     // it cannot be reached

	conditions = iota
)

// Conditions returns all of them, in the order of their numbers.
func Conditions() []Condition {
	all := make([]Condition, conditions)
	for i := range all {
		all[i] = Condition(i)
	}
	return all
}

// String returns the word that views show.
func (c Condition) String() string {
	return [...]string{"ready", "opening", "full", "rate-limited", "paused", "dead"}[c]
}

// Condition returns how the destination stands that meets the obstacle.
func (k ObstacleKind) Condition() Condition {
	switch k {
	case ObstacleTransportDead, ObstacleDead, ObstacleLocalOutage:
		return ConditionDead
	case ObstacleDestinationDelay, ObstacleTransportDelay, ObstacleStop:
		return ConditionPaused
	case ObstacleDestinationRate, ObstacleTransportRate, ObstacleConnectionRate:
		return ConditionLimited
	case ObstacleProcessLimit, ObstacleConnectionLimit, ObstacleWindow, ObstacleMessageShare, ObstaclePart, ObstacleHostLimit, ObstacleHostBusy,
		ObstacleTransaction:
		return ConditionFull
	case ObstacleSlowStart, ObstacleHostLookup, ObstacleConnecting:
		return ConditionOpening
	}
	return ConditionReady
}

// condition returns how a destination stands, whether mail waits for it or not. Unlike
// obstacle it takes next to no time.
func (q *Qmgr) condition(d *queue) Condition {
	switch {
	case d.Dead(), d.transport.dead():
		return ConditionDead
	case d.window.State() == window.Suspended:
		return ConditionPaused
	case d.paused:
		return ConditionLimited
	}
	return q.unsourced(d).Kind.Condition()
}
