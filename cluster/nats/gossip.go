package nats

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/posthaste-mta/posthaste/cluster"
)

func (n *Node) gossipPrefix() string { return "posthaste." + n.cfg.Cluster + ".gossip." }

// Publish implements cluster.Gossip.
func (n *Node) Publish(ctx context.Context, topic string, value []byte, ttl time.Duration) error {
	if err := cluster.CheckRegister(topic, value, ttl); err != nil {
		return err
	}
	data := cluster.AppendRegister(nil, cluster.Register{
		Node: n.cfg.Node, Value: value, TTL: ttl,
		Version: cluster.Version{Incarnation: n.incarnation, Sequence: n.sequence.Add(1)},
	})
	_, err := call(ctx, n, "topic "+topic, func(context.Context) (struct{}, error) {
		return struct{}{}, n.conn.Publish(n.gossipPrefix()+topic, data)
	})
	return err
}

// A subscription is a cluster.Subscription. Its callback only puts into the queue, so
// what NATS keeps in front of it stays small.
type subscription struct {
	node   *Node
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}

	mu      sync.Mutex
	pending cluster.Pending
	sub     *nats.Subscription
}

// Subscribe implements cluster.Gossip.
func (n *Node) Subscribe(pattern string) (cluster.Subscription, error) {
	if !cluster.ValidPattern(pattern) {
		return nil, fmt.Errorf("pattern %q: %w", pattern, cluster.ErrInvalid)
	}
	s := &subscription{node: n, wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(n.ctx)
	subject := n.gossipPrefix() + pattern
	if pattern == "" || strings.HasSuffix(pattern, ".") {
		subject += ">"
	}
	if !n.spawn(func() { s.begin(subject) }) {
		return nil, cluster.ErrClosed
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subs[s] = struct{}{}
	return s, nil
}

// begin subscribes as soon as there is a connection. After that, nats.go does it again
// for each further one.
func (s *subscription) begin(subject string) {
	select {
	case <-s.node.connected:
	case <-s.ctx.Done():
		return
	}
	sub, err := s.node.conn.Subscribe(subject, s.hear)
	if err != nil {
		return // the connection was closed
	}
	_ = sub.SetPendingLimits(cluster.GossipPending, 16<<20)
	s.mu.Lock()
	s.sub = sub
	s.mu.Unlock()
	if s.ctx.Err() != nil {
		_ = sub.Unsubscribe()
	}
}

func (s *subscription) hear(m *nats.Msg) {
	r, err := cluster.ParseRegister(m.Data, strings.TrimPrefix(m.Subject, s.node.gossipPrefix()))
	if err != nil || r.Node == s.node.cfg.Node {
		return
	}
	s.mu.Lock()
	s.pending.Push(r)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next implements cluster.Subscription.
func (s *subscription) Next(ctx context.Context) (cluster.Register, error) {
	for {
		if s.ctx.Err() != nil {
			return cluster.Register{}, cluster.ErrClosed
		}
		s.mu.Lock()
		r, ok := s.pending.Pop()
		s.mu.Unlock()
		if ok {
			return r, nil
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
		case <-ctx.Done():
			return cluster.Register{}, ctx.Err()
		}
	}
}

// Lost implements cluster.Subscription.
func (s *subscription) Lost() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.pending.Lost()
	if s.sub != nil {
		if dropped, err := s.sub.Dropped(); err == nil {
			lost += uint64(dropped)
		}
	}
	return lost
}

// Stop implements cluster.Subscription.
func (s *subscription) Stop() {
	s.cancel()
	s.mu.Lock()
	if s.sub != nil {
		_ = s.sub.Unsubscribe()
	}
	s.mu.Unlock()
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	delete(s.node.subs, s)
}
