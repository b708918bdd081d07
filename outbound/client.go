package outbound

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// A Client delivers mail over SMTP for all transports of its Config. It may be
// used from any number of goroutines.
type Client struct {
	cfg      Config
	resolver Resolver
	bodies   Bodies
	dialer   Dialer

	transports map[string]*TransportConfig
	trusted    map[string]bool // canonical nexthops
	idle       *idlePool
	memory     *memory
	pieces     pieces
	count      counters

	mu  sync.Mutex
	rng *rand.Rand
}

// New returns a Client. A nil dialer dials with the net package.
func New(cfg Config, resolver Resolver, bodies Bodies, dialer Dialer) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("outbound: %w", err)
	}
	cfg = cfg.WithDefaults()
	if dialer == nil {
		dialer = netDialer{}
	}
	c := &Client{
		cfg:        cfg,
		resolver:   resolver,
		bodies:     bodies,
		dialer:     dialer,
		transports: make(map[string]*TransportConfig, len(cfg.Transports)),
		trusted:    make(map[string]bool, len(cfg.Trusted)),
		idle:       newIdlePool(cfg.IdleLimit),
		memory:     newMemory(),
		rng:        rand.New(rand.NewPCG(cfg.Seed, 0)),
	}
	for name, t := range cfg.Transports {
		c.transports[name] = &t
	}
	for _, n := range cfg.Trusted {
		c.trusted[n] = true
	}
	return c, nil
}

// Deliver attempts a delivery and returns an outcome for every recipient. It
// ends early, with what is left deferred and Crashed set, when ctx is done.
func (c *Client) Deliver(ctx context.Context, d mail.Delivery) mail.DeliveryResult {
	config := c.transports[d.Transport]
	if config == nil {
		return unknownTransport(d)
	}
	c.count.deliveries.Add(1)
	a := newAttempt(c, config, d)
	a.run(ctx)
	return a.finish()
}

// Close ends all idle sessions with QUIT. Deliveries that are under way go on,
// and end their sessions instead of keeping them. It always returns nil.
func (c *Client) Close() error {
	c.idle.close()
	return nil
}

// trusts tells whether it was the operator who named where a delivery goes.
// What is in brackets may have been a recipient's domain all the same.
func (c *Client) trusts(d mail.Delivery) bool {
	if bracketed(d.Nexthop) || len(c.trusted) == 0 {
		return explicit(d, d.Nexthop)
	}
	for one := range strings.SplitSeq(d.Nexthop, ",") {
		if !c.trusted[one] {
			return false
		}
	}
	return true
}

// candidates returns the hosts to try, in order.
func (c *Client) candidates(set mail.HostSet, config *TransportConfig, trusted bool) (list []candidate, blocked int) {
	usable := func(a netip.AddrPort) bool {
		return trusted || !slices.Contains(c.cfg.Own, a) && (config.PermitPrivateHosts || mail.ClassOf(a.Addr()) == mail.AddrPublic)
	}
	if config.KeepOrder {
		list, blocked = order(set, nil, usable)
	} else {
		c.mu.Lock()
		list, blocked = order(set, c.rng, usable)
		c.mu.Unlock()
	}
	c.count.blocked.Add(uint64(blocked))
	return list, blocked
}

// dial opens a connection and begins a session on it. Without a session, the
// failure says why.
func (c *Client) dial(ctx context.Context, hop hopKey, h mail.Host) (*conn, client.Failure) {
	config := c.transports[hop.transport]
	label := hostLabel(h)
	sock, failure := c.connect(ctx, config, h)
	if sock == nil {
		return nil, failure
	}
	k := &conn{
		sock:    sock,
		raw:     rawConn(sock),
		session: client.New(c.sessionConfig(config, h, label)),
		config:  config,
		host:    h,
		hop:     hop,
		name:    label + portSuffix(h.Addr.Port()),
		expires: c.expiry(config),
		in:      make([]byte, readSize),
	}
	detach := k.attach(ctx)
	_, err := k.run(ctx, nil)
	untouched := detach()
	if k.session.Ready() && err == nil && untouched {
		return k, client.Failure{}
	}
	k.session.End(client.LossAbandoned) // unless it has ended by itself
	k.close()
	c.count.handshakeFails.Add(1)
	c.noteFailure(h.Addr, k.session.Failure())
	return nil, k.session.Failure()
}

func (c *Client) sessionConfig(config *TransportConfig, h mail.Host, label string) client.Config {
	sc := client.Config{Hello: c.cfg.Hello, Peer: label, Level: client.Group}
	if !c.cfg.AllowSelf {
		sc.Self = c.cfg.Self
	}
	if *config.Pipelining == mail.LevelLockStep || time.Now().Before(c.memory.trait(h.Addr).lockStep) {
		sc.Level = client.LockStep
	}
	return sc
}

// expiry draws when a new connection has to end: connections that were opened
// together should not all end together.
func (c *Client) expiry(config *TransportConfig) time.Time {
	limit := config.ReuseTimeLimit
	if limit < 0 {
		limit = 100 * 365 * 24 * time.Hour
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(time.Duration(float64(limit) * (0.9 + 0.2*c.rng.Float64())))
}

// noteFailure remembers what a failed session says about its host.
func (c *Client) noteFailure(host netip.AddrPort, f client.Failure) {
	if f.Down {
		c.memory.stepDown(host)
	}
	c.logFailure(host, f)
}

func (c *Client) logFailure(host netip.AddrPort, f client.Failure) {
	c.cfg.Log.Debug("session failed", "host", host, "kind", f.Kind, "stage", f.Stage, "reply", f.Reply.String())
}

// keep puts a connection aside for the next delivery, or ends it.
func (c *Client) keep(k *conn) {
	now := time.Now()
	config := k.config
	switch {
	case k.session.Over():
		k.close()
		return
	case !k.session.Idle(),
		config.CacheTimeLimit < 0,
		config.ReuseCountLimit > 0 && k.carried >= config.ReuseCountLimit,
		!now.Before(k.expires),
		now.Before(c.memory.trait(k.host.Addr).single):
		k.goodbye()
		return
	}
	k.idleSince = now
	k.idleUntil = now.Add(config.CacheTimeLimit)
	if k.expires.Before(k.idleUntil) {
		k.idleUntil = k.expires
	}
	if surplus := c.idle.put(k); surplus != nil {
		surplus.goodbye()
	}
}

// hostLabel returns "name[address]", fit for replies and logs.
func hostLabel(h mail.Host) string {
	return mail.CleanText(strings.ReplaceAll(h.Name, "\n", "?")) + "[" + h.Addr.Addr().String() + "]"
}

func portSuffix(port uint16) string { return fmt.Sprintf(":%d", port) }

// rawConn returns what peek needs, or nil.
func rawConn(sock net.Conn) syscall.RawConn {
	if s, ok := sock.(syscall.Conn); ok && canReadNow {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
