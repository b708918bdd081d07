package spool

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// A countMode is how far counting is.
type countMode uint8

const (
	countOff   countMode = iota // nothing is counted
	countBegun                  // earlier messages are being added
	countWhole                  // the sums are right
	countModes = iota
)

// countTransitions[from][to] reports which changes there are. Counting that goes on may begin
// anew, and what an earlier process has counted is whole at once.
var countTransitions = [countModes][countModes]bool{
	countOff:   {countOff: true, countBegun: true, countWhole: true},
	countBegun: {countOff: true, countBegun: true, countWhole: true},
	countWhole: {countOff: true, countBegun: true},
}

// A countState is how far the counting of messages is. It changes under counts.folder, after
// the start; whether there are tallies changes under counts.gate as well.
type countState struct {
	mode   atomic.Uint32 // a countMode; only become changes it
	level  atomic.Uint32 // a mail.CountLevel: what is counted; it does not matter while the mode is countOff
	want   atomic.Uint32 // a mail.CountLevel: what shall be counted
	doubt  atomic.Bool   // the sums may be wrong
	doubts damper        // of counting anew because of doubt
	known  atomic.Int64  // messages that counting has passed

	// scan is over the envelopes to be counted. It is nil unless the mode is countBegun.
	scan *pebble.Iterator
	// missed are messages that are not counted, since the scan could not read them, at most
	// missedMax. They stay after their removal, which may be repeated. Guarded by counts.mu.
	missed map[mail.QueueID]struct{}
}

// missedMax bounds the memory of missed. If there are more, the removal of one that is not
// in it has all counted again, as long as it cannot be read.
const missedMax = 10_000

// uncounted reports whether a message is not in the sums although it is there.
func (c *counts) uncounted(id mail.QueueID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, missed := c.state.missed[id]
	return missed
}

// at returns the mode.
func (c *countState) at() countMode { return countMode(c.mode.Load()) }

func (c *countState) become(m countMode) {
	assert.That(countTransitions[c.at()][m], "counting in mode %d cannot come to mode %d", uint8(c.at()), uint8(m))
	c.mode.Store(uint32(m))
}

// countRetry is the time after which what has failed is tried again.
const countRetry = 10 * time.Second

// doubtKey returns the key that is there while the sums on disk may be wrong: what is counted
// next deletes it. It is not part of the header, which every fold writes.
func doubtKey() key {
	k := plainKey(keyCount)
	k.octets[1], k.n = noAccount, 2
	return k
}

// doubtCounts has everything counted again. What makes the sums wrong and becomes durable
// must be in one batch with doubtKey; a fold writes that, too, as long as there is doubt.
func (s *Spool) doubtCounts(why error) {
	if s.counts.active() && !s.counts.state.doubt.Swap(true) {
		s.cfg.Logger.Warn("the messages of tenants are counted again: the counts may be wrong", "error", why)
		s.counts.wake()
	}
}

// setCounting begins counting anew, or ends it. No batch is under way meanwhile.
func (s *Spool) setCounting(level mail.CountLevel) error {
	c := &s.counts
	c.folder.Lock()
	defer c.folder.Unlock()
	c.gate.Lock()
	defer c.gate.Unlock()
	c.state.dropScan()
	first, end := plainKey(keyEnvelope), plainKey(keyEnvelope+1)
	scan, err := s.db.NewIter(&pebble.IterOptions{LowerBound: first.bytes(), UpperBound: end.bytes()})
	if err == nil {
		err = s.writeCounting(level)
	}
	if err != nil {
		s.doubtCounts(err) // it may be in the store all the same
		return errors.Join(err, closeScan(scan))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums.recent, c.sums.folding, c.sums.base, c.tallies.done = make(sums), nil, make(sums), nil
	c.sums.folds++
	c.state.known.Store(0)
	c.state.missed = make(map[mail.QueueID]struct{})
	c.state.doubt.Store(false)
	c.state.level.Store(uint32(level))
	if level == mail.CountNothing {
		c.state.become(countOff)
		return closeScan(scan)
	}
	c.state.become(countBegun)
	c.state.scan = scan
	return nil
}

// writeCounting deletes all that was counted, and notes what is counted from now on.
func (s *Spool) writeCounting(level mail.CountLevel) error {
	b := s.db.NewBatch()
	defer b.Close()
	tallies, sum, after := plainKey(keyTally), plainKey(keyCount), plainKey(keyCount+1)
	err := errors.Join(b.DeleteRange(tallies.bytes(), sum.bytes(), nil), b.DeleteRange(sum.bytes(), after.bytes(), nil))
	if level > mail.CountNothing {
		err = errors.Join(err, put(b, sum, countHeader(level, countBegun, 0)), putFormat(b, formatCounts))
	} else {
		err = errors.Join(err, putFormat(b, formatVersion))
	}
	if err != nil {
		return err
	}
	return s.commit(b)
}

func closeScan(it *pebble.Iterator) error {
	if it == nil {
		return nil
	}
	return it.Close()
}

// dropScan ends a scan that has not ended.
func (c *countState) dropScan() {
	if c.scan != nil {
		_ = c.scan.Close() // what it could not read does not matter any more
		c.scan = nil
	}
}

// keepCounts counts and folds, until the spool is closed.
func (s *Spool) keepCounts() {
	c := &s.counts
	for {
		err := s.tendCounts(s.work.ctx)
		if err != nil && s.work.ctx.Err() == nil && s.damped.allow() {
			s.raise(Alarm{Kind: AlarmStore, Text: "the counts of messages cannot be written", Err: err})
		}
		var again <-chan time.Time
		if err != nil || c.state.doubt.Load() {
			again = time.After(countRetry)
		}
		select {
		case <-s.work.ctx.Done():
			return
		case <-again:
		case <-c.poke:
		}
		c.mu.Lock()
		few := len(c.tallies.done) > 0 && len(c.tallies.done) < foldMany
		c.mu.Unlock()
		if few && c.state.want.Load() <= c.state.level.Load() && !c.state.doubt.Load() {
			s.gather()
		}
	}
}

// tendCounts begins or ends counting if that is wanted, counts, and folds.
func (s *Spool) tendCounts(ctx context.Context) error {
	c := &s.counts
	want, level := mail.CountLevel(c.state.want.Load()), mail.CountLevel(c.state.level.Load())
	mode := c.state.at()
	switch {
	case want == mail.CountNothing && mode == countOff:
		return nil
	case want == mail.CountNothing, want > level, c.state.doubt.Load() && c.state.doubts.allow():
		if err := s.setCounting(want); err != nil || want == mail.CountNothing {
			return err
		}
	}
	if c.state.scan != nil {
		if err := s.countAll(ctx); err != nil {
			return err
		}
	}
	return s.fold()
}

// countAll adds up the messages that the scan shows. What cannot be read is not counted,
// and changes no count when it is removed. If it may be readable later, or is not known, the
// next start counts again.
func (s *Spool) countAll(ctx context.Context) error {
	c := &s.counts
	begun := time.Now()
	list := make(sums)
	var damaged, failed int
	first := plainKey(keyEnvelope)
	gaps, err := s.eachOf(ctx, c.state.scan, keyEnvelope, first.bytes(), func(k []byte) bool {
		err := c.countOne(k, list)
		switch {
		case err == nil:
		case isWrong(err):
			damaged++
		default:
			failed++
		}
		if len(list) < foldMany {
			return true
		}
		err = s.addSums(list)
		if err != nil && s.damped.allow() {
			s.raise(Alarm{Kind: AlarmStore, Text: "the counts of messages cannot be written", Err: err})
		}
		clear(list)
		return err == nil
	})
	if err = errors.Join(err, s.addSums(list), ctx.Err()); err == nil {
		c.state.dropScan()
		err = s.endCounting(gaps+failed > 0)
	}
	if err != nil {
		s.doubtCounts(err)
		return err
	}
	s.cfg.Logger.Info("the messages in the queue were counted for quotas", "messages", c.state.known.Load(), "unreadable", damaged+failed, "gaps", gaps, "time", time.Since(begun).Round(time.Millisecond))
	return nil
}

// countOne adds the message at which the scan is. The error is that of reading it.
func (c *counts) countOne(k []byte, list sums) error {
	id := mail.QueueID(keyNumber(k))
	value, err := c.state.scan.ValueAndErr()
	if err == nil {
		value, err = unseal(k, value)
	}
	var e *envelope
	if err == nil {
		e, err = decodeEnvelope(id, string(value))
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.state.missed) < missedMax {
			c.state.missed[id] = struct{}{}
		}
		return err
	}
	c.state.known.Add(1)
	accounts, n := accountsOf(e.Flow, mail.CountLevel(c.state.level.Load()))
	for _, a := range accounts[:n] {
		list.add(a, mail.Usage{Messages: 1, Octets: e.Size})
	}
	return nil
}

// endCounting notes that the sums are right; unsure, that the next start must count again.
// No fold is under way meanwhile: it could have read the mode before, and write it after.
func (s *Spool) endCounting(unsure bool) error {
	c := &s.counts
	c.folder.Lock()
	defer c.folder.Unlock()
	b := s.db.NewBatch()
	defer b.Close()
	err := put(b, plainKey(keyCount), countHeader(mail.CountLevel(c.state.level.Load()), countWhole, 0))
	if unsure {
		err = errors.Join(err, put(b, doubtKey()))
	}
	if err == nil {
		err = s.commit(b)
	}
	if err == nil {
		c.state.become(countWhole)
	}
	return err
}
