package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// A Server takes mail and throws it away. Serve is called once; the other
// methods at any time from anywhere.
type Server struct {
	cfg     Config
	session *server.Config
	field   string // the KeyField and ":"
	faults  atomic.Pointer[[]Fault]
	serial  atomic.Uint64
	running sync.WaitGroup // connections

	mu      sync.Mutex
	stats   Stats
	clients map[netip.Addr]*Stats // of connections only
}

// New makes a Server. Zero values of the config are replaced by defaults.
func New(cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	s := &Server{cfg: cfg, session: cfg.session(), field: cfg.KeyField + ":", clients: make(map[netip.Addr]*Stats)}
	s.faults.Store(&cfg.Faults)
	return s, nil
}

// SetFaults replaces Config.Faults from the next occasion on.
func (s *Server) SetFaults(faults []Fault) error {
	if err := validateFaults(faults); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	s.faults.Store(&faults)
	return nil
}

// Stats returns what has happened so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Serve takes connections from the listeners until ctx ends, closes all, and
// returns when the last of them is gone. The error is that of a listener that
// failed; all are given up then.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var accepting sync.WaitGroup
	for _, l := range listeners {
		accepting.Go(func() {
			if err := s.accept(ctx, l); err != nil {
				stop(fmt.Errorf("sink: accept on %s: %w", l.Addr(), err))
			}
		})
	}
	<-ctx.Done()
	for _, l := range listeners {
		l.Close() //nolint:errcheck // it may be closed already, and nothing depends on it
	}
	accepting.Wait()
	s.running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// acceptPause follows a failed accept, which is mostly for lack of
// descriptors.
const acceptPause = 50 * time.Millisecond

func (s *Server) accept(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			// Counted here, so that who comes first is served first.
			client := clientAddr(conn)
			served := s.enter(client)
			s.running.Go(func() { s.welcome(ctx, conn, client, served) })
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			pause.For(ctx, acceptPause)
		}
	}
}

// welcome serves a connection or turns it away.
func (s *Server) welcome(ctx context.Context, conn net.Conn, client netip.Addr, served bool) {
	defer conn.Close() //nolint:errcheck // whatever matters was written before
	if !served {
		conn.SetWriteDeadline(time.Now().Add(s.cfg.IdleTime))                                  //nolint:errcheck // then Write fails too
		conn.Write([]byte("421 4.7.0 " + s.cfg.Hostname + " Error: too many connections\r\n")) //nolint:errcheck // a courtesy
		return
	}
	defer s.leave(client)
	// The end of the server, too, must wake a connection that waits for its
	// client.
	defer context.AfterFunc(ctx, func() { conn.Close() })() //nolint:errcheck // nothing depends on it
	number := s.serial.Add(1)
	c := &connection{
		server:  s,
		conn:    conn,
		number:  number,
		client:  client,
		session: server.New(s.session, server.Peer{Addr: client, DeliverBy: s.cfg.DeliverBy}),
		fate:    newFate(s.cfg.Seed, number),
		in:      make([]byte, inputSize),
	}
	c.run(ctx)
}

// enter counts a connection of a client and reports whether there is room for it.
func (s *Server) enter(client netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.clients[client]
	if own == nil {
		own = new(Stats)
		s.clients[client] = own
	}
	full := func(open, limit int) bool { return limit > 0 && open >= limit }
	served := !full(s.stats.Open, s.cfg.ConnectionLimit) && !full(own.Open, s.cfg.ClientConnectionLimit)
	for _, n := range []*Stats{&s.stats, own} {
		if !served {
			n.TurnedAway++
			continue
		}
		n.Connections++
		n.Open++
		n.Peak = max(n.Peak, n.Open)
	}
	return served
}

func (s *Server) leave(client netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Open--
	s.clients[client].Open--
}

// ClientStats returns what has happened to the connections from one address.
func (s *Server) ClientStats(client netip.Addr) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.clients[client]; n != nil {
		return *n
	}
	return Stats{}
}

func (s *Server) count(change func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.stats)
}

// clientAddr returns the client's address; the zero one if it has none, as on
// a unix socket.
func clientAddr(conn net.Conn) netip.Addr {
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return remote.Addr().Unmap()
}
