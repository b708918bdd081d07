package cluster

import (
	"context"
	"time"
)

// CallTimeout is how long a call may take whose context has no deadline. An
// implementation may give up sooner, with ErrUnreachable.
const CallTimeout = 5 * time.Second

// Bounded returns the context of a call, and the function that frees it: ctx with
// CallTimeout if it has no deadline.
func Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, CallTimeout)
}

// A Node is one machine's connection to the cluster. Methods of one that was closed
// return ErrClosed.
type Node interface {
	// Bucket returns a bucket of the store, which is made when it is first used. It
	// does not wait; the error is ErrInvalid.
	Bucket(b Bucket) (KV, error)
	Gossip
}

// A KV is one bucket of keys. Changes of one key are linearizable.
//
// A TTL of 0 means that the key stays. Others are from TTLMin on, rounded up to whole
// seconds; the key is gone soon after, never before. Values are not modified, and
// belong to the caller again when the call returns.
type KV interface {
	// Get returns the entry of a key, perhaps not the latest. Errors: ErrNotFound.
	Get(ctx context.Context, key string) (Entry, error)
	// Create adds a key and returns its revision. Errors: ErrExists, ErrFull.
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error)
	// Update replaces the value and the TTL of a key that has this revision, and
	// returns the new one. Errors: ErrConflict, ErrFull.
	Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error)
	// Delete removes a key that has this revision. Errors: ErrConflict.
	Delete(ctx context.Context, key string, revision uint64) error
	// Watch returns a watcher of what a pattern matches (ValidPattern). It does not
	// wait. Errors: ErrInvalid, ErrClosed.
	Watch(pattern string) (Watcher, error)
}

// An Entry is one key with its value.
type Entry struct {
	Key   string
	Value []byte // nil for a key that is gone
	// Revision grows with every change in the bucket; 0 is none.
	Revision uint64
}

// A Watcher returns what changes in a bucket.
type Watcher interface {
	// Next waits for the next event. The error is ErrClosed after Stop, and otherwise
	// that of the context; in between the watcher goes on trying to reach the store.
	Next(ctx context.Context) (Event, error)
	// Stop ends the watcher; it may be called more than once.
	Stop()
}

// An Event is what a watcher returns. The first events are Put for every key that
// there is, in the order of revisions, and then Current. The same comes after Stale:
// keys that are not Put between Stale and Current are gone.
type Event struct {
	Kind  Kind
	Entry Entry // of Put and Gone
	Cause error // of Stale: ErrLagged or ErrUnreachable
}

// A Kind says what happened.
type Kind uint8

const (
	// Put: the key has this value now. Values in between may have been passed over.
	Put Kind = iota + 1
	// Gone: the key was deleted or its TTL is over.
	Gone
	// Stale: from now on changes may be missing, and everything comes again.
	Stale
	// Current: all that there was when it began has been returned.
	Current
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Put:
		return "put"
	case Gone:
		return "gone"
	case Stale:
		return "stale"
	case Current:
		return "current"
	}
	return "none"
}

// A Gossip publishes registers and returns those of other nodes, at most once each, so
// they must be repeated.
type Gossip interface {
	// Publish sets this node's register of a topic, at all nodes that hear of it, for
	// a TTL from GossipTTLMin to GossipTTLMax. It does not wait for them. Errors:
	// ErrUnreachable, ErrInvalid.
	Publish(ctx context.Context, topic string, value []byte, ttl time.Duration) error
	// Subscribe returns the registers of other nodes whose topics a pattern matches
	// (ValidPattern). It does not wait. Errors: ErrInvalid, ErrClosed.
	Subscribe(pattern string) (Subscription, error)
}

// A Subscription returns the registers that arrive.
type Subscription interface {
	// Next waits for the next register. The error is ErrClosed after Stop, and
	// otherwise that of the context.
	Next(ctx context.Context) (Register, error)
	// Lost returns the number of registers that were dropped because the subscriber
	// was too slow, not counting those that a later one of the same node and topic
	// replaced.
	Lost() uint64
	// Stop ends the subscription; it may be called more than once.
	Stop()
}
