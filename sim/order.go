package sim

import (
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A WarmupOrder is an operator's order about a warm-up: from then on a source, or one
// site of it, goes on with another day of its plan.
type WarmupOrder struct {
	At     time.Duration // after the start
	Source string
	Site   string // "" for all sites
	Day    int    // of the plan, from 1 on
}

// An orderEvent is one that will be given.
type orderEvent struct {
	event
	order *WarmupOrder
}

// orders sets the events of a scenario's orders.
func (w *world) orders() {
	for i := range w.scenario.Orders {
		o := &orderEvent{order: &w.scenario.Orders[i]}
		w.at(&o.event, o, w.start.Add(o.order.At))
	}
}

// happen gives the order.
func (o *orderEvent) happen(w *world) {
	order := warmup.Order{Key: warmup.Key{Source: o.order.Source, Site: o.order.Site}, Kind: warmup.SetDay, Day: o.order.Day}
	w.ordered = w.now
	for _, c := range w.watch.orders {
		c.ordered(w, &order)
	}
	step(w, qmgr.AdjustWarmup{Order: order})
}

// An orderWatcher is called with every order about a warm-up, before the core is.
type orderWatcher interface {
	ordered(w *world, o *warmup.Order)
}

// A message that waits for a warm-up's next day is due at its first instant.
func waitsForDay(place *mail.Place, now mail.Instant) bool {
	return place.Area == mail.AreaDeferred && place.Due == warmup.DayOf(now).End()
}
