package qmgr

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/intake"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// hold notes that a message has n more recipients in core, or fewer. Call-outs have
// one each that is not mail's.
func (q *Qmgr) hold(m *message, n int) {
	if m.More {
		m.Touch()
	}
	if m.callout != nil {
		m.InCore += n
		return
	}
	q.room.Recipients.Hold(&m.Message, n)
}

// boundRecipients finds out how much there may be in core. It is called at the
// start, when a transport is made, and when the configuration changes.
func (q *Qmgr) boundRecipients() {
	c := &q.cfg
	q.room.Configure(intake.RoomLimits{Messages: c.ActiveLimit, Recipients: c.RecipientLimit, Minimum: c.RecipientMinimum, Pools: q.pools(),
		InTurn: c.readsInTurn(), Fudge: c.FudgeFactor, AsPostfix: c.AsPostfix})
}

// readsInTurn reports whether recipients are read as for sched.RoundRobin.
func (c *Config) readsInTurn() bool { return c.DefaultTransport.Scheduler == sched.RoundRobin }

// pools is the sum of all transports' pools. As long as there is no transport it is the
// smallest that one can have, for there will be one.
func (q *Qmgr) pools() (sum int64) {
	if q.ring.Empty() {
		least := q.cfg.DefaultTransport.pools()
		for _, t := range q.cfg.Transports { //archtest:anyorder the smallest is the smallest in any order
			least = min(least, t.pools())
		}
		return least
	}
	for t := range q.ring.All() {
		sum += t.cfg.pools()
	}
	return sum
}

func (t *TransportConfig) pools() int64 {
	return int64(max(t.RecipientPool, 0)) + int64(max(t.ExtraRecipients, 0))
}

// Recipients returns how many recipients are in core, and how many may be.
func (q *Qmgr) Recipients() (n, most int) {
	return q.room.Recipients.InCore(), q.room.Recipients.Bound()
}

// cut takes from a batch what is more than was asked for.
func cut(b mail.RecipientBatch, n int) mail.RecipientBatch {
	if len(b.Recipients) > n {
		b.Next, b.More = b.Recipients[n].Index, true
		b.Recipients = b.Recipients[:n]
	}
	return b
}
