package spool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// Fetch names messages in an area from a cursor on, at most max, in index
// order. In mail.AreaDeferred only those due at now are named, unless now is
// mail.Never.
//
// A cursor also keeps Fetch fast: it steps over the tombstones of what has
// been moved away in front of it, 20 ms per 1,000 messages against 0.2 ms.
func (s *Spool) Fetch(ctx context.Context, area mail.Area, from mail.Cursor, now mail.Instant, max int) (mail.Found, error) {
	found := mail.Found{Next: from, NextDue: mail.Never}
	if err := s.enter(); err != nil {
		return found, err
	}
	defer s.leave()
	err := s.scan(ctx, area, from, func(at mail.Cursor) bool {
		if area == mail.AreaDeferred && at.Due > now {
			found.NextDue = at.Due
			return false
		}
		if len(found.Cursors) >= max {
			found.More = true
			return false
		}
		found.Cursors = append(found.Cursors, at)
		found.Next = after(at)
		return true
	})
	return found, err
}

// after is the first cursor that comes after c.
func after(c mail.Cursor) mail.Cursor { return mail.Cursor{Due: c.Due, ID: c.ID + 1} }

// scan calls visit with the cursors of an area, from a cursor on, until visit
// returns false or there are no more. If the index is damaged it is made anew,
// and the scan goes on where it was.
func (s *Spool) scan(ctx context.Context, area mail.Area, from mail.Cursor, visit func(mail.Cursor) bool) error {
	next := from
	for {
		s.indexes.RLock()
		seen := s.healed
		err := s.scanOnce(ctx, area, next, func(at mail.Cursor) bool {
			next = after(at)
			return visit(at)
		})
		s.indexes.RUnlock()
		if err == nil || !isDamage(err) {
			return err
		}
		if err := s.heal(ctx, area, seen, err); err != nil {
			return err
		}
	}
}

// scanOnce is scan without the healing.
func (s *Spool) scanOnce(ctx context.Context, area mail.Area, from mail.Cursor, visit func(mail.Cursor) bool) error {
	kind := areaKind(area)
	if kind == 0 {
		return fmt.Errorf("spool: area %d has no index", area)
	}
	lower, upper := indexKey(area, from), plainKey(kind+1)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lower.bytes(), UpperBound: upper.bytes()})
	if err != nil {
		return fmt.Errorf("spool: scan %s: %w", area, err)
	}
	steps := 0
	for ok := it.First(); ok; ok = it.Next() {
		at, known := parseIndexKey(area, it.Key())
		if known && !visit(at) {
			break
		}
		if steps++; steps%1024 == 0 && ctx.Err() != nil {
			break
		}
	}
	s.count.steps.Add(uint64(it.Stats().ForwardStepCount[pebble.InternalIterCall]))
	if err := errors.Join(it.Close(), ctx.Err()); err != nil {
		return fmt.Errorf("spool: scan %s: %w", area, err)
	}
	return nil
}

// Open reads a message's envelope, where it is, and the first of its
// recipients that are not settled, at most max. The error wraps ErrGone if
// there is no such message, ErrCorrupt if it was put aside because it cannot
// be read.
func (s *Spool) Open(ctx context.Context, id mail.QueueID, max int) (mail.Envelope, mail.Place, mail.RecipientBatch, error) {
	var none mail.Envelope
	if err := s.enter(); err != nil {
		return none, mail.Place{}, mail.RecipientBatch{}, err
	}
	defer s.leave()
	m, err := s.readMessage(id)
	var batch mail.RecipientBatch
	if err == nil {
		batch, err = s.unsettled(ctx, m, 0, max)
	}
	if err != nil {
		return none, mail.Place{}, mail.RecipientBatch{}, s.spoil(ctx, id, "open", err)
	}
	return m.envelope.Envelope, m.place(), batch, nil
}

// Read reads further recipients of a message that are not settled, at most
// max, from the one numbered from on. What comes before is not read.
func (s *Spool) Read(ctx context.Context, id mail.QueueID, from uint32, max int) (mail.RecipientBatch, error) {
	if err := s.enter(); err != nil {
		return mail.RecipientBatch{}, err
	}
	defer s.leave()
	m, err := s.readMessage(id)
	var batch mail.RecipientBatch
	if err == nil {
		batch, err = s.unsettled(ctx, m, from, max)
	}
	if err != nil {
		return mail.RecipientBatch{}, s.spoil(ctx, id, "read recipients of", err)
	}
	return batch, nil
}

// A message is what the store has of one message, without its content.
type message struct {
	envelope *envelope
	state    *state // nil if it was never touched
}

func (m *message) place() mail.Place {
	if m.state == nil {
		return m.envelope.place()
	}
	return m.state.place()
}

// settled is how many recipients need no further attempt.
func (m *message) settled() uint32 {
	if m.state == nil {
		return 0
	}
	return m.state.settled
}

// readMessage reads envelope and state, ErrGone if there are none.
func (s *Spool) readMessage(id mail.QueueID) (*message, error) {
	// The state first: if the message is removed in between, the envelope is
	// found missing; the other way round it would seem never touched.
	st, err := s.readState(id)
	if err != nil {
		return nil, err
	}
	e, err := s.readEnvelope(id)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, ErrGone
	}
	if st != nil {
		st.complete(&e.Envelope)
	}
	return &message{envelope: e, state: st}, nil
}

// unsettled collects recipients that are not settled, at most max, from the
// one numbered from on.
func (s *Spool) unsettled(ctx context.Context, m *message, from uint32, max int) (mail.RecipientBatch, error) {
	batch := mail.RecipientBatch{Next: from}
	total := m.envelope.Recipients
	err := s.eachRecipient(ctx, m, from, skipFull, func(r mail.Recipient, o mail.Outcome) bool {
		if len(batch.Recipients) >= max {
			batch.More = true
			return false
		}
		batch.Next = r.Index + 1
		if !o.Result.Settled() {
			batch.Recipients = append(batch.Recipients, r)
		}
		return true
	})
	if !batch.More {
		batch.Next = total
	}
	if from == 0 && uint32(len(batch.Recipients)) == total-m.settled() {
		batch.More = false // that was all, as the counter knows
	}
	return batch, err
}

// A skipping says which chunks eachRecipient need not read.
type skipping bool

const (
	skipNone skipping = false
	skipFull skipping = true // those all of whose recipients are settled
)

// eachRecipient calls visit with the recipients of a message and what is
// known of them, from the one numbered from on, until visit returns false.
func (s *Spool) eachRecipient(ctx context.Context, m *message, from uint32, skip skipping, visit func(mail.Recipient, mail.Outcome) bool) error {
	e := m.envelope
	for chunk := chunkOf(e.chunks, from); chunk < chunkCount(e.chunks); chunk++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if skip == skipFull && m.state != nil && m.state.full.has(chunk) {
			continue
		}
		more, err := s.eachInChunk(m, chunk, from, visit)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// chunkOf is the chunk that a recipient is in.
func chunkOf(chunks, index uint32) uint32 {
	if chunks == 0 {
		return 0
	}
	return index / chunkSize
}

// partBounds is chunkBounds that knows lists inside envelopes.
func partBounds(chunks, chunk, recipients uint32) (first, end uint32) {
	if chunks == 0 {
		return 0, recipients
	}
	return chunkBounds(chunk, recipients)
}

func (s *Spool) eachInChunk(m *message, chunk, from uint32, visit func(mail.Recipient, mail.Outcome) bool) (more bool, err error) {
	e := m.envelope
	list, err := s.readList(e, chunk)
	if err != nil {
		return false, err
	}
	known, err := s.readOutcomes(e.ID, m.state, chunk)
	if err != nil {
		return false, err
	}
	first, end := partBounds(e.chunks, chunk, e.Recipients)
	reader := readRecipients(list, first)
	for r, ok := reader.read(); ok; r, ok = reader.read() {
		if r.Index < from {
			continue
		}
		if e.chunks > 0 {
			// A few recipients kept in memory must not keep all the list.
			r.Address, r.ORcpt = mail.Address(strings.Clone(string(r.Address))), strings.Clone(r.ORcpt)
		}
		if !visit(r, known.at(r.Index)) {
			return false, nil
		}
	}
	return true, reader.check(end)
}
