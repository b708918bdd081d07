package conns

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/destdb"
)

// A host is an address to which there are connections. What outlives them is in
// destdb.
type host struct {
	mail.Host
	key               destdb.Key
	connecting, ready int
	count             int              // all connections, also those that end
	carrying          int              // of those that end, the ones with something under way
	probing           bool             // it had failed, and a single connection is to show whether it is back
	doubted           bool             // one was refused and none is ready: those being opened show what is true
	idles             ilist.List[Conn] // of all sites, the one used last at the end
	waiting           ilist.List[spot]

	// A host that refuses a connection while others to it work takes no more of
	// them: until full is over it gets none, unless it has fewer than it had then.
	full     mail.Instant
	fullAt   int // connections that it had when it refused
	patience time.Duration
}

// A host that takes no more connections is asked for one more after a second,
// then after twice as long each time.
const (
	firstPatience = time.Second
	lastPatience  = time.Minute
)

func keyOf(h mail.Host) destdb.Key { return destdb.Key{Addr: h.Addr} }

// host returns the host of an address, and makes it if need be.
func (p *Pool) host(h mail.Host) *host {
	key := keyOf(h)
	if known, ok := p.hosts[key]; ok {
		return known
	}
	made := &host{Host: h, key: key}
	p.hosts[key] = made
	return made
}

// working tells whether the host has connections, or is about to have some.
func (h *host) working() bool { return h.connecting+h.ready > 0 }

// busyUntil returns until when the host is to get no further connection.
func (h *host) busyUntil(now mail.Instant) (mail.Instant, bool) {
	return h.full, h.full > now && h.count >= h.fullAt
}

// refused notes that the host did not take one more connection beside those that
// it has. That one still counts.
func (h *host) refused(now mail.Instant) {
	h.patience = min(max(2*h.patience, firstPatience), lastPatience)
	h.full, h.fullAt = now.Add(h.patience), h.count-1
}
