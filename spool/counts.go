package spool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

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
// after a repair of the store, and when an envelope that was counted could not be read when
// its message was removed.
//
// A spool with counts has format 3, since an earlier version of this program would change
// messages without them; without quotas it has format 2 again.
type counts struct {
	// gate is held for reading from the making of a batch to its commit, and for writing
	// to change the mode.
	gate  sync.RWMutex
	mode  atomic.Uint32 // a countMode
	level atomic.Uint32 // a mail.CountLevel: what is counted, while the mode is not countOff
	want  atomic.Uint32 // a mail.CountLevel: what shall be counted
	doubt atomic.Bool   // the sums may be wrong
	known atomic.Int64  // messages that counting has passed
	poke  chan struct{} // wakes account

	doubts damper

	folder sync.Mutex // held during a fold

	mu       sync.Mutex // guards the fields below
	next     uint64     // number of the next tally
	underway map[uint64]struct{}
	recent   sums     // of tallies that are committed
	done     []uint64 // their numbers
	folding  sums     // of tallies that are being folded
	base     sums     // sums on disk, as far as they were needed
	reserved sums     // of drafts; see Draft.Reserve
	folds    uint64   // number of folds that have ended

	scan *pebble.Iterator // over all messages to be counted; nil unless mode is countBegun
}

// A countMode is how far counting is.
type countMode uint8

const (
	countOff   countMode = iota // nothing is counted
	countBegun                  // earlier messages are being added
	countWhole                  // the sums are right
)

// An account is what messages are counted for. Its key in the store is the byte of its
// level and its names.
type account struct {
	level        byte
	tenant, name string
}

const (
	accountClass  = 'c'
	accountTenant = 't'
	accountFlow   = 'f'
)

type sums map[account]mail.Usage

func (s sums) add(a account, u mail.Usage) {
	if u = s[a].Plus(u); u == (mail.Usage{}) {
		delete(s, a)
	} else {
		s[a] = u
	}
}

// accountsOf returns the accounts of a flow: its class, tenant and flow. Mail that was not
// classified has none.
func accountsOf(f mail.Flow, level mail.CountLevel) (list [3]account, n int) {
	if f == (mail.Flow{}) {
		return list, 0
	}
	list = [3]account{{level: accountClass, name: f.Class}, {level: accountTenant, name: f.Tenant}, {level: accountFlow, tenant: f.Tenant, name: f.Flow}}
	if level < mail.CountFlows {
		return list, 2
	}
	return list, 3
}

// key returns the key of an account's sum. Names have no control characters.
func (a account) key() []byte {
	k := append(make([]byte, 0, 3+len(a.tenant)+len(a.name)), keyCount, a.level)
	if a.level == accountFlow {
		k = append(append(k, a.tenant...), 0)
	}
	return append(k, a.name...)
}

// parseAccount is the inverse of account.key.
func parseAccount(k []byte) (a account, ok bool) {
	if len(k) < 2 || k[0] != keyCount {
		return a, false
	}
	a.level, a.name = k[1], string(k[2:])
	if a.level == accountFlow {
		i := bytes.IndexByte(k[2:], 0)
		if i < 0 {
			return a, false
		}
		a.tenant, a.name = string(k[2:2+i]), string(k[3+i:])
	}
	return a, true
}

// A tally is what one batch changes.
type tally struct {
	number  uint64 // of its key; 0 while it is in no batch
	entries []entry
}

type entry struct {
	flow mail.Flow
	mail.Usage
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

// counting reports whether batches have tallies. The caller holds gate for reading.
func (c *counts) counting() bool { return countMode(c.mode.Load()) != countOff }

// format returns the format of the spool. The caller holds gate.
func (c *counts) format() int64 {
	if c.counting() {
		return formatCounts
	}
	return formatVersion
}

// commitCounted makes a batch durable with its tally, and counts it, and ends a reservation.
func (s *Spool) commitCounted(b *pebble.Batch, t *tally, reserved *entry) error {
	if err := s.counts.put(b, t); err != nil {
		return err
	}
	if err := s.commit(b); err != nil {
		s.failedCounted(t, err)
		return err
	}
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
	c.next++
	t.number = c.next
	c.underway[t.number] = struct{}{}
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
	first := len(c.done) == 0
	if t.number != 0 {
		delete(c.underway, t.number)
		c.take(t)
	}
	c.release(reserved)
	many := len(c.done) == foldMany
	c.mu.Unlock()
	*t = tally{entries: t.entries[:0]}
	if first || many {
		c.wake()
	}
}

// take adds a tally that is durable to recent.
func (c *counts) take(t *tally) {
	for i := range t.entries {
		accounts, n := accountsOf(t.entries[i].flow, mail.CountLevel(c.level.Load()))
		for _, a := range accounts[:n] {
			c.recent.add(a, t.entries[i].Usage)
		}
	}
	c.done = append(c.done, t.number)
}

// failedCounted ends a commit that has failed. Its batch may be in the store all the same,
// for which inPlace is one reason, with a tally that will be taken for a folded one.
func (s *Spool) failedCounted(t *tally, why error) {
	if t.number == 0 {
		return
	}
	c := &s.counts
	c.mu.Lock()
	delete(c.underway, t.number)
	c.mu.Unlock()
	s.doubtCounts(why)
}

func (c *counts) wake() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// release ends a reservation.
func (c *counts) release(reserved *entry) {
	if reserved == nil {
		return
	}
	accounts, n := accountsOf(reserved.flow, mail.CountFlows)
	for _, a := range accounts[:n] {
		c.reserved.add(a, mail.Usage{}.Minus(reserved.Usage))
	}
}

// Waiting returns what waits of a class, of a tenant and of a flow, including what drafts
// have reserved.
func (s *Spool) Waiting(f mail.Flow) (w mail.Waiting) {
	if s.enter() != nil {
		return w
	}
	defer s.leave()
	s.withWaiting(f, func(now mail.Waiting) { w = now })
	return w
}

// Reserve counts the draft as waiting, for a flow and with a number of bytes, from now on
// until its commit has failed or it is aborted, if admit agrees: so no two drafts take the
// last place under a limit. It may be called again, which ends the earlier reservation. admit must
// not call the spool.
func (d *Draft) Reserve(f mail.Flow, octets int64, admit func(mail.Waiting) bool) (ok bool, err error) {
	if err := d.usable(); err != nil {
		return false, err
	}
	if err := d.s.enter(); err != nil {
		return false, err
	}
	defer d.s.leave()
	d.unreserve()
	d.s.withWaiting(f, func(w mail.Waiting) {
		if ok = admit(w); !ok || f == (mail.Flow{}) {
			return
		}
		d.reserved = &entry{f, mail.Usage{Messages: 1, Octets: octets}}
		accounts, n := accountsOf(f, mail.CountFlows)
		for _, a := range accounts[:n] {
			d.s.counts.reserved.add(a, d.reserved.Usage)
		}
	})
	return ok, nil
}

func (d *Draft) unreserve() {
	if d.reserved != nil {
		d.s.counts.mu.Lock()
		defer d.s.counts.mu.Unlock()
		d.s.counts.release(d.reserved)
		d.reserved = nil
	}
}

// withWaiting calls do under the lock of the sums. Sums that are not in memory are read
// from disk before that.
func (s *Spool) withWaiting(f mail.Flow, do func(mail.Waiting)) {
	c := &s.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var w mail.Waiting
		mode, level := countMode(c.mode.Load()), mail.CountLevel(c.level.Load())
		if w.Known = mode == countWhole && !c.doubt.Load(); !w.Known {
			do(w)
			return
		}
		accounts, n := accountsOf(f, level)
		missing := -1
		for i, a := range accounts[:n] {
			base, ok := c.base[a]
			if !ok {
				missing = i
				break
			}
			*[]*mail.Usage{&w.Class, &w.Tenant, &w.Flow}[i] = base.Plus(c.folding[a]).Plus(c.recent[a]).Plus(c.reserved[a])
		}
		if missing < 0 {
			do(w)
			return
		}
		// If a fold ends meanwhile, what was read may be from before it.
		folds := c.folds
		c.mu.Unlock()
		base, err := s.readSum(accounts[missing])
		c.mu.Lock()
		if _, there := c.base[accounts[missing]]; err == nil && !there && folds == c.folds {
			c.cache(accounts[missing], base)
		}
		if err != nil {
			s.doubtCounts(err)
		}
	}
}

// cache keeps a sum in memory. While sums are being folded those must stay.
func (c *counts) cache(a account, base mail.Usage) {
	if len(c.base) >= baseMax && c.folding == nil {
		clear(c.base)
	}
	c.base[a] = base
}

// baseMax is the number of sums in memory above which they are forgotten and read again:
// some 4 MB.
const baseMax = 16 << 10

// readSum reads a sum.
func (s *Spool) readSum(a account) (u mail.Usage, err error) {
	value, closer, err := s.db.Get(a.key())
	if errors.Is(err, pebble.ErrNotFound) {
		return u, nil
	}
	if err != nil {
		return u, fmt.Errorf("spool: read a count: %w", err)
	}
	u, err = decodeSum(a.key(), value)
	return u, errors.Join(err, closer.Close())
}

func decodeSum(k, value []byte) (u mail.Usage, err error) {
	payload, err := unseal(k, value)
	if err != nil {
		return u, fmt.Errorf("spool: read a count: %w", err)
	}
	d := decoder{rest: string(payload)}
	u = mail.Usage{Messages: int64(d.instant()), Octets: int64(d.instant())}
	return u, d.check("count")
}

// doubtCounts has everything counted again.
func (s *Spool) doubtCounts(why error) {
	if countMode(s.counts.mode.Load()) != countOff && !s.counts.doubt.Swap(true) {
		s.cfg.Logger.Warn("the messages of tenants are counted again: the counts may be wrong", "error", why)
		s.counts.wake()
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
	s.counts.want.Store(uint32(level))
	s.counts.wake()
}

// Counting reports whether messages are being counted, and how many were so far.
func (s *Spool) Counting() (counted int64, underway bool) {
	c := &s.counts
	mode := countMode(c.mode.Load())
	behind := mode != countOff || c.want.Load() > 0
	return c.known.Load(), behind && (mode != countWhole || c.doubt.Load() || c.level.Load() < c.want.Load())
}

// openCounts continues with the counts on disk, or begins counting if there are none.
func (s *Spool) openCounts() error {
	c := &s.counts
	c.poke = make(chan struct{}, 1)
	c.underway, c.recent, c.base, c.reserved = make(map[uint64]struct{}), make(sums), make(sums), make(sums)
	c.doubts = damper{per: 2, period: 10 * time.Minute}
	c.want.Store(uint32(s.cfg.Counts))
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
	if !found && s.cfg.Counts == mail.CountNothing {
		return nil
	}
	c.level.Store(uint32(level))
	if mode == countWhole && s.cfg.Counts <= level && s.cfg.Counts != mail.CountNothing {
		c.mode.Store(uint32(countWhole))
		err := s.readTallies(floor)
		if err == nil {
			return nil
		}
		s.cfg.Logger.Warn("the messages of tenants are counted again: the counts cannot be read", "error", err)
	}
	return s.setCounting(s.cfg.Counts)
}

// readTallies reads the tallies that an earlier process has not folded.
func (s *Spool) readTallies(floor uint64) error {
	c := &s.counts
	from, to := messageKey(keyTally, mail.QueueID(floor)), plainKey(keyTally+1)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from.bytes(), UpperBound: to.bytes()})
	if err != nil {
		return fmt.Errorf("spool: read tallies: %w", err)
	}
	c.next = floor
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
		c.next = max(c.next, t.number)
		c.take(&t)
	}
	return it.Close()
}

// setCounting begins counting anew, or ends it. No batch is under way meanwhile.
func (s *Spool) setCounting(level mail.CountLevel) error {
	c := &s.counts
	c.folder.Lock()
	defer c.folder.Unlock()
	c.gate.Lock()
	defer c.gate.Unlock()
	c.dropScan()
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
	c.recent, c.folding, c.base, c.done = make(sums), nil, make(sums), nil
	c.folds++
	c.known.Store(0)
	c.doubt.Store(false)
	c.level.Store(uint32(level))
	c.mode.Store(uint32(mode))
	if mode == countOff {
		return nil
	}
	first, end := plainKey(keyEnvelope), plainKey(keyEnvelope+1)
	c.scan, err = s.db.NewIter(&pebble.IterOptions{LowerBound: first.bytes(), UpperBound: end.bytes()})
	return err
}

// dropScan ends a scan that has not ended.
func (c *counts) dropScan() {
	if c.scan != nil {
		_ = c.scan.Close() // what it could not read does not matter any more
		c.scan = nil
	}
}

// account counts and folds, until the spool is closed.
func (s *Spool) account() {
	c := &s.counts
	for {
		err := s.tendCounts(s.work.ctx)
		if err != nil && s.work.ctx.Err() == nil && s.damped.allow() {
			s.raise(Alarm{Kind: AlarmStore, Text: "the counts of messages cannot be written", Err: err})
		}
		var again <-chan time.Time
		if err != nil || c.doubt.Load() {
			again = time.After(countRetry)
		}
		select {
		case <-s.work.ctx.Done():
			return
		case <-again:
		case <-c.poke:
		}
		c.mu.Lock()
		few := len(c.done) > 0 && len(c.done) < foldMany
		c.mu.Unlock()
		if few && c.want.Load() <= c.level.Load() && !c.doubt.Load() {
			s.gather()
		}
	}
}

const (
	// foldMany is a number of tallies that are folded without waiting for more: they
	// bound what a start must read.
	foldMany  = 4096
	foldPause = time.Second
	// countRetry is the time after which what has failed is tried again.
	countRetry = 10 * time.Second
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

// tendCounts begins or ends counting if that is wanted, counts, and folds.
func (s *Spool) tendCounts(ctx context.Context) error {
	c := &s.counts
	want, level := mail.CountLevel(c.want.Load()), mail.CountLevel(c.level.Load())
	mode := countMode(c.mode.Load())
	switch {
	case want == mail.CountNothing && mode == countOff:
		return nil
	case want == mail.CountNothing, want > level, c.doubt.Load() && c.doubts.allow():
		if err := s.setCounting(want); err != nil || want == mail.CountNothing {
			return err
		}
	}
	if c.scan != nil {
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
	level := mail.CountLevel(c.level.Load())
	list := make(sums)
	first := plainKey(keyEnvelope)
	_, err := s.eachOf(ctx, c.scan, keyEnvelope, first.bytes(), func(k []byte) bool {
		value, err := c.scan.ValueAndErr()
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
		c.known.Add(1)
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
	c.dropScan()
	b := s.db.NewBatch()
	defer b.Close()
	if err := errors.Join(put(b, plainKey(keyCount), countHeader(level, countWhole, 0)), s.commit(b)); err != nil {
		s.doubtCounts(err)
		return err
	}
	c.mode.Store(uint32(countWhole))
	s.cfg.Logger.Info("the messages in the queue were counted for quotas", "messages", c.known.Load(), "time", time.Since(begun).Round(time.Millisecond))
	return nil
}

// addSums adds to recent, and folds.
func (s *Spool) addSums(list sums) error {
	c := &s.counts
	c.mu.Lock()
	for a, u := range list {
		c.recent.add(a, u)
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
	if len(c.recent) == 0 && len(c.done) == 0 {
		c.mu.Unlock()
		return nil
	}
	c.folding, c.recent = c.recent, make(sums)
	done := c.done
	c.done = nil
	floor := c.next + 1
	for n := range c.underway {
		floor = min(floor, n)
	}
	c.mu.Unlock()
	err := s.writeSums(done, floor)
	c.mu.Lock()
	defer c.mu.Unlock()
	for a, u := range c.folding {
		if err != nil {
			c.recent.add(a, u)
		} else {
			c.base[a] = c.base[a].Plus(u)
		}
	}
	if err != nil {
		c.done = append(done, c.done...)
	}
	c.folding = nil
	c.folds++
	if len(c.base) > baseMax {
		clear(c.base)
	}
	return err
}

// writeSums writes the sums of the accounts in folding, whose old values stay in base
// until the fold ends, and deletes the tallies.
func (s *Spool) writeSums(done []uint64, floor uint64) error {
	c := &s.counts
	b := s.db.NewBatch()
	defer b.Close()
	level, mode := mail.CountLevel(c.level.Load()), countMode(c.mode.Load())
	if err := put(b, plainKey(keyCount), countHeader(level, mode, floor)); err != nil {
		return err
	}
	var value []byte
	for a, u := range c.folding { // only fold changes it
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
	size := b.Len()
	defer s.dieOfPanic()
	if err := b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("spool: write counts: %w", err)
	}
	s.room.spend(int64(size))
	return nil
}

// sum returns a sum on disk, and keeps it in memory.
func (s *Spool) sum(a account) (mail.Usage, error) {
	c := &s.counts
	c.mu.Lock()
	base, ok := c.base[a]
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

// A Count is the usage of one class, tenant or flow.
type Count struct {
	Class, Tenant, Flow string // of these only Class, only Tenant, or Tenant and Flow are set
	mail.Usage
}

// Counts returns the largest counts of each level by the number of messages, at most most
// of each, largest first. It reads all counts.
func (s *Spool) Counts(ctx context.Context, most int) (classes, tenants, flows []Count, err error) {
	if err := s.enter(); err != nil {
		return nil, nil, nil, err
	}
	defer s.leave()
	c := &s.counts
	if countMode(c.mode.Load()) != countWhole {
		return nil, nil, nil, nil
	}
	if err := s.fold(); err != nil {
		return nil, nil, nil, err
	}
	from, to := plainKey(keyCount), plainKey(keyCount+1)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from.bytes(), UpperBound: to.bytes()})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("spool: read counts: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var top [3]topCounts
	keep := func(a account, u mail.Usage) {
		switch a.level {
		case accountClass:
			top[0].add(Count{Class: a.name, Usage: u}, most)
		case accountTenant:
			top[1].add(Count{Tenant: a.name, Usage: u}, most)
		case accountFlow:
			top[2].add(Count{Tenant: a.tenant, Flow: a.name, Usage: u}, most)
		}
	}
	for ok := it.First(); ok; ok = it.Next() {
		a, ok := parseAccount(it.Key())
		value, err := it.ValueAndErr()
		if err != nil || !ok {
			continue
		}
		if u, err := decodeSum(it.Key(), value); err == nil {
			keep(a, u)
		}
	}
	return top[0], top[1], top[2], nil
}

// topCounts is sorted, largest first.
type topCounts []Count

func (t *topCounts) add(c Count, most int) {
	list := *t
	i := len(list)
	for i > 0 && compareCounts(c, list[i-1]) < 0 {
		i--
	}
	if i == most || c.Usage == (mail.Usage{}) {
		return
	}
	list = append(list, Count{})
	copy(list[i+1:], list[i:])
	list[i] = c
	*t = list[:min(len(list), most)]
}

func compareCounts(a, b Count) int {
	return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Flow, b.Flow))
}
