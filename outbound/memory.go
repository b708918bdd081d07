package outbound

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Bounds of what is remembered about hosts.
const (
	memoryMax   = 10000          // hosts, and doubts
	memoryTime  = 24 * time.Hour // how long something learnt is held to be true
	staleRow    = 3              // idle sessions gone in a row that show that a host keeps none
	doubtsLimit = 3              // doubtful results of a message after which a host is tried last
)

// A memory is what this process has learnt about hosts that differ from the
// rest. Nearly all hosts do not, so most questions are answered without the
// lock. It may be used from many goroutines.
type memory struct {
	used atomic.Bool // there is something to remember

	mu     sync.Mutex
	hosts  map[netip.AddrPort]trait
	doubts map[doubt]uint8
}

// A trait is what was learnt about one host.
type trait struct {
	lockStep time.Time // until then commands are not sent in groups
	single   time.Time // until then sessions are not kept idle
	stale    uint8     // idle sessions found gone in a row
}

// A doubt is a message that a host may have taken or not.
type doubt struct {
	id   mail.QueueID
	host netip.AddrPort
}

func newMemory() *memory {
	return &memory{hosts: make(map[netip.AddrPort]trait), doubts: make(map[doubt]uint8)}
}

func (m *memory) learn(host netip.AddrPort, change func(*trait)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, known := m.hosts[host]
	change(&t)
	if t == (trait{}) {
		delete(m.hosts, host)
		return
	}
	if !known {
		makeRoom(m.hosts)
	}
	m.hosts[host] = t
	m.used.Store(true)
}

// stepDown remembers that a host cannot take commands in groups.
func (m *memory) stepDown(host netip.AddrPort) {
	m.learn(host, func(t *trait) { t.lockStep = time.Now().Add(memoryTime) })
}

// wentStale remembers that an idle session was gone when it was taken up
// again. A host that closes after every message does so each time.
func (m *memory) wentStale(host netip.AddrPort, carried int) {
	m.learn(host, func(t *trait) {
		if carried > 1 {
			t.stale = 0
			return
		}
		if t.stale++; t.stale >= staleRow {
			t.stale = 0
			t.single = time.Now().Add(memoryTime)
		}
	})
}

// kept remembers that an idle session was still good.
func (m *memory) kept(host netip.AddrPort) {
	if m.used.Load() {
		m.learn(host, func(t *trait) { t.stale = 0 })
	}
}

func (m *memory) trait(host netip.AddrPort) trait {
	if !m.used.Load() {
		return trait{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hosts[host]
}

// doubtful remembers that a host may have taken a message.
func (m *memory) doubtful(id mail.QueueID, host netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := doubt{id, host}
	if n, known := m.doubts[key]; known {
		m.doubts[key] = min(n+1, doubtsLimit)
		return
	}
	makeRoom(m.doubts)
	m.doubts[key] = 1
	m.used.Store(true)
}

// avoid tells whether a host has swallowed a message so often that another one
// should be tried first.
func (m *memory) avoid(id mail.QueueID, host netip.AddrPort) bool {
	if !m.used.Load() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doubts[doubt{id, host}] >= doubtsLimit
}

// makeRoom drops an entry, any one, of a full map: what was in it is learnt
// again if it is still true.
func makeRoom[K comparable, V any](m map[K]V) {
	if len(m) < memoryMax {
		return
	}
	for k := range m {
		delete(m, k)
		return
	}
}
