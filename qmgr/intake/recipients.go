package intake

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// Recipients bounds how many recipients are in core, whatever waits on disk. The bound
// is SCHEDULER_README's: the larger of
//
//	RecipientMinimum × ActiveLimit + the pools and extra pools of all transports
//	RecipientLimit
//
// Every message may always have the minimum. What the messages have beyond it is their
// surplus, and all of it together may be the larger of the pools and what
// RecipientLimit leaves beside the minimum of all messages. From that the bound follows.
//
// In Postfix it does not: the first recipients of a message are read whatever the pools
// have, and its slots are left to others meanwhile. Nor does it hold for a single
// transport, as the README says, neither there nor here: the slots that a message has in
// one transport may be used for its recipients in another, and mail that is put off
// comes to TransportRetry whatever that has already.
//
// Where recipients are read while selection goes on (all but Config.AsPostfix), those
// that were asked for count as if they were there: otherwise slots would move on to the
// next message before the answer has come, and be used twice.
//
// A message counts from its first Hold or Reserve until it holds and reserves nothing.
// Meanwhile only this type changes its InCore and Reserved, and its Own (the minimum)
// stays as it is.
//
// Recipients is not safe for concurrent use.
type Recipients struct {
	minimum int // of all messages: what they may have in any case
	inCore  int // sum of InCore of all messages
	surplus int // sum of their surplus
	most    int // that surplus may be; at least 0
	// granted is the surplus at the last SetBound: if the bound was lowered then, as much may still be in
	// use. Invariant, as long as MayHave is obeyed: Over is 0 (Room.Check asserts it).
	granted int
}

// InCore returns how many recipients all messages have in core.
func (r *Recipients) InCore() int { return r.inCore }

// surplus is the number of recipients a message has beyond the minimum, those that are being
// read included.
func surplus(m *sched.Message) int { return max(m.InCore+m.Reserved-m.Own, 0) }

// Hold notes that a message has n more recipients in core; -n if it has n fewer.
func (r *Recipients) Hold(m *sched.Message, n int) {
	before := surplus(m)
	m.InCore += n
	assert.That(m.InCore >= 0, "message %v has %d recipients in core", m.ID, m.InCore)
	r.inCore += n
	r.surplus += surplus(m) - before
}

// Reserve notes that n recipients of a message are being read, and no others; 0 when they
// have been.
func (r *Recipients) Reserve(m *sched.Message, n int) {
	assert.That(n >= 0, "%d recipients of message %v are being read", n, m.ID)
	before := surplus(m)
	m.Reserved = n
	r.surplus += surplus(m) - before
}

// MayHave returns how many recipients a message may have in core, those that are being
// read included; at least its minimum.
func (r *Recipients) MayHave(m *sched.Message) int {
	return m.Own + max(r.most-(r.surplus-surplus(m)), 0)
}

// SetBound sets what the bound is made of: what all pools have together, RecipientLimit,
// and the minimum of all messages, each at least 0. What is in use stays so.
func (r *Recipients) SetBound(pools, limit, minimum int) {
	r.minimum, r.most = minimum, max(pools, limit-minimum)
	r.granted = r.surplus
}

// Bound returns how many recipients may be in core.
func (r *Recipients) Bound() int { return r.minimum + r.most }

// Over returns by how many recipients the surplus exceeds what it may be; 0 if it does
// not. With Config.AsPostfix, where MayHave is not asked, it can be.
func (r *Recipients) Over() int { return max(r.surplus-max(r.most, r.granted), 0) }

// Check panics where an invariant does not hold; messages are all that hold or reserve
// something. Tests call it; it takes linear time.
func (r *Recipients) Check(messages iter.Seq[*sched.Message]) {
	inCore, over := 0, 0
	for m := range messages {
		inCore += m.InCore
		over += surplus(m)
	}
	assert.That(inCore == r.inCore, "%d recipients in core, counted %d", inCore, r.inCore)
	assert.That(over == r.surplus, "%d recipients beyond the minimum, counted %d", over, r.surplus)
}
