package inbound

import (
	"container/list"
	"net/netip"
	"sync"
)

// An admission knows the connections and decides which are let in.
type admission struct {
	total, perClient, perPrefix int
	ipv4Bits, ipv6Bits          int // of a prefix
	exceptions                  []netip.Prefix

	mu       sync.Mutex // guards what follows
	all      map[*connection]struct{}
	byClient map[netip.Addr]int
	byPrefix map[netip.Prefix]int
	fresh    list.List // of *connection: those without a MAIL, oldest first
	leaving  int       // evicted, and not gone yet
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

// leavingMax is how many connections may be on their way out, beyond the limit, to
// make room for others. Each still has a file descriptor: without this bound a flood
// of connections would have twice as many as the limit.
const leavingMax = 4

// atMostHalf lowers a limit where few connections are possible in all, such as with
// few file descriptors, so that no client or network can take all of them.
func atMostHalf(limit, total int) int {
	if limit == Unlimited {
		return limit
	}
	return min(limit, max(total/2, 1))
}

// A verdict is what admission says to a new connection.
type verdict uint8

const (
	admitted verdict = iota
	refusedTotal
	refusedClient
	refusedClosing
)

// String returns what the client and the log are told.
func (v verdict) String() string {
	return [...]string{"admitted", "too many connections", "too many connections from your network", "shutting down"}[v]
}

// enter lets a connection in, or not. If room must be made, evicted is the
// connection that has to go; it counts until it left, so that the limit may
// be exceeded for as long as that takes, by leavingMax.
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

// settle notes that a connection gave MAIL and is not to be evicted any more.
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

// close admits nobody any more and returns who is there.
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

// counts tells whether connections from the address are counted.
func (a *admission) counts(addr netip.Addr) bool {
	return addr.IsValid() && !contains(a.exceptions, addr)
}

// prefixOf returns the network that is taken for one owner's.
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
