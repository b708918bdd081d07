package mail

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Errors that a message store wraps for its callers to distinguish. Every other
// error may be temporary.
var (
	ErrGone    = errors.New("no such message in the spool")
	ErrCorrupt = errors.New("damaged in the spool")
)

// An Area is the part of the spool that a message is in.
type Area uint8

const (
	AreaNone     Area = iota // not in the spool
	AreaIncoming             // accepted, no round ended yet
	AreaDeferred             // to be retried at its due instant
	AreaHold                 // kept until an operator releases it, or until an instant that its sender has named
	AreaCorrupt              // unreadable; kept until it becomes readable or is removed
)

// String returns the area's name.
func (a Area) String() string {
	return [...]string{"none", "incoming", "deferred", "hold", "corrupt"}[a]
}

// A Place is all that the spool needs in order to move or remove a message
// without reading it first. The core passes it along and uses only Area and Due.
type Place struct {
	Area    Area
	Due     Instant // AreaDeferred: when it is retried; AreaHold: when it is removed, or tried first if its sender had it kept; 0 if never
	Chunks  uint32  // recipient chunks
	File    bool    // the content is in a separate file
	Touched bool    // outcomes or a state have been recorded
	Owes    bool    // a recorded outcome may owe a report
	Bucket  Bucket  // of the message's flow, in every area
}

// Cursor returns the position of a message that is at the place.
func (p *Place) Cursor(id QueueID) Cursor {
	c := Cursor{ID: id}
	if p.Area == AreaIncoming || p.Area == AreaDeferred {
		c.Bucket = p.Bucket
	}
	if p.Area == AreaDeferred || p.Area == AreaHold {
		c.Due = p.Due
	}
	return c
}

// A Cursor is a position in an area's index; the zero Cursor is its start.
// The incoming and the deferred area are ordered by Bucket first; in the others it is
// zero. The deferred and the hold area are then ordered by Due, then ID; the others by
// ID alone, with Due zero. No message has the ID zero.
type Cursor struct {
	Bucket Bucket
	Due    Instant
	ID     QueueID
}

// Before reports whether c comes before d.
func (c Cursor) Before(d Cursor) bool {
	switch {
	case c.Bucket != d.Bucket:
		return c.Bucket < d.Bucket
	case c.Due != d.Due:
		return c.Due < d.Due
	}
	return c.ID < d.ID
}

// A Found is the result of a search for messages in one bucket of an area.
type Found struct {
	Cursors []Cursor // one for each message, in index order
	Next    Cursor   // where to continue: just after the last message examined
	More    bool     // the search ended because it found enough messages
	NextDue Instant  // AreaDeferred and AreaHold, More false: due of the first message that is not due yet; Never if none
	// Buckets are the positions of the first messages of the buckets that follow, due or
	// not, if the search began at a bucket's start. There are no further ones if they
	// are less than BucketsFound.
	Buckets []Cursor
}

// BucketsFound is the maximum length of Found.Buckets: it bounds how long a search takes.
const BucketsFound = 64

// An Arrival is a message that has just become durable in AreaIncoming, or in AreaHold
// if its sender has it kept.
type Arrival struct {
	Envelope Envelope
	Place    Place
	Batch    RecipientBatch // the first recipients, at most ArrivalRecipients
}

// ArrivalRecipients is the maximum number of recipients in an Arrival. Mail
// with more is read from the spool.
const ArrivalRecipients = 100

// A ChangeOp is the kind of a Change.
type ChangeOp uint8

const (
	// ChangeRecord stores Outcomes. The message stays where it is.
	ChangeRecord ChangeOp = iota + 1
	// ChangeDefer stores Outcomes and moves the message to AreaDeferred, due
	// at Due; Attempts grows by one and LastAttempt becomes At. A held message with
	// unsettled recipients stays as it is: the change is requested only if the message
	// could not be opened, so that the core did not know that it is held.
	ChangeDefer
	// ChangeRemove removes the message, whatever its recipients' outcomes.
	ChangeRemove
	// ChangeHold stores Outcomes and moves the message to AreaHold with Reason,
	// until Due, or without limit if that is 0.
	ChangeHold
	// ChangeRelease moves a held message to AreaDeferred, due at Due, and also one
	// in AreaCorrupt if it is completely readable. If its sender has it kept until a date after Due
	// (Envelope.Release), a message that did not only wait for that stays in AreaHold until then, unless all of
	// its recipients are settled. It leaves other messages alone.
	ChangeRelease
	// ChangeExpire stores Outcomes, then sets every unsettled recipient, except those in
	// Except, to Failed with Expired. The last reply stays unchanged, or becomes 550 5.4.7 if there
	// was none. Report is set where NOTIFY asks for it or the sender is null; in the
	// latter case no report goes to a sender, but one may go to an operator (a
	// double bounce).
	ChangeExpire
	// ChangeWarn stores Outcomes, then sets Report to ReportDelayed for every
	// unsettled recipient whose NOTIFY allows it, and sets Warned.
	ChangeWarn
	// ChangeReported clears the Report of the recipients that Outcomes names
	// (only Index counts).
	ChangeReported
	// ChangeCorrupt moves the message to AreaCorrupt with Reason.
	ChangeCorrupt
	// ChangeLapse ends the time of a message that is in AreaHold until At or an earlier
	// instant: one that its sender had kept (Envelope.Release) moves to AreaDeferred, due
	// at At; another one is removed. It leaves other messages alone.
	ChangeLapse
	// ChangeLate is ChangeWarn on account of a deadline (ByNotify): it sets Late instead of Warned.
	ChangeLate
)

// String returns the operation's name.
func (op ChangeOp) String() string {
	return [...]string{"", "record", "defer", "remove", "hold", "release", "expire", "warn", "reported", "corrupt", "lapse", "late"}[op]
}

// A Change is one durable step in the life of one message. If the message is no
// longer in the spool, the change succeeds and does nothing.
type Change struct {
	Op       ChangeOp
	ID       QueueID
	Place    Place     // where the message is; with the zero Place the spool searches for it
	Outcomes []Outcome // at most one for each recipient
	Due      Instant
	At       Instant
	Reason   string
	// Reroutes are carried out after Outcomes and before Splits, and Splits before Op; neither with
	// ChangeRemove.
	Reroutes []Reroute
	Splits   []Split
	Except   []uint32 // ChangeExpire: recipients that are left as they are, by index, sorted
}

// A Reroute gives recipients of a message a route that an operator has ordered, or takes it back
// if To is nil. Recipients that are already settled stay as they are.
type Reroute struct {
	Recipients []uint32 // their indexes
	To         *OrderedRoute
}

// A Split moves recipients of a message to a new message, which is held or, with Requeue, takes the
// place of the original for them. The new message has the same envelope and content. If it is held, it also
// has the same history, and is in AreaHold. In the
// original message the result of these recipients becomes Moved, and they are not
// reported there. The step is atomic, so every recipient is in exactly one of the
// two.
//
// Recipients that are already settled stay as they are; if all are, there is no new
// message. A message in AreaCorrupt is not split.
type Split struct {
	Into       QueueID  // the new message: an ID that the spool has assigned for this
	Recipients []uint32 // their indexes
	Reason     string   // why the new message is held
	Requeue    *Requeue // nil: it is held
}

// A Requeue has the new message of a Split take the place of the original, as if that had arrived by the
// rules of today. It has the arrival and the lifetime of the original, but no attempts. It is in AreaHold if the original
// is, as that is, else in AreaDeferred and due at once. An original that has neither a waiting recipient nor
// a report to make after that is removed in the same step.
type Requeue struct {
	Sender Address
	Flow   Flow
	// To are put in place of the recipients whose addresses change, sorted by Of. If there are any, an address that comes
	// twice is in the new message once. Of several that stand for one recipient, those are left out who have got the
	// message already, or wait in the original, unless that leaves none. Only the first RequeueDistinct addresses are compared.
	To        []Replacement
	KeepRoute bool // recipients keep their Ordered
}

// A Replacement is a recipient in place of one of the original. Several may take the place of one.
type Replacement struct {
	Of      uint32 // index of the recipient in the original
	Address Address
	ORcpt   string // as in Recipient
	Notify  Notify
}

// RequeueDistinct is the number of addresses of a requeued message with which others are compared.
const RequeueDistinct = 1000

// Replacements returns what is in To in place of the recipient with an index of the original; nothing if he stays.
func (r *Requeue) Replacements(index uint32) []Replacement {
	first, _ := slices.BinarySearchFunc(r.To, index, func(one Replacement, index uint32) int { return cmp.Compare(one.Of, index) })
	end := first
	for end < len(r.To) && r.To[end].Of == index {
		end++
	}
	return r.To[first:end]
}

// A Changed is the result of a Change.
type Changed struct {
	ID      QueueID
	Place   Place // where the message is now; AreaNone if it is gone
	Reports bool  // some recipient has a Report that is not ReportNone
	// Requeued are the new messages of the change's Splits with Requeue that are in the spool now.
	Requeued []Requeued
}

// A Requeued message has taken the place of another one.
type Requeued struct {
	ID    QueueID
	Place Place
}

// ChangeErrors is the error when only some of several changes were made: for each
// change, in their order, the reason why it was not made, or nil.
type ChangeErrors []error

// Error returns the number of errors and the text of the first.
func (e ChangeErrors) Error() string {
	failed := e.Unwrap()
	if len(failed) == 0 {
		return "all changes were made"
	}
	return fmt.Sprintf("%d of %d changes were not made: %v", len(failed), len(e), failed[0])
}

// Unwrap returns the errors that are not nil.
func (e ChangeErrors) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e), func(err error) bool { return err == nil })
}
