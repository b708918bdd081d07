package spool

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

const (
	// foldMany is a number of tallies that are folded without waiting for more: they
	// bound what a start must read.
	foldMany  = 4096
	foldPause = time.Second
)

// gather waits for more tallies.
func (s *Spool) gather() {
	t := time.NewTimer(foldPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.counts.poke:
	case <-s.work.ctx.Done():
	}
}

// addSums adds to recent, and folds.
func (s *Spool) addSums(list sums) error {
	c := &s.counts
	c.mu.Lock()
	for a, u := range list {
		c.sums.recent.add(a, u)
	}
	c.mu.Unlock()
	return s.fold()
}

// fold adds what is in recent to the sums on disk. The batch is not synced: if it is
// lost, the tallies are not.
func (s *Spool) fold() error {
	c := &s.counts
	c.folder.Lock()
	defer c.folder.Unlock()
	c.mu.Lock()
	if len(c.sums.recent) == 0 && len(c.tallies.done) == 0 {
		c.mu.Unlock()
		return nil
	}
	c.sums.folding, c.sums.recent = c.sums.recent, make(sums)
	done := c.tallies.done
	c.tallies.done = nil
	floor := c.tallies.last + 1
	for n := range c.tallies.underway {
		floor = min(floor, n)
	}
	c.mu.Unlock()
	err := s.writeSums(done, floor)
	c.mu.Lock()
	defer c.mu.Unlock()
	for a, u := range c.sums.folding {
		if err != nil {
			c.sums.recent.add(a, u)
		} else {
			c.sums.base[a] = c.sums.base[a].Plus(u)
		}
	}
	if err != nil {
		c.tallies.done = append(done, c.tallies.done...)
	}
	c.sums.folding = nil
	c.sums.folds++
	if len(c.sums.base) > baseMax {
		clear(c.sums.base)
	}
	return err
}

// writeSums writes the sums of the accounts in folding, whose old values stay in base
// until the fold ends, and deletes the tallies.
func (s *Spool) writeSums(done []uint64, floor uint64) error {
	c := &s.counts
	b := s.db.NewBatch()
	defer b.Close()
	level, mode := mail.CountLevel(c.state.level.Load()), c.state.at()
	if err := put(b, plainKey(keyCount), countHeader(level, mode, floor)); err != nil {
		return err
	}
	var value []byte
	for a, u := range c.sums.folding { // only fold changes it
		old, err := s.sum(a)
		if isDamage(err) {
			s.doubtCounts(err)
		} else if err != nil {
			return err
		}
		if u = old.Plus(u); u == (mail.Usage{}) {
			err = b.Delete(a.key(), nil)
		} else {
			value = binary.AppendVarint(binary.AppendVarint(value[:0], u.Messages), u.Octets)
			err = putSealed(b, valueVersion, a.key(), value)
		}
		if err != nil {
			return err
		}
	}
	for _, n := range done {
		if err := drop(b, messageKey(keyTally, mail.QueueID(n))); err != nil {
			return err
		}
	}
	if c.state.doubt.Load() {
		if err := put(b, doubtKey()); err != nil {
			return err
		}
	}
	size := b.Len()
	defer s.dieOfPanic()
	if err := b.Commit(pebble.NoSync); err != nil {
		s.doubtCounts(err) // it may be in the store all the same
		return fmt.Errorf("spool: write counts: %w", err)
	}
	s.room.spend(int64(size))
	return nil
}

// sum returns a sum on disk, and keeps it in memory.
func (s *Spool) sum(a account) (mail.Usage, error) {
	c := &s.counts
	c.mu.Lock()
	base, ok := c.sums.base[a]
	c.mu.Unlock()
	if ok {
		return base, nil
	}
	base, err := s.readSum(a)
	if err != nil {
		return base, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache(a, base)
	return base, nil
}
