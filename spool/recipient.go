package spool

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/mail"
)

// chunkSize is the number of recipients that share an r key: enough to make a list
// of a million cheap to read, few enough that rewriting the outcomes of a chunk for
// each of its deliveries stays cheap.
const chunkSize = 256

// inlineRecipients is the maximum length in bytes of an encoded list inside the
// envelope's value. It keeps most envelopes below blobMin, so that reading one
// reads one block.
const inlineRecipients = 640

const flagORcpt = 0x80 // in the byte that also holds mail.Notify

func appendRecipient(b []byte, r mail.Recipient) []byte {
	flags := byte(r.Notify) &^ flagORcpt
	if r.ORcpt != "" {
		flags |= flagORcpt
	}
	b = append(b, flags)
	b = appendText(b, string(r.Address))
	if r.ORcpt != "" {
		b = appendText(b, r.ORcpt)
	}
	return b
}

// A recipientReader reads recipients from an encoded list.
type recipientReader struct {
	d    decoder
	next uint32 // index of the next recipient
}

func readRecipients(payload string, first uint32) recipientReader {
	return recipientReader{d: decoder{rest: payload}, next: first}
}

// read returns the next recipient; ok is false at the end of the list.
func (r *recipientReader) read() (rcpt mail.Recipient, ok bool) {
	if r.d.bad || len(r.d.rest) == 0 {
		return rcpt, false
	}
	flags := r.d.octet()
	rcpt.Index = r.next
	rcpt.Notify = mail.Notify(flags &^ flagORcpt)
	rcpt.Address = mail.Address(r.d.text())
	if flags&flagORcpt != 0 {
		rcpt.ORcpt = r.d.text()
	}
	r.next++
	return rcpt, !r.d.bad
}

// checkList returns an error unless a list has exactly the recipients that it
// should have.
func checkList(payload string, first, end uint32) error {
	r := readRecipients(payload, first)
	for _, ok := r.read(); ok; _, ok = r.read() {
	}
	if r.d.bad || r.next != end {
		return fmt.Errorf("%w: recipient list ends at %d, not at %d", ErrCorrupt, r.next, end)
	}
	return nil
}

// chunkCount returns the number of parts of the recipients of a message, counting a
// list in the envelope as one.
func chunkCount(chunks uint32) uint32 { return max(chunks, 1) }

// chunkBounds returns the first recipient of a chunk and the one after its
// last.
func chunkBounds(chunk, recipients uint32) (first, end uint32) {
	first = chunk * chunkSize
	return first, uint32(min(uint64(first)+chunkSize, uint64(recipients)))
}

// readList returns an encoded part of the recipient list after checking that all of
// it is readable, so that nothing done for its recipients depends on damaged data.
func (s *Spool) readList(e *envelope, chunk uint32) (list recipientReader, err error) {
	payload := e.recipients
	if e.chunks > 0 {
		var ok bool
		k := chunkKey(keyRecipients, e.ID, chunk)
		if payload, ok, err = s.loadText(k); err == nil && !ok {
			err = s.missing(e.ID, k)
		}
		if err != nil {
			return list, err
		}
	}
	first, end := partBounds(e.chunks, chunk, e.Recipients)
	return readRecipients(payload, first), checkList(payload, first, end)
}

// missing returns why a key that an envelope implies does not exist: the message
// has been removed since the envelope was read, or it is damaged.
func (s *Spool) missing(id mail.QueueID, k key) error {
	ok, err := s.has(messageKey(keyEnvelope, id))
	if err != nil {
		return err
	}
	if !ok {
		return ErrGone
	}
	return fmt.Errorf("%w: no key %q", ErrCorrupt, k.bytes())
}
