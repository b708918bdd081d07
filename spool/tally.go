package spool

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A tally is what one batch changes.
type tally struct {
	number  uint64 // of its key; 0 while it is in no batch
	entries []entry
	moves   []move // whether or not entries are made
}

type entry struct {
	flow mail.Flow
	mail.Usage
}

// Tallies are those of this process and, at a start, those that the one before has not folded.
// Each number is that of one tally: it is under way, or its batch has failed, or it is in
// done and its entries in layers.recent, or it is folded and its key deleted.
type tallies struct {
	last     uint64              // number of the last tally; at least the floor on disk minus one
	underway map[uint64]struct{} // of batches that are being committed
	done     []uint64            // of batches that are committed
}

// add adds messages of a flow, or removes them.
func (t *tally) add(f mail.Flow, messages, octets int64) {
	if f == (mail.Flow{}) {
		return
	}
	const near = 8 // most batches have few flows
	for i := max(0, len(t.entries)-near); i < len(t.entries); i++ {
		if t.entries[i].flow == f {
			t.entries[i].Usage = t.entries[i].Plus(mail.Usage{Messages: messages, Octets: octets})
			return
		}
	}
	t.entries = append(t.entries, entry{f, mail.Usage{Messages: messages, Octets: octets}})
}

// commitCounted makes a batch durable with its tally, and counts it, and ends a reservation.
func (s *Spool) commitCounted(b *pebble.Batch, t *tally, reserved *entry) error {
	if err := s.counts.put(b, t); err != nil {
		return err
	}
	if err := s.commit(b); err != nil {
		s.totals.doubt()
		s.failedCounted(t, err)
		return err
	}
	s.totals.moved(t.moves)
	t.moves = t.moves[:0]
	s.counts.committed(t, reserved)
	return nil
}

// put adds a tally to a batch. The number is that of a commit under way until committed
// or failed ends it.
func (c *counts) put(b *pebble.Batch, t *tally) error {
	if len(t.entries) == 0 {
		return nil
	}
	c.mu.Lock()
	c.tallies.last++
	t.number = c.tallies.last
	c.tallies.underway[t.number] = struct{}{}
	c.mu.Unlock()
	var buf [256]byte
	value := buf[:0]
	for i := range t.entries {
		e := &t.entries[i]
		value = binary.AppendVarint(binary.AppendVarint(value, e.Messages), e.Octets)
		value = appendText(appendText(appendText(value, e.flow.Class), e.flow.Tenant), e.flow.Flow)
	}
	return put(b, messageKey(keyTally, mail.QueueID(t.number)), value)
}

func decodeTally(payload string) (entries []entry, err error) {
	d := decoder{rest: payload}
	for d.rest != "" && !d.bad {
		u := mail.Usage{Messages: int64(d.instant()), Octets: int64(d.instant())}
		entries = append(entries, entry{mail.Flow{Class: d.text(), Tenant: d.text(), Flow: d.text()}, u})
	}
	return entries, d.check("tally")
}

// committed adds a tally to the sums. What a draft has reserved becomes what it is.
func (c *counts) committed(t *tally, reserved *entry) {
	if t.number == 0 && reserved == nil {
		return
	}
	c.mu.Lock()
	first := len(c.tallies.done) == 0
	if t.number != 0 {
		delete(c.tallies.underway, t.number)
		c.take(t)
	}
	c.release(reserved)
	many := len(c.tallies.done) == foldMany
	c.mu.Unlock()
	*t = tally{entries: t.entries[:0], moves: t.moves}
	if first || many {
		c.wake()
	}
}

// take adds a tally that is durable to recent.
func (c *counts) take(t *tally) {
	for i := range t.entries {
		accounts, n := accountsOf(t.entries[i].flow, mail.CountLevel(c.state.level.Load()))
		for _, a := range accounts[:n] {
			c.sums.recent.add(a, t.entries[i].Usage)
		}
	}
	c.tallies.done = append(c.tallies.done, t.number)
}

// failedCounted ends a commit that has failed. Its batch may be in the store all the same,
// for which inPlace is one reason, with a tally that will be taken for a folded one.
func (s *Spool) failedCounted(t *tally, why error) {
	if t.number == 0 {
		return
	}
	s.doubtCounts(why) // before a fold may take it for a folded one
	c := &s.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tallies.underway, t.number)
}

// readTallies reads the tallies that an earlier process has not folded.
func (s *Spool) readTallies(floor uint64) error {
	c := &s.counts
	from, to := messageKey(keyTally, mail.QueueID(floor)), plainKey(keyTally+1)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from.bytes(), UpperBound: to.bytes()})
	if err != nil {
		return fmt.Errorf("spool: read tallies: %w", err)
	}
	c.tallies.last = floor
	for ok := it.First(); ok; ok = it.Next() {
		var t tally
		value, err := it.ValueAndErr()
		if err == nil {
			value, err = unseal(it.Key(), value)
		}
		if err == nil {
			t.entries, err = decodeTally(string(value))
		}
		if err != nil {
			return errors.Join(fmt.Errorf("spool: read tallies: %w", err), it.Close())
		}
		t.number = keyNumber(it.Key())
		c.tallies.last = max(c.tallies.last, t.number)
		c.take(&t)
	}
	return it.Close()
}
