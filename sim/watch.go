package sim

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A checker has one rule, and watches whether it is kept. It implements those
// of the watching interfaces that it needs.
type checker interface {
	// name is what reports call the rule.
	name() string
	// progress reports whether the rule is that something happens (liveness), not
	// that something does not (safety).
	progress() bool
	// violation is the first violation, "" if there was none.
	violation() string
}

type (
	// acceptWatcher is called with every message that the spool takes in.
	acceptWatcher interface{ accepted(m *message) }
	// startWatcher is called with every delivery that begins, before it does.
	startWatcher interface {
		started(w *world, e *task)
	}
	// finishWatcher is called with every delivery that ends, before the core is
	// notified.
	finishWatcher interface {
		finished(w *world, e *task, outcomes []mail.Outcome)
	}
	// changeWatcher is called with every change that the core asks for.
	changeWatcher interface {
		change(now mail.Instant, m *message, c *mail.Change)
	}
	// changedWatcher is called with every change that has become durable. m is nil
	// if the message was not there.
	changedWatcher interface {
		changed(now mail.Instant, m *message, c *mail.Change)
	}
	// searchWatcher is called with every lookup of a route that begins, and that ends.
	searchWatcher interface {
		searching(now mail.Instant, a *qmgr.Lookup)
		searched(a *qmgr.Lookup)
	}
	// routedWatcher is called with each recipient whose destination is reported to the core.
	routedWatcher interface {
		routed(w *world, m *message, index uint32, to *destination)
	}
	// noteWatcher is called with every note of the core.
	noteWatcher interface {
		note(now mail.Instant, n *qmgr.Note)
	}
	// reportWatcher is called with every report that the core asks for.
	reportWatcher interface {
		report(now mail.Instant, m *message)
	}
	// sessionWatcher is called for the connections that the core requests.
	sessionWatcher interface {
		dialling(w *world, s *session)
		dialled(w *world, s *session, o *mail.OpenedConnection)
		sending(w *world, s *session, l *letter)
		hangingUp(w *world, s *session)
		closed(w *world, s *session)
		// astray is called for a Send or Hangup on a connection that has ended.
		astray(w *world, id qmgr.ConnID)
	}
	// networkWatcher is called when the core concludes that our own network is
	// down.
	networkWatcher interface{ offline(now mail.Instant) }
	// putOffWatcher is called with mail that will be deferred, or fail, without an
	// attempt.
	putOffWatcher interface {
		putOff(w *world, d *mail.Delivery)
	}
	// endWatcher is called at the end of the run.
	endWatcher interface{ end(w *world) }
	// stepWatcher is called at the end of every Step; it must be quick.
	stepWatcher interface{ stepped(w *world) }
	// restWatcher is called periodically at the end of a Step.
	restWatcher interface{ rested(w *world) }
)

// watchers has the checkers that want to see events and actions, and a fingerprint of
// both.
type watchers struct {
	checkers []checker
	print    fingerprint
	steps    uint64

	accepts  []acceptWatcher
	starts   []startWatcher
	finishes []finishWatcher
	changes  []changeWatcher
	changeds []changedWatcher
	notes    []noteWatcher
	routeds  []routedWatcher
	searches []searchWatcher
	reports  []reportWatcher
	sessions []sessionWatcher
	putOffs  []putOffWatcher
	networks []networkWatcher
	ends     []endWatcher
	stepping []stepWatcher
	resting  []restWatcher
	orders   []orderWatcher
}

// restEvery is after how many steps restWatchers look at the core, which takes
// longer than a step.
const restEvery = 1024

func newWatchers(w *world) watchers {
	ws := watchers{print: newFingerprint()}
	ws.checkers = []checker{
		&conservation{}, &durability{}, &duplicates{}, newLimits(w), newTiming(),
		&reporting{doubleBounce: w.run.Core.DoubleBounce}, newOrdering(w), &memory{}, newShares(w), newPatience(w), &neighbors{},
	}
	turns, sparse, idle, crowds := &turns{}, &sparse{}, &idle{}, &crowds{}
	ws.checkers = append(ws.checkers, turns, sparse, idle, crowds)
	if w.hasSessions() {
		ws.checkers = append(ws.checkers, newConnecting(w), newProbing(w), newReaching(w), newWarming(w))
	}
	if c := newEvidence(w); c != nil && w.hasSessions() {
		ws.checkers = append(ws.checkers, c)
	}
	if c := newClaims(w, turns, sparse, idle, crowds); c != nil {
		ws.enlist(c)
	}
	for _, c := range ws.checkers {
		ws.enlist(c)
	}
	return ws
}

// enlist calls a watcher for all that it wants to see.
func (ws *watchers) enlist(c any) {
	enlist(&ws.accepts, c)
	enlist(&ws.starts, c)
	enlist(&ws.finishes, c)
	enlist(&ws.changes, c)
	enlist(&ws.changeds, c)
	enlist(&ws.notes, c)
	enlist(&ws.searches, c)
	enlist(&ws.reports, c)
	enlist(&ws.sessions, c)
	enlist(&ws.putOffs, c)
	enlist(&ws.networks, c)
	enlist(&ws.ends, c)
	enlist(&ws.stepping, c)
	enlist(&ws.resting, c)
	enlist(&ws.routeds, c)
	enlist(&ws.orders, c)
}

func enlist[W any](list *[]W, c any) {
	if watcher, ok := c.(W); ok {
		*list = append(*list, watcher)
	}
}

func (ws *watchers) stepped(w *world) {
	for _, c := range ws.stepping {
		c.stepped(w)
	}
	if ws.steps++; ws.steps%restEvery == 0 {
		for _, c := range ws.resting {
			c.rested(w)
		}
	}
}

func (ws *watchers) end(w *world) {
	for _, c := range ws.ends {
		c.end(w)
	}
}
