package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/posthaste-mta/posthaste/cluster"
)

const (
	prefetch = 64 // messages that a watcher has in advance
	// A watcher that has heard nothing for twice this time begins anew.
	heartbeat = time.Second
	// The server removes a consumer whose watcher is gone after this time.
	abandoned = time.Minute
	// A watcher that has waited for this time for a message has had all there were.
	caughtUp = 100 * time.Millisecond
)

// A watcher is a cluster.Watcher.
type watcher struct {
	bucket  *bucket
	pattern string
	ctx     context.Context
	cancel  context.CancelFunc

	// Of the goroutine that calls Next.
	opening chan *consumer // nil unless one is being opened
	current *consumer      // nil while there is none
	queue   []cluster.Event
	stale   error     // the cause of a Stale that Next returns first
	told    bool      // something was returned since the last Stale
	synced  bool      // Current was put into the queue
	number  uint64    // the consumer's number of the last message
	left    time.Time // Next was last waiting then
	// away is how long no Next waited since the watcher had caught up. What it has not
	// received is at most that old.
	away time.Duration

	mu   sync.Mutex
	live *consumer // the current one, also for other goroutines
}

// A consumer is where messages of one beginning come from.
type consumer struct {
	stream   jetstream.Stream
	name     string
	messages jetstream.MessagesContext
	pending  uint64 // messages that there were when it began
	began    time.Time
	losses   uint64 // Node.losses when it began
}

// Watch implements cluster.KV.
func (b *bucket) Watch(pattern string) (cluster.Watcher, error) {
	if !cluster.ValidPattern(pattern) {
		return nil, fmt.Errorf("pattern %q: %w", pattern, cluster.ErrInvalid)
	}
	w := &watcher{bucket: b, pattern: pattern}
	w.ctx, w.cancel = context.WithCancel(b.node.ctx)
	if !w.open() {
		return nil, cluster.ErrClosed
	}
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	b.node.watchers[w] = struct{}{}
	return w, nil
}

// open has a consumer opened in the background. It returns false for a closed node.
func (w *watcher) open() bool {
	opening := make(chan *consumer)
	w.opening = opening
	return w.bucket.node.spawn(func() {
		for pause := pauseLeast; w.ctx.Err() == nil; pause = min(2*pause, pauseMost) {
			c, err := w.begin()
			if err == nil {
				select {
				case opening <- c:
				case <-w.ctx.Done():
					c.messages.Stop()
				}
				return
			}
			w.complain(err)
			if !sleep(w.ctx, pause) {
				return
			}
		}
	})
}

// complain logs why there is no consumer. An unreachable cluster has been reported, and
// nothing can be done about that here.
func (w *watcher) complain(err error) {
	level := slog.LevelWarn
	if errors.Is(err, cluster.ErrUnreachable) || errors.Is(err, cluster.ErrClosed) {
		level = slog.LevelDebug
	}
	w.bucket.node.cfg.Log.Log(w.ctx, level, "cluster store", "text", "cannot watch", "bucket", w.bucket.desc.Name, "err", err)
}

// begin makes a consumer that begins with everything.
func (w *watcher) begin() (*consumer, error) {
	return on(w.ctx, w.bucket, w.pattern, func(ctx context.Context, s jetstream.Stream) (*consumer, error) {
		c := &consumer{stream: s, began: time.Now(), losses: w.bucket.node.losses.Load()}
		made, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
			DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
			AckPolicy:         jetstream.AckNonePolicy,
			FilterSubject:     w.bucket.filter(w.pattern),
			InactiveThreshold: abandoned,
			MemoryStorage:     true,
			Replicas:          1,
		})
		if err != nil {
			return nil, err
		}
		c.name, c.pending = made.CachedInfo().Name, made.CachedInfo().NumPending
		c.messages, err = made.Messages(
			jetstream.PullMaxMessages(prefetch),
			jetstream.PullHeartbeat(heartbeat),
			jetstream.WithMessagesErrOnMissingHeartbeat(true))
		return c, err
	})
}

// Next implements cluster.Watcher.
func (w *watcher) Next(ctx context.Context) (cluster.Event, error) {
	for {
		switch e, ok := w.pop(); {
		case w.ctx.Err() != nil:
			return cluster.Event{}, cluster.ErrClosed
		case ok:
			return e, nil
		}
		if err := w.more(ctx); err != nil {
			return cluster.Event{}, err
		}
	}
}

// pop returns what need not be waited for.
func (w *watcher) pop() (cluster.Event, bool) {
	switch {
	case w.stale != nil:
		e := cluster.Event{Kind: cluster.Stale, Cause: w.stale}
		w.stale = nil
		return e, true
	case len(w.queue) == 0:
		return cluster.Event{}, false
	}
	e := w.queue[0]
	w.queue = w.queue[1:]
	w.told = true
	return e, true
}

// more waits for a consumer, or for a message of it.
func (w *watcher) more(ctx context.Context) error {
	if w.current == nil {
		select {
		case c := <-w.opening:
			w.attach(c)
			return nil
		case <-w.ctx.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m, err := w.receive(ctx)
	switch {
	case err == nil:
		err = w.read(m)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if err != nil {
		w.fail(err)
	}
	return nil
}

// attach begins to use a consumer.
func (w *watcher) attach(c *consumer) {
	w.current, w.opening = c, nil
	w.number, w.synced, w.left, w.away = 0, false, c.began, 0
	if c.pending == 0 {
		w.sync()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live = c
	if w.ctx.Err() != nil || c.losses != w.bucket.node.losses.Load() {
		c.messages.Stop()
	}
}

func (w *watcher) sync() {
	w.synced = true
	w.queue = append(w.queue, cluster.Event{Kind: cluster.Current})
}

// receive waits for the next message, unless the watcher is so far behind that markers
// may have been removed before it reaches them.
func (w *watcher) receive(ctx context.Context) (jetstream.Msg, error) {
	entered := time.Now()
	if w.away += entered.Sub(w.left); w.away > w.bucket.desc.MarkerTTL/2 {
		return nil, cluster.ErrLagged
	}
	m, err := w.current.messages.Next(jetstream.NextContext(ctx))
	if w.left = time.Now(); w.left.Sub(entered) >= caughtUp {
		w.away = 0
	}
	return m, err
}

// read puts a message into the queue.
func (w *watcher) read(m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	if meta.Sequence.Consumer != w.number+1 {
		return fmt.Errorf("messages %d to %d are missing", w.number+1, meta.Sequence.Consumer-1)
	}
	w.number++
	e := cluster.Event{Kind: cluster.Put, Entry: cluster.Entry{
		Key:      strings.TrimPrefix(m.Subject(), w.bucket.prefix),
		Revision: meta.Sequence.Stream,
	}}
	if isMarker(m.Headers()) {
		e.Kind = cluster.Gone
	} else {
		e.Entry.Value = m.Data()
	}
	w.queue = append(w.queue, e)
	if !w.synced && meta.NumPending == 0 {
		w.sync()
	}
	return nil
}

// fail gives up the consumer, and has another one opened.
func (w *watcher) fail(err error) {
	if w.told {
		w.told = false
		if w.stale = err; !errors.Is(err, cluster.ErrLagged) {
			w.stale = fmt.Errorf("%w: %w", cluster.ErrUnreachable, err)
		}
	}
	w.queue = nil
	w.drop()
	w.current = nil
	w.open()
}

// drop ends the consumer, also at the server if that is possible soon.
func (w *watcher) drop() {
	w.mu.Lock()
	c := w.live
	w.live = nil
	w.mu.Unlock()
	if c == nil {
		return
	}
	c.messages.Stop()
	w.bucket.node.spawn(func() {
		ctx, cancel := context.WithTimeout(w.bucket.node.ctx, time.Second)
		defer cancel()
		_ = c.stream.DeleteConsumer(ctx, c.name) // or the server does it, after a while
	})
}

// breakOff has the goroutine that calls Next notice that its consumer is lost.
func (w *watcher) breakOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.live != nil {
		w.live.messages.Stop()
	}
}

// Stop implements cluster.Watcher.
func (w *watcher) Stop() {
	w.cancel()
	w.drop()
	n := w.bucket.node
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.watchers, w)
}
