package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/cluster"
	"github.com/posthaste-mta/posthaste/cluster/model"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Cluster is the store and all nodes in one process. Its methods may be called
// concurrently.
type Cluster struct {
	mu    sync.Mutex
	model *model.Cluster
	links *model.Links
}

// New returns an empty cluster on a network without faults, whose delays are from
// least to most.
func New(cfg model.Config, least, most time.Duration, seed uint64) *Cluster {
	c := &Cluster{links: model.NewLinks(least, most, seed)}
	c.model = model.New(cfg, c, c.links)
	return c
}

// Faults calls f with the network, to change its faults.
func (c *Cluster) Faults(f func(*model.Links)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.links)
}

// Now implements model.Clock.
func (c *Cluster) Now() mail.Instant { return mail.Instant(time.Now().UnixNano()) }

// After implements model.Clock.
func (c *Cluster) After(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f()
	})
}

// A Node is a cluster.Node.
type Node struct {
	cluster *Cluster
	model   *model.Node
}

// Node starts a node.
func (c *Cluster) Node(name string) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Node{cluster: c, model: c.model.Node(name)}
}

// Close ends the node, as a crash would.
func (n *Node) Close() {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.model.Close()
}

// Bucket implements cluster.Node.
func (n *Node) Bucket(b cluster.Bucket) (cluster.KV, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	return &kv{node: n, bucket: b.WithDefaults()}, nil
}

type kv struct {
	node   *Node
	bucket cluster.Bucket
}

// ask makes a request and waits for the answer, or for the end of the context.
func (k *kv) ask(ctx context.Context, r model.Request) (cluster.Entry, error) {
	ctx, cancel := cluster.Bounded(ctx)
	defer cancel()
	deadline, _ := ctx.Deadline()
	r.Bucket = k.bucket
	answer := make(chan model.Answer, 1)
	k.node.cluster.mu.Lock()
	k.node.model.Ask(r, time.Until(deadline), func(a model.Answer) { answer <- a })
	k.node.cluster.mu.Unlock()
	select {
	case a := <-answer:
		if a.Err != nil {
			return cluster.Entry{}, fmt.Errorf("key %s: %w", r.Key, a.Err)
		}
		return a.Entry, nil
	case <-ctx.Done():
		return cluster.Entry{}, fmt.Errorf("key %s: %w: %w", r.Key, cluster.ErrUnreachable, ctx.Err())
	}
}

func (k *kv) Get(ctx context.Context, key string) (cluster.Entry, error) {
	return k.ask(ctx, model.Request{Op: model.Get, Key: key})
}

func (k *kv) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	e, err := k.ask(ctx, model.Request{Op: model.Create, Key: key, Value: value, TTL: ttl})
	return e.Revision, err
}

func (k *kv) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	e, err := k.ask(ctx, model.Request{Op: model.Update, Key: key, Value: value, Revision: revision, TTL: ttl})
	return e.Revision, err
}

func (k *kv) Delete(ctx context.Context, key string, revision uint64) error {
	_, err := k.ask(ctx, model.Request{Op: model.Delete, Key: key, Revision: revision})
	return err
}

func (k *kv) Watch(pattern string) (cluster.Watcher, error) {
	if !cluster.ValidPattern(pattern) {
		return nil, fmt.Errorf("pattern %q: %w", pattern, cluster.ErrInvalid)
	}
	w := &watcher{cluster: k.node.cluster, wake: make(chan struct{}, 1)}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	if w.model = k.node.model.Watch(k.bucket, pattern, func() { wake(w.wake) }); w.model.Stopped() {
		return nil, cluster.ErrClosed
	}
	return w, nil
}

// wake lets a waiting Next look again.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

type watcher struct {
	cluster *Cluster
	model   *model.Watch
	wake    chan struct{}
}

func (w *watcher) Next(ctx context.Context) (e cluster.Event, err error) {
	err = w.cluster.wait(ctx, w.wake, func() (ok, stopped bool) {
		e, ok = w.model.Next()
		return ok, w.model.Stopped()
	})
	return e, err
}

func (w *watcher) Stop() {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.model.Stop()
}

// wait calls next, with the lock, until it has something.
func (c *Cluster) wait(ctx context.Context, woken chan struct{}, next func() (ok, stopped bool)) error {
	for {
		c.mu.Lock()
		ok, stopped := next()
		c.mu.Unlock()
		switch {
		case ok:
			return nil
		case stopped:
			return cluster.ErrClosed
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Publish implements cluster.Gossip.
func (n *Node) Publish(ctx context.Context, topic string, value []byte, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("topic %s: %w: %w", topic, cluster.ErrUnreachable, err)
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.model.Publish(topic, value, ttl)
}

// Subscribe implements cluster.Gossip.
func (n *Node) Subscribe(pattern string) (cluster.Subscription, error) {
	if !cluster.ValidPattern(pattern) {
		return nil, fmt.Errorf("pattern %q: %w", pattern, cluster.ErrInvalid)
	}
	s := &subscription{cluster: n.cluster, wake: make(chan struct{}, 1)}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if s.model = n.model.Subscribe(pattern, func() { wake(s.wake) }); s.model.Stopped() {
		return nil, cluster.ErrClosed
	}
	return s, nil
}

type subscription struct {
	cluster *Cluster
	model   *model.Subscription
	wake    chan struct{}
}

func (s *subscription) Next(ctx context.Context) (r cluster.Register, err error) {
	err = s.cluster.wait(ctx, s.wake, func() (ok, stopped bool) {
		r, ok = s.model.Next()
		return ok, s.model.Stopped()
	})
	return r, err
}

func (s *subscription) Lost() uint64 {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return s.model.Lost()
}

func (s *subscription) Stop() {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	s.model.Stop()
}
