package inbound

import (
	"container/list"
	"net/netip"
	"sync"
)

// An admission tracks the connections and decides which are admitted.
type admission struct {
	total, perClient, perPrefix int
	ipv4Bits, ipv6Bits          int // of a prefix
	exceptions                  []netip.Prefix

	mu       sync.Mutex // guards the fields below
	all      map[*connection]struct{}
	byClient map[netip.Addr]int
	byPrefix map[netip.Prefix]int
	fresh    list.List // of *connection: those without a MAIL, oldest first
	leaving  int       // evicted but not closed yet
	closing  bool
}

func newAdmission(cfg *Config) *admission {
	return &admission{
		total:      cfg.ConnectionLimit,
		perClient:  atMostHalf(cfg.ClientConnectionLimit, cfg.ConnectionLimit),
		perPrefix:  atMostHalf(cfg.PrefixConnectionLimit, cfg.ConnectionLimit),
		ipv4Bits:   cfg.IPv4PrefixLength,
		ipv6Bits:   cfg.IPv6PrefixLength,
		exceptions: cfg.LimitExceptions,
		all:        map[*connection]struct{}{},
		byClient:   map[netip.Addr]int{},
		byPrefix:   map[netip.Prefix]int{},
	}
}

// leavingMax is the maximum number of evicted connections that are not closed yet.
// They count beyond the limit, and each still has a file descriptor: without this
// bound a flood of connections could use twice the limit.
const leavingMax = 4

// atMostHalf lowers a limit to half of the total, so that no client or network can
// take all connections where few are possible, as with few file descriptors.
func atMostHalf(limit, total int) int {
	if limit == Unlimited {
		return limit
	}
	return min(limit, max(total/2, 1))
}

// A verdict is the result of admission for a new connection.
type verdict uint8

const (
	admitted verdict = iota
	refusedTotal
	refusedClient
	refusedClosing
)

// String returns the text for the client and the log.
func (v verdict) String() string {
	return [...]string{"admitted", "too many connections", "too many connections from your network", "shutting down"}[v]
}

// enter admits a connection, or not. If room must be made, evicted is the
// connection to close; it counts until it has left, so that the limit may be
// exceeded by up to leavingMax for that time.
func (a *admission) enter(c *connection) (v verdict, evicted *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		return refusedClosing, nil
	}
	counted := a.counts(c.addr)
	prefix := a.prefixOf(c.addr)
	if counted {
		if a.perClient != Unlimited && a.byClient[c.addr] >= a.perClient ||
			a.perPrefix != Unlimited && a.byPrefix[prefix] >= a.perPrefix {
			return refusedClient, nil
		}
	}
	if len(a.all) >= a.total {
		oldest := a.fresh.Front()
		if oldest == nil || a.leaving >= leavingMax {
			return refusedTotal, nil
		}
		evicted = a.fresh.Remove(oldest).(*connection)
		evicted.fresh, evicted.leaving = nil, true
		a.leaving++
	}
	a.all[c] = struct{}{}
	c.fresh = a.fresh.PushBack(c)
	if counted {
		a.byClient[c.addr]++
		a.byPrefix[prefix]++
	}
	return admitted, evicted
}

// settle records that a connection gave MAIL and must not be evicted any more.
func (a *admission) settle(c *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetFresh(c)
}

func (a *admission) leave(c *connection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, c)
	a.forgetFresh(c)
	if c.leaving {
		a.leaving--
	}
	if !a.counts(c.addr) {
		return
	}
	prefix := a.prefixOf(c.addr)
	if a.byClient[c.addr]--; a.byClient[c.addr] == 0 {
		delete(a.byClient, c.addr)
	}
	if a.byPrefix[prefix]--; a.byPrefix[prefix] == 0 {
		delete(a.byPrefix, prefix)
	}
}

func (a *admission) forgetFresh(c *connection) {
	if c.fresh != nil {
		a.fresh.Remove(c.fresh)
		c.fresh = nil
	}
}

// close stops admission and returns the open connections.
func (a *admission) close() []*connection {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closing = true
	there := make([]*connection, 0, len(a.all))
	for c := range a.all {
		there = append(there, c)
	}
	return there
}

// counts reports whether connections from the address are counted.
func (a *admission) counts(addr netip.Addr) bool {
	return addr.IsValid() && !contains(a.exceptions, addr)
}

// prefixOf returns the network that an address is counted under.
func (a *admission) prefixOf(addr netip.Addr) netip.Prefix {
	bits := a.ipv6Bits
	if addr.Is4() {
		bits = a.ipv4Bits
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // not an address of TCP; it is not counted
	}
	return p
}
