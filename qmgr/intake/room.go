package intake

import (
	"math"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// RoomLimits says how much there may be in core. The names in parentheses are fields of the queue manager's configuration.
type RoomLimits struct {
	Messages   int   // (ActiveLimit)
	Recipients int   // (RecipientLimit)
	Minimum    int   // recipients that each message may have (RecipientMinimum)
	Pools      int64 // recipients in the pools of all transports
	// InTurn has messages read in steps of Fudge percent of Recipients (FudgeFactor), whatever room there is for recipients.
	InTurn bool
	Fudge  int
	// AsPostfix lets messages in without a regard to recipients and to what new mail needs.
	AsPostfix bool
}

// Room is how much of the core mail takes, and for how much there is room. The zero value has room for nothing. Call-outs are no
// mail.
//
// A quarter of the room is for new mail alone, so that a backlog that becomes due at
// once delays new mail by its share of the deliveries, not by its length. Where
// several buckets share the core, retries have three quarters however much new mail
// waits: that mail may belong to another sender, and these may be the few messages
// of a sender that has no others.
//
// Mail that waits for one thing which does not get on, such as a destination that is stuck or slow lookups, may take all
// of the core only as long as half of it is free. After that it may have an eighth of what is still
// free, and always one message: the dynamic threshold of shared buffers. With a hundred such destinations a thirteenth of the core is
// left for others, and nothing is taken from a destination that is slow while others have no use for it.
type Room struct {
	Recipients Recipients
	limits     RoomLimits
	mails      int // messages in core that are mail
	retries    int // those that were deferred
}

const (
	newPart   = 4 // the part of the room that is for new mail alone
	stuckPart = 8 // the part of what is free that may be taken by what does not get on
	stuckFree = 2 // the part of the core that has to be free for it to have no bound
)

// Configure puts limits in force. What is in core stays there.
func (r *Room) Configure(l RoomLimits) {
	r.limits = l
	r.Recipients.SetBound(fit(l.Pools), l.Recipients, fit(int64(l.Minimum)*int64(l.Messages)))
}

// fit makes a number fit where numbers have 32 bits, and its sum with another.
func fit(n int64) int { return int(min(n, math.MaxInt/2)) }

// Comes counts a message that comes into core.
func (r *Room) Comes(from Origin) { r.count(from, 1) }

// Leaves counts a message that leaves it.
func (r *Room) Leaves(from Origin) { r.count(from, -1) }

func (r *Room) count(from Origin, n int) {
	if from != FromCallout {
		r.mails += n
	}
	if from.Line() == LineRetries {
		r.retries += n
	}
}

// Mails returns how many messages in core are mail.
func (r *Room) Mails() int { return r.mails }

// Any reports whether one more message may come into core.
func (r *Room) Any() bool {
	if r.mails >= r.limits.Messages {
		return false
	}
	return !r.limits.InTurn || r.limits.AsPostfix || r.Recipients.InCore() < r.limits.Recipients
}

// Free returns for how many more messages there is room.
func (r *Room) Free() int {
	if !r.Any() {
		return 0
	}
	return r.limits.Messages - r.mails
}

// For reports whether one more message of a scan may come into core. Shared says that several buckets share it.
func (r *Room) For(s Scan, shared bool) bool {
	if s == ScanIncoming || r.limits.AsPostfix {
		return r.Any()
	}
	mails, l := r.mails, &r.limits
	if shared {
		mails = r.retries
	}
	return r.Any() && mails < l.Messages-l.Messages/newPart &&
		(!l.InTurn || r.Recipients.InCore() < l.Recipients-l.Recipients/newPart)
}

// unused is for how many more messages there is room, whatever recipients they have.
func (r *Room) unused() int { return max(r.limits.Messages-r.mails, 0) }

// Scarce returns the number of messages that would have to leave for half of the core to be free; it may be negative.
func (r *Room) Scarce() int { return r.limits.Messages/stuckFree - r.unused() }

// MayWait reports whether one more message may wait for something that does not get on and for which so many wait.
func (r *Room) MayWait(waiting int) bool { return r.Scarce() <= 0 || waiting <= r.unused()/stuckPart }

// MayStay returns how many of those may stay that wait for a destination which does not get on, while so many
// others are leaving. What leaves makes room, of which the destination has its part again.
func (r *Room) MayStay(waiting, leaving int) int {
	most := 1 + (r.unused()+leaving+waiting)/(stuckPart+1)
	return max(most, waiting-max(r.Scarce()-leaving, 0))
}

// TooMany reports whether some have to leave of so many that do not get on, while others are leaving.
func (r *Room) TooMany(stalled, leaving int) bool {
	return r.Scarce() > leaving && stalled > (r.unused()+leaving)/stuckPart
}

// readMax bounds one read, so that it does not hold up the rest (Postfix has
// the same number).
const readMax = 5000

// FirstRead returns the number of recipients to read of a message that comes into core.
func (r *Room) FirstRead(m *sched.Message) int {
	if r.limits.InTurn {
		return min(r.inTurn(), r.mayHave(m))
	}
	return min(max(r.limits.Recipients-r.Recipients.InCore(), m.Own), readMax, r.mayHave(m))
}

// NextRead returns the number of further recipients to read of a message; it may be negative.
func (r *Room) NextRead(m *sched.Message) int {
	n := min(m.Limit-m.InCore, readMax)
	if r.limits.InTurn {
		n = r.inTurn()
	}
	return min(n, r.mayHave(m)-m.InCore)
}

// mayHave returns how many recipients a message may have in core.
func (r *Room) mayHave(m *sched.Message) int {
	if r.limits.AsPostfix {
		return math.MaxInt
	}
	return r.Recipients.MayHave(m)
}

// Reserve notes that n recipients of a message are being read; 0 when they have been.
func (r *Room) Reserve(m *sched.Message, n int) {
	if !r.limits.AsPostfix {
		r.Recipients.Reserve(m, n)
	}
}

// inTurn is the number of recipients of a message that are read at once, where that is done in turn.
func (r *Room) inTurn() int { return max(fit((r.fudged()+99)/100), 1) }

// fudged is a hundred times what one message may have read.
func (r *Room) fudged() int64 { return int64(r.limits.Recipients) * int64(r.limits.Fudge) }

// refillMargin is how far the recipients in core must be below what one message
// may have read, for more of a message to be read while some are there.
const refillMargin = 100

// Low reports whether more recipients of a message are read when an entry of it has ended. That is so only where they are read in turn.
func (r *Room) Low() bool {
	return r.limits.InTurn && 100*int64(r.Recipients.InCore()+refillMargin) < r.fudged()
}

// Check panics where an invariant does not hold; mails and retries are counted anew.
func (r *Room) Check(mails, retries int) {
	assert.That(mails == r.mails && retries == r.retries, "%d messages are in core, %d of them retries, counted %d and %d", mails, retries, r.mails, r.retries)
	assert.That(r.limits.AsPostfix || r.Recipients.Over() == 0, "%d recipients too many are in core", r.Recipients.Over())
}
