package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A bad block in an index would keep every scan from all that follows it, forever:
// due mail would not be found. But an index contains nothing that states and
// envelopes do not contain too, so it is rebuilt from these.

// heal rebuilds the index of an area after a scan has found damage, unless another
// scan has done so since seen. It returns nil if the scan should be repeated.
//
// Scans of all areas wait meanwhile, some seconds for a million messages; a cursor
// could otherwise pass messages that are not in the index again yet.
func (s *Spool) heal(ctx context.Context, area mail.Area, seen uint64, damage error) error {
	s.indexes.Lock()
	defer s.indexes.Unlock()
	if s.healed != seen {
		return nil
	}
	if !s.healing.allow() {
		return fmt.Errorf("spool: the index of %s was rebuilt several times: %w", area, damage)
	}
	s.raise(Alarm{Kind: AlarmCorrupt, Text: "the index of the " + area.String() + " area is damaged and is being rebuilt", Err: damage})
	if err := s.reindex(ctx, area); err != nil {
		return errors.Join(damage, fmt.Errorf("spool: rebuild the index of %s: %w", area, err))
	}
	s.healed++
	s.totals.doubt()
	return nil
}

// reindex rebuilds an index. That it has begun is on disk before the old index is
// deleted, so that a rebuild that is interrupted by a crash or an error is
// repeated.
//
// If the bad block contains other keys as well, the old index cannot be removed
// from the store, nor can a scan get past it. Then the new index gets keys of
// another kind.
func (s *Spool) reindex(ctx context.Context, area mail.Area) error {
	kind := s.kind(area)
	for _, next := range areaKinds(area) {
		if s.clearable(plainKey(kind), plainKey(kind+1)) {
			break
		}
		if next < kind && s.empty(next) { // each kind sorts before the one that it replaces
			kind = next
		}
	}
	if err := s.beginIndex(area, kind, indexBegun); err != nil {
		return err
	}
	s.unfinished.add(uint32(area))
	s.kinds[area].Store(uint32(kind))
	if err := s.clear(ctx, plainKey(kind), plainKey(kind+1)); err != nil {
		return err
	}
	unread := 0
	err := s.eachBatch(ctx, area, func(ids []mail.QueueID) error {
		n, err := s.reindexBatch(area, ids)
		unread += n
		return err
	})
	switch {
	case err != nil:
		return err
	case unread > 0: // the next start rebuilds it again
		s.raise(Alarm{Kind: AlarmCorrupt, Text: fmt.Sprintf("%d messages could not be read while the index of the %s area was rebuilt; they are listed there until the next start, wherever they are", unread, area)})
	default:
		if err := s.beginIndex(area, kind, indexWhole); err != nil {
			return err
		}
	}
	s.unfinished.remove(uint32(area))
	return nil
}

// empty reports whether a scan shows that there are no keys of a kind.
func (s *Spool) empty(kind byte) bool {
	from, to := plainKey(kind), plainKey(kind+1)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from.bytes(), UpperBound: to.bytes()})
	if err != nil {
		return false
	}
	some := it.First()
	return it.Close() == nil && !some
}

// Progress of a rebuild, as the value of the index's g key.
const (
	indexWhole = 'w'
	indexBegun = 'b'
)

// reindexKey returns the key that stores the kind of an area's index keys once the
// index has been rebuilt.
func reindexKey(area mail.Area) key {
	k := plainKey(keyReindex)
	k.octets[1], k.n = byte(area), 2
	return k
}

func (s *Spool) beginIndex(area mail.Area, kind, how byte) error {
	b := s.db.NewBatch()
	defer b.Close()
	return errors.Join(put(b, reindexKey(area), []byte{kind, how}), s.commit(b))
}

// openIndexes finds the kinds of the indexes, and rebuilds those whose rebuild was
// begun but not finished in an earlier run.
func (s *Spool) openIndexes() error {
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		kinds := areaKinds(area)
		kind, how := kinds[0], byte(indexWhole)
		_, err := s.load(reindexKey(area), func(payload []byte) {
			if len(payload) == 2 {
				kind, how = payload[0], payload[1]
			}
		})
		if err != nil && !isDamage(err) {
			return err
		}
		if err != nil { // the last one that has keys
			for _, k := range kinds[1:] {
				if !s.empty(k) {
					kind = k
				}
			}
		}
		s.kinds[area].Store(uint32(kind))
		if how == indexBegun {
			if err := s.reindex(s.work.ctx, area); err != nil {
				s.raise(Alarm{Kind: AlarmCorrupt, Text: "the index of the " + area.String() + " area cannot be rebuilt", Err: err})
			}
		}
	}
	return nil
}

// index adds a message to an index.
func (s *Spool) index(area mail.Area, at mail.Cursor) error {
	b := s.db.NewBatch()
	defer b.Close()
	return errors.Join(mark(b, s.indexKey(area, at)), s.commit(b))
}

// clear deletes a range of keys, some of which cannot be read.
//
// Excise removes the range from its tables without reading it, which a later
// compaction would have to do if the keys were deleted. But it looks for the last
// and the first key of what is left of a table on either side; and if these cannot
// be read, it concludes that there are none, and drops the whole table. One bad
// block that held the last contents and the first index keys cost the contents of a
// hundred messages that way. So it is used only if both neighbors of the range can
// be read.
func (s *Spool) clear(ctx context.Context, from, to key) error {
	if s.clearable(from, to) {
		return s.db.Excise(ctx, pebble.KeyRange{Start: bytes.Clone(from.bytes()), End: bytes.Clone(to.bytes())})
	}
	b := s.db.NewBatch()
	defer b.Close()
	return errors.Join(b.DeleteRange(from.bytes(), to.bytes(), nil), s.commit(b))
}

// clearable reports whether both neighbors of a range of keys can be read.
func (s *Spool) clearable(from, to key) bool {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return false
	}
	it.SeekLT(from.bytes())
	err = it.Error()
	it.SeekGE(to.bytes())
	err = errors.Join(err, it.Error())
	return errors.Join(err, it.Close()) == nil
}

// eachBatch calls do with the queue IDs of all messages that may be in an area,
// some hundred at a time: those with a state, and for the incoming area all. Where
// these keys cannot be read, it falls back on all other keys that name a message.
// An ID may occur several times.
func (s *Spool) eachBatch(ctx context.Context, area mail.Area, do func([]mail.QueueID) error) error {
	kinds := []byte{keyState, keyEnvelope, keyBody, keyRecipients, keyOutcomes}
	if area == mail.AreaIncoming {
		kinds[0], kinds[1] = kinds[1], kinds[0]
	}
	const batch = 512
	ids := make([]mail.QueueID, 0, batch)
	var failed error
	add := func(id mail.QueueID) bool {
		if len(ids) > 0 && ids[len(ids)-1] == id {
			return true
		}
		if ids = append(ids, id); len(ids) == batch {
			failed = do(ids)
			ids = ids[:0]
		}
		return failed == nil
	}
	for _, kind := range kinds {
		first := plainKey(kind)
		gaps, err := s.eachKeyPast(ctx, kind, first.bytes(), func(k []byte) bool {
			return len(k) < 9 || add(mail.QueueID(keyNumber(k)))
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		if gaps == 0 {
			return do(ids)
		}
	}
	if err := s.bodies.each(ctx, add); err != nil {
		return err
	}
	return errors.Join(failed, do(ids))
}

// reindexBatch adds those messages that are in the area to its index. They are
// locked, so that none moves between check and write. A message that cannot be read for
// a possibly temporary reason is added as well, since it would be in no index if this is
// its area; unread is the number of these.
func (s *Spool) reindexBatch(area mail.Area, ids []mail.QueueID) (unread int, err error) {
	var held lockSet
	for _, id := range ids {
		held.add(id)
	}
	s.locks.lock(&held)
	defer s.locks.unlock(&held)
	b := s.db.NewBatch()
	defer b.Close()
	for _, id := range ids {
		in, at, err := s.whereabouts(id)
		if errors.Is(err, ErrCorrupt) {
			// It is in no other index for certain. Due at once, so that the next Open
			// moves it to the corrupt area.
			to := mail.AreaDeferred
			if area == mail.AreaIncoming {
				to = area
			}
			if err := mark(b, s.indexKey(to, mail.Cursor{ID: id})); err != nil {
				return unread, err
			}
			continue
		} else if isDamage(err) {
			in, at = area, mail.Cursor{ID: id}
			unread++
		} else if err != nil {
			return unread, err
		}
		if in != area {
			continue
		}
		if err := mark(b, s.indexKey(area, at)); err != nil {
			return unread, err
		}
	}
	return unread, s.commit(b)
}

// whereabouts returns where a message is, mail.AreaNone if it is gone.
func (s *Spool) whereabouts(id mail.QueueID) (mail.Area, mail.Cursor, error) {
	at := mail.Cursor{ID: id}
	st, err := s.readState(id)
	if err != nil {
		return mail.AreaNone, at, err
	}
	if st != nil {
		return st.area, st.cursor(id), nil
	}
	e, err := s.readEnvelope(id)
	switch {
	case errors.Is(err, ErrCorrupt):
		return mail.AreaIncoming, at, nil // it was never changed; its bucket is unknown, and the next Open moves it
	case err != nil, e == nil:
		return mail.AreaNone, at, err
	}
	p := e.place()
	return p.Area, p.Cursor(id), nil
}
