package model

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/cluster"
)

// A Subscription returns the registers of other nodes; see cluster.Subscription.
type Subscription struct {
	node    *Node
	pattern string
	wake    func()
	stopped bool
	pending cluster.Pending
}

// Subscribe returns a subscription to what a pattern matches. wake is called when Next
// may have something; it must not call Next itself.
func (n *Node) Subscribe(pattern string, wake func()) *Subscription {
	s := &Subscription{node: n, pattern: pattern, wake: wake, stopped: n.closed}
	if !s.stopped {
		n.subs = append(n.subs, s)
	}
	return s
}

// Next returns the next register, if there is one.
func (s *Subscription) Next() (cluster.Register, bool) { return s.pending.Pop() }

// Lost returns the number of registers that were dropped.
func (s *Subscription) Lost() uint64 { return s.pending.Lost() }

// Stop ends the subscription.
func (s *Subscription) Stop() {
	if s.stopped {
		return
	}
	s.stopped = true
	s.pending = cluster.Pending{}
	s.node.subs = slices.DeleteFunc(s.node.subs, func(other *Subscription) bool { return other == s })
	s.wake()
}

// Stopped reports whether the subscription has ended.
func (s *Subscription) Stopped() bool { return s.stopped }

// Publish sets the node's register of a topic at all other nodes. It is one message to
// each; there is no sign of which of them arrive.
func (n *Node) Publish(topic string, value []byte, ttl time.Duration) error {
	if n.closed {
		return cluster.ErrClosed
	}
	if err := cluster.CheckRegister(topic, value, ttl); err != nil {
		return err
	}
	n.sequence++
	r := cluster.Register{
		Node: n.name, Topic: topic, Value: slices.Clone(value), TTL: ttl,
		Version: cluster.Version{Incarnation: n.incarnation, Sequence: n.sequence},
	}
	for _, other := range n.cluster.nodes {
		if other.name != n.name && slices.ContainsFunc(other.subs, func(s *Subscription) bool { return cluster.Matches(s.pattern, topic) }) {
			n.cluster.counts.Registers++
			n.cluster.counts.Bytes += uint64(len(topic) + len(value))
			n.cluster.send(n.name, other.name, func() { other.hear(r) })
		}
	}
	return nil
}

func (n *Node) hear(r cluster.Register) {
	for _, s := range n.subs {
		if cluster.Matches(s.pattern, r.Topic) {
			s.pending.Push(r)
			s.wake()
		}
	}
}
