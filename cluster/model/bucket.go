package model

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/cluster"
)

// A bucket is the entries and the markers of keys that are gone.
type bucket struct {
	cluster  *Cluster
	desc     cluster.Bucket
	keys     map[string]*record
	log      []*record // by revision; those that were replaced are removed from time to time
	revision uint64
	bytes    int64
	swept    uint64 // markers up to this revision may be missing
	watches  []*Watch
}

// A record is an entry, or the marker of a key that is gone.
type record struct {
	entry cluster.Entry
	gone  bool
}

func (c *Cluster) bucket(desc cluster.Bucket) *bucket {
	b := c.buckets[desc.Name]
	if b == nil {
		b = &bucket{cluster: c, desc: desc.WithDefaults(), keys: map[string]*record{}}
		c.buckets[desc.Name] = b
	}
	return b
}

// apply makes a change, or none.
func (b *bucket) apply(r Request) Answer {
	old := b.keys[r.Key]
	exists := old != nil && !old.gone
	switch {
	case r.Op == Get && !exists:
		return Answer{Err: cluster.ErrNotFound}
	case r.Op == Get:
		entry := old.entry
		entry.Value = slices.Clone(entry.Value)
		return Answer{Entry: entry}
	case r.Op == Create && exists:
		return Answer{Err: cluster.ErrExists}
	case r.Op != Create && (!exists || old.entry.Revision != r.Revision):
		return Answer{Err: cluster.ErrConflict}
	case r.Op == Delete:
		b.remove(old)
		return Answer{}
	case b.bytes+size(r.Key, r.Value) > b.desc.BytesMax:
		return Answer{Err: cluster.ErrFull}
	}
	return Answer{Entry: cluster.Entry{Key: r.Key, Revision: b.put(r)}}
}

// size is what an entry takes up; a store needs some bytes more than its contents.
func size(key string, value []byte) int64 { return int64(len(key) + len(value) + 64) }

func (b *bucket) put(r Request) uint64 {
	rec := &record{entry: cluster.Entry{Key: r.Key, Value: r.Value}}
	if r.TTL > 0 {
		b.cluster.clock.After(cluster.WholeSeconds(r.TTL)+b.cluster.cfg.ExpiryLag, func() { b.remove(rec) })
	}
	b.append(rec)
	return rec.entry.Revision
}

// append makes a record the latest of its key.
func (b *bucket) append(rec *record) {
	b.revision++
	rec.entry.Revision = b.revision
	if old := b.keys[rec.entry.Key]; old != nil && !old.gone {
		b.bytes -= size(old.entry.Key, old.entry.Value)
	}
	if !rec.gone {
		b.bytes += size(rec.entry.Key, rec.entry.Value)
	}
	b.keys[rec.entry.Key] = rec
	b.log = append(b.log, rec)
	if len(b.log) > 2*len(b.keys)+16 {
		b.log = slices.DeleteFunc(b.log, func(r *record) bool { return b.keys[r.entry.Key] != r })
	}
	for _, w := range b.watches {
		w.feed()
	}
}

// remove puts a marker in the place of a record, unless it was replaced before.
func (b *bucket) remove(rec *record) {
	if b.keys[rec.entry.Key] != rec {
		return
	}
	marker := &record{entry: cluster.Entry{Key: rec.entry.Key}, gone: true}
	b.append(marker)
	b.cluster.clock.After(b.desc.MarkerTTL, func() { b.forget(marker) })
}

func (b *bucket) forget(marker *record) {
	if b.keys[marker.entry.Key] == marker {
		delete(b.keys, marker.entry.Key)
		b.swept = max(b.swept, marker.entry.Revision)
	}
}

// after returns the entries that a pattern matches, with revisions after one, at most
// most of them, and the revision up to which there is nothing else.
func (b *bucket) after(revision uint64, pattern string, most int) (out []*record, upTo uint64) {
	i, _ := slices.BinarySearchFunc(b.log, revision+1, func(r *record, want uint64) int {
		return cmp.Compare(r.entry.Revision, want)
	})
	for _, rec := range b.log[i:] {
		if b.keys[rec.entry.Key] != rec || !cluster.Matches(pattern, rec.entry.Key) {
			continue
		}
		if out = append(out, rec); len(out) == most {
			return out, rec.entry.Revision
		}
	}
	return out, b.revision
}
