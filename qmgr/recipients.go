package qmgr

import (
	"math"

	"github.com/posthaste-mta/posthaste/mail"
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
	q.recipients.Hold(&m.Message, n)
}

// mayHave returns how many recipients a message may have in core.
func (q *Qmgr) mayHave(m *message) int {
	if q.cfg.AsPostfix {
		return math.MaxInt
	}
	return q.recipients.MayHave(&m.Message)
}

// boundRecipients finds out how many recipients there may be in core. It is called at the
// start, when a transport is made, and when the configuration changes.
func (q *Qmgr) boundRecipients() {
	q.recipients.SetBound(q.pools(), q.cfg.RecipientLimit, clamp(int64(q.cfg.RecipientMinimum)*int64(q.cfg.ActiveLimit)))
}

// pools is the sum of all transports' pools. As long as there is no transport it is the
// smallest that one can have, for there will be one.
func (q *Qmgr) pools() int {
	if q.ring.Empty() {
		least := q.cfg.DefaultTransport.pools()
		for _, t := range q.cfg.Transports { //archtest:anyorder the smallest is the smallest in any order
			least = min(least, t.pools())
		}
		return clamp(least)
	}
	var sum int64
	for t := range q.ring.All() {
		sum += t.cfg.pools()
	}
	return clamp(sum)
}

func (t *TransportConfig) pools() int64 {
	return int64(max(t.RecipientPool, 0)) + int64(max(t.ExtraRecipients, 0))
}

// clamp makes a number fit where numbers have 32 bits, and its sum with another.
func clamp(n int64) int { return int(min(n, math.MaxInt/2)) }

// Recipients returns how many recipients are in core, and how many may be.
func (q *Qmgr) Recipients() (n, most int) { return q.recipients.InCore(), q.recipients.Bound() }

// cut takes from a batch what is more than was asked for.
func cut(b mail.RecipientBatch, n int) mail.RecipientBatch {
	if len(b.Recipients) > n {
		b.Next, b.More = b.Recipients[n].Index, true
		b.Recipients = b.Recipients[:n]
	}
	return b
}
