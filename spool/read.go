package spool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// Fetch returns at most max messages of the bucket of an area that a cursor is in, from
// the cursor on, in index order. In mail.AreaDeferred and mail.AreaHold it returns only
// those due at now, unless now is mail.Never; a held message without a due time is always
// returned. From the start of a bucket, it also returns which buckets follow.
//
// A cursor also keeps Fetch fast: it skips the tombstones of messages that have
// been moved away before it, 20 ms per 1,000 messages against 0.2 ms.
func (s *Spool) Fetch(ctx context.Context, area mail.Area, from mail.Cursor, now mail.Instant, max int) (mail.Found, error) {
	found := mail.Found{Next: from, NextDue: mail.Never}
	if err := s.enter(); err != nil {
		return found, err
	}
	defer s.leave()
	err := s.scan(ctx, area, from, from.Bucket+1, func(at mail.Cursor) bool {
		if at.Due > now {
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
	if err == nil && from == (mail.Cursor{Bucket: from.Bucket}) && hasBuckets(area) {
		found.Buckets, err = s.followers(ctx, area, from.Bucket)
	}
	return found, err
}

// followers returns the positions of the first messages of the buckets that follow one,
// at most mail.BucketsFound. It costs a search for each, and steps over the tombstones
// before each, but over no messages.
func (s *Spool) followers(ctx context.Context, area mail.Area, bucket mail.Bucket) (list []mail.Cursor, err error) {
	for more := true; more && err == nil && len(list) < mail.BucketsFound; {
		more = false
		err = s.scan(ctx, area, mail.Cursor{Bucket: bucket + 1}, mail.BucketEnd, func(at mail.Cursor) bool {
			list, bucket, more = append(list, at), at.Bucket, true
			return false
		})
	}
	return list, err
}

// Find returns at most max messages of an area from a cursor on, due or not, in the order
// of due times and queue IDs whatever their buckets, which are 0 in the cursors here.
// Found.Buckets is not set. It takes two searches for each bucket that has something.
func (s *Spool) Find(ctx context.Context, area mail.Area, from mail.Cursor, max int) (mail.Found, error) {
	found := mail.Found{Next: from, NextDue: mail.Never}
	if err := s.enter(); err != nil {
		return found, err
	}
	defer s.leave()
	var first []mail.Cursor // the first max+1
	for buckets := []mail.Cursor{{}}; len(buckets) > 0; {
		for _, b := range buckets {
			start := mail.Cursor{Bucket: b.Bucket, Due: from.Due, ID: from.ID}
			err := s.scan(ctx, area, start, b.Bucket+1, func(at mail.Cursor) bool {
				at.Bucket = 0
				if len(first) > max && !at.Before(first[max]) {
					return false
				}
				i, _ := slices.BinarySearchFunc(first, at, compareCursors)
				first = slices.Insert(first, i, at)
				first = first[:min(len(first), max+1)]
				return true
			})
			if err != nil {
				return found, err
			}
		}
		var err error
		if buckets, err = s.followers(ctx, area, buckets[len(buckets)-1].Bucket); err != nil {
			return found, err
		}
	}
	found.More = len(first) > max
	if found.Cursors = first[:min(len(first), max)]; len(found.Cursors) > 0 {
		found.Next = after(found.Cursors[len(found.Cursors)-1])
	}
	return found, nil
}

func compareCursors(a, b mail.Cursor) int {
	return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Due, b.Due), cmp.Compare(a.ID, b.ID))
}

// after returns the first cursor after c.
func after(c mail.Cursor) mail.Cursor {
	c.ID++
	return c
}

// scan calls visit with the cursors of an area, from a cursor on and before a bucket,
// until visit returns false or there are no more. In areas without buckets, all is in
// bucket 0. If the index is damaged it is rebuilt, and
// the scan continues where it was. What cannot be read even then is skipped, with
// an alarm, so that what follows it is still found.
func (s *Spool) scan(ctx context.Context, area mail.Area, from mail.Cursor, end mail.Bucket, visit func(mail.Cursor) bool) error {
	if from.Bucket > 0 && !hasBuckets(area) {
		return nil
	}
	next := from
	step := func(at mail.Cursor) bool {
		next = after(at)
		return visit(at)
	}
	for healed := false; ; healed = true {
		s.indexes.RLock()
		seen, unfinished := s.healed, s.unfinished.has(uint32(area))
		var err error
		if !unfinished {
			err = s.scanOnce(ctx, s.db, area, next, end, step)
		}
		s.indexes.RUnlock()
		if err == nil && !unfinished {
			s.passing[area].Store(0)
			return nil
		}
		if err != nil && !isWrong(err) {
			// It may be temporary, but a sector that stays unreadable is damage.
			if !isDamage(err) || s.passing[area].Add(1) < passingMax {
				return err
			}
		}
		if healed || s.heal(ctx, area, seen, err) != nil {
			s.indexes.RLock()
			defer s.indexes.RUnlock()
			_, err := s.scanPast(ctx, area, next, func(at mail.Cursor) bool { return at.Bucket < end && step(at) })
			return err
		}
	}
}

// passingMax is the number of consecutive temporary failures of a scan that are
// taken for damage. The driver scans again after a second.
const passingMax = 5

// scanPast is scan without rebuilding the index: what cannot be read is skipped. It
// returns the number of gaps.
func (s *Spool) scanPast(ctx context.Context, area mail.Area, from mail.Cursor, visit func(mail.Cursor) bool) (gaps int, err error) {
	lower := s.indexKey(area, from)
	return s.eachKeyPast(ctx, s.kind(area), lower.bytes(), func(k []byte) bool {
		at, known := parseIndexKey(area, k)
		return !known || visit(at)
	})
}

// eachKeyPast calls visit with the keys of a kind, from one on, until visit returns
// false or there are no more. A part of the store that cannot be read is skipped,
// and an alarm says which. It returns the number of such gaps.
func (s *Spool) eachKeyPast(ctx context.Context, kind byte, from []byte, visit func(k []byte) bool) (gaps int, err error) {
	upper := plainKey(kind + 1)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: upper.bytes()})
	if err != nil {
		return 0, fmt.Errorf("spool: scan: %w", err)
	}
	defer it.Close()
	return s.eachOf(ctx, it, kind, from, visit)
}

// eachOf is eachKeyPast with an iterator over the keys.
func (s *Spool) eachOf(ctx context.Context, it *pebble.Iterator, kind byte, from []byte, visit func(k []byte) bool) (gaps int, err error) {
	at := bytes.Clone(from)
	ok := it.First()
	for steps := 1; ; steps++ {
		for ; ok; ok = it.Next() {
			at = append(at[:0], it.Key()...)
			if !visit(it.Key()) {
				return gaps, nil
			}
			if steps++; steps%1024 == 0 && ctx.Err() != nil {
				return gaps, ctx.Err()
			}
		}
		err := it.Error()
		if err == nil {
			return gaps, nil
		}
		if !isDamage(err) {
			return gaps, fmt.Errorf("spool: scan: %w", err)
		}
		gaps++
		end, found := seekPast(it, at)
		if s.gapped.allow() {
			text := fmt.Sprintf("part of the store cannot be read: keys %q after %s", kind, keyName(at))
			if found && it.Valid() {
				text += fmt.Sprintf(" and before %s", keyName(it.Key()))
			}
			s.raise(Alarm{Kind: AlarmCorrupt, Text: text, Err: err})
		}
		if !found || ctx.Err() != nil {
			return gaps, ctx.Err()
		}
		at, ok = end, it.Valid()
	}
}

// keyNumber returns the number that follows the kind in a key, 0 if there is none.
func keyNumber(k []byte) uint64 {
	if len(k) < 9 {
		return 0
	}
	return binary.BigEndian.Uint64(k[1:])
}

// keyName names the message of a key, and its due time if that precedes the ID.
func keyName(k []byte) string {
	n := len(k)
	if n >= 17 {
		due := time.Unix(0, int64(binary.BigEndian.Uint64(k[n-16:]))).UTC().Format(time.RFC3339)
		return fmt.Sprintf("%s due %s", mail.QueueID(binary.BigEndian.Uint64(k[n-8:])), due)
	}
	if n == 2+bucketSize+8 && k[1] == extended {
		return mail.QueueID(binary.BigEndian.Uint64(k[n-8:])).String()
	}
	return mail.QueueID(keyNumber(k)).String()
}

// seekPast positions an iterator at the first key after an unreadable part, which
// begins after the key at. It returns where that part ends, which it finds by doubling
// and then halving steps between keys, taken as numbers: some hundred attempts. All
// bytes of a key count: many messages that are due at the same instant may follow the
// bad block.
func seekPast(it *pebble.Iterator, at []byte) (end []byte, found bool) {
	const octets = len(key{}.octets)
	k := make([]byte, octets)
	try := func(n *big.Int) bool {
		it.SeekGE(n.FillBytes(k))
		return it.Error() == nil
	}
	copy(k, at)
	bad, step := new(big.Int).SetBytes(k), big.NewInt(1)
	good := new(big.Int)
	for {
		if good.Add(bad, step).BitLen() > 8*octets {
			return nil, false
		}
		if try(good) {
			break
		}
		bad.Set(good)
		step.Lsh(step, 1)
	}
	for {
		mid := new(big.Int).Add(bad, good)
		if mid.Rsh(mid, 1).Cmp(bad) == 0 {
			return k, try(good)
		}
		if try(mid) {
			good = mid
		} else {
			bad = mid
		}
	}
}

// scanOnce is scan without rebuilding the index. It reads the store or a snapshot of it.
func (s *Spool) scanOnce(ctx context.Context, store pebble.Reader, area mail.Area, from mail.Cursor, end mail.Bucket, visit func(mail.Cursor) bool) error {
	kind := s.kind(area)
	if kind == 0 {
		return fmt.Errorf("spool: area %d has no index", area)
	}
	lower, upper := s.indexKey(area, from), plainKey(kind+1)
	if hasBuckets(area) && end < mail.BucketEnd {
		upper = bucketKey(kind, end)
	}
	it, err := store.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lower.bytes(), UpperBound: upper.bytes()})
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

// Open reads a message's envelope and place, and at most max of its first
// recipients that are not settled. The error wraps ErrGone if there is no such
// message, ErrCorrupt if it was moved to the corrupt area because it cannot be
// read.
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

// Read reads at most max further recipients of a message that are not settled, from
// index from on. Earlier ones are not read.
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
	state    *state // nil if it was never changed
}

func (m *message) place() mail.Place {
	if m.state == nil {
		return m.envelope.place()
	}
	return m.state.place()
}

// settled returns the number of recipients that need no further attempt.
func (m *message) settled() uint32 {
	if m.state == nil {
		return 0
	}
	return m.state.settled
}

// readMessage reads envelope and state, ErrGone if there are none.
func (s *Spool) readMessage(id mail.QueueID) (*message, error) {
	// The state first: if the message is removed in between, the envelope is
	// missing; in the other order it would seem never changed.
	st, err := s.readState(id)
	if err != nil {
		return nil, err
	}
	e, err := s.readEnvelope(id)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, st.withoutEnvelope()
	}
	if st != nil {
		st.complete(&e.Envelope)
	}
	return &message{envelope: e, state: st}, nil
}

// unsettled returns at most max recipients that are not settled, from index from
// on.
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
		batch.More = false // the counter shows that there are no more
	}
	return batch, err
}

// A skipping determines which chunks eachRecipient need not read.
type skipping bool

const (
	skipNone skipping = false
	skipFull skipping = true // those with only settled recipients
)

// eachRecipient calls visit with the recipients of a message and their outcomes,
// from index from on, until visit returns false.
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

// chunkOf returns the chunk of a recipient.
func chunkOf(chunks, index uint32) uint32 {
	if chunks == 0 {
		return 0
	}
	return index / chunkSize
}

// partBounds is chunkBounds that also handles lists inside envelopes.
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
	for r, ok := list.read(); ok; r, ok = list.read() {
		if r.Index < from {
			continue
		}
		if e.chunks > 0 {
			// A few recipients kept in memory must not keep the whole list alive.
			r.Address, r.ORcpt = mail.Address(strings.Clone(string(r.Address))), strings.Clone(r.ORcpt)
		}
		o := known.at(r.Index)
		r.Ordered, r.Doubts = o.Ordered, o.Doubts
		if !visit(r, o) {
			return false, nil
		}
	}
	return true, nil
}
