package qmgr

import (
	"math"

	"github.com/posthaste-mta/posthaste/mail"
)

// How many recipients are in core is bounded, whatever waits on disk. The bound is
// SCHEDULER_README's: the larger of
//
//	RecipientMinimum × ActiveLimit + the pools and extra pools of all transports
//	RecipientLimit
//
// Every message may always have the minimum. What the messages have beyond it is
// their surplus, and all of it together may be the larger of the pools and what
// RecipientLimit leaves beside the minimum of all messages. From that the bound
// follows.
//
// In Postfix it does not: the first recipients of a message are read whatever the
// pools have, and its slots are left to others meanwhile. Nor does it hold for a
// single transport, as the README says, neither there nor here: the slots that a
// message has in one transport may be used for its recipients in another, and
// mail that is put off comes to TransportRetry whatever that has already.
//
// Where recipients are read while selection goes on (all but Config.AsPostfix),
// those that were asked for count as if they were there: otherwise slots would
// move on to the next message before the answer has come, and be used twice.

// A surplus is the queue manager's part in this.
type surplus struct {
	used int // beyond the minimum, by all messages
	most int
	// granted is what was used when the bound was lowered: so much may still be in
	// use.
	granted int
}

// surplus is how many recipients a message has beyond the minimum, those that are
// being read included.
func (m *message) surplus() int { return max(m.InCore+m.Reserved-m.Own, 0) }

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
	before := m.surplus()
	m.InCore += n
	q.recipients += n
	q.surplus.used += m.surplus() - before
}

// reserve notes that n recipients of a message are being read.
func (q *Qmgr) reserve(m *message, n int) {
	before := m.surplus()
	m.Reserved = n
	q.surplus.used += m.surplus() - before
}

// mayHave is how many recipients a message may have in core.
func (q *Qmgr) mayHave(m *message) int {
	if q.cfg.AsPostfix {
		return math.MaxInt
	}
	return m.Own + max(q.surplus.most-(q.surplus.used-m.surplus()), 0)
}

// boundRecipients finds out what the bound is. It is called at the start, when a
// transport is made, and when the configuration changes.
func (q *Qmgr) boundRecipients() {
	q.surplus.most = max(q.pools(), q.cfg.RecipientLimit-clamp(q.minimum()))
	q.surplus.granted = q.surplus.used
}

// pools is the sum of all transports' pools. As long as there is none it is the
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

// minimum is what all messages may have in any case.
func (q *Qmgr) minimum() int64 { return int64(q.cfg.RecipientMinimum) * int64(q.cfg.ActiveLimit) }

// clamp makes a number fit where numbers have 32 bits, and its sum with another.
func clamp(n int64) int { return int(min(n, math.MaxInt/2)) }

// Recipients returns how many recipients are in core, and how many may be.
func (q *Qmgr) Recipients() (n, most int) {
	return q.recipients, max(clamp(q.minimum()+int64(q.pools())), q.cfg.RecipientLimit)
}

// cut takes from a batch what is more than was asked for.
func cut(b mail.RecipientBatch, n int) mail.RecipientBatch {
	if len(b.Recipients) > n {
		b.Next, b.More = b.Recipients[n].Index, true
		b.Recipients = b.Recipients[:n]
	}
	return b
}
