package model

import (
	"slices"

	"github.com/posthaste-mta/posthaste/cluster"
)

// batchMax is how many entries a watch has fetched in advance.
const batchMax = 64

// A Watch returns what changes in a bucket; see cluster.Watcher.
type Watch struct {
	node    *Node
	bucket  *bucket
	pattern string
	wake    func()
	stopped bool
	round   uint64 // number of beginnings; what belongs to an earlier one is void

	reader reader
	source source
}

// A reader is the node's part of a watch, in one round.
type reader struct {
	queue    []cluster.Event
	told     bool   // something has arrived
	received uint64 // batches
	fetched  uint64 // batches that Next has returned
}

// A source is the store's part of a watch, in one round.
type source struct {
	round    uint64 // the round that it is of; 0 before it has begun
	position uint64 // revision up to which everything was sent
	snapshot uint64 // the bucket's revision at the beginning
	current  bool   // Current was sent
	sent     uint64 // batches
	checked  uint64 // batches sent before the last heartbeat
	ready    bool   // all batches were fetched
}

// Watch returns a watch of what a pattern matches. wake is called when Next may have
// something; it must not call Next itself.
func (n *Node) Watch(b cluster.Bucket, pattern string, wake func()) *Watch {
	w := &Watch{node: n, bucket: n.cluster.bucket(b), pattern: pattern, wake: wake, stopped: n.closed}
	if !w.stopped {
		n.watches = append(n.watches, w)
		w.begin()
	}
	return w
}

// Stop ends the watch.
func (w *Watch) Stop() {
	if w.stopped {
		return
	}
	w.stopped = true
	w.reader = reader{}
	w.round++
	w.leave()
	w.node.watches = slices.DeleteFunc(w.node.watches, func(other *Watch) bool { return other == w })
	w.wake()
}

// Stopped reports whether the watch has ended.
func (w *Watch) Stopped() bool { return w.stopped }

// Next returns the next event, if there is one.
func (w *Watch) Next() (cluster.Event, bool) {
	r := &w.reader
	if len(r.queue) == 0 {
		return cluster.Event{}, false
	}
	e := r.queue[0]
	if r.queue = r.queue[1:]; len(r.queue) == 0 {
		w.fetch()
	}
	return e, true
}

// begin asks the store for everything.
func (w *Watch) begin() {
	w.leave()
	w.round++
	w.reader.received, w.reader.fetched = 0, 0
	w.ask(w.start)
	w.check()
}

// start is the store's side of begin.
func (w *Watch) start() {
	if w.source.round == w.round {
		return
	}
	w.source = source{round: w.round, snapshot: w.bucket.revision, ready: true}
	w.bucket.watches = append(w.bucket.watches, w)
	w.feed()
}

// leave ends the store's part.
func (w *Watch) leave() {
	w.bucket.watches = slices.DeleteFunc(w.bucket.watches, func(other *Watch) bool { return other == w })
}

// ask calls f at the store, and tell calls it at the node, when the message arrives, unless the
// round is over.
func (w *Watch) ask(f func())  { w.node.cluster.send(w.node.name, Store, w.inRound(f)) }
func (w *Watch) tell(f func()) { w.node.cluster.send(Store, w.node.name, w.inRound(f)) }

func (w *Watch) inRound(f func()) func() {
	round := w.round
	return func() {
		if round == w.round {
			f()
		}
	}
}

// fail makes what the node has stale, and begins anew.
func (w *Watch) fail(cause error) {
	if w.reader.told {
		w.reader.told = false
		w.reader.queue = []cluster.Event{{Kind: cluster.Stale, Cause: cause}}
		w.wake()
	}
	w.begin()
}

// check asks the store, after the timeout of the beginning and then at each heartbeat,
// whether it is there and all that it sent has arrived.
func (w *Watch) check() {
	c := w.node.cluster
	alive := false
	w.ask(func() {
		w.start() // the message of begin may have been lost
		s := &w.source
		before := s.checked
		s.checked = s.sent
		w.tell(func() {
			if alive = true; w.reader.received < before {
				w.fail(cluster.ErrUnreachable)
			}
		})
		if s.sent == w.reader.fetched {
			s.ready = true // the message that said so may have been lost
			w.feed()
		}
	})
	c.clock.After(c.cfg.Timeout, w.inRound(func() {
		if !alive {
			w.fail(cluster.ErrUnreachable)
		}
	}))
	c.clock.After(c.cfg.Heartbeat, w.inRound(w.check))
}

// fetch reports to the store that the node has fetched what came.
func (w *Watch) fetch() {
	w.reader.fetched = w.reader.received
	fetched := w.reader.fetched
	w.ask(func() {
		if fetched == w.source.sent {
			w.source.ready = true
			w.feed()
		}
	})
}

// feed sends what comes after the position, if the node wants it.
func (w *Watch) feed() {
	s := &w.source
	if !s.ready {
		return
	}
	if s.current && s.position < w.bucket.swept {
		s.ready = false
		w.tell(func() { w.fail(cluster.ErrLagged) })
		return
	}
	var events []cluster.Event
	for len(events) == 0 && s.position < w.bucket.revision {
		var records []*record
		records, s.position = w.bucket.after(s.position, w.pattern, batchMax)
		events = w.events(records)
	}
	if !s.current && s.position == w.bucket.revision {
		s.current = true
		events = append(events, cluster.Event{Kind: cluster.Current})
	}
	if len(events) == 0 {
		return
	}
	s.ready = false
	s.sent++
	w.tell(func() { w.arrive(events) })
}

// events turns records into events. What was gone before the beginning is left out.
func (w *Watch) events(records []*record) (out []cluster.Event) {
	counts := &w.node.cluster.counts
	for _, rec := range records {
		kind := cluster.Put
		if rec.gone {
			if rec.entry.Revision <= w.source.snapshot {
				continue
			}
			kind = cluster.Gone
		}
		counts.Watched++
		counts.Bytes += uint64(len(rec.entry.Key) + len(rec.entry.Value))
		entry := rec.entry
		entry.Value = slices.Clone(entry.Value)
		out = append(out, cluster.Event{Kind: kind, Entry: entry})
	}
	return out
}

// arrive is the node's side of feed.
func (w *Watch) arrive(events []cluster.Event) {
	w.reader.told = true
	w.reader.received++
	w.reader.queue = append(w.reader.queue, events...)
	w.wake()
}
