package mail

import (
	"errors"
	"fmt"
	"slices"
)

// What the errors of whatever keeps messages wrap where a caller tells them
// apart; every other error may pass.
var (
	ErrGone    = errors.New("no such message in the spool")
	ErrCorrupt = errors.New("damaged in the spool")
)

// An Area is where a message rests in the spool.
type Area uint8

const (
	AreaNone     Area = iota // not in the spool
	AreaIncoming             // accepted, no round ended yet
	AreaDeferred             // to be tried again at its due instant
	AreaHold                 // kept until an operator releases it
	AreaCorrupt              // unreadable; kept until it is readable or removed
)

// String returns the area's name.
func (a Area) String() string {
	return [...]string{"none", "incoming", "deferred", "hold", "corrupt"}[a]
}

// A Place is all that the spool needs in order to move or remove a message
// without reading it first. The core carries it about and never looks into
// it, except for Area and Due.
type Place struct {
	Area    Area
	Due     Instant // AreaDeferred: when it is to be tried again; AreaHold: when it is removed, 0 if never
	Chunks  uint32  // recipient chunks
	File    bool    // the content is a file of its own
	Touched bool    // outcomes or a state have been recorded
	Owes    bool    // a recorded outcome may owe a report that has not been made
}

// A Cursor is a position in an area's index; the zero Cursor is its start.
// The deferred and the hold area are ordered by Due, then ID; the others by ID
// alone, with Due zero.
type Cursor struct {
	Due Instant
	ID  QueueID
}

// Before tells whether c comes before d.
func (c Cursor) Before(d Cursor) bool {
	return c.Due < d.Due || c.Due == d.Due && c.ID < d.ID
}

// A Found is the answer to looking for messages in an area.
type Found struct {
	Cursors []Cursor // one for each message, in index order
	Next    Cursor   // look on from here: just after the last one looked at
	More    bool     // the look ended because enough was found
	NextDue Instant  // AreaDeferred and AreaHold, More false: due of the first message that is not due yet; Never if none
}

// An Arrival is a message that has just become durable in AreaIncoming.
type Arrival struct {
	Envelope Envelope
	Place    Place
	Batch    RecipientBatch // the first recipients, at most ArrivalRecipients
}

// ArrivalRecipients is how many recipients an Arrival carries at most. Mail
// with more is read from the spool.
const ArrivalRecipients = 100

// A ChangeOp says what a Change does.
type ChangeOp uint8

const (
	// ChangeRecord stores Outcomes. The message stays where it is.
	ChangeRecord ChangeOp = iota + 1
	// ChangeDefer stores Outcomes and moves the message to AreaDeferred, due
	// at Due; Attempts grows by one and LastAttempt becomes At.
	ChangeDefer
	// ChangeRemove forgets the message, whatever its recipients' outcomes.
	ChangeRemove
	// ChangeHold stores Outcomes and moves the message to AreaHold with Reason,
	// until Due; for good if that is 0.
	ChangeHold
	// ChangeRelease moves a held message to AreaDeferred, due at Due, and one in
	// AreaCorrupt if all of it can be read. It does nothing to other messages.
	ChangeRelease
	// ChangeExpire stores Outcomes, then makes Failed of every recipient that
	// is not settled, with Expired, keeping its last reply as it came, or 550
	// 5.4.7 if there was none, and Report set where its NOTIFY asks for it or the
	// sender is null. About
	// the latter nobody is told, but an operator may be (a double bounce).
	ChangeExpire
	// ChangeWarn stores Outcomes, then sets Report to ReportDelayed for every
	// recipient that is not settled and whose NOTIFY allows it, and sets Warned.
	ChangeWarn
	// ChangeReported clears the Report of the recipients that Outcomes names
	// (only Index counts).
	ChangeReported
	// ChangeCorrupt moves the message to AreaCorrupt with Reason.
	ChangeCorrupt
	// ChangeLapse forgets a message that is in AreaHold until At or an earlier
	// instant. It does nothing to other messages.
	ChangeLapse
)

// String returns the operation's name.
func (op ChangeOp) String() string {
	return [...]string{"", "record", "defer", "remove", "hold", "release", "expire", "warn", "reported", "corrupt", "lapse"}[op]
}

// A Change is one durable step in the life of one message. A message that is
// not in the spool any more makes every change a success that does nothing.
type Change struct {
	Op       ChangeOp
	ID       QueueID
	Place    Place     // where the message is; the zero Place lets the spool look for itself
	Outcomes []Outcome // at most one for each recipient
	Due      Instant
	At       Instant
	Reason   string
	Splits   []Split // carried out after Outcomes and before Op; not with ChangeRemove
}

// A Split puts recipients of a message into a message of their own, which is held. It
// has the same envelope, content and history, and its place is AreaHold. In the message
// that they are taken from their result is Moved, and nothing is reported about them
// there. Both happens or nothing, so that every recipient is in exactly one of them.
//
// Recipients that are settled already stay as they are; if all are, there is no new
// message. Of a message in AreaCorrupt nothing is split off.
type Split struct {
	Into       QueueID  // the new message: an ID that the spool has given out for this
	Recipients []uint32 // their indexes
	Reason     string   // why the new message is held
}

// A Changed is the answer to a Change.
type Changed struct {
	ID      QueueID
	Place   Place // where the message is now; AreaNone if it is gone
	Reports bool  // some recipient has a Report that is not ReportNone
}

// ChangeErrors is the error of making several changes of which some could be
// made: for each change, in their order, why it was not made, or nil.
type ChangeErrors []error

// Error names the first error and counts them.
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
