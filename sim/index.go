package sim

import (
	"iter"
	"slices"
	"sort"

	"github.com/posthaste-mta/posthaste/mail"
)

// An index is an area's messages in the order in which scans look at them.
//
// It is a list of short sorted lists. An insertion moves half a list of 24
// octets per element: with a million messages it takes about 0.3 µs, as a tree
// would, in a few lines.
type index struct {
	chunks [][]mail.Cursor // none is empty
}

const chunkMax = 512

func compareCursors(a, b mail.Cursor) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}

// chunk returns which list a cursor is in, or would be.
func (x *index) chunk(c mail.Cursor) int {
	n := sort.Search(len(x.chunks), func(i int) bool { return c.Before(x.chunks[i][0]) })
	return max(n-1, 0)
}

func (x *index) insert(c mail.Cursor) {
	if len(x.chunks) == 0 {
		x.chunks = append(x.chunks, append(make([]mail.Cursor, 0, chunkMax), c))
		return
	}
	n := x.chunk(c)
	list := x.chunks[n]
	i, _ := slices.BinarySearchFunc(list, c, compareCursors)
	if len(list) < chunkMax {
		x.chunks[n] = slices.Insert(list, i, c)
		return
	}
	// What comes in order, as nearly everything does, leaves full lists behind.
	if i == len(list) {
		x.chunks = slices.Insert(x.chunks, n+1, append(make([]mail.Cursor, 0, chunkMax), c))
		return
	}
	half := append(make([]mail.Cursor, 0, chunkMax), list[chunkMax/2:]...)
	x.chunks[n] = list[:chunkMax/2]
	x.chunks = slices.Insert(x.chunks, n+1, half)
	x.insert(c)
}

func (x *index) remove(c mail.Cursor) {
	if len(x.chunks) == 0 {
		return
	}
	n := x.chunk(c)
	i, found := slices.BinarySearchFunc(x.chunks[n], c, compareCursors)
	if !found {
		return
	}
	x.chunks[n] = slices.Delete(x.chunks[n], i, i+1)
	if len(x.chunks[n]) == 0 {
		x.chunks = slices.Delete(x.chunks, n, n+1)
	}
}

// find answers a Fetch: what of the bucket is at or behind from, at most count of them,
// none due after latest, and which buckets follow. The cursors are appended to buffer.
func (x *index) find(from mail.Cursor, latest mail.Instant, count int, buffer []mail.Cursor) mail.Found {
	f := mail.Found{Cursors: buffer, Next: from, NextDue: mail.Never}
	if from == (mail.Cursor{Bucket: from.Bucket}) {
		f.Buckets = x.followers(from.Bucket)
	}
	for c := range x.from(from) {
		switch {
		case c.Bucket != from.Bucket:
			return f
		case c.Due > latest:
			f.NextDue = c.Due
			return f
		case len(f.Cursors) == count:
			f.More = true
			return f
		}
		f.Cursors, f.Next = append(f.Cursors, c), c
		f.Next.ID++
	}
	return f
}

// followers returns the first of each bucket that follows one.
func (x *index) followers(bucket mail.Bucket) (list []mail.Cursor) {
	for more := true; more && len(list) < mail.BucketsFound; {
		more = false
		for c := range x.from(mail.Cursor{Bucket: bucket + 1}) {
			list, bucket, more = append(list, c), c.Bucket, true
			break
		}
	}
	return list
}

// from yields what is at or behind a cursor.
func (x *index) from(c mail.Cursor) iter.Seq[mail.Cursor] {
	return func(yield func(mail.Cursor) bool) {
		if len(x.chunks) == 0 {
			return
		}
		n := x.chunk(c)
		i, _ := slices.BinarySearchFunc(x.chunks[n], c, compareCursors)
		for ; n < len(x.chunks); n, i = n+1, 0 {
			for _, c := range x.chunks[n][i:] {
				if !yield(c) {
					return
				}
			}
		}
	}
}
