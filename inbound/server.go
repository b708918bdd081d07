package inbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/internal/peercred"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/server"
)

// A Server accepts connections and receives mail. Serve may be called once; the
// other methods may be called at any time from any goroutine.
type Server struct {
	cfg    Config
	sink   Sink
	policy Policy
	gate   Gate // nil: none

	flows      atomic.Pointer[flow.Rules] // nil: messages are not classified
	edits      atomic.Pointer[Edits]      // nil: messages stay as they are
	milters    atomic.Pointer[Milters]    // nil: none
	editors    sync.Pool                  // of *header.Editor
	admission  *admission
	handshakes places
	logins     logins
	counters   counters
	refusals   *logbook
	inputs     sync.Pool // of *inputBuffer
	outputs    sync.Pool // of *outputBuffer
	date       atomic.Pointer[dateText]
	stopping   atomic.Bool
	running    sync.WaitGroup // connections

	mu      sync.Mutex // guards the fields below
	stage   stage
	listen  func(*socket) // starts to accept; at stageServing
	sockets []*socket
	early   []Listener // given to SetListeners at stageNew; nil: none
}

// A stage is the progress of Serve.
type stage uint8

const (
	stageNew stage = iota
	stageServing
	stageEnded
)

// New returns a Server. Zero values of the configuration are replaced by defaults.
// The gate may be nil.
func New(cfg Config, sink Sink, policy Policy, gate Gate) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("inbound: %w", err)
	}
	if sink == nil || policy == nil {
		return nil, errors.New("inbound: a server needs a sink and a policy")
	}
	s := &Server{cfg: cfg, sink: sink, policy: policy, gate: gate, admission: newAdmission(&cfg), handshakes: places{limit: cfg.HandshakeLimit, byPrefix: map[netip.Prefix]int{}}, refusals: newLogbook(cfg.Logger)}
	s.flows.Store(cfg.Flows)
	s.edits.Store(cfg.Edits)
	s.milters.Store(cfg.Milters)
	s.editors.New = func() any { return new(header.Editor) }
	s.logins.init(&cfg.Auth)
	s.inputs.New = func() any { return new(inputBuffer) }
	s.outputs.New = func() any { return new(outputBuffer) }
	return s, nil
}

// Serve accepts connections from the listeners, which SetListeners may replace, until ctx
// ends, then lets content in transfer finish within Config.Grace, and returns when the
// last connection is closed. It closes the listeners. If a listener fails, Serve closes
// all of them and returns its error.
func (s *Server) Serve(ctx context.Context, listeners ...Listener) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work, cancelWork := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelWork()

	booked, endBook := context.WithCancel(work)
	defer s.refusals.close(logInterval) // including refusals caused by the stop
	defer endBook()
	go s.refusals.run(booked)

	var accepting sync.WaitGroup
	s.mu.Lock()
	s.listen = func(k *socket) {
		accepting.Go(func() {
			if err := s.accept(ctx, work, k); err != nil {
				stop(fmt.Errorf("inbound: accept on %s: %w", k.Addr(), err))
			}
		})
	}
	s.stage = stageServing
	if s.early != nil { // none of those that it replaces may accept a client
		for _, l := range listeners {
			if !slices.ContainsFunc(s.early, func(other Listener) bool { return other.Listener == l.Listener }) {
				l.Close() // never used
			}
		}
		listeners = s.early
	}
	s.setListeners(listeners)
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.setListeners(nil)
	s.stage = stageEnded
	s.mu.Unlock()
	accepting.Wait()
	s.finish(cancelWork)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// finish ends all connections, those with content in transfer last.
func (s *Server) finish(cancelWork context.CancelFunc) {
	s.stopping.Store(true)
	there := s.admission.close()
	for _, c := range there {
		c.wake()
	}
	cut := time.AfterFunc(s.cfg.Grace, func() {
		cancelWork()
		for _, c := range there {
			c.conn.Close() // its error does not matter
		}
	})
	s.running.Wait()
	cut.Stop()
}

// Pauses after a failed accept, which is mostly due to a lack of file descriptors.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

func (s *Server) accept(ctx, work context.Context, k *socket) error {
	pause := acceptPauseMin
	for {
		conn, err := k.Accept()
		if err == nil {
			pause = acceptPauseMin
			s.welcome(work, k, conn)
			continue
		}
		if ctx.Err() != nil || k.retired.Load() {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		s.refusals.note(slog.LevelWarn, "accept failed", "all", err.Error(), "listener", k.Addr(), "error", err, "pause", pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, acceptPauseMax)
	}
}

// welcome admits a connection and starts its goroutine, or turns it away.
func (s *Server) welcome(work context.Context, k *socket, conn net.Conn) {
	addr, ok := clientAddr(conn)
	if !ok {
		s.cfg.Logger.Error("connection with an unknown kind of address", "remote", conn.RemoteAddr())
		conn.Close() // never used
		return
	}
	t := k.terms.Load()
	c := &connection{server: s, socket: k, terms: t, conn: conn, from: addr, client: Client{Addr: addr, Purpose: t.Purpose, MustLogin: t.Auth == AuthRequired}, patience: patience{cfg: &t.cfg}}
	v, evicted := s.admission.enter(c)
	if evicted != nil {
		s.counters.shed.Add(1)
		evicted.evict()
	}
	if v != admitted {
		s.turnAway(c, v)
		return
	}
	c.input = newInput(conn, &s.inputs)
	s.counters.connections.Add(1)
	s.counters.open.Add(1)
	s.running.Go(func() { c.run(work) })
}

// turnAwayTime limits how long a refused client may block the accepting goroutine.
// It practically never does, since nothing has been sent to it yet.
const turnAwayTime = 100 * time.Millisecond

func (s *Server) turnAway(c *connection, v verdict) {
	s.counters.refused.Add(1)
	s.refusals.note(slog.LevelInfo, "connection refused", c.name(), v.String(), "reason", v.String(), "listener", c.terms.Name)
	reply := "421 4.7.0 "
	if v == refusedClosing {
		reply = "421 4.3.2 "
	}
	text := reply + s.cfg.Session.Hostname + " Error: " + v.String() + "\r\n"
	if c.terms.Use != TLSImplicit { // or it would be no TLS
		c.conn.SetWriteDeadline(time.Now().Add(turnAwayTime)) // then Write fails too
		c.conn.Write([]byte(text))                            // a courtesy
	}
	c.conn.Close() // never used
}

// clientAddr returns the address of the client, an invalid one for a unix socket.
// Only that may represent a local client, which a Policy may trust.
func clientAddr(conn net.Conn) (addr netip.Addr, ok bool) {
	remote := conn.RemoteAddr()
	if _, ok := remote.(*net.UnixAddr); ok {
		return netip.Addr{}, true
	}
	ap, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap().WithZone(""), true
}

// localAddr returns the address that a client has connected to, an invalid one for a
// unix socket.
func localAddr(l net.Listener, conn net.Conn) netip.AddrPort {
	for _, a := range []net.Addr{conn.LocalAddr(), l.Addr()} {
		if tcp, ok := a.(*net.TCPAddr); ok {
			return tcp.AddrPort()
		}
	}
	return netip.AddrPort{}
}

// userOf returns the user of the program at the other end of a unix socket, as in
// "uid:33", or "" if that is not known. It is the number, because the name may be with
// a directory service, for which mail must not wait.
func userOf(conn net.Conn) string {
	if known, ok := conn.(interface{ User() uint32 }); ok { // that of a message in the maildrop
		return "uid:" + strconv.FormatUint(uint64(known.User()), 10)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return ""
	}
	uid, ok := peercred.User(unix)
	if !ok {
		return ""
	}
	return "uid:" + strconv.FormatUint(uint64(uid), 10)
}

// SetFlows replaces the rules by which messages are classified that begin from now on;
// nil ends that.
func (s *Server) SetFlows(rules *flow.Rules) { s.flows.Store(rules) }

// peer returns the rules for the client at an address.
func (t *terms) peer(addr netip.Addr) server.Peer {
	p := server.Peer{
		Addr:        addr,
		Normalize:   contains(t.cfg.NormalizeNetworks, addr),
		RejectEarly: t.EarlyTalkers == EarlyReject,
		TLS:         t.Use.session(),
		Domain:      t.Domain,
		Priority:    t.Priority,
		PriorityMax: t.PriorityMax,
		RequireTLS:  t.RequireTLS,
		VERP:        t.VERP.of(addr),
		VERPFilter:  t.VERP.Filter,
		ETRN:        t.ETRN != ETRNOff && t.cfg.Flusher != nil,

		DeliverBy:     t.DeliverBy,
		DeliverByMin:  t.DeliverByMin,
		FutureRelease: t.FutureRelease,
	}
	if p.FutureRelease > 0 {
		p.Begun = instant(time.Now())
	}
	if t.Auth != AuthOff {
		p.Mechanisms = t.Mechanisms
	}
	if !addr.IsValid() {
		p.RecipientLimit = t.cfg.LocalRecipientLimit
	}
	if contains(t.cfg.RefuseNetworks, addr) {
		p.Refusal = mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: t.cfg.Session.Hostname + " No service"}
	}
	return p
}

// stressed reports whether so many connections are open that StressTimeout applies.
func (s *Server) stressed() bool {
	return s.counters.open.Load() > int64(s.cfg.ConnectionLimit)*4/5
}

// A dateText caches the text of a second, which thousands of messages share.
type dateText struct {
	second int64
	text   string
}

// dateOf returns the time in the format of RFC 5322 3.3.
func (s *Server) dateOf(now time.Time) string {
	if d := s.date.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dateText{second: now.Unix(), text: now.Format(time.RFC1123Z)}
	s.date.Store(d)
	return d.text
}

// level reports whether lines of a level are logged, so that hot code need not
// format them otherwise.
func (s *Server) level(l slog.Level) bool {
	return s.cfg.Logger.Enabled(context.Background(), l)
}
