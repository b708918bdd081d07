package spool

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A state is the value of an s key: everything of a message that changes.
type state struct {
	area        mail.Area
	bucket      mail.Bucket  // of the envelope's flow
	due         mail.Instant // AreaDeferred and AreaHold
	attempts    uint32
	lastAttempt mail.Instant
	warned      bool
	late        bool // Envelope.Late
	reason      string
	aside       bool         // AreaCorrupt: the spool itself has moved it there
	held        bool         // aside: it was in AreaHold before, and not only because its sender has it kept
	kept        bool         // AreaHold: its sender has it kept until due or, if that is 0, an operator has held it meanwhile; AreaCorrupt: it was so before
	released    mail.Instant // when an operator released it before the date until which its sender had it kept; 0: never

	// Copies from the envelope, so that most changes need not read that.
	chunks     uint32
	recipients uint32
	file       bool

	settled  uint32   // recipients whose outcome is settled
	owed     uint32   // recipients about whom a report is owed
	full     bitset   // chunks with only settled recipients, if chunks > 0
	outcomes outcomes // if chunks is 0; otherwise they are in x keys, and here are those whose x key is damaged
}

// lost reports whether this state replaces one that could not be read. It has only the
// outcomes that became known since.
func (st *state) lost() bool { return st.recipients == 0 }

// freshState returns the state of a message that was never changed.
func freshState(e *envelope) state {
	return state{area: mail.AreaIncoming, bucket: e.Flow.Bucket(), chunks: e.chunks, recipients: e.Recipients, file: e.file}
}

// KeptReason is why a message is held that its sender has kept.
const KeptReason = "its sender has it kept until then (FUTURERELEASE)"

// isKept reports whether a message begins in AreaHold since its sender has it kept.
func isKept(e *mail.Envelope) bool { return e.Release > e.Arrived }

// keptState returns the state of a message that its sender has kept.
func keptState(e *envelope) state {
	st := freshState(e)
	st.area, st.due, st.kept, st.reason = mail.AreaHold, e.Release, true, KeptReason
	return st
}

// place returns the place of a message with this state.
func (st *state) place() mail.Place {
	return mail.Place{Area: st.area, Due: st.due, Chunks: st.chunks, File: st.file, Touched: true, Owes: st.owed > 0, Bucket: st.bucket}
}

// cursor returns where a message with this state is in its index.
func (st *state) cursor(id mail.QueueID) mail.Cursor {
	p := st.place()
	return p.Cursor(id)
}

// complete fills the fields of an envelope that the spool maintains.
func (st *state) complete(e *mail.Envelope) {
	e.Attempts, e.LastAttempt, e.Warned = st.attempts, st.lastAttempt, st.warned
	e.Late = st.late
	if st.released > 0 {
		e.Release = st.released
	}
}

// count updates the counters when one recipient's outcome changes.
func (st *state) count(before, after mail.Outcome) {
	if !before.Result.Settled() && after.Result.Settled() {
		st.settled++
	}
	if before.Report != mail.ReportNone {
		st.owed--
	}
	if after.Report != mail.ReportNone {
		st.owed++
	}
}

const (
	flagWarned = 1 << iota
	flagStateFile
	flagHeld
	flagAside
	flagBucket // a bucket follows the flags; not in format 1
	flagKept
	flagReleased // an instant follows
	flagLate
)

// version returns the version of the state's value.
func (st *state) version() byte {
	if v := st.outcomes.version(); v > valueVersion {
		return v
	}
	if st.late {
		return valueLate
	}
	if st.kept || st.released > 0 {
		return valueKept
	}
	return valueVersion
}

func appendState(b []byte, st *state) []byte {
	var flags byte
	if st.warned {
		flags |= flagWarned
	}
	if st.file {
		flags |= flagStateFile
	}
	if st.aside {
		flags |= flagAside
	}
	if st.held {
		flags |= flagHeld
	}
	if st.bucket > 0 {
		flags |= flagBucket
	}
	if st.kept {
		flags |= flagKept
	}
	if st.released > 0 {
		flags |= flagReleased
	}
	if st.late {
		flags |= flagLate
	}
	b = append(b, byte(st.area), flags)
	if st.bucket > 0 {
		b = binary.AppendUvarint(b, uint64(st.bucket))
	}
	if st.released > 0 {
		b = binary.AppendVarint(b, int64(st.released))
	}
	b = binary.AppendVarint(b, int64(st.due))
	b = binary.AppendUvarint(b, uint64(st.attempts))
	b = binary.AppendVarint(b, int64(st.lastAttempt))
	b = appendText(b, st.reason)
	b = binary.AppendUvarint(b, uint64(st.chunks))
	b = binary.AppendUvarint(b, uint64(st.recipients))
	b = binary.AppendUvarint(b, uint64(st.settled))
	b = binary.AppendUvarint(b, uint64(st.owed))
	b = appendText(b, string(st.full))
	if len(st.outcomes) > 0 {
		b = appendOutcomes(b, st.outcomes, 0)
	}
	return b
}

func decodeState(payload string) (*state, error) {
	st := &state{}
	if err := st.decode(payload); err != nil {
		return nil, err
	}
	return st, nil
}

// decode sets all of a state, whose texts share the payload's memory. It uses the memory of the outcomes that the
// state had.
func (st *state) decode(payload string) error {
	list, err := st.decodeHead(payload)
	if err == nil && list != "" {
		st.outcomes, err = st.outcomes.decode(list, 0)
	}
	return err
}

// decodeHead sets all but the outcomes, and returns the encoded list of these, "" if there is none.
func (st *state) decodeHead(payload string) (list string, err error) {
	d := decoder{rest: payload}
	*st = state{area: mail.Area(d.octet()), outcomes: st.outcomes[:0]}
	flags := d.octet()
	st.warned = flags&flagWarned != 0
	st.file = flags&flagStateFile != 0
	st.held = flags&flagHeld != 0
	st.aside = flags&flagAside != 0
	if flags&flagBucket != 0 {
		st.bucket = mail.Bucket(d.uint32())
	}
	st.kept = flags&flagKept != 0
	st.late = flags&flagLate != 0
	if flags&flagReleased != 0 {
		st.released = d.instant()
		d.bad = d.bad || st.released <= 0 // the flag says that there was a release
	}
	st.due = d.instant()
	st.attempts = d.uint32()
	st.lastAttempt = d.instant()
	st.reason = d.text()
	st.chunks = d.uint32()
	st.recipients = d.uint32()
	st.settled = d.uint32()
	st.owed = d.uint32()
	st.full = bitset(d.text())
	return d.rest, d.check("state")
}

// putState adds a write of a state to the batch; encoded is what appendState has made of it.
func putState(b *pebble.Batch, id mail.QueueID, st *state, encoded []byte) error {
	k := messageKey(keyState, id)
	return putSealed(b, st.version(), k.bytes(), encoded)
}

// readState reads the s key; nil without an error means that there is none, because
// the message was never changed or does not exist.
func (s *Spool) readState(id mail.QueueID) (*state, error) {
	payload, ok, err := s.loadText(messageKey(keyState, id))
	if err != nil || !ok {
		return nil, err
	}
	return decodeState(payload)
}

// withoutEnvelope returns the error for a message without an envelope: ErrGone, unless
// it was moved to the corrupt area because the envelope is lost.
func (st *state) withoutEnvelope() error {
	if st != nil && st.area == mail.AreaCorrupt {
		return fmt.Errorf("%w: there is no envelope", ErrCorrupt)
	}
	return ErrGone
}
