package inbound

import (
	"container/list"
	"net/netip"
	"sync"
)

// An admission tracks the connections and decides which are admitted.
type admission struct {
	total              int
	ipv4Bits, ipv6Bits int // of a prefix
	exceptions         []netip.Prefix

	mu      sync.Mutex // guards the fields below, all counts, and socket.open
	all     map[*connection]struct{}
	counts  *counts
	fresh   list.List // of *connection: those without a MAIL, oldest first
	leaving int       // evicted but not closed yet
	closing bool
}

// counts are the connections of each client and network, and their limits.
type counts struct {
	perClient, perPrefix int
	byClient             map[netip.Addr]int
	byPrefix             map[netip.Prefix]int
}

func newCounts(perClient, perPrefix int) *counts {
	return &counts{perClient: perClient, perPrefix: perPrefix, byClient: map[netip.Addr]int{}, byPrefix: map[netip.Prefix]int{}}
}

// full reports whether a client may not have one connection more.
func (n *counts) full(addr netip.Addr, prefix netip.Prefix) bool {
	return n.perClient != Unlimited && n.byClient[addr] >= n.perClient ||
		n.perPrefix != Unlimited && n.byPrefix[prefix] >= n.perPrefix
}

func (n *counts) add(addr netip.Addr, prefix netip.Prefix) {
	n.byClient[addr]++
	n.byPrefix[prefix]++
}

func (n *counts) remove(addr netip.Addr, prefix netip.Prefix) {
	if n.byClient[addr]--; n.byClient[addr] == 0 {
		delete(n.byClient, addr)
	}
	if n.byPrefix[prefix]--; n.byPrefix[prefix] == 0 {
		delete(n.byPrefix, prefix)
	}
}

func newAdmission(cfg *Config) *admission {
	return &admission{
		total:      cfg.ConnectionLimit,
		ipv4Bits:   cfg.IPv4PrefixLength,
		ipv6Bits:   cfg.IPv6PrefixLength,
		exceptions: cfg.LimitExceptions,
		all:        map[*connection]struct{}{},
		counts:     newCounts(atMostHalf(cfg.ClientConnectionLimit, cfg.ConnectionLimit), atMostHalf(cfg.PrefixConnectionLimit, cfg.ConnectionLimit)),
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
	c.counts = a.countsOf(c)
	counted := a.counted(c.client.Addr) && !c.forOthers()
	if counted && c.counts.full(c.client.Addr, a.prefixOf(c.client.Addr)) {
		return refusedClient, nil
	}
	crowded := c.terms.room > 0 && c.socket.open >= c.terms.room
	if crowded || len(a.all) >= a.total {
		if evicted = a.oldestFresh(c, crowded); evicted == nil {
			return refusedTotal, nil
		}
		a.forgetFresh(evicted)
		evicted.leaving = true
		a.leaving++
	}
	a.all[c] = struct{}{}
	c.fresh = a.fresh.PushBack(c)
	c.socket.open++
	if counted {
		a.count(c, c.client.Addr)
	}
	return admitted, evicted
}

// rename counts a connection for another client, or refuses that.
func (a *admission) rename(c *connection, addr netip.Addr) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := c.countedAs
	a.uncount(c)
	if a.counted(addr) {
		if c.counts.full(addr, a.prefixOf(addr)) {
			if before.IsValid() {
				a.count(c, before)
			}
			return refusedClient
		}
		a.count(c, addr)
	}
	return admitted
}

func (a *admission) count(c *connection, addr netip.Addr) {
	c.counts.add(addr, a.prefixOf(addr))
	c.countedAs = addr
}

func (a *admission) uncount(c *connection) {
	if c.countedAs.IsValid() {
		c.counts.remove(c.countedAs, a.prefixOf(c.countedAs))
		c.countedAs = netip.Addr{}
	}
}

// countsOf returns where a connection counts: its listener's own, or those of all.
func (a *admission) countsOf(c *connection) *counts {
	if c.terms.counts != nil {
		return c.terms.counts
	}
	return a.counts
}

// oldestFresh returns the connection to close in order to make room, nil if there is
// none: one of the same listener, if it is that which is full.
func (a *admission) oldestFresh(c *connection, crowded bool) *connection {
	if a.leaving >= leavingMax {
		return nil
	}
	for e := a.fresh.Front(); e != nil; e = e.Next() {
		if other := e.Value.(*connection); !crowded || other.socket == c.socket {
			return other
		}
	}
	return nil
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
	c.socket.open--
	a.uncount(c)
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

// counted reports whether connections from the address are counted.
func (a *admission) counted(addr netip.Addr) bool {
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
