package spool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A bad block in an index would stop every scan short of all that lies behind
// it, for ever: mail that is due would not be found. But an index says nothing
// that states and envelopes do not say too, so it is made anew from these.

// heal makes the index of an area anew after a scan has met damage, unless
// another scan has seen to that since seen. It returns nil if it is worth
// scanning again.
//
// Scans of any area wait meanwhile, some seconds for a million messages; a
// cursor could otherwise run past messages that are not back in the index yet.
func (s *Spool) heal(ctx context.Context, area mail.Area, seen uint64, damage error) error {
	s.indexes.Lock()
	defer s.indexes.Unlock()
	if s.healed != seen {
		return nil
	}
	if !s.healing.allow() {
		return damage
	}
	s.raise(Alarm{Kind: AlarmCorrupt, Text: "the index of the " + area.String() + " area is damaged and is made anew", Err: damage})
	if err := s.reindex(ctx, area); err != nil {
		return errors.Join(damage, fmt.Errorf("spool: make the index of %s anew: %w", area, err))
	}
	s.healed++
	return nil
}

// reindex makes an index anew. The messages are enumerated once before the
// old one is given up, to be sure that they can be.
func (s *Spool) reindex(ctx context.Context, area mail.Area) error {
	if err := s.eachBatch(ctx, area, func([]mail.QueueID) error { return nil }); err != nil {
		return err
	}
	kind := areaKind(area)
	from, to := plainKey(kind), plainKey(kind+1)
	// Not DeleteRange: a compaction would still have to read the bad block.
	if err := s.db.Excise(ctx, pebble.KeyRange{Start: from.bytes(), End: to.bytes()}); err != nil {
		return err
	}
	return s.eachBatch(ctx, area, func(ids []mail.QueueID) error { return s.reindexBatch(area, ids) })
}

// eachBatch calls do with the queue IDs of all messages that may be in an
// area, some hundred at a time: those with a state, and for the incoming area
// all.
func (s *Spool) eachBatch(ctx context.Context, area mail.Area, do func([]mail.QueueID) error) error {
	kind := byte(keyState)
	if area == mail.AreaIncoming {
		kind = keyEnvelope
	}
	from, to := plainKey(kind), plainKey(kind+1)
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from.bytes(), UpperBound: to.bytes()})
	if err != nil {
		return err
	}
	const batch = 512
	ids := make([]mail.QueueID, 0, batch)
	for ok := it.First(); ok; ok = it.Next() {
		if len(it.Key()) != 9 {
			continue
		}
		ids = append(ids, mail.QueueID(binary.BigEndian.Uint64(it.Key()[1:])))
		if len(ids) < batch {
			continue
		}
		if err := errors.Join(do(ids), ctx.Err()); err != nil {
			return errors.Join(err, it.Close())
		}
		ids = ids[:0]
	}
	if err := it.Close(); err != nil {
		return err
	}
	return do(ids)
}

// reindexBatch puts those messages back into the index that are in the area.
// They are locked, so that none moves between look and mark.
func (s *Spool) reindexBatch(area mail.Area, ids []mail.QueueID) error {
	var held lockSet
	for _, id := range ids {
		held.add(id)
	}
	s.locks.lock(&held)
	defer s.locks.unlock(&held)
	b := s.db.NewBatch()
	defer b.Close()
	for _, id := range ids {
		in, due, err := s.whereabouts(id)
		if errors.Is(err, ErrCorrupt) {
			in, due = area, 0 // due at once: who opens it will put it aside
		} else if err != nil {
			return err
		}
		if in != area {
			continue
		}
		if err := mark(b, indexKey(area, mail.Cursor{Due: due, ID: id})); err != nil {
			return err
		}
	}
	return s.commit(b)
}

// whereabouts returns where a message is, mail.AreaNone if it is gone.
func (s *Spool) whereabouts(id mail.QueueID) (mail.Area, mail.Instant, error) {
	st, err := s.readState(id)
	if err != nil {
		return mail.AreaNone, 0, err
	}
	if st != nil {
		return st.area, st.due, nil
	}
	ok, err := s.has(messageKey(keyEnvelope, id))
	if err != nil || !ok {
		return mail.AreaNone, 0, err
	}
	return mail.AreaIncoming, 0, nil
}
