package spool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Sight is what Sweep sees of a message.
type Sight struct {
	Summary
	// Recipients are all recipients with their outcomes, unless Long is set: then there are more than a sweep
	// reads, and Outcomes returns them. They are not set if Err is.
	Recipients []mail.RecipientOutcome
	Long       bool
}

// sweepChunk is the number of values that are passed on at once. It bounds what a sweep that ends early
// has read without need.
const sweepChunk = 256

// Sweep calls visit with each message whose queue ID is from or more, in the order of IDs and in all areas, as they
// were when it was called, until visit returns false. The Sight is valid until visit returns, and its texts keep
// some 100 KB of memory alive: clone what is kept. visit must not use the Spool. Unlike a scan of
// an index it reads envelopes and states in the order in which they are stored: a million messages take
// 1.1 s of processor time, where looking them up one by one takes a minute. An error means that a part of the store cannot be
// read; a message that cannot be read completely has Summary.Err.
func (s *Spool) Sweep(ctx context.Context, from mail.QueueID, visit func(*Sight) bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	now := s.db.NewSnapshot()
	defer now.Close()
	ctx, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	envelopes := reading[envelope](ctx, &readers, now, keyEnvelope, from)
	states := reading[state](ctx, &readers, now, keyState, from)
	sight := Sight{}
	for {
		e, st := envelopes.peek(), states.peek()
		if err := errors.Join(envelopes.err, states.err, ctx.Err()); err != nil {
			return fmt.Errorf("spool: sweep: %w", err)
		}
		switch {
		case e == nil && st == nil:
			return nil
		case st == nil || e != nil && e.id < st.id:
			st = nil // it was never changed
			envelopes.next()
		case e == nil || st.id < e.id:
			e = nil // the envelope is lost
			states.next()
		default:
			envelopes.next()
			states.next()
		}
		if s.see(&sight, e, st) && !visit(&sight) {
			return nil
		}
	}
}

// see sets the sight of a message, and reports whether there is one. What cannot be decoded is read again
// by itself, as a lookup does: it may be readable then, and otherwise its place is searched for.
func (s *Spool) see(to *Sight, e *swept[envelope], st *swept[state]) bool {
	*to = Sight{Recipients: to.Recipients[:0]}
	if e == nil || e.err != nil || st != nil && st.err != nil {
		var id mail.QueueID
		if e != nil {
			id = e.id
		} else {
			id = st.id
		}
		sum, err := s.lookup(id)
		to.Summary, to.Long = sum, true
		return err == nil
	}
	m := message{envelope: &e.value}
	if st != nil {
		m.state = &st.value
		m.state.complete(&e.value.Envelope)
		to.Reason, to.Settled, to.Owed = m.state.reason, m.state.settled, m.state.owed
	}
	to.Envelope, to.Place = e.value.Envelope, m.place()
	if e.value.chunks > 0 {
		to.Long = true
		return true
	}
	list := readRecipients(e.value.recipients, 0)
	for r, ok := list.read(); ok; r, ok = list.read() {
		o := mail.Outcome{Index: r.Index}
		if m.state != nil {
			o = m.state.outcomes.at(r.Index)
			r.Ordered, r.Doubts = o.Ordered, o.Doubts
		}
		to.Recipients = append(to.Recipients, mail.RecipientOutcome{Recipient: r, Outcome: o})
	}
	if list.d.bad || list.next != e.value.Recipients { // damaged: who asks for them learns how
		to.Recipients, to.Long = to.Recipients[:0], true
	}
	return true
}

// A swept is a value that a sweep has read, or why it cannot be decoded.
type swept[T any] struct {
	id    mail.QueueID
	value T
	err   error
}

// A sweepable decodes itself from the payload of a message's value.
type sweepable[T any] interface {
	*T
	sweep(id mail.QueueID, payload string) error
}

func (e *envelope) sweep(id mail.QueueID, payload string) error { return e.decode(id, payload) }
func (st *state) sweep(_ mail.QueueID, payload string) error    { return st.decode(payload) }

// A sweepReader reads the values of one kind on a goroutine of its own.
type sweepReader[T any] struct {
	chunks chan []swept[T]
	spare  chan []swept[T] // to be filled again; texts never share their memory
	fail   chan error      // why what follows cannot be read
	chunk  []swept[T]      // that is being read
	at     int
	err    error
}

// reading begins to read the values of a kind, from a message on.
func reading[T any, P sweepable[T]](ctx context.Context, readers *sync.WaitGroup, from *pebble.Snapshot, kind byte, first mail.QueueID) *sweepReader[T] {
	const ahead = 2
	r := &sweepReader[T]{chunks: make(chan []swept[T], ahead), spare: make(chan []swept[T], ahead+2), fail: make(chan error, 1)}
	readers.Go(func() {
		defer close(r.chunks)
		if err := readValues[T, P](ctx, from, kind, first, r); err != nil {
			r.fail <- err
		}
	})
	return r
}

func readValues[T any, P sweepable[T]](ctx context.Context, from *pebble.Snapshot, kind byte, first mail.QueueID, r *sweepReader[T]) error {
	lower, upper := messageKey(kind, first), plainKey(kind+1)
	it, err := from.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lower.bytes(), UpperBound: upper.bytes()})
	if err != nil {
		return err
	}
	defer it.Close()
	var payloads []byte
	var ends [sweepChunk]int
	for ok := it.First(); ok; {
		chunk := r.room()
		payloads = payloads[:0]
		for ; ok && len(chunk) < sweepChunk; ok = it.Next() {
			k := it.Key()
			if len(k) != messageKeySize {
				continue
			}
			n := len(chunk)
			chunk = chunk[:n+1] // with the memory of what it had
			one := &chunk[n]
			one.id = mail.QueueID(keyNumber(k))
			value, err := it.ValueAndErr()
			if err == nil {
				value, err = unseal(k, value)
			}
			if one.err = err; err == nil {
				payloads = append(payloads, value...)
			}
			ends[n] = len(payloads)
		}
		texts, start := string(payloads), 0 // one allocation for all
		for i := range chunk {
			if one := &chunk[i]; one.err == nil {
				one.err = P(&one.value).sweep(one.id, texts[start:ends[i]])
			}
			start = ends[i]
		}
		select {
		case r.chunks <- chunk:
		case <-ctx.Done():
			return nil // the sweep has ended, or returns this error itself
		}
	}
	return it.Error()
}

// room returns an empty chunk.
func (r *sweepReader[T]) room() []swept[T] {
	select {
	case chunk := <-r.spare:
		return chunk[:0]
	default:
		return make([]swept[T], 0, sweepChunk)
	}
}

// peek returns the next value, nil at the end. It sets err if what follows cannot be read.
func (r *sweepReader[T]) peek() *swept[T] {
	for r.at == len(r.chunk) {
		if r.chunk != nil {
			select {
			case r.spare <- r.chunk:
			default:
			}
		}
		chunk, more := <-r.chunks
		r.chunk, r.at = chunk, 0
		if !more {
			select {
			case r.err = <-r.fail:
			default:
			}
			return nil
		}
	}
	return &r.chunk[r.at]
}

func (r *sweepReader[T]) next() { r.at++ }
