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
}

// at returns the mode.
func (c *countState) at() countMode { return countMode(c.mode.Load()) }

func (c *countState) become(m countMode) {
	assert.That(countTransitions[c.at()][m], "counting in mode %d cannot come to mode %d", uint8(c.at()), uint8(m))
	c.mode.Store(uint32(m))
}

// countRetry is the time after which what has failed is tried again.
const countRetry = 10 * time.Second

// doubtCounts has everything counted again.
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
	b := s.db.NewBatch()
	defer b.Close()
	tallies, sum, after := plainKey(keyTally), plainKey(keyCount), plainKey(keyCount+1)
	mode := countOff
	err := errors.Join(b.DeleteRange(tallies.bytes(), sum.bytes(), nil), b.DeleteRange(sum.bytes(), after.bytes(), nil))
	if level > mail.CountNothing {
		mode = countBegun
		err = errors.Join(err, put(b, sum, countHeader(level, mode, 0)), putFormat(b, formatCounts))
	} else {
		err = errors.Join(err, putFormat(b, formatVersion))
	}
	if err == nil {
		err = s.commit(b)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums.recent, c.sums.folding, c.sums.base, c.tallies.done = make(sums), nil, make(sums), nil
	c.sums.folds++
	c.state.known.Store(0)
	c.state.doubt.Store(false)
	c.state.level.Store(uint32(level))
	c.state.become(mode)
	if mode == countOff {
		return nil
	}
	first, end := plainKey(keyEnvelope), plainKey(keyEnvelope+1)
	c.state.scan, err = s.db.NewIter(&pebble.IterOptions{LowerBound: first.bytes(), UpperBound: end.bytes()})
	return err
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
// and is not when it is removed.
func (s *Spool) countAll(ctx context.Context) error {
	c := &s.counts
	begun := time.Now()
	level := mail.CountLevel(c.state.level.Load())
	list := make(sums)
	first := plainKey(keyEnvelope)
	_, err := s.eachOf(ctx, c.state.scan, keyEnvelope, first.bytes(), func(k []byte) bool {
		value, err := c.state.scan.ValueAndErr()
		if err == nil {
			value, err = unseal(k, value)
		}
		var e *envelope
		if err == nil {
			e, err = decodeEnvelope(mail.QueueID(keyNumber(k)), string(value))
		}
		if err != nil {
			return true
		}
		c.state.known.Add(1)
		accounts, n := accountsOf(e.Flow, level)
		for _, a := range accounts[:n] {
			list.add(a, mail.Usage{Messages: 1, Octets: e.Size})
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
	if err = errors.Join(err, s.addSums(list), ctx.Err()); err != nil {
		s.doubtCounts(err)
		return err
	}
	c.state.dropScan()
	b := s.db.NewBatch()
	defer b.Close()
	if err := errors.Join(put(b, plainKey(keyCount), countHeader(level, countWhole, 0)), s.commit(b)); err != nil {
		s.doubtCounts(err)
		return err
	}
	c.state.become(countWhole)
	s.cfg.Logger.Info("the messages in the queue were counted for quotas", "messages", c.state.known.Load(), "time", time.Since(begun).Round(time.Millisecond))
	return nil
}
