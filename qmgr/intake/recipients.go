package intake

import (
	"math"

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
type Recipients struct {
	inCore  int // of all messages
	surplus int
	most    int // that surplus may be
	// granted is what surplus was when the bound was lowered: so much may still be in
	// use. Invariant: surplus <= max(most, granted).
	granted int
}

// InCore returns how many recipients all messages have in core.
func (r *Recipients) InCore() int { return r.inCore }

// Surplus is how many recipients a message has beyond the minimum, those that are being
// read included.
func Surplus(m *sched.Message) int { return max(m.InCore+m.Reserved-m.Own, 0) }

// Hold notes that a message has n more recipients in core, or fewer.
func (r *Recipients) Hold(m *sched.Message, n int) {
	before := Surplus(m)
	m.InCore += n
	r.inCore += n
	r.surplus += Surplus(m) - before
}

// Reserve notes that n recipients of a message are being read.
func (r *Recipients) Reserve(m *sched.Message, n int) {
	before := Surplus(m)
	m.Reserved = n
	r.surplus += Surplus(m) - before
}

// MayHave returns how many recipients a message may have in core.
func (r *Recipients) MayHave(m *sched.Message) int {
	return m.Own + max(r.most-(r.surplus-Surplus(m)), 0)
}

// SetBound sets the bound: what all pools have together, RecipientLimit, and the
// minimum of all messages. What is in use stays so.
func (r *Recipients) SetBound(pools, limit int, minimum int64) {
	r.most = max(pools, limit-Clamp(minimum))
	r.granted = r.surplus
}

// Clamp makes a number fit where numbers have 32 bits, and its sum with another.
func Clamp(n int64) int { return int(min(n, math.MaxInt/2)) }

// Over reports by how many recipients the surplus exceeds what it may be; 0 if it does
// not.
func (r *Recipients) Over() int { return max(r.surplus-max(r.most, r.granted), 0) }

// Used returns the surplus of all messages.
func (r *Recipients) Used() int { return r.surplus }
