package qmgr

import (
	"strconv"
	"strings"
)

// Round robin is how Postfix's older queue manager selects: destinations take
// turns, whatever messages their entries belong to. There are no lists of jobs,
// so nothing is preempted and nothing blocked; jobs only group entries. It also
// reads recipients in another way, without pools: that follows the scheduler of
// the default transport, since what is read of a message is not known to be for
// one transport or another.

// roundRobin tells whether recipients are read as for RoundRobin.
func (q *Qmgr) roundRobin() bool { return q.cfg.DefaultTransport.Scheduler == RoundRobin }

// nextInTurn returns the oldest entry of the next destination in turn that has
// room.
func (l *lane) nextInTurn() *entry {
	d := l.find.nextQueue(l)
	if d == nil {
		return nil
	}
	l.order.RotateAfter(&d.inOrder)
	return d.todo.Front()
}

func (quick) nextQueue(l *lane) *dest {
	if l.servable.count == 0 {
		return nil
	}
	return nextInRing(&l.servable, l.order.Front().turn, (*dest).ringNumber)
}

// readInTurn is how many recipients of a message are read at once.
func (q *Qmgr) readInTurn() int {
	return max(clamp((q.fudged()+99)/100), 1)
}

// fudged is a hundred times what one message may have read.
func (q *Qmgr) fudged() int64 { return int64(q.cfg.RecipientLimit) * int64(q.cfg.FudgeFactor) }

// refillMargin is how far the recipients in core must be below what one message
// may have read, for more of a message to be read while some are there.
const refillMargin = 100

// refillInTurn asks for more recipients of a message an entry of which has
// ended.
func (q *Qmgr) refillInTurn(m *message) {
	if q.roundRobin() && 100*int64(q.recipients+refillMargin) < q.fudged() {
		q.read(m)
	}
}

// openEntry returns the entry that one more recipient of a peer may join if it
// has room: the last one that waits, or in round robin only the one that the
// recipient before it has just joined.
func (l *lane) openEntry(p *peer, joined *entry) *entry {
	if l.scheduler == RoundRobin {
		return joined
	}
	return p.todo.Back()
}

// turns dumps a transport without lists of jobs: its destinations in turn, and
// what waits for each.
func (d *dumper) turns(t *transport) {
	d.line("  xport %s flags=%d pend=%d", t.name, t.flags(), d.Pending[t.name])
	for q := range t.destinations() {
		success, failure, cohorts := q.window.Counters()
		var next strings.Builder
		for e := range q.todo.All() {
			next.WriteString(" " + d.Name(e.message.id) + "/" + strconv.Itoa(len(e.recipients)))
		}
		d.line("    queue %s todo=%d busy=%d win=%d succ=%s fail=%s coh=%s next:%s", q.name, q.todo.Len(), q.busy,
			signedWindow(q), short(success), short(failure), short(cohorts), next.String())
	}
}
