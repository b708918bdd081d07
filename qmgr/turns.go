package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
)

// All detours of a main queue have one connection together, and it is one of those that the destination may have. So a main queue
// whose detours want it may have one connection less than its limit: a connection that it has too many ends
// when it has done what it was given, so that mail which avoids hosts gets on however much else waits.
//
// The detour that came about first has the turn. It ends when nothing of it waits or is under way; or after turnTime, if others
// wait, and then the detour goes behind them. The connection is hung up with the turn, since its host may be one that the next detour
// avoids.

// turnTime is for how long a detour keeps its turn while others wait.
const turnTime = time.Minute

// detours are those of one main queue.
type detours struct {
	all ilist.List[queue] // the one whose turn it is, or that is next, in front
	// turn is that of the only detour that has connections, or may have one; nil if nothing waits for any.
	// Whatever changes that is followed by rearrange.
	turn      *queue
	state     turnState
	timer     timer             // turnTaken: the end of the turn, if others wait
	inChanged ilist.Link[queue] // on Qmgr.detoured, by the main queue
}

// A turnState is how far the turn of a detour has come.
type turnState uint8

const (
	turnFree  turnState = iota // no detour has it
	turnTaken                  // it is that of a detour
	turnOver                   // it ends as soon as that has no connection any more
)

// joinTurns makes a queue one of its main queue's detours.
func (q *Qmgr) joinTurns(d *queue) {
	main := d.main
	if main.detours == nil {
		main.detours = &detours{}
		main.detours.timer.Of = timed{kind: timerTurn, queue: main}
	}
	main.detours.all.PushBack(&d.inAll, d)
}

// leaveTurns takes out a detour that is freed.
func (q *Qmgr) leaveTurns(d *queue) {
	main := d.main
	ds := main.detours
	ds.all.Remove(&d.inAll)
	if ds.turn == d {
		q.freeTurn(main)
	}
	main.rearrange() // not freed here, for whoever frees the detour may be about to look at its main queue
}

// rearrange has arrange look at a queue and its detours, if it has any or is one, before connections are asked for.
func (d *queue) rearrange() {
	main := d.whole()
	if ds := main.detours; ds != nil && !ds.inChanged.Listed() {
		main.transport.detoured.PushBack(&ds.inChanged, main)
	}
}

// arrangeDetours draws the consequences of what has changed for main queues and their detours.
func (q *Qmgr) arrangeDetours() {
	if q.detoured.Empty() {
		return
	}
	for main := q.detoured.PopFront(); main != nil; main = q.detoured.PopFront() {
		main.pin()
		q.arrange(main)
		q.unpin(main)
	}
	q.wakeSites() // a connection that is hung up leaves its slot to another site
}

// arrange says which detour has the turn, and has main queue and detour ask for the connections that they may have now.
func (q *Qmgr) arrange(main *queue) {
	if !main.limits.allowDetours() {
		q.rejoinAll(main)
	}
	ds := main.detours
	if ds.all.Empty() {
		if ds.inChanged.Listed() { // since the last of them was freed here
			q.detoured.Remove(&ds.inChanged)
		}
		main.detours = nil
		return
	}
	q.endTurn(main)
	if ds.state == turnFree {
		q.nextTurn(main)
	}
	if ds.state == turnFree {
		return
	}
	if ds.state == turnTaken && !ds.timer.Running() && ds.othersWait() {
		q.timers.Start(&ds.timer, q.now.Add(turnTime))
	}
	if most := main.limits.window.Limit - 1; most > 0 && main.site.View().Ready > most {
		q.hangupAll(q.conns.Shrink(main.site, most))
	}
	ds.turn.Touch() // not touch, which would have it arranged again
}

// nextTurn gives the turn to the first detour for which something waits.
func (q *Qmgr) nextTurn(main *queue) {
	ds := main.detours
	for d := range ds.all.All() {
		if d.Waiting > 0 {
			ds.turn, ds.state = d, turnTaken
			return
		}
	}
}

// endTurn ends the turn of a detour that has no use for it, or has had it for long enough, as soon as it has no connection any
// more.
func (q *Qmgr) endTurn(main *queue) {
	ds := main.detours
	d := ds.turn
	if ds.state == turnFree {
		return
	}
	if ds.state == turnOver || d.Waiting+d.Busy == 0 {
		q.hangupAll(q.conns.Shrink(d.site, 0))
	}
	if d.site.Count() > 0 || ds.state == turnTaken && d.Waiting > 0 {
		return
	}
	if ds.state == turnOver {
		ds.all.MoveToBack(&d.inAll)
	}
	q.freeTurn(main)
}

// freeTurn takes the turn from the detour that has it.
func (q *Qmgr) freeTurn(main *queue) {
	ds := main.detours
	q.timers.Stop(&ds.timer)
	ds.turn, ds.state = nil, turnFree
	main.Touch() // it may have a connection more
}

// turnEnds takes the end of a turn.
func (q *Qmgr) turnEnds(main *queue) {
	if ds := main.detours; ds.othersWait() {
		ds.state = turnOver
		main.rearrange()
	}
}

// othersWait reports whether something waits for another detour than the one that has the turn.
func (ds *detours) othersWait() bool {
	for d := range ds.all.All() {
		if d != ds.turn && d.Waiting > 0 {
			return true
		}
	}
	return false
}

// inTurn reports whether a queue may ask for connections: a detour has to wait for its turn.
func (d *queue) inTurn() bool {
	return d.main == nil || d.main.detours.turn == d && d.main.detours.state == turnTaken
}

// mostConnections is how many connections may serve a queue.
func (d *queue) mostConnections() int {
	switch limit := d.whole().limits.window.Limit; {
	case d.main != nil && (!d.inTurn() || limit > 0 && d.main.site.Count() >= limit):
		return 0
	case d.main == nil && d.givesUpOne():
		return min(d.window.Size(), limit-1)
	}
	return d.window.Size()
}

// share is what a queue has of its destination's window: what main queue and detours have adds up to it.
func (d *queue) share() int {
	switch {
	case d.main == nil:
		return d.mostConnections()
	case d.inTurn():
		return 1
	}
	return 0
}

// givesUpOne reports whether one of the connections that a main queue may have is that of a detour.
func (d *queue) givesUpOne() bool {
	return d.detours != nil && d.detours.state != turnFree && d.limits.window.Limit > 0
}

// checkShare panics if a queue has just got a connection that its destination may not have.
func (d *queue) checkShare() {
	main := d.whole()
	ds := main.detours
	if ds == nil {
		return
	}
	count, limit := main.site.Count(), main.limits.window.Limit
	if ds.turn != nil {
		count += ds.turn.site.Count()
	}
	assert.That(limit <= 0 || count <= limit, "%s:%s has %d connections with one for mail that avoids hosts, and may have %d", d.transport.Name, d.nexthop, count, limit)
	assert.That(d == main || ds.turn == d && d.site.Count() == 1, "a detour of %s:%s has %d connections, its turn: %t", d.transport.Name, d.nexthop, d.site.Count(), ds.turn == d)
}

// checkTurns checks what the detours of a queue may have, and that none that could go on waits.
func (d *queue) checkTurns() {
	ds := d.detours
	if ds == nil {
		return
	}
	ds.all.Check()
	assert.That(!ds.all.Empty() || ds.inChanged.Listed(), "%s:%s has detours, and none is listed", d.transport.Name, d.nexthop)
	assert.That((ds.turn == nil) == (ds.state == turnFree) && (ds.turn == nil || ds.turn.inAll.On(&ds.all)), "%s:%s: the turn of a detour is in state %d", d.transport.Name, d.nexthop, ds.state)
	assert.That(!ds.timer.Running() || ds.state == turnTaken, "%s:%s: a turn ends that is in state %d", d.transport.Name, d.nexthop, ds.state)
	for one := range ds.all.All() {
		assert.That(one.main == d, "%s:%s lists a detour of another", d.transport.Name, d.nexthop)
		assert.That(one == ds.turn || one.site.Count() == 0, "%s:%s: a detour has %d connections, and another has the turn", d.transport.Name, d.nexthop, one.site.Count())
		assert.That(one.site.Count() <= 1, "%s:%s: a detour has %d connections", d.transport.Name, d.nexthop, one.site.Count())
	}
	if !ds.inChanged.Listed() {
		d.checkArranged()
	}
}

// checkArranged checks what holds when arrange has looked at everything that has changed.
func (d *queue) checkArranged() {
	ds := d.detours
	limit := d.limits.window.Limit
	if ds.state == turnFree {
		assert.That(!ds.othersWait(), "%s:%s: mail waits that avoids hosts, and none of it has the turn", d.transport.Name, d.nexthop)
		return
	}
	assert.That(ds.turn.Waiting+ds.turn.Busy+ds.turn.site.Count() > 0, "%s:%s: a detour has the turn and nothing to do", d.transport.Name, d.nexthop)
	assert.That(ds.state == turnOver || ds.timer.Running() || !ds.othersWait(), "%s:%s: detours wait, and no turn ends", d.transport.Name, d.nexthop)
	assert.That(limit <= 1 || d.site.View().Ready < limit, "%s:%s has %d connections, and mail that avoids hosts waits for one", d.transport.Name, d.nexthop, d.site.View().Ready)
	for _, one := range []*queue{d, ds.turn} {
		assert.That(one.site.View().Waits != conns.WaitWindow || !one.eager() || !one.site.Wants(one.Waiting) || one.inWanting.Listed() || one.site.Count() >= one.mostConnections(), "%s:%s has %d connections and may have %d, and does not ask", d.transport.Name, d.nexthop, one.site.Count(), one.mostConnections())
	}
}
