package spool

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// preload reads the messages of changes whose places are not known, which are those that operators order, in the order
// of their IDs: neighbors are in the same blocks, while a lookup of each takes ten times as long. The messages are
// locked, so that what is read stays true until the batch is durable. What cannot be read here, or is not there, is left to load.
func (e *edits) preload(changes []mail.Change) error {
	var ids []mail.QueueID
	for i := range changes {
		if c := &changes[i]; c.Place.Area == mail.AreaNone {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) < e.s.cfg.preloadMin {
		return nil
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var fresh []mail.QueueID // never changed, or not there
	err := e.s.readSorted(ids, keyState, func(id mail.QueueID, payload string, there bool) {
		if !there {
			fresh = append(fresh, id)
		} else if st, err := decodeState(payload); err == nil {
			e.add(edit{id: id, phase: editKept, state: *st, home: st.place()})
		}
	})
	if err != nil {
		return err
	}
	if err := e.s.readSorted(fresh, keyEnvelope, func(id mail.QueueID, payload string, there bool) {
		if env, err := decodeEnvelope(id, payload); there && err == nil {
			e.add(edit{id: id, phase: editKept, state: freshState(env), home: env.place(), env: env})
		}
	}); err != nil || !e.s.counts.active() {
		return err
	}
	return e.s.readSorted(ids, keyEnvelope, func(id mail.QueueID, payload string, there bool) {
		if ed := e.byID[id]; there && ed != nil && ed.env == nil { // countRemoval wants it
			if env, err := decodeEnvelope(id, payload); err == nil {
				ed.env = env
			}
		}
	})
}

// readSorted calls take for each of the IDs, which are sorted, with the payload of its value of a kind, or that there is none. It passes
// over what cannot be read.
func (s *Spool) readSorted(ids []mail.QueueID, kind byte, take func(id mail.QueueID, payload string, there bool)) error {
	if len(ids) == 0 {
		return nil
	}
	lower, upper := messageKey(kind, ids[0]), plainKey(kind+1)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower.bytes(), UpperBound: upper.bytes()})
	if err != nil {
		return err
	}
	defer it.Close()
	const near = 8 // a few steps cost less than a search
	ok := it.First()
	for _, id := range ids {
		k := messageKey(kind, id)
		for step := 0; ok && string(it.Key()) < string(k.bytes()); step++ {
			if step == near {
				ok = it.SeekGE(k.bytes())
				break
			}
			ok = it.Next()
		}
		if !ok && it.Error() != nil {
			return nil // load finds out what is wrong with which message
		}
		if !ok || string(it.Key()) != string(k.bytes()) {
			take(id, "", false)
			continue
		}
		value, err := it.ValueAndErr()
		if err == nil {
			value, err = unseal(it.Key(), value)
		}
		if err == nil {
			take(id, string(value), true)
		}
	}
	return nil
}
