package qmgr

import (
	"math"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// limits are what holds for one destination: its transport's, unless
// Config.Destinations has others.
type limits struct {
	window     window.Config
	recipients int // of one entry
	rateDelay  time.Duration
	rate       rate.Limits // messages
	dials      rate.Limits // new connections
}

// limits returns those of the transport.
func (t *TransportConfig) limits() limits {
	return limits{window: t.Window, recipients: t.RecipientLimit, rateDelay: t.RateDelay, rate: t.Rate, dials: t.Connections.OpenRate}
}

// lane returns what decides about the order of the transport's mail.
func (t *TransportConfig) lane() sched.Rules {
	return sched.Rules{
		SlotCost: t.SlotCost, SlotLoan: t.SlotLoan, SlotDiscount: t.SlotDiscount, MinimumSlots: t.MinimumSlots,
		RecipientPool: t.RecipientPool, ExtraRecipients: t.ExtraRecipients,
		Refill: sched.Refill{Limit: t.RefillLimit, Delay: t.RefillDelay},
	}
}

// with returns the limits as changed for a destination. Where that says 0 for
// none, the core has 0 in a window and a negative number of recipients.
func (l limits) with(s *shape.Limits) limits {
	l.window.Initial = s.InitialConcurrency.Or(l.window.Initial)
	l.window.Limit = s.ConcurrencyLimit.Or(l.window.Limit)
	if n := s.RecipientLimit; n.Set {
		l.recipients = n.Value
	}
	if l.rateDelay = s.RateDelay.Or(l.rateDelay); l.rateDelay > 0 {
		l.window.Initial, l.window.Limit = 1, 1
	}
	l.rate = s.Rate.Or(l.rate)
	l.dials = s.ConnectionRate.Or(l.dials)
	return l
}

// shape finds out which limits hold for a destination, by its name and by the
// hosts that serve it as far as they are known.
func (q *Qmgr) shape(d *queue, hosts []mail.Host) {
	if d.main != nil {
		q.shapeDetour(d)
		return
	}
	t := d.transport
	d.limits = &t.limits
	if m := q.shapes.Lookup(d.nexthop, hosts); len(m.Names) > 0 {
		own := t.limits.with(&m.Limits)
		d.limits = &own
	}
	if d.lowers(q.now) {
		own, low := *d.limits, &d.measures.Lower
		own.window.Initial, own.window.Limit = low.Concurrencies(own.window.Initial, own.window.Limit)
		own.rate = low.Rates(own.rate)
		d.limits = &own
	}
	d.rate.Configure(d.limits.rate, q.now)
	if d.site != nil {
		d.site.Configure(d.limits.rateDelay > 0, d.limits.dials, q.now)
	}
	for _, one := range d.ownDetours() {
		q.shapeDetour(one)
	}
}

// shapeDetour gives a detour the limits of its main queue, but for those that are counted there.
func (q *Qmgr) shapeDetour(d *queue) {
	own := *d.main.limits
	own.window.Initial, own.window.Limit, own.rate, own.dials = 1, 1, rate.Limits{}, rate.Limits{}
	d.limits = &own
	d.rate.Configure(own.rate, q.now)
	d.site.Configure(own.rateDelay > 0, own.dials, q.now)
}

// reshape puts limits in force that have changed for a destination that exists.
func (q *Qmgr) reshape(d *queue, hosts []mail.Host) {
	fresh := d.site != nil && d.site.Empty() && d.Busy == 0
	q.shape(d, hosts)
	if fresh && d.ready() {
		d.window = window.New(&d.limits.window) // nothing has been learned yet
	}
	d.window.Reconfigure(&d.limits.window)
	q.pace(d)
	d.touch()
}

// hostLimits returns what holds for connections to one host.
func (q *Qmgr) hostLimits(d *queue) func(mail.Host) conns.HostLimits {
	cfg := d.transport.cfg.group()
	standard := conns.HostLimits{Connections: cfg.HostLimit, Level: cfg.Level, ActiveTime: cfg.ActiveTime, Count: cfg.CountLimit}
	if q.shapes == nil {
		return func(mail.Host) conns.HostLimits { return standard }
	}
	return func(h mail.Host) conns.HostLimits {
		l := q.shapes.Lookup(d.nexthop, []mail.Host{h}).Limits
		return conns.HostLimits{
			Connections: l.HostConcurrencyLimit.Or(standard.Connections), Level: l.Level.Or(standard.Level),
			ActiveTime: l.ReuseTimeLimit.Or(standard.ActiveTime), Count: l.ReuseCountLimit.Or(standard.Count),
		}
	}
}

// counted notes that a delivery starts, for the limits by time.
func (q *Qmgr) counted(e *sched.Entry) {
	d, span := queueOf(e.Destination()), longestSpan
	if messageOf(e.Message).callout != nil {
		span = calloutSpan
	}
	t := d.transport
	if t.rate.Limited() {
		t.rate.TakeWithin(span, q.now)
	}
	if t.rate.Limited() || t.spaced() {
		q.paceTransport(t)
	}
	if d = d.whole(); d.rate.Limited() {
		d.rate.TakeWithin(span, q.now)
		q.pace(d)
	}
}

const (
	longestSpan time.Duration = math.MaxInt64
	// calloutSpan is the longest time over which a call-out counts. Strangers decide
	// how many there are, and must not use up what mail may have in an hour or a day.
	calloutSpan = time.Minute
)

// mayCall reports whether a connection may be opened for a call-out: as long as half is
// left of what may be opened in any longer time, since mail needs the rest.
func (d *queue) mayCall(now mail.Instant) bool {
	dials := d.site.Dials()
	if !dials.Limited() {
		return true
	}
	for _, use := range dials.Uses(now) {
		if use.Limit.Per > calloutSpan && use.Used+1 > use.Limit.N/2 {
			return false
		}
	}
	return true
}

// pace has a destination wait if it has reached a limit by time, and its detours with it.
func (q *Qmgr) pace(d *queue) {
	ready, at := d.whole().rate.Ready(q.now)
	q.timers.Stop(&d.pace)
	d.paused = !ready
	if !ready {
		q.timers.Start(&d.pace, at)
	}
	d.touch()
	for _, detour := range d.ownDetours() {
		q.pace(detour)
	}
}

// paceTransport does so for all destinations of a transport.
func (q *Qmgr) paceTransport(t *transport) {
	ready, at := t.rate.Ready(q.now)
	q.timers.Stop(&t.pace)
	busy := t.spaced() && t.Busy > 0 // it is called again when that ends
	if t.spaced() && q.now < t.delay.Until() {
		ready, at = false, max(at, t.delay.Until())
	}
	t.paused = busy || !ready
	if !ready && !busy {
		q.timers.Start(&t.pace, at)
	}
	if !t.paused {
		t.goOn()
	}
}

// goOn has the queues that wait for the transport ask for connections again.
func (t *transport) goOn() {
	for n := t.resting.Len(); n > 0; n-- {
		t.resting.PopFront().want()
	}
}

// goOn ends the wait of a destination, or looks again whether one that is idle
// has to be remembered.
func (q *Qmgr) goOn(d *queue) {
	q.pace(d)
	q.freeIfIdle(d)
}

// used returns the longest time over which something of a bucket counts, 0 if
// nothing does.
func used(b *rate.Bucket, now mail.Instant) (longest time.Duration) {
	if !b.Limited() {
		return 0
	}
	for _, use := range b.Uses(now) {
		if use.Used > 0 {
			longest = max(longest, use.Limit.Per)
		}
	}
	return longest
}

// remembers reports whether an idle destination must be kept, since what went to it
// lately counts against its limits, or was too much for its hosts. The number of those that are is bounded: where
// it is reached, a limit may be exceeded rather than memory.
func (q *Qmgr) remembers(d *queue) bool {
	longest := used(&d.rate, q.now)
	if d.site != nil {
		longest = max(longest, used(d.site.Dials(), q.now), d.site.CalloutPause(q.now))
	}
	if longest == 0 || q.queues > 2*q.cfg.RecipientLimit {
		q.timers.Stop(&d.pace)
		return false
	}
	if !d.pace.Running() {
		q.timers.Start(&d.pace, q.now.Add(longest))
	}
	return true
}
