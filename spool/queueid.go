package spool

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// An idSource generates queue IDs, each greater than all before, whatever the clock
// does and however often the program is restarted.
//
// It never returns an ID at or above a ceiling that is on disk, and starts at that
// ceiling. Making each ID durable would cost a sync each; a ceiling in the near
// future costs one sync per idAhead.
type idSource struct {
	now     func() mail.Instant
	reserve func(ceiling mail.QueueID) error // makes a ceiling durable

	mu      sync.Mutex
	last    mail.QueueID // the last one returned
	ceiling mail.QueueID
}

// idAhead is how far ahead of need the ceiling is raised. After a crash the time in
// new IDs is ahead of the clock by at most this much.
const idAhead = mail.QueueID(10*time.Second/time.Microsecond) << 12

// next returns a new ID.
func (g *idSource) next() (mail.QueueID, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := max(g.last+1, clockID(g.now()))
	if id >= g.ceiling {
		ceiling := id + idAhead
		if err := g.reserve(ceiling); err != nil {
			return 0, fmt.Errorf("spool: reserve queue IDs: %w", err)
		}
		g.ceiling = ceiling
	}
	g.last = id
	return id, nil
}

// release returns reserved, unused IDs at a clean stop.
func (g *idSource) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ceiling <= g.last+1 {
		return nil
	}
	g.ceiling = g.last + 1
	return g.reserve(g.ceiling)
}

// clockID returns the first ID of an instant; 0 if IDs cannot express it, which is
// after 2112 or before 1970.
func clockID(at mail.Instant) mail.QueueID {
	if at < 0 || int64(at)/int64(time.Microsecond) >= 1<<52 {
		return 0
	}
	return mail.NewQueueID(at, 0)
}

// openIDs starts with IDs above all that the last run can have used. If the ceiling
// is lost, the newest message replaces it.
func (s *Spool) openIDs() error {
	var floor mail.QueueID
	k := plainKey(keyNextID)
	_, err := s.load(k, func(payload []byte) {
		if len(payload) == 8 {
			floor = mail.QueueID(binary.BigEndian.Uint64(payload))
		}
	})
	if err != nil && !isDamage(err) {
		return err
	}
	newest, err := s.newestMessage(0)
	if err != nil {
		return err
	}
	floor = max(floor, newest+1)
	s.ids = idSource{now: s.cfg.Now, reserve: s.reserveIDs, last: floor - 1, ceiling: floor}
	s.earlier = floor
	return nil
}

// LastRun returns about when an earlier run last accepted a message; 0 if none did. It
// may be called at any time.
func (s *Spool) LastRun() mail.Instant { return s.earlier.Time() }

func (s *Spool) reserveIDs(ceiling mail.QueueID) error {
	b := s.db.NewBatch()
	defer b.Close()
	if err := put(b, plainKey(keyNextID), binary.BigEndian.AppendUint64(nil, uint64(ceiling))); err != nil {
		return err
	}
	return s.commit(b)
}

// newestMessage returns the greatest queue ID below a limit, or of all messages if the
// limit is 0; it returns 0 if there is no message.
func (s *Spool) newestMessage(limit mail.QueueID) (newest mail.QueueID, err error) {
	from, to := plainKey(keyEnvelope), plainKey(keyEnvelope+1)
	if limit != 0 {
		to = messageKey(keyEnvelope, limit)
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from.bytes(), UpperBound: to.bytes()})
	if err != nil {
		return 0, fmt.Errorf("spool: find the newest message: %w", err)
	}
	if it.Last() && len(it.Key()) == 9 {
		newest = mail.QueueID(binary.BigEndian.Uint64(it.Key()[1:]))
	}
	if err := it.Close(); err != nil && !isDamage(err) {
		return 0, fmt.Errorf("spool: find the newest message: %w", err)
	}
	return newest, nil
}
