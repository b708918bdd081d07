package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/posthaste-mta/posthaste/cluster"
)

// callsMax is how many calls are made at a time; others wait.
const callsMax = 256

// A Node is a cluster.Node. Its methods may be called concurrently.
type Node struct {
	cfg         Config
	incarnation uint64
	sequence    atomic.Uint64
	losses      atomic.Uint64 // of the connection, and returns of it

	server    *server.Server // nil with a URL
	owns      bool           // the server ends with the node
	connected chan struct{}  // closed when conn and js are set
	conn      *nats.Conn
	js        jetstream.JetStream

	ctx    context.Context // of the background: ends with the node
	cancel context.CancelFunc
	calls  chan struct{}
	group  sync.WaitGroup // goroutines, which end soon after ctx

	mu       sync.Mutex
	closed   bool
	buckets  map[string]*bucket
	watchers map[*watcher]struct{}
	subs     map[*subscription]struct{}
}

// Start starts a node. It waits for the server in the process, if it has one,
// but neither for other nodes nor for servers elsewhere. Errors: of the configuration,
// the store's directory and the port for routes.
func Start(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	if cfg.URL != "" {
		return newNode(cfg, nil), nil
	}
	srv, err := startServer(&cfg)
	if err != nil {
		return nil, err
	}
	n := newNode(cfg, srv)
	n.owns = true
	return n, nil
}

// newNode returns a node that connects in the background.
func newNode(cfg Config, srv *server.Server) *Node {
	n := &Node{
		cfg:         cfg,
		server:      srv,
		incarnation: uint64(time.Now().UnixNano()),
		connected:   make(chan struct{}),
		calls:       make(chan struct{}, callsMax),
		buckets:     map[string]*bucket{},
		watchers:    map[*watcher]struct{}{},
		subs:        map[*subscription]struct{}{},
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.spawn(n.connect)
	return n
}

// Addr returns the address of the routes; nil without routes.
func (n *Node) Addr() net.Addr {
	if n.server == nil || n.cfg.Listen == "" {
		return nil
	}
	if addr := n.server.ClusterAddr(); addr != nil {
		return addr
	}
	return nil
}

// connect makes the connection; nats.go restores it whenever it is lost.
func (n *Node) connect() {
	for {
		conn, err := nats.Connect(n.cfg.URL, n.connectionOptions()...)
		if err == nil {
			js, _ := jetstream.New(conn) // fails with wrong options only
			n.conn, n.js = conn, js
			close(n.connected)
			return
		}
		// Not a server that is down, which is tried in the background: the URL or the
		// credentials are wrong, and the latter may be corrected.
		n.cfg.Log.Error("cluster store", "text", "cannot connect", "err", err)
		if !sleep(n.ctx, pauseMost) {
			return
		}
	}
}

func (n *Node) connectionOptions() []nats.Option {
	log := n.cfg.Log
	o := []nats.Option{
		nats.Name("posthaste " + n.cfg.Node),
		nats.NoEcho(),
		nats.Timeout(2 * time.Second),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectBufSize(-1), // what cannot be sent now fails now
		nats.IgnoreAuthErrorAbort(),
		nats.FlusherTimeout(2 * time.Second),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.NoCallbacksAfterClientClose(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			log.Warn("cluster store", "text", "connection lost", "err", err)
			n.breakOff()
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			log.Info("cluster store", "text", "connected again")
			n.breakOff()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Debug("cluster store", "err", err)
		}),
	}
	if n.server != nil {
		return append(o, nats.InProcessServer(n.server))
	}
	if n.cfg.TLS != nil {
		o = append(o, nats.Secure(n.cfg.TLS.Clone()))
	}
	if n.cfg.Credentials != "" {
		o = append(o, nats.UserCredentials(n.cfg.Credentials))
	}
	return o
}

// breakOff has all watchers begin anew: messages may have been lost.
func (n *Node) breakOff() {
	n.losses.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		w.breakOff()
	}
}

// Close ends the node, and its server. It returns when all of it is gone, or when the
// context ends; then the rest follows by itself.
func (n *Node) Close(ctx context.Context) error {
	n.cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		n.end()
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing the connection to the cluster: %w", ctx.Err())
	}
}

func (n *Node) end() {
	n.mu.Lock()
	n.closed = true
	var stop []interface{ Stop() }
	for w := range n.watchers {
		stop = append(stop, w)
	}
	for s := range n.subs {
		stop = append(stop, s)
	}
	n.mu.Unlock()
	for _, s := range stop {
		s.Stop()
	}
	select {
	case <-n.connected:
		n.conn.Close()
	default:
	}
	n.group.Wait()
	// connect may have ended in between.
	select {
	case <-n.connected:
		n.conn.Close()
	default:
	}
	if n.owns {
		n.server.Shutdown()
		n.server.WaitForShutdown()
	}
}

// pauseLeast and pauseMost are the pauses between two attempts in the background.
const (
	pauseLeast = 50 * time.Millisecond
	pauseMost  = 2 * time.Second
)

// sleep waits; it returns false if the context has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// spawn runs f in a goroutine that Close waits for. It returns false for a closed node.
func (n *Node) spawn(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.group.Go(f)
	return true
}

// call makes a call in a goroutine of its own, and returns when it is done or the
// context ends, whichever is first: what NATS does below may wait for a connection that
// takes no bytes. The error is one of package cluster's.
func call[T any](ctx context.Context, n *Node, what string, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := cluster.Bounded(ctx)
	defer cancel()
	var none T
	if err := n.enter(ctx); err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	if !n.spawn(func() {
		defer func() { <-n.calls }()
		value, err := f(ctx)
		done <- result{value, err}
	}) {
		return none, fmt.Errorf("%s: %w", what, cluster.ErrClosed)
	}
	select {
	case r := <-done:
		if r.err != nil {
			return none, fmt.Errorf("%s: %w", what, n.translate(ctx, r.err))
		}
		return r.value, nil
	case <-ctx.Done():
		return none, fmt.Errorf("%s: %w: %w", what, cluster.ErrUnreachable, ctx.Err())
	case <-n.ctx.Done():
		return none, fmt.Errorf("%s: %w", what, cluster.ErrClosed)
	}
}

// enter waits for the first connection, and for a place among the calls.
func (n *Node) enter(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case <-n.connected:
			select {
			case n.calls <- struct{}{}:
				return nil
			case <-ctx.Done():
			case <-n.ctx.Done():
			}
		case <-ctx.Done():
		case <-n.ctx.Done():
		}
	}
	if n.ctx.Err() != nil {
		return cluster.ErrClosed
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnreachable, ctx.Err())
}

// Codes of the server (its errors.json) for lack of room, and for a revision that is
// not the expected one.
const (
	codeAccountResources jetstream.ErrorCode = 10002
	codeResources        jetstream.ErrorCode = 10023
	codeMemoryResources  jetstream.ErrorCode = 10028
	codeStorageResources jetstream.ErrorCode = 10047
	codeStoreFailed      jetstream.ErrorCode = 10077 // "maximum bytes exceeded"
	codeConflict                             = jetstream.JSErrCodeStreamWrongLastSequence
	codeConflictReplica                      = jetstream.JSErrCodeStreamWrongLastSequenceConstant
)

// translate returns the error of package cluster for one of NATS.
func (n *Node) translate(ctx context.Context, err error) error {
	for _, own := range []error{cluster.ErrUnreachable, cluster.ErrNotFound, cluster.ErrExists, cluster.ErrConflict, cluster.ErrFull, cluster.ErrInvalid, cluster.ErrClosed} {
		if errors.Is(err, own) {
			return err
		}
	}
	if n.ctx.Err() != nil {
		return cluster.ErrClosed
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return cluster.ErrNotFound
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case codeConflict, codeConflictReplica:
			return cluster.ErrConflict
		case codeAccountResources, codeResources, codeMemoryResources, codeStorageResources, codeStoreFailed:
			return fmt.Errorf("%w: %w", cluster.ErrFull, err)
		case jetstream.JSErrCodeStreamMessageExceedsMaximum:
			return fmt.Errorf("%w: %w", cluster.ErrInvalid, err)
		}
	}
	if over := ctx.Err(); over != nil && !errors.Is(err, over) {
		return fmt.Errorf("%w: %w: %w", cluster.ErrUnreachable, over, err)
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnreachable, err)
}
