package outbound

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// A Client finds and dials the hosts of all transports of its Config. It is safe
// for concurrent use.
type Client struct {
	cfg      Config
	resolver Resolver
	bodies   Bodies
	dialer   Dialer
	sessions tls.ClientSessionCache // to resume (resumption)
	broken   brokenHosts

	transports map[string]*TransportConfig
	identities map[string]identity // of transports
	trusted    map[string]bool     // canonical nexthops
	pieces     pieces
	count      *Counters

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
	if cfg.Counters == nil {
		cfg.Counters = &Counters{}
	}
	c := &Client{
		count:      cfg.Counters,
		cfg:        cfg,
		resolver:   resolver,
		bodies:     bodies,
		dialer:     dialer,
		sessions:   tls.NewLRUClientSessionCache(sessionsKept),
		transports: make(map[string]*TransportConfig, len(cfg.Transports)),
		identities: make(map[string]identity, len(cfg.Transports)),
		trusted:    make(map[string]bool, len(cfg.Trusted)),
		rng:        rand.New(rand.NewPCG(cfg.Seed, 0)),
	}
	for name, t := range cfg.Transports {
		id, err := t.TLS.load()
		if err != nil {
			return nil, fmt.Errorf("outbound: transport %s: %w", name, err)
		}
		c.transports[name], c.identities[name] = &t, id
	}
	for _, n := range cfg.Trusted {
		c.trusted[n] = true
	}
	return c, nil
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

func (c *Client) logFailure(host netip.AddrPort, f client.Failure) {
	c.cfg.Log.Debug("session failed", "host", host, "kind", f.Kind, "stage", f.Stage, "reply", f.Reply.String())
}

// hostLabel returns "name[address]" or "unix:/path", fit for replies and logs.
func hostLabel(h mail.Host) string {
	return h.Label()
}

// hostAddress returns "name[address]:port", or "unix:/path".
func hostAddress(h mail.Host) string {
	if _, ok := mail.SocketPath(h.Addr); ok {
		return h.Label()
	}
	return fmt.Sprintf("%s:%d", h.Label(), h.Addr.Port())
}
