package model

import (
	"cmp"
	"time"

	"github.com/posthaste-mta/posthaste/cluster"
)

// Store is the name of the store's place on the network.
const Store = "_store"

// A Config sets the times of the model; 0 stands for the default.
type Config struct {
	// ExpiryLag is how long after the end of its TTL a key is gone (default 100 ms).
	ExpiryLag time.Duration
	// Timeout is how long a watch waits for an answer (default 2 s), Heartbeat how
	// long for anything else (default 10 s).
	Timeout, Heartbeat time.Duration
}

func (c Config) withDefaults() Config {
	c.ExpiryLag = cmp.Or(c.ExpiryLag, 100*time.Millisecond)
	c.Timeout = cmp.Or(c.Timeout, 2*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 10*time.Second)
	return c
}

// A Cluster is the store and all nodes.
type Cluster struct {
	cfg     Config
	clock   Clock
	network Network
	buckets map[string]*bucket
	nodes   []*Node
	starts  uint64
	counts  Counts
}

// Counts are what the network has carried, for sizing.
type Counts struct {
	Requests, Answers uint64 // to and from the store, for changes and Get
	Watched           uint64 // entries to watches
	Registers         uint64 // gossip, once for each receiver
	Bytes             uint64 // of keys, topics and values in all of these
}

// New returns an empty cluster.
func New(cfg Config, clock Clock, network Network) *Cluster {
	return &Cluster{cfg: cfg.withDefaults(), clock: clock, network: network, buckets: map[string]*bucket{}}
}

// Counts returns what the network has carried.
func (c *Cluster) Counts() Counts { return c.counts }

// A Node is one machine. It is gone after Close; the next start of the machine is
// another Node of the same name.
type Node struct {
	name        string
	cluster     *Cluster
	incarnation uint64
	sequence    uint64
	closed      bool
	watches     []*Watch
	subs        []*Subscription
}

// Node starts a node.
func (c *Cluster) Node(name string) *Node {
	// Two starts at one instant are two incarnations, too.
	c.starts = max(c.starts+1, uint64(c.clock.Now()))
	n := &Node{name: name, cluster: c, incarnation: c.starts}
	c.nodes = append(c.nodes, n)
	return n
}

// Close ends the node: nothing arrives there any more, and its requests get no answer
// but ErrClosed.
func (n *Node) Close() {
	n.closed = true
	for _, w := range n.watches {
		w.Stop()
	}
	for _, s := range n.subs {
		s.Stop()
	}
	for i, other := range n.cluster.nodes {
		if other == n {
			n.cluster.nodes = append(n.cluster.nodes[:i:i], n.cluster.nodes[i+1:]...)
			return
		}
	}
}

// send has f called at a place when a message arrives there, unless it is lost.
func (c *Cluster) send(from, to string, f func()) {
	if delay, ok := c.network.Delay(from, to, c.clock.Now()); ok {
		c.clock.After(delay, f)
	}
}

// An Op is what a request asks of the store.
type Op uint8

const (
	Get Op = iota
	Create
	Update
	Delete
)

// A Request is one call of a cluster.KV.
type Request struct {
	Op       Op
	Bucket   cluster.Bucket
	Key      string
	Value    []byte
	Revision uint64 // Update, Delete
	TTL      time.Duration
}

// An Answer is the result of a request. The entry has the revision of a change, and
// the value for Get.
type Answer struct {
	Entry cluster.Entry
	Err   error // nil, or one of the errors of package cluster
}

// Ask makes a request. done is called exactly once, later, and with ErrUnreachable if
// there is no answer within the timeout.
func (n *Node) Ask(r Request, timeout time.Duration, done func(Answer)) {
	c := n.cluster
	answered := false
	answer := func(a Answer) {
		if answered {
			return
		}
		answered = true
		if n.closed {
			a = Answer{Err: cluster.ErrClosed}
		}
		done(a)
	}
	c.clock.After(timeout, func() { answer(Answer{Err: cluster.ErrUnreachable}) })
	err := r.check()
	if n.closed {
		err = cluster.ErrClosed
	}
	if err != nil {
		c.clock.After(0, func() { answer(Answer{Err: err}) })
		return
	}
	r.Value = append([]byte(nil), r.Value...)
	c.counts.Requests++
	c.counts.Bytes += uint64(len(r.Key) + len(r.Value))
	c.send(n.name, Store, func() {
		a := c.bucket(r.Bucket).apply(r)
		c.counts.Answers++
		c.counts.Bytes += uint64(len(a.Entry.Value))
		c.send(Store, n.name, func() { answer(a) })
	})
}

func (r *Request) check() error {
	if err := r.Bucket.Validate(); err != nil {
		return err
	}
	return r.Bucket.CheckWrite(r.Key, r.Value, r.TTL)
}
