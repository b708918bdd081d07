package qmgr

import "github.com/posthaste-mta/posthaste/qmgr/sched"

// roundRobin reports whether recipients are read as for RoundRobin.
func (q *Qmgr) roundRobin() bool { return q.cfg.DefaultTransport.Scheduler == sched.RoundRobin }

// readInTurn is the number of recipients of a message that are read at once.
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
	if q.roundRobin() && 100*int64(q.recipients.InCore()+refillMargin) < q.fudged() {
		q.read(m)
	}
}
