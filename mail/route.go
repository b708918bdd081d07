package mail

import "net/netip"

// Names of transports that lead nowhere. Each configuration has them.
const (
	TransportError   = "error"   // recipients fail
	TransportDiscard = "discard" // recipients count as delivered; nothing is sent
)

// A Route is the destination of one recipient: a transport (a named way to
// deliver, with its own limits) and a nexthop (what that transport connects to: a
// domain, "[host]", "[host]:port" or "host:port" for smtp).
//
// A route whose Reply is not zero leads nowhere: Reply is the recipient's outcome,
// without an attempt.
type Route struct {
	Transport string
	Nexthop   string
	// Site, if not "", is also a nexthop: one that names the hosts themselves. It
	// is the same text for everything that these hosts serve, so that their mail
	// shares a queue, its window and its connections. It leads to these hosts even
	// when Nexthop now leads to others. It is in lower case.
	Site string
	// Security is what is demanded of the security of connections for the mail: the text of a
	// tlspolicy.Demand, "" for TLS if the host offers it. Mail that demands something else
	// does not share a queue.
	Security string
	// NeedsLookup means that Site, Security and Reply are not known yet, and zero: Nexthop
	// must be looked up first.
	NeedsLookup bool
	// Credential, with NeedsLookup, is the label of that by which to authenticate for the mail's sender, on whom
	// the lookup does not depend otherwise: Security will have it. "" for none.
	Credential string
	Reply      Reply
}

// A Host is one address to connect to.
type Host struct {
	Name       string         // the name with this address; "" for a literal
	Addr       netip.AddrPort // where to connect
	Preference uint16         // of its MX record; 0 without one
}

// A HostSet is the hosts that serve a nexthop: tiers of hosts in the order in
// which to try them; the hosts within a tier are equivalent (RFC 5321 5.1). A tier
// is never empty.
type HostSet struct {
	Tiers [][]Host
	Until Instant // when the answer should be looked up again
}
