package spool

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// Totals is how much is in each area. Unlike Stats, it is kept and not counted for each
// call, so it can be asked for at any time, whatever the backlog is.
type Totals struct {
	Messages [mail.AreaCorrupt + 1]uint64
	// Oldest is when the oldest message of each area arrived, 0 if there is none: at most a minute
	// too early, and an hour for areas with messages of a month.
	Oldest [mail.AreaCorrupt + 1]mail.Instant
}

// totals keep Totals. Every batch that moves messages says so in its tally. What was there
// before the start is added once a scan of the indexes has ended; until then nothing is known.
// The indexes are counted again after a commit has failed, after which it is unknown what it
// has changed, and after a repair.
type totals struct {
	poke chan struct{} // wakes keepTotals; has room for one

	mu   sync.Mutex
	now  *areas // nil until the first count has ended
	next *areas // while messages are counted: what batches have changed since the count began
}

// A move takes a message from one area to another; AreaNone is outside of the spool.
type move struct {
	id       mail.QueueID
	from, to mail.Area
}

// An areas is the ages of the messages in each area.
type areas [mail.AreaCorrupt + 1]ages

// An ages is how many messages there are of each age. While messages are counted, numbers may
// be negative.
type ages struct {
	messages int64
	// arrived are messages by their queue IDs without the last shift bits. Their number is bounded by
	// agesMost: if there are more, shift grows.
	arrived map[mail.QueueID]int64
	shift   uint8
}

const (
	agesShift = 12 + 26 // of the first: 67 seconds
	agesMost  = 1 << 15 // 25 days of a message each minute, which take a megabyte
)

func newAreas() *areas {
	a := &areas{}
	for i := range a {
		a[i] = ages{arrived: make(map[mail.QueueID]int64), shift: agesShift}
	}
	return a
}

func (a *ages) add(id mail.QueueID, n int64) {
	a.messages += n
	at := id >> a.shift
	if a.arrived[at] += n; a.arrived[at] == 0 {
		delete(a.arrived, at)
	}
	for len(a.arrived) > agesMost {
		a.coarsen()
	}
}

// coarsen doubles the width of what counts as one age.
func (a *ages) coarsen() {
	a.shift++
	wider := make(map[mail.QueueID]int64, len(a.arrived)/2)
	for at, n := range a.arrived {
		if wider[at>>1] += n; wider[at>>1] == 0 {
			delete(wider, at>>1)
		}
	}
	a.arrived = wider
}

// merge adds the messages of another, whose ages may be finer or coarser.
func (a *ages) merge(b *ages) {
	for a.shift < b.shift {
		a.coarsen()
	}
	for at, n := range b.arrived {
		a.add(at<<b.shift, n)
	}
}

func (a *ages) oldest() mail.Instant {
	var least mail.QueueID
	for at := range a.arrived {
		if least == 0 || at < least {
			least = at
		}
	}
	return (least << a.shift).Time()
}

func (a *areas) apply(moves []move) {
	for _, m := range moves {
		if m.from != mail.AreaNone {
			a[m.from].add(m.id, -1)
		}
		if m.to != mail.AreaNone {
			a[m.to].add(m.id, 1)
		}
	}
}

// moved notes what a batch has changed that is durable. The caller has held counts.gate since before
// it made the batch.
func (t *totals) moved(moves []move) {
	if len(moves) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil {
		t.now.apply(moves)
	}
	if t.next != nil {
		t.next.apply(moves)
	}
}

// doubt has everything counted again.
func (t *totals) doubt() {
	select {
	case t.poke <- struct{}{}:
	default:
	}
}

// Totals returns how much is in each area; false if it is not known yet, which is the case for some
// tenths of a second after a start for each million messages, or until damage of the store is
// repaired. It waits for no disk.
func (s *Spool) Totals() (sum Totals, known bool) {
	t := &s.totals
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil {
		return sum, false
	}
	for area := range t.now {
		a := &t.now[area]
		if a.messages > 0 { // less only if an index is damaged
			sum.Messages[area], sum.Oldest[area] = uint64(a.messages), a.oldest()
		}
	}
	return sum, true
}

// totalsPause is how long a count after doubt is put off: what has failed may be repeated, and that
// must not happen while messages are counted.
const totalsPause = time.Minute

// keepTotals counts messages when that is necessary, at first those of a snapshot that was made before there
// could be a batch.
func (s *Spool) keepTotals(now *pebble.Snapshot, seen uint64) {
	for ctx := s.work.ctx; ; now, seen = s.beginTotals() {
		if now != nil && s.countTotals(ctx, now, seen) == nil {
			select {
			case <-ctx.Done():
			case <-s.totals.poke:
			}
		}
		if s.work.pause(totalsPause); ctx.Err() != nil {
			return
		}
	}
}

// beginTotals returns a snapshot, which must be closed, and the number of indexes that were rebuilt
// before; no snapshot if there was no moment without a batch under way. It does not wait for one, since
// further batches would have to wait meanwhile, all of them if one waits for room on the disk.
func (s *Spool) beginTotals() (*pebble.Snapshot, uint64) {
	s.indexes.RLock()
	seen := s.healed
	s.indexes.RUnlock()
	const tries = 1000
	for range tries {
		if s.counts.gate.TryLock() {
			defer s.counts.gate.Unlock()
			s.totals.begin()
			return s.db.NewSnapshot(), seen
		}
		s.work.pause(time.Millisecond)
	}
	return nil, 0
}

// begin has the changes of later batches counted.
func (t *totals) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = newAreas()
}

// countTotals reads all indexes of a snapshot, and closes it.
func (s *Spool) countTotals(ctx context.Context, now *pebble.Snapshot, seen uint64) error {
	t := &s.totals
	defer now.Close()
	found, err := s.countAreas(ctx, now, seen)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		for area := range found {
			found[area].merge(&t.next[area])
		}
		t.now = found
	}
	t.next = nil
	return err
}

// errUnfinished means that an index is not complete, or has been rebuilt since.
var errUnfinished = errors.New("an index is being rebuilt")

// countAreas reads all indexes of a snapshot; seen is healed before it was made.
func (s *Spool) countAreas(ctx context.Context, now *pebble.Snapshot, seen uint64) (*areas, error) {
	s.indexes.RLock()
	defer s.indexes.RUnlock()
	found := newAreas()
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		if s.healed != seen || s.unfinished.has(uint32(area)) {
			return nil, errUnfinished
		}
		err := s.scanOnce(ctx, now, area, mail.Cursor{}, mail.BucketEnd, func(at mail.Cursor) bool {
			found[area].add(at.ID, 1)
			return ctx.Err() == nil
		})
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
	}
	return found, nil
}
