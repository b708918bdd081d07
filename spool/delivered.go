package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A recipient whose server has accepted the message is delivered again if the process
// is killed before that is in the log of the store. Pebble keeps new log records in
// memory until the sync under way ends, so a kill used to repeat all deliveries of one
// or two syncs: 12 to 25 of 10,000. NoteDelivered therefore hands each of them to the
// operating system at once, in the file delivered, and the next Open records those that
// the store lacks. The file is never synced: if the machine fails, notes are lost and the
// deliveries are repeated, as without it.
//
// A note is true forever, since a settled outcome is final and queue IDs are not used
// twice. So notes are never withdrawn, and it does not matter how old they are: the file
// is a ring of slots in which a new note replaces the oldest. Nor does it matter that some
// may be old, missing or torn after a power failure, since each has its own checksum. One
// slot has one note, so that nothing in the text of a reply is ever taken for a note:
//
//	length of what follows the checksum, 4 bytes; CRC-32C of it, 4 bytes
//	queue ID, 8 bytes; outcomes as in the value of an x key
const (
	// noteSlots is many times the number of deliveries that usually end during a sync.
	noteSlots = 1024
	// noteSlot holds some ninety recipients with the same reply.
	noteSlot = 512
	noteHead = 4 + 4
)

// A deliveredFile is the open file delivered.
type deliveredFile struct {
	mu   sync.Mutex
	file vfs.File // nil if it could not be opened, or after an error
	next int64    // the slot of the next note
}

// NoteDelivered notes which recipients of a message have been delivered, without waiting
// for the disk: if the process is killed before Apply has made their outcomes durable, the
// next Open does. It ignores outcomes other than mail.Delivered. A note that cannot be
// written is left out, which is logged: all it prevents is that the message is sent again.
func (s *Spool) NoteDelivered(id mail.QueueID, outcomes []mail.Outcome) {
	var list [1]mail.Outcome
	known := list[:0]
	for _, o := range outcomes {
		if o.Result != mail.Delivered {
			continue
		}
		if o.At == 0 {
			o.At = s.cfg.Now()
		}
		known = append(known, o)
	}
	if len(known) == 0 || s.enter() != nil {
		return
	}
	defer s.leave()
	s.delivered.note(s, id, known)
}

// note writes a note, or several if one would be too long. A reply that is too long for a
// slot by itself is not noted.
func (f *deliveredFile) note(s *Spool, id mail.QueueID, known outcomes) {
	note := appendNote(make([]byte, 0, noteSlot/2), id, known)
	half := len(known) / 2
	switch {
	case len(note) <= noteSlot:
		f.write(s, note)
	case half > 0:
		f.note(s, id, known[:half])
		f.note(s, id, known[half:])
	}
}

func appendNote(b []byte, id mail.QueueID, known outcomes) []byte {
	b = append(b, make([]byte, noteHead)...)
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = appendOutcomes(b, known, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)-noteHead))
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[noteHead:], castagnoli))
	return b
}

// write writes a note into the next slot. Several may be written at the same time.
func (f *deliveredFile) write(s *Spool, note []byte) {
	f.mu.Lock()
	file, slot := f.file, f.next
	f.next = (slot + 1) % noteSlots
	f.mu.Unlock()
	if file == nil {
		return
	}
	if _, err := file.WriteAt(note, slot*noteSlot); err != nil {
		f.mu.Lock()
		f.file = nil // s.opened closes it
		f.mu.Unlock()
		s.cfg.Logger.Warn("deliveries can no longer be noted; more of them are repeated if the process is killed", "file", s.path("delivered"), "error", err)
	}
}

// openDelivered makes the outcomes durable that an earlier process has noted, and empties
// the file for this one. Without the file everything works, so most errors are only
// logged.
func (s *Spool) openDelivered() error {
	file, err := s.disk.OpenReadWrite(s.path("delivered"), vfs.WriteCategoryUnspecified)
	if err != nil {
		s.cfg.Logger.Warn("deliveries cannot be noted", "error", err)
		return nil
	}
	s.opened = append(s.opened, file)
	ring := make([]byte, noteSlots*noteSlot)
	n, err := file.ReadAt(ring, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		s.cfg.Logger.Warn("noted deliveries cannot be read", "error", err)
	}
	if err := s.recordDelivered(notes(ring[:n])); err != nil {
		return err
	}
	// It is written to its end, since a note must need no space.
	clear(ring)
	if _, err := file.WriteAt(ring, 0); err != nil {
		s.cfg.Logger.Warn("deliveries cannot be noted", "error", err)
		return nil
	}
	s.delivered.file = file
	return nil
}

// notes returns the outcomes in a ring, in no particular order.
func notes(ring []byte) (changes []mail.Change) {
	for ; len(ring) >= noteSlot; ring = ring[noteSlot:] {
		if id, known := decodeNote(ring[:noteSlot]); known != nil {
			changes = append(changes, mail.Change{Op: mail.ChangeRecord, ID: id, Outcomes: known})
		}
	}
	return changes
}

// decodeNote returns the note in a slot; no outcomes if there is none, or only part of one.
func decodeNote(slot []byte) (mail.QueueID, outcomes) {
	length := binary.BigEndian.Uint32(slot)
	if length < 8 || length > noteSlot-noteHead {
		return 0, nil
	}
	body := slot[noteHead : noteHead+length]
	if binary.BigEndian.Uint32(slot[4:]) != crc32.Checksum(body, castagnoli) {
		return 0, nil
	}
	known, err := decodeOutcomes(string(body[8:]), 0)
	if err != nil {
		return 0, nil
	}
	return mail.QueueID(binary.BigEndian.Uint64(body)), known
}

// recordDelivered records outcomes of messages that are still in the spool. Changes that
// cannot be made because of a fault of their message are only logged: the message is not
// delivered before it can be read, and by then the note may be gone.
func (s *Spool) recordDelivered(changes []mail.Change) error {
	left := 0
	const most = 256 // in one commit
	for len(changes) > 0 {
		n := min(len(changes), most)
		answers, err := s.apply(s.work.ctx, changes[:n])
		if failed := mail.ChangeErrors(nil); errors.As(err, &failed) {
			s.cfg.Logger.Warn("some noted deliveries cannot be recorded", "error", failed)
		} else if err != nil {
			return fmt.Errorf("spool: record noted deliveries: %w", err)
		}
		for i := range answers {
			if answers[i].Place.Area != mail.AreaNone {
				left++
			}
		}
		changes = changes[n:]
	}
	if left > 0 {
		s.cfg.Logger.Info("recorded deliveries that had been noted before the last process ended", "messages", left)
	}
	return nil
}
