package spool

import (
	"bytes"
	"cmp"
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

// An Interest is what a sweep has to see. The zero Interest is all of every message.
//
// Conditions are for sweeps of which few messages meet them: what does not is passed over as soon as it is read,
// and of the others the rest is looked up. They are called on a goroutine of the sweep while another one is in visit, and must not
// keep texts. What is damaged meets all of them.
type Interest struct {
	// Envelope is a condition on what never changes of a message; what the spool maintains in an envelope is not set. nil: none.
	Envelope func(*mail.Envelope) bool
	// Recipient is a condition that the address of one recipient has to meet, whatever has become of it. nil: none. A
	// long list of recipients meets it. With it or Envelope, a message whose envelope is lost is passed over.
	Recipient func(mail.Address) bool
	// Outcome is a condition that the last outcome of one waiting recipient has to meet, with the reason for which the message is
	// where it is. nil: none. It is not used with Envelope or Recipient. What waits without an outcome has a zero one if there is a
	// reason, and is passed over if there is none. So are messages that were never changed.
	Outcome func(reason string, o *mail.Outcome) bool
	// Passed is called from time to time with the number of messages that were passed over, and an ID that is higher
	// than theirs, after visit with all that comes before them. The sweep ends if it returns false. nil: nothing is called.
	Passed func(n int, next mail.QueueID) bool
	// Brief means that recipients are not of interest: Sight.Recipients and Sight.Long are not set.
	Brief bool
	// Whole means that neither visit nor Passed is expected to end the sweep, and that few messages meet the conditions: two goroutines read.
	Whole bool

	sight Sight // its memory is used for all messages
}

// Sweep calls visit with each message of interest whose queue ID is from or more, in the order of IDs and in all areas, as they
// were when it was called, until visit returns false. The Sight is valid until visit returns, and its texts keep
// some 100 KB of memory alive: clone what is kept. visit must not use the Spool. Unlike a scan of
// an index it reads envelopes and states in the order in which they are stored: a million messages take
// 1 s of processor time, and 0.4 s if few meet a condition, where looking them up one by one takes a minute. An error means that a part of the store cannot be
// read; a message that cannot be read completely has Summary.Err.
func (s *Spool) Sweep(ctx context.Context, from mail.QueueID, in Interest, visit func(*Sight) bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	now := s.db.NewSnapshot()
	defer now.Close()
	ctx, stop := context.WithCancel(ctx)
	w := &sweep{ctx: ctx, db: s.db, from: now, in: &in, first: from, halvesMin: cmp.Or(s.cfg.halvesMin, halvesMin)}
	defer w.readers.Wait()
	defer stop()
	var err error
	switch {
	case in.Envelope != nil || in.Recipient != nil:
		err = w.byEnvelope(func(e *swept[envelope], st *swept[state]) bool { return s.visit(&in, e, st, visit) })
	case in.Outcome != nil:
		err = w.byState(func(e *swept[envelope], st *swept[state]) bool { return s.visit(&in, e, st, visit) })
	default:
		err = w.all(func(e *swept[envelope], st *swept[state]) bool { return s.visit(&in, e, st, visit) })
	}
	if err != nil {
		return fmt.Errorf("spool: sweep: %w", err)
	}
	return nil
}

// A sweep is one that is under way.
type sweep struct {
	ctx     context.Context
	db      *pebble.DB
	from    *pebble.Snapshot
	in      *Interest
	first   mail.QueueID
	readers sync.WaitGroup

	halvesMin uint64
}

// brief reports whether outcomes need not be read.
func (w *sweep) brief() bool { return w.in.Brief && w.in.Outcome == nil }

// all reads envelopes and states side by side.
func (w *sweep) all(take func(*swept[envelope], *swept[state]) bool) error {
	envelopes := reading[envelope](w, keyEnvelope, w.first, 0, nil)
	states := reading[state](w, keyState, w.first, 0, nil)
	for {
		e, st := envelopes.peek(), states.peek()
		if err := errors.Join(envelopes.err, states.err, w.ctx.Err()); err != nil {
			return err
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
		if !take(e, st) {
			return nil
		}
	}
}

// byEnvelope reads the envelopes that meet the conditions, and the states that belong to them.
func (w *sweep) byEnvelope(take func(*swept[envelope], *swept[state]) bool) error {
	envelopes := readingHalves[envelope](w, keyEnvelope, w.in.envelope)
	states := companions[state](w, keyState)
	defer states.close()
	for {
		e := envelopes.peek()
		if err := errors.Join(envelopes.err, w.ctx.Err()); e == nil || err != nil {
			return err
		}
		st, err := states.of(e.id)
		if err != nil {
			return err
		}
		envelopes.next()
		if !take(e, st) {
			return nil
		}
	}
}

// byState reads the states that meet the condition, and the envelopes that belong to them.
func (w *sweep) byState(take func(*swept[envelope], *swept[state]) bool) error {
	states := readingHalves[state](w, keyState, w.in.state)
	envelopes := companions[envelope](w, keyEnvelope)
	defer envelopes.close()
	for {
		st := states.peek()
		if err := errors.Join(states.err, w.ctx.Err()); st == nil || err != nil {
			return err
		}
		e, err := envelopes.of(st.id)
		if err != nil {
			return err
		}
		states.next()
		if !take(e, st) {
			return nil
		}
	}
}

// envelope reports whether an envelope meets the conditions.
func (in *Interest) envelope(e *envelope) bool {
	if in.Envelope != nil && !in.Envelope(&e.Envelope) {
		return false
	}
	if in.Recipient == nil || e.chunks > 0 {
		return true
	}
	list := readRecipients(e.recipients, 0)
	for r, ok := list.read(); ok; r, ok = list.read() {
		if in.Recipient(r.Address) {
			return true
		}
	}
	return list.d.bad || list.next != e.Recipients
}

// state reports whether a state meets the condition.
func (in *Interest) state(st *state) bool {
	if st.chunks > 0 || st.lost() || st.reason != "" && in.Outcome(st.reason, &mail.Outcome{}) {
		return true
	}
	for i := range st.outcomes {
		if o := &st.outcomes[i]; !o.Result.Settled() && in.Outcome(st.reason, o) {
			return true
		}
	}
	return false
}

// visit calls visit with a message, unless there is none, and reports whether the sweep goes on.
func (s *Spool) visit(in *Interest, e *swept[envelope], st *swept[state], visit func(*Sight) bool) bool {
	return !s.see(&in.sight, e, st, in.Brief) || visit(&in.sight)
}

// see sets the sight of a message, and reports whether there is one. What cannot be decoded is read again
// by itself, as a lookup does: it may be readable then, and otherwise its place is searched for.
func (s *Spool) see(to *Sight, e *swept[envelope], st *swept[state], brief bool) bool {
	*to = Sight{Recipients: to.Recipients[:0]}
	if e == nil || e.err != nil || st != nil && st.err != nil {
		var id mail.QueueID
		if e != nil {
			id = e.id
		} else {
			id = st.id
		}
		sum, err := s.lookup(id)
		to.Summary, to.Long = sum, !brief
		return err == nil
	}
	m := message{envelope: &e.value}
	if st != nil {
		m.state = &st.value
		m.state.complete(&e.value.Envelope)
		to.Reason, to.Settled, to.Owed = m.state.reason, m.state.settled, m.state.owed
	}
	to.Envelope, to.Place = e.value.Envelope, m.place()
	if brief {
		return true
	}
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

// A sweepable decodes itself from the payload of a message's value, or only what is of interest without recipients.
type sweepable[T any] interface {
	*T
	sweep(id mail.QueueID, payload string, brief bool) error
}

func (e *envelope) sweep(id mail.QueueID, payload string, _ bool) error {
	return e.decode(id, payload)
}

func (st *state) sweep(_ mail.QueueID, payload string, brief bool) error {
	if brief {
		_, err := st.decodeHead(payload)
		return err
	}
	return st.decode(payload)
}

// A sweepPart is a chunk of values that a reader passes on, and how many others between and before them do not meet its condition.
type sweepPart[T any] struct {
	values []swept[T]
	passed int
	next   mail.QueueID // higher than the ID of each of all these
}

// A sweepReader reads the values of one kind on a goroutine of its own.
type sweepReader[T any] struct {
	parts  chan sweepPart[T]
	spare  chan []swept[T] // to be filled again; texts never share their memory
	fail   chan error      // why what follows cannot be read
	passed func(n int, next mail.QueueID) bool
	after  *sweepReader[T] // of what comes behind; nil: nothing does
	part   sweepPart[T]    // that is being read
	at     int
	err    error
}

// reading begins to read the values of a kind that meet a condition, from a message on and before end unless that is 0.
func reading[T any, P sweepable[T]](w *sweep, kind byte, first, end mail.QueueID, meets func(P) bool) *sweepReader[T] {
	const ahead = 2
	r := &sweepReader[T]{parts: make(chan sweepPart[T], ahead), spare: make(chan []swept[T], ahead+2), fail: make(chan error, 1), passed: w.in.Passed}
	w.readers.Go(func() {
		defer close(r.parts)
		if err := readValues(w, kind, first, end, meets, r); err != nil {
			r.fail <- err
		}
	})
	return r
}

// readingHalves is reading from the first message on, with two goroutines if there is much to read and few values meet the condition,
// so that the second one hardly waits for the first. Of a page that ends early, what the second one has read would be lost.
func readingHalves[T any, P sweepable[T]](w *sweep, kind byte, meets func(P) bool) *sweepReader[T] {
	half, ok := mail.QueueID(0), false
	if w.in.Whole {
		half, ok = w.half(kind)
	}
	if !ok {
		return reading(w, kind, w.first, 0, meets)
	}
	r := reading(w, kind, w.first, half, meets)
	r.after = reading(w, kind, half, 0, meets)
	return r
}

// halvesMin is the amount of values, in bytes on the disk, from which on two goroutines read them.
const halvesMin = 8 << 20

// half returns an ID that has about as much of a kind before it as behind it; false if that is not known, or does not matter.
func (w *sweep) half(kind byte) (half mail.QueueID, ok bool) {
	it, err := w.values(kind, w.first, 0)
	if err != nil {
		return 0, false
	}
	defer it.Close() //nolint:errcheck // an error shows when all is read
	if !it.First() {
		return 0, false
	}
	first := mail.QueueID(keyNumber(it.Key()))
	if !it.Last() {
		return 0, false
	}
	last := mail.QueueID(keyNumber(it.Key()))
	size := func(to mail.QueueID) uint64 {
		lower, upper := messageKey(kind, first), messageKey(kind, to)
		n, err := w.db.EstimateDiskUsage(lower.bytes(), upper.bytes())
		if err != nil {
			return 0
		}
		return n
	}
	whole := size(last)
	if whole < w.halvesMin {
		return 0, false
	}
	lower, upper := first, last
	for range 16 { // to a 65,000th of the time
		if half = lower + (upper-lower)/2; size(half) < whole/2 {
			lower = half
		} else {
			upper = half
		}
	}
	return half, half > first
}

// values returns an iterator over the values of a kind, from a message on and before end unless that is 0.
func (w *sweep) values(kind byte, first, end mail.QueueID) (*pebble.Iterator, error) {
	lower, upper := messageKey(kind, first), plainKey(kind+1)
	if end != 0 {
		upper = messageKey(kind, end)
	}
	return w.from.NewIterWithContext(w.ctx, &pebble.IterOptions{LowerBound: lower.bytes(), UpperBound: upper.bytes()})
}

func readValues[T any, P sweepable[T]](w *sweep, kind byte, first, end mail.QueueID, meets func(P) bool, r *sweepReader[T]) error {
	it, err := w.values(kind, first, end)
	if err != nil {
		return err
	}
	defer it.Close()
	var payloads []byte
	var ends [sweepChunk]int
	chunk := r.room()
	part := sweepPart[T]{}
	for ok := it.First(); ok; {
		chunk, payloads = chunk[:0], payloads[:0]
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
		kept := 0
		for i := range chunk {
			one := &chunk[i]
			if one.err == nil {
				one.err = P(&one.value).sweep(one.id, texts[start:ends[i]], w.brief())
			}
			start = ends[i]
			part.next = one.id + 1
			if meets != nil && one.err == nil && !meets(&one.value) {
				part.passed++
				continue
			}
			if kept != i { // an exchange, since each has memory that is used again
				chunk[kept], chunk[i] = chunk[i], chunk[kept]
			}
			kept++
		}
		if kept == 0 && ok { // it is worth telling, but not worth waiting for
			select {
			case r.parts <- part:
				part = sweepPart[T]{}
			default:
			}
			if w.ctx.Err() != nil {
				return nil // the sweep has ended, or returns this error itself
			}
			continue
		}
		part.values = chunk[:kept]
		select {
		case r.parts <- part:
		case <-w.ctx.Done():
			return nil
		}
		chunk, part = r.room(), sweepPart[T]{}
	}
	return it.Error()
}

// room returns an empty chunk.
func (r *sweepReader[T]) room() []swept[T] {
	select {
	case chunk := <-r.spare:
		return chunk
	default:
		return make([]swept[T], 0, sweepChunk)
	}
}

// peek returns the next value, nil at the end. It sets err if what follows cannot be read.
func (r *sweepReader[T]) peek() *swept[T] {
	for r.at == len(r.part.values) {
		last := r.part
		r.part, r.at = sweepPart[T]{}, 0
		if last.values != nil {
			select {
			case r.spare <- last.values:
			default:
			}
		}
		if last.passed > 0 && r.passed != nil && !r.passed(last.passed, last.next) {
			return nil
		}
		var more bool
		if r.part, more = <-r.parts; more {
			continue
		}
		select {
		case r.err = <-r.fail:
		default:
		}
		if r.err != nil || r.after == nil {
			return nil
		}
		r.parts, r.spare, r.fail, r.after = r.after.parts, r.after.spare, r.after.fail, r.after.after
	}
	return &r.part.values[r.at]
}

func (r *sweepReader[T]) next() { r.at++ }

// A companionReader finds the values of one kind that belong to some messages, which it is asked for in the order of their IDs. Of
// few it looks up each; many it reads as a sweepReader does, on a goroutine of its own.
type companionReader[T any, P sweepable[T]] struct {
	sweep  *sweep
	kind   byte
	it     *pebble.Iterator // nil: not opened yet, or there is a stream
	stream *sweepReader[T]
	asked  int
	steps  int // from one to the next
	one    swept[T]
}

func companions[T any, P sweepable[T]](w *sweep, kind byte) *companionReader[T, P] {
	return &companionReader[T, P]{sweep: w, kind: kind}
}

const (
	// companionSteps is the number of steps to the next value that cost as much as a search for it.
	companionSteps = 16
	// companionProbe is the number of values after which it is decided how the others are read.
	companionProbe = 512
)

// of returns the value of a message, which is valid until it is called again; nil if it has none.
func (c *companionReader[T, P]) of(id mail.QueueID) (*swept[T], error) {
	if c.stream != nil {
		return c.streamed(id)
	}
	k := messageKey(c.kind, id)
	ok := false
	if c.it == nil {
		var err error
		if c.it, err = c.sweep.values(c.kind, id, 0); err != nil {
			return nil, err
		}
		ok = c.it.First()
	} else {
		ok = c.it.Valid()
	}
	steps := 0
	for ; ok && steps < companionSteps && bytes.Compare(c.it.Key(), k.bytes()) < 0; steps++ {
		ok = c.it.Next()
	}
	if ok && bytes.Compare(c.it.Key(), k.bytes()) < 0 {
		ok = c.it.SeekGE(k.bytes())
	}
	if !ok {
		return nil, c.it.Error()
	}
	c.asked++
	c.steps += steps
	if !bytes.Equal(c.it.Key(), k.bytes()) {
		return nil, nil
	}
	c.one.id = id
	value, err := c.it.ValueAndErr()
	if err == nil {
		value, err = unseal(k.bytes(), value)
	}
	if c.one.err = err; err == nil {
		c.one.err = P(&c.one.value).sweep(id, string(value), c.sweep.brief())
	}
	if c.asked == companionProbe && c.steps < companionProbe*companionSteps/2 {
		c.close()
		c.stream = reading[T, P](c.sweep, c.kind, id+1, 0, nil)
	}
	return &c.one, nil
}

func (c *companionReader[T, P]) streamed(id mail.QueueID) (*swept[T], error) {
	for {
		one := c.stream.peek()
		switch {
		case one == nil:
			return nil, c.stream.err
		case one.id > id:
			return nil, nil
		case one.id == id:
			c.stream.next()
			return one, nil
		}
		c.stream.next()
	}
}

func (c *companionReader[T, P]) close() {
	if c.it != nil {
		c.it.Close() //nolint:errcheck // what it has read is right
		c.it = nil
	}
}
