package destdb

import (
	"math"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/assert"
)

// A Change is a changed record. Gone means that it was removed here and need not be
// saved any more. That is not information about the host, so other nodes need not
// know.
type Change struct {
	Known
	Gone bool
}

// A Feed returns the records that change to one consumer, such as the spool that keeps
// them or a node that shares them. Consumers do not disturb each other; each of them
// must fetch in time, or the oldest changes are dropped for it.
type Feed struct {
	db   *DB
	next uint64 // number of the change to look at next
	lost uint64
}

// changes is the log of what has changed. The change at index i has the number first+i.
// Invariant: first <= feed.next <= first+len(log) for each feed.
type changes struct {
	log   []Key
	first uint64
	feeds []*Feed
}

// NewFeed returns a feed of what changes from now on. It stays for as long as the
// database.
func (db *DB) NewFeed() *Feed {
	f := &Feed{db: db, next: db.changes.end()}
	db.changes.feeds = append(db.changes.feeds, f)
	return f
}

// end is the number of the change that comes next.
func (c *changes) end() uint64 { return c.first + uint64(len(c.log)) }

// Changed appends to dst the records that have changed since this feed returned them,
// oldest change first, at most max. It may be called again at once for more. Observations
// on an open connection become a change when it is shut.
func (f *Feed) Changed(dst []Change, max int) []Change {
	c := &f.db.changes
	for ; max > 0 && f.next < c.end(); f.next++ {
		k := c.log[f.next-c.first]
		switch h := f.db.hosts[k]; {
		case h == nil:
			dst = append(dst, Change{Known: Known{Key: k}, Gone: true})
		case h.changed == f.next+1:
			dst = append(dst, Change{Known: Known{Key: k, Record: h.rec}})
		default:
			continue // it changed again, or came back, and is further on in the log
		}
		max--
	}
	c.trim()
	return dst
}

// Lost returns the number of changes that were dropped because this feed did not fetch
// them in time.
func (f *Feed) Lost() uint64 { return f.lost }

// mark records that a record has changed, or is about to be removed, unless the log says
// so already to each feed.
func (db *DB) mark(h *host) {
	c := &db.changes
	read := uint64(0) // some feed has read all before this
	for _, f := range c.feeds {
		read = max(read, f.next)
	}
	if len(c.feeds) == 0 || h.changed > 0 && h.changed-1 >= read {
		return
	}
	c.log = append(c.log, h.key)
	h.changed = c.end()
	if over := len(c.log) - 2*db.cfg.HostLimit; over > 0 {
		c.drop(over)
	}
}

// drop removes the oldest changes, whether or not they were read.
func (c *changes) drop(n int) {
	c.first += uint64(n)
	for _, f := range c.feeds {
		if f.next < c.first {
			f.lost += c.first - f.next
			f.next = c.first
		}
	}
	clear(c.log[:n])
	c.log = c.log[n:]
}

// trim removes what all feeds have read, when that is half of the log.
func (c *changes) trim() {
	least := uint64(math.MaxUint64)
	for _, f := range c.feeds {
		least = min(least, f.next)
	}
	if n := int(least - c.first); 2*n >= len(c.log) {
		c.log = slices.Delete(c.log, 0, n)
		c.first = least
	}
}

// check panics where an invariant does not hold.
func (c *changes) check() {
	for _, f := range c.feeds {
		assert.That(c.first <= f.next && f.next <= c.end(), "a feed is at change %d of %d to %d", f.next, c.first, c.end())
	}
}
