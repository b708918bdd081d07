package nats

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/posthaste-mta/posthaste/cluster"
)

// An authority issues certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = issue(t, template, template, nil)
	a.pool.AddCert(a.cert)
	return a
}

func issue(t *testing.T, template, parent *x509.Certificate, signer ed25519.PrivateKey) (*x509.Certificate, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if signer == nil {
		signer = private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, private
}

// node returns the configuration of TLS of a node whose certificate is of this
// authority, and that trusts those of another one.
func (a *authority) node(t *testing.T, trusts *authority) *tls.Config {
	cert, key := issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
		RootCAs:      trusts.pool, ClientCAs: trusts.pool,
	}
}

// A logbook is a log whose lines can be waited for.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (l *logbook) await(t *testing.T, text string) {
	t.Helper()
	patience := time.After(30 * time.Second)
	for {
		l.mu.Lock()
		found := strings.Contains(l.text.String(), text)
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-l.more:
		case <-patience:
			t.Fatalf("%q is not in the log:\n%s", text, l.text.String())
		}
	}
}

func newLogbook() (*logbook, *slog.Logger) {
	l := &logbook{more: make(chan struct{}, 1)}
	return l, slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func start(t *testing.T, cfg Config) *Node {
	t.Helper()
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNode(t, n) })
	return n
}

// heard publishes until a register arrives.
func heard(t *testing.T, from *Node, s cluster.Subscription) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		_ = from.Publish(ctx, "t", nil, time.Second)
		again, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		_, err := s.Next(again)
		cancel()
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			t.Fatal("nothing is heard from the other node")
		}
	}
}

// freePorts returns addresses that are not in use.
func freePorts(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// Two nodes find each other over mutual TLS, and a third one, whose certificate is of
// another authority, does not get in. The only port is that of the routes, and all of
// it ends when it is closed.
func TestRoutes(t *testing.T) {
	t.Parallel()
	ours, foreign := newAuthority(t), newAuthority(t)
	book, log := newLogbook()
	ports := freePorts(t, 3)
	a := start(t, Config{Node: "a", Cluster: "c", Dir: t.TempDir(), Listen: ports[0], Peers: ports, TLS: ours.node(t, ours), Log: log})
	if a.Addr() == nil || a.server.Addr() != nil || a.server.MonitorAddr() != nil {
		t.Fatalf("routes on %v, clients on %v, monitoring on %v", a.Addr(), a.server.Addr(), a.server.MonitorAddr())
	}
	b := start(t, Config{Node: "b", Cluster: "c", Dir: t.TempDir(), Listen: ports[1], Peers: ports[:1], TLS: ours.node(t, ours)})
	s, err := a.Subscribe("")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	heard(t, b, s)
	c := start(t, Config{Node: "x", Cluster: "c", Dir: t.TempDir(), Listen: ports[2], Peers: ports[:1], TLS: foreign.node(t, ours)})
	book.await(t, "TLS route handshake error")
	if n := c.server.NumRoutes(); n != 0 {
		t.Errorf("a node with a certificate of a foreign authority has %d routes", n)
	}
}

// Errors that an operator must correct are those of Start; nothing is left of the
// server then.
func TestStartFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Node: "a", Cluster: "c", Dir: t.TempDir(), Listen: taken.Addr().String(), Peers: []string{"127.0.0.1:1"}}, "address already in use"},
		{Config{Node: "a", Cluster: "c", Dir: file}, "not a directory"},
		{Config{Node: "a", Cluster: "c"}, "either a directory or a URL"},
	} {
		if n, err := Start(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
			if err == nil {
				closeNode(t, n)
			}
		}
	}
}

// The other end accepts connections and says nothing, or the port is closed. No caller waits
// for longer than the own context, neither for the start nor for the end of the node.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	for _, address := range []string{mute.Addr().String(), nobody.Addr().String()} {
		n := start(t, Config{Node: "a", Cluster: "c", URL: "nats://" + address})
		kv, err := n.Bucket(cluster.Bucket{Name: "bucket"})
		if err != nil {
			t.Fatal(err)
		}
		w, err := kv.Watch("")
		if err != nil {
			t.Fatal(err)
		}
		s, err := n.Subscribe("")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, errGet := kv.Get(ctx, "k")
		errPublish := n.Publish(ctx, "t", nil, time.Second)
		_, errWatch := w.Next(ctx)
		_, errHear := s.Next(ctx)
		for _, err := range []error{errGet, errPublish, errWatch, errHear} {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, cluster.ErrUnreachable) {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}

// A relay stands between a node and a server elsewhere; it can be cut, and stalled.
type relay struct {
	net.Listener
	to string

	mu      sync.Mutex
	conns   []net.Conn
	refuses bool
	stalled chan struct{} // nil, or closed at the end of the stall
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			refuses := r.refuses
			r.mu.Unlock()
			far, err := net.Dial("tcp", to)
			if err != nil || refuses {
				conn.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, conn, far)
			r.mu.Unlock()
			all.Go(func() { r.copy(conn, far) })
			all.Go(func() { r.copy(far, conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.stall(false)
		r.cut(true)
		all.Wait()
	})
	return r
}

func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		stalled := r.stalled
		r.mu.Unlock()
		if stalled != nil {
			<-stalled
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut closes all connections, and lets new ones in or not.
func (r *relay) cut(refuses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = refuses
	for _, conn := range r.conns {
		conn.Close()
	}
	r.conns = nil
}

func (r *relay) stall(stalls bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case stalls:
		r.stalled = make(chan struct{})
	case r.stalled != nil:
		close(r.stalled)
		r.stalled = nil
	}
}

// elsewhere starts a server that is not in the process of a node, as far as the node
// can see.
func elsewhere(t *testing.T) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.SetLoggerV2(&serverLog{log: slog.New(slog.NewTextHandler(io.Discard, nil))}, false, false, false)
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return srv
}

// cutOff is a node with a relay in front of the servers, and one without.
func cutOff(t *testing.T) (r *relay, near, far *Node) {
	t.Helper()
	srv := elsewhere(t)
	r = newRelay(t, srv.Addr().String())
	near = start(t, Config{Node: "near", Cluster: "c", URL: "nats://" + r.Addr().String()})
	far = start(t, Config{Node: "far", Cluster: "c", URL: "nats://" + srv.Addr().String()})
	return r, near, far
}

// The connection to the servers is lost. Calls fail at once, the watcher is stale; when
// the servers can be reached again, the node is back by itself and has what changed
// meanwhile.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	r, near, far := cutOff(t)
	outage(t, near, far,
		func() { r.cut(true) },
		func() { r.cut(false) })
}

// outage checks what happens to a node between two events.
func outage(t *testing.T, near, far *Node, begin, end func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	bucket := cluster.Bucket{Name: newBucket()}
	here, err := near.Bucket(bucket)
	if err != nil {
		t.Fatal(err)
	}
	there, err := far.Bucket(bucket)
	if err != nil {
		t.Fatal(err)
	}
	goes, err := there.Create(ctx, "goes", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := here.Watch("")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	s, err := near.Subscribe("")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	heard(t, far, s)
	var m cluster.Mirror
	follow := func(holds func() bool) {
		t.Helper()
		for !holds() {
			e, err := w.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == cluster.Stale && !errors.Is(e.Cause, cluster.ErrUnreachable) {
				t.Errorf("stale because of %v", e.Cause)
			}
			m.Apply(e)
		}
	}
	follow(m.Current)

	begin()
	brief, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err := here.Update(brief, "goes", nil, goes, 0); !errors.Is(err, cluster.ErrUnreachable) {
		t.Errorf("during the outage: %v", err)
	}
	follow(func() bool { return !m.Current() })
	// What was sent before the outage may have arrived.
	e, err := there.Get(ctx, "goes")
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Delete(ctx, "goes", e.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Create(ctx, "comes", nil, 0); err != nil {
		t.Fatal(err)
	}
	end()
	follow(m.Current)
	if _, known := m.Entry("comes"); !known || m.Len() != 1 {
		t.Errorf("after the outage: %d keys, and the new one is known: %v", m.Len(), known)
	}
	heard(t, far, s)
}
