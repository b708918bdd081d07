package outbound

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/posthaste-mta/posthaste/internal/histogram"
)

// Stats are counts since the Counters were made, for metrics.
type Stats struct {
	Transactions    uint64 // transactions that reached MAIL
	Connects        uint64 // connections opened
	ConnectFailures uint64 // connections that could not be opened
	HandshakeFails  uint64 // connections on which the session did not begin
	TLSFailures     uint64 // of these, the ones on which TLS could not be negotiated
	AuthFailures    uint64 // of these, the ones on which we could not authenticate
	Reused          uint64 // transactions on a connection that had carried one before
	Stale           uint64 // idle sessions that turned out to be closed
	Lost            uint64 // connections lost or timed out during a transaction
	Protocol        uint64 // connections closed because of a protocol violation
	Doubtful        uint64 // recipients whose message may or may not have been accepted
	EmptyTaken      uint64 // messages without recipients that a server accepted
	Astray          uint64 // messages that a server accepted under the envelope of another
	Blocked         uint64 // addresses not dialed because they are not public
	// TLS are handshakes that succeeded, by version: TLS 1.0 to TLS 1.3.
	TLS [tls.VersionTLS13 - tls.VersionTLS10 + 1]uint64
	// Depth are the numbers of transactions that were under way on a connection when one more
	// began, itself included: 1 is no pipelining.
	Depth histogram.Values
	// Carried are the numbers of transactions of connections that have ended.
	Carried histogram.Values
}

// Counters hold the Stats while they are counted. Several Clients may have the same. The zero
// Counters are ready for use.
type Counters struct {
	tls            [tls.VersionTLS13 - tls.VersionTLS10 + 1]atomic.Uint64
	depth, carried histogram.Histogram

	transactions, connects, connectFailures, handshakeFails, tlsFailures, authFailures atomic.Uint64
	reused, stale, lost, protocol, doubtful, emptyTaken, astray, blocked               atomic.Uint64
}

// secured counts a handshake.
func (c *Counters) secured(version uint16) {
	c.tls[min(max(version, tls.VersionTLS10), tls.VersionTLS13)-tls.VersionTLS10].Add(1)
}

// Stats returns the current counts of the Client and of those that share its Counters.
func (c *Client) Stats() Stats { return c.count.Stats() }

// Stats returns the current counts. They are read one by one, so they may differ
// slightly from a consistent snapshot.
func (c *Counters) Stats() Stats {
	s := Stats{
		Transactions:    c.transactions.Load(),
		Connects:        c.connects.Load(),
		ConnectFailures: c.connectFailures.Load(),
		HandshakeFails:  c.handshakeFails.Load(),
		TLSFailures:     c.tlsFailures.Load(),
		AuthFailures:    c.authFailures.Load(),
		Reused:          c.reused.Load(),
		Stale:           c.stale.Load(),
		Lost:            c.lost.Load(),
		Protocol:        c.protocol.Load(),
		Doubtful:        c.doubtful.Load(),
		EmptyTaken:      c.emptyTaken.Load(),
		Astray:          c.astray.Load(),
		Blocked:         c.blocked.Load(),
		Depth:           c.depth.Snapshot(),
		Carried:         c.carried.Snapshot(),
	}
	for i := range c.tls {
		s.TLS[i] = c.tls[i].Load()
	}
	return s
}
