package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/posthaste-mta/posthaste/cluster"
)

// Headers of markers: the first two are of those who delete, in the words of NATS
// clients, the last one is the server's, where a TTL has ended.
const (
	operationHeader = "KV-Operation"
	operationPurge  = "PURGE"
	rollupHeader    = "Nats-Rollup"
	rollupSubject   = "sub"
	reasonHeader    = "Nats-Marker-Reason"
)

// A bucket is a cluster.KV.
type bucket struct {
	node   *Node
	desc   cluster.Bucket
	name   string // of the stream
	prefix string // of the subjects

	making chan struct{} // has an element while a call looks for the stream
	stream jetstream.Stream
}

// Bucket implements cluster.Node. The first description of a name counts.
func (n *Node) Bucket(desc cluster.Bucket) (cluster.KV, error) {
	if err := desc.Validate(); err != nil {
		return nil, err
	}
	desc = desc.WithDefaults()
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.buckets[desc.Name]
	if b == nil {
		full := n.cfg.Cluster + "_" + desc.Name
		b = &bucket{
			node: n, desc: desc, name: "KV_" + full, prefix: "$KV." + full + ".",
			making: make(chan struct{}, 1),
		}
		n.buckets[desc.Name] = b
	}
	return b, nil
}

// persist is made, as often as it takes.
func (b *bucket) persist(ctx context.Context) (jetstream.Stream, error) {
	for {
		one, cancel := context.WithTimeout(ctx, attempt)
		s, err := b.made(one)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return s, err
		}
	}
}

// made returns the stream, and makes it if it is not there.
func (b *bucket) made(ctx context.Context) (jetstream.Stream, error) {
	select {
	case b.making <- struct{}{}:
		defer func() { <-b.making }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b.stream != nil {
		return b.stream, nil
	}
	want := b.config()
	s, err := b.node.js.Stream(ctx, b.name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		s, err = b.node.js.CreateStream(ctx, want)
	case err != nil:
	case s.CachedInfo().Config.AllowDirect || !s.CachedInfo().Config.AllowMsgTTL:
		return nil, fmt.Errorf("stream %s was made by another program: %w", b.name, cluster.ErrInvalid)
	case s.CachedInfo().Config.Replicas < want.Replicas:
		s, err = b.node.js.UpdateStream(ctx, want)
	}
	if err == nil {
		b.stream = s
	}
	return s, err
}

// forget has the stream looked for again, because it seems to be gone.
func (b *bucket) forget() {
	b.making <- struct{}{}
	b.stream = nil
	<-b.making
}

func (b *bucket) config() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                   b.name,
		Subjects:               []string{b.prefix + ">"},
		MaxMsgsPerSubject:      1,
		MaxBytes:               b.desc.BytesMax,
		MaxMsgSize:             int32(b.desc.ValueMax + headersMax),
		Discard:                jetstream.DiscardNew,
		Storage:                jetstream.FileStorage,
		Replicas:               b.node.cfg.Replicas,
		AllowRollup:            true,
		AllowMsgTTL:            true,
		SubjectDeleteMarkerTTL: b.desc.MarkerTTL,
		Duplicates:             time.Second, // there are none: messages have no IDs
	}
}

// headersMax is room for the headers of a message, which count for its size.
const headersMax = 1024

// attempt is how long one request to the server may take. Some are never answered,
// mostly while a leader changes, and those who wait for the same stream would wait with it.
const attempt = 2 * time.Second

// on calls f with the stream. Without an answer, f ends after an attempt, even if the
// caller has more time.
func on[T any](ctx context.Context, b *bucket, key string, f func(context.Context, jetstream.Stream) (T, error)) (T, error) {
	return call(ctx, b.node, "key "+key, func(ctx context.Context) (T, error) {
		var none T
		s, err := b.persist(ctx)
		if err != nil {
			return none, err
		}
		ctx, cancel := context.WithTimeout(ctx, attempt)
		defer cancel()
		value, err := f(ctx, s)
		if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound) {
			b.forget()
		}
		return value, err
	})
}

// Get implements cluster.KV.
func (b *bucket) Get(ctx context.Context, key string) (cluster.Entry, error) {
	if err := b.desc.CheckWrite(key, nil, 0); err != nil {
		return cluster.Entry{}, err
	}
	return on(ctx, b, key, func(ctx context.Context, s jetstream.Stream) (cluster.Entry, error) {
		m, err := s.GetLastMsgForSubject(ctx, b.prefix+key)
		switch {
		case err != nil:
			return cluster.Entry{}, err
		case isMarker(m.Header):
			return cluster.Entry{}, cluster.ErrNotFound
		}
		return cluster.Entry{Key: key, Value: m.Data, Revision: m.Sequence}, nil
	})
}

func isMarker(h nats.Header) bool {
	return h.Get(operationHeader) != "" || h.Get(reasonHeader) != ""
}

// Create implements cluster.KV.
func (b *bucket) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if err := b.desc.CheckWrite(key, value, ttl); err != nil {
		return 0, err
	}
	m := b.message(key, value)
	return on(ctx, b, key, func(ctx context.Context, s jetstream.Stream) (uint64, error) {
		revision, err := b.publish(ctx, m, 0, ttl)
		// There may be a marker, and a later one each time that another node's key
		// with a TTL comes and goes.
		for isConflict(err) {
			last, errGet := s.GetLastMsgForSubject(ctx, m.Subject)
			switch {
			case errors.Is(errGet, jetstream.ErrMsgNotFound):
				revision, err = b.publish(ctx, m, 0, ttl)
			case errGet != nil:
				return 0, errGet
			case isMarker(last.Header):
				revision, err = b.publish(ctx, m, last.Sequence, ttl)
			default:
				return 0, cluster.ErrExists
			}
		}
		return revision, err
	})
}

// Update implements cluster.KV.
func (b *bucket) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if err := b.desc.CheckWrite(key, value, ttl); err != nil {
		return 0, err
	}
	if revision == 0 {
		return 0, fmt.Errorf("key %s: %w", key, cluster.ErrConflict) // the server would create it
	}
	m := b.message(key, value)
	return on(ctx, b, key, func(ctx context.Context, _ jetstream.Stream) (uint64, error) {
		return b.publish(ctx, m, revision, ttl)
	})
}

// Delete implements cluster.KV.
func (b *bucket) Delete(ctx context.Context, key string, revision uint64) error {
	if err := b.desc.CheckWrite(key, nil, 0); err != nil {
		return err
	}
	if revision == 0 {
		return fmt.Errorf("key %s: %w", key, cluster.ErrConflict)
	}
	m := b.message(key, nil)
	m.Header.Set(operationHeader, operationPurge)
	m.Header.Set(rollupHeader, rollupSubject)
	_, err := on(ctx, b, key, func(ctx context.Context, _ jetstream.Stream) (uint64, error) {
		return b.publish(ctx, m, revision, b.desc.MarkerTTL)
	})
	return err
}

// message returns a message with a copy of the value: a call may outlast its context.
func (b *bucket) message(key string, value []byte) *nats.Msg {
	m := nats.NewMsg(b.prefix + key)
	m.Data = append([]byte(nil), value...)
	return m
}

// publish makes a change if the subject's last message has this revision; 0 is none.
func (b *bucket) publish(ctx context.Context, m *nats.Msg, revision uint64, ttl time.Duration) (uint64, error) {
	o := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(revision)}
	if ttl > 0 {
		o = append(o, jetstream.WithMsgTTL(cluster.WholeSeconds(ttl)))
	}
	ack, err := b.node.js.PublishMsg(ctx, m, o...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeConflict || api.ErrorCode == codeConflictReplica)
}

// filter returns the subjects that a pattern matches.
func (b *bucket) filter(pattern string) string {
	if pattern == "" || strings.HasSuffix(pattern, ".") {
		return b.prefix + pattern + ">"
	}
	return b.prefix + pattern
}
