package spool

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// The counts are the number and size of the messages of each class, tenant and flow. Where
// quotas need them they are right at once after any start, so they are on disk and change
// in the batches that add and remove messages.
//
// These batches come from many goroutines, and the order in which the store takes them is
// not known before the commit. A batch therefore does not write sums, which would be wrong in
// another order, but a tally: a p key of its own with what it adds to the sums. Once a
// second, or sooner if there are many, the tallies of committed batches are folded into the
// sums, the q keys: one goroutine adds them up and writes new sums and the deletion of the
// tallies in one batch. A start reads the tallies that were not folded. (Pebble's merge
// operators would do the same inside the store. But the name of the operator is part of a
// store's identity, and a sum that is damaged would stop compactions.)
//
// A sum of zero has no key, and the memory that this takes does not depend on the number
// of sums: base is a cache.
//
// Counting begins with an iterator over all envelopes, made at an instant at which no batch
// is under way: what it shows is added up in the background, and every later batch has a
// tally. Until it ends nothing is known. It begins when the first quota is configured,
// after a repair of the store, and when there is doubt: an envelope that was counted could
// not be read when its message was removed, a sum is damaged, or a commit has failed whose batch
// may be in the store all the same.
//
// A spool with counts has format 3, since an earlier version of this program would change
// messages without them; without quotas it has format 2 again.
//
// What is counted is in account.go, what one batch adds in tally.go, how it comes into the
// sums in fold.go, what is asked for in waiting.go and countlist.go, and how counting begins
// and ends in counting.go.
type counts struct {
	// gate is held for reading from the making of a batch to its commit, and for writing
	// while counting begins anew or ends: the iterator of a counting then shows what was
	// committed before, and every later batch has a tally.
	gate  sync.RWMutex
	state countState
	poke  chan struct{} // wakes keepCounts; has room for one

	// folder is held during a fold, and while counting begins anew or ends. It is taken
	// before gate, and both before mu.
	folder sync.Mutex

	mu      sync.Mutex // guards the fields below
	tallies tallies
	sums    layers
}

// active reports whether batches have tallies. The caller holds gate for reading.
func (c *counts) active() bool { return c.state.at() != countOff }

// format returns the format of the spool. The caller holds gate.
func (c *counts) format() int64 {
	if c.active() {
		return formatCounts
	}
	return formatVersion
}

func (c *counts) wake() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// countHeader is the value of the q key without a name: the level, the mode, and a number
// below which all tallies are folded, so that a start need not step over their tombstones.
func countHeader(level mail.CountLevel, mode countMode, floor uint64) []byte {
	return binary.AppendUvarint([]byte{byte(level), byte(mode)}, floor)
}

// SetCounts sets for what messages are counted from now on. The call does not wait for
// the counting of those that are there; see Counting.
func (s *Spool) SetCounts(level mail.CountLevel) {
	s.counts.state.want.Store(uint32(level))
	s.counts.wake()
}

// Counting reports whether messages are being counted, and how many were so far.
func (s *Spool) Counting() (counted int64, underway bool) {
	c := &s.counts
	mode := c.state.at()
	behind := mode != countOff || c.state.want.Load() > 0
	return c.state.known.Load(), behind && (mode != countWhole || c.state.doubt.Load() || c.state.level.Load() < c.state.want.Load())
}

// openCounts continues with the counts on disk, or begins counting if there are none.
func (s *Spool) openCounts() error {
	c := &s.counts
	c.poke = make(chan struct{}, 1)
	c.tallies.underway, c.sums.recent, c.sums.base, c.sums.reserved = make(map[uint64]struct{}), make(sums), make(sums), make(sums)
	c.state.doubts = damper{per: 2, period: 10 * time.Minute}
	c.state.want.Store(uint32(s.cfg.Counts))
	var level mail.CountLevel
	var mode countMode
	var floor uint64
	found, err := s.load(plainKey(keyCount), func(payload []byte) {
		if len(payload) > 2 {
			level, mode = mail.CountLevel(payload[0]), countMode(payload[1])
			floor, _ = binary.Uvarint(payload[2:])
		}
	})
	if err != nil && !isDamage(err) {
		return err
	}
	found = found || err != nil // damaged: so it is there
	doubted, err := s.has(doubtKey())
	if err != nil && !isDamage(err) {
		return err
	}
	doubted = doubted || err != nil
	if !found && s.cfg.Counts == mail.CountNothing {
		return nil
	}
	c.state.level.Store(uint32(level))
	if mode == countWhole && !doubted && s.cfg.Counts <= level && s.cfg.Counts != mail.CountNothing {
		c.state.become(countWhole)
		err := s.readTallies(floor)
		if err == nil {
			return nil
		}
		s.cfg.Logger.Warn("the messages of tenants are counted again: the counts cannot be read", "error", err)
	}
	return s.setCounting(s.cfg.Counts)
}
