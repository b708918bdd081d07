package outbound

import "sync/atomic"

// Stats are counts since the Client was made, for metrics.
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
}

// counters hold the Stats while they are counted.
type counters struct {
	transactions, connects, connectFailures, handshakeFails, tlsFailures, authFailures atomic.Uint64
	reused, stale, lost, protocol, doubtful, emptyTaken, astray, blocked               atomic.Uint64
}

// Stats returns the current counts. They are read one by one, so they may differ
// slightly from a consistent snapshot.
func (c *Client) Stats() Stats {
	return Stats{
		Transactions:    c.count.transactions.Load(),
		Connects:        c.count.connects.Load(),
		ConnectFailures: c.count.connectFailures.Load(),
		HandshakeFails:  c.count.handshakeFails.Load(),
		TLSFailures:     c.count.tlsFailures.Load(),
		AuthFailures:    c.count.authFailures.Load(),
		Reused:          c.count.reused.Load(),
		Stale:           c.count.stale.Load(),
		Lost:            c.count.lost.Load(),
		Protocol:        c.count.protocol.Load(),
		Doubtful:        c.count.doubtful.Load(),
		EmptyTaken:      c.count.emptyTaken.Load(),
		Astray:          c.count.astray.Load(),
		Blocked:         c.count.blocked.Load(),
	}
}
