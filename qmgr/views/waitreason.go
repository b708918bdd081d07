package views

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
)

// A WaitReason is what keeps the mail that waits for a destination from going now:
// the first thing that would have to change. It says nothing about what would
// stand in the way after that.
type WaitReason struct {
	Kind  WaitKind
	Until mail.Instant  // when it is over at the latest; 0 if that depends on other things than time
	Limit int           // of which there are as many as may be, where it is a number
	Most  int           // WaitWindow: the most that the window may be; 0 for no limit
	Rate  rate.Limit    // where it is a limit by time
	Pause time.Duration // where it is a pause between two deliveries
	// Deliveries means that deliveries by agents are counted, not connections.
	Deliveries bool
	// Callouts, with WaitHostBusy, means that a host has lately ended a connection
	// over a call-out, and that only call-outs wait.
	Callouts bool
	Hosts    conns.TierView // WaitHostLimit, and WaitHostBusy without Callouts: those that are waited for
	// Table is the destination of Config.Destinations that says so, "" if the
	// transport or Config does.
	Table string
}

// A WaitKind is the kind of a WaitReason.
type WaitKind uint8

const (
	WaitNone             WaitKind = iota // nothing waits
	WaitStop                             // nothing is started any more
	WaitTransportDead                    // the transport's deliveries cannot be begun
	WaitDead                             // the destination is dead
	WaitDestinationDelay                 // the pause after each delivery, or the delivery before that
	WaitDestinationRate                  // a limit by time of the destination is reached
	WaitTransportRate                    // the transport has
	WaitTransportDelay                   // the transport's pause before each delivery, or the delivery before that
	WaitProcessLimit                     // the transport has as many connections or deliveries as it may
	WaitConnectionLimit                  // all transports together have as many connections as they may
	WaitWindow                           // the destination has as many connections or deliveries as its window allows
	WaitMessageShare                     // the message at its head holds as many connections as it may while others need them
	WaitDestinationShare                 // the destination holds as many connections as it may while others may need them
	WaitSlowStart                        // enough connections are being opened
	WaitConnectionRate                   // enough connections were opened lately
	WaitHostLimit                        // every usable host of a tier is at its limit of connections, or is being tried
	WaitHostBusy                         // every usable host of a tier has enough, and some have said so lately
	WaitLocalOutage                      // our own network is down
	WaitHostLookup                       // its hosts are being looked up
	WaitConnecting                       // a connection is being opened
	WaitDetour                           // of mail that avoids hosts: the one connection for such mail is in use, or cannot be had yet
	WaitTransaction                      // every connection is full
	WaitSpread                           // one has room, and starts are spread: each has a pause after it
	WaitTurn                             // it could go: other mail of the transport goes first
	WaitReportTurn                       // of a message: it is parked until it is its turn to be reported on
	WaitLookups                          // of a message: it is parked until it is known where its recipients go

	waitKinds = iota
)

// WaitKinds returns all kinds of them, in the order of their numbers.
func WaitKinds() []WaitKind {
	return upTo(WaitKind(waitKinds))
}

// upTo returns the values of an enumeration below a number.
func upTo[E ~uint8](n E) (all []E) {
	for e := range n {
		all = append(all, e)
	}
	return all
}

// String returns the word that views show.
func (k WaitKind) String() string {
	return [...]string{"none", "stop", "transport-dead", "dead", "destination-delay", "destination-rate", "transport-rate",
		"transport-delay", "process-limit", "connection-limit", "window", "message-share", "destination-share", "slow-start", "connection-rate",
		"host-limit", "host-busy", "local-outage", "host-lookup", "connecting", "detour", "transaction", "spread", "turn", "report-turn", "lookups"}[k]
}

// FromSite returns why no connection of a destination takes what waits there, by what package conns says. Window is the
// size of the destination's window, and limit the most that it may be; connecting means that a connection is being opened.
func FromSite(w conns.WaitView, window, limit int, connecting bool) WaitReason {
	o := WaitReason{Until: w.Until, Limit: w.Limit, Rate: w.Rate, Hosts: w.Hosts}
	o.Kind = siteWaits[w.Why]
	switch {
	case w.Why == conns.WaitWindow:
		o.Limit, o.Most = window, limit
	case w.Why == conns.WaitSlot && w.Shared:
		o.Kind = WaitConnectionLimit
	case w.Why == conns.WaitCallout:
		o.Callouts = true
	case w.Why == conns.WaitNone && connecting:
		o.Kind = WaitConnecting
	}
	return o
}

var siteWaits = [...]WaitKind{
	conns.WaitNone: WaitTransaction, conns.WaitWindow: WaitWindow, conns.WaitShare: WaitMessageShare, conns.WaitPart: WaitDestinationShare,
	conns.WaitSlot: WaitProcessLimit, conns.WaitStart: WaitSlowStart, conns.WaitRate: WaitConnectionRate, conns.WaitHost: WaitHostLimit,
	conns.WaitBusy: WaitHostBusy, conns.WaitCallout: WaitHostBusy, conns.WaitOutage: WaitLocalOutage,
}

// A Condition is how a destination stands, whether anything waits for it or not.
type Condition uint8

const (
	ConditionReady     Condition = iota // it takes mail
	ConditionOpening                    // its hosts are being looked up, or connections opened
	ConditionFull                       // it has reached a limit of what it may have at once
	ConditionLimited                    // a limit by time of the destination is reached
	ConditionPaused                     // it is left alone for a moment, as configured
	ConditionDead                       // it cannot be reached
	ConditionSuspended                  // an operator or a rule on replies has suspended it: its mail is deferred without an attempt

	conditions = iota
)

// Conditions returns all of them, in the order of their numbers.
func Conditions() []Condition {
	return upTo(Condition(conditions))
}

// String returns the word that views show.
func (c Condition) String() string {
	return [...]string{"ready", "opening", "full", "rate-limited", "paused", "dead", "suspended"}[c]
}

// Condition returns how the destination stands that meets the wait reason.
func (k WaitKind) Condition() Condition {
	switch k {
	case WaitTransportDead, WaitDead, WaitLocalOutage:
		return ConditionDead
	case WaitDestinationDelay, WaitTransportDelay, WaitStop:
		return ConditionPaused
	case WaitDestinationRate, WaitTransportRate, WaitConnectionRate:
		return ConditionLimited
	case WaitProcessLimit, WaitConnectionLimit, WaitWindow, WaitMessageShare, WaitDestinationShare, WaitHostLimit, WaitHostBusy,
		WaitDetour, WaitTransaction, WaitSpread:
		return ConditionFull
	case WaitSlowStart, WaitHostLookup, WaitConnecting:
		return ConditionOpening
	}
	return ConditionReady
}

// Setting returns which setting of a destination of Config.Destinations may be what the mail waits for; nil if there is none.
func (o *WaitReason) Setting() func(*shape.Limits) bool {
	switch o.Kind {
	case WaitDestinationDelay:
		return func(l *shape.Limits) bool { return l.RateDelay.Set }
	case WaitDestinationRate:
		return func(l *shape.Limits) bool { return l.Rate.Set }
	case WaitConnectionRate:
		return func(l *shape.Limits) bool { return l.ConnectionRate.Set }
	case WaitHostLimit:
		return func(l *shape.Limits) bool { return l.HostConcurrencyLimit.Set }
	case WaitWindow:
		if o.Most > 0 && o.Limit >= o.Most {
			return func(l *shape.Limits) bool { return l.ConcurrencyLimit.Set }
		}
	}
	return nil
}
