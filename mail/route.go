package mail

import "net/netip"

// A Route is where one recipient goes: a transport (a named way to deliver,
// with its own limits) and a nexthop (what that transport is to reach: a
// domain, "[host]", "[host]:port" or "host:port" for smtp).
//
// A route whose Reply is not zero leads nowhere: the recipient gets the Reply
// as its outcome without an attempt.
type Route struct {
	Transport string
	Nexthop   string
	// Site, if not "", is a nexthop, too: one that names the hosts themselves,
	// and is the same text for everything that these hosts serve, so that their
	// mail shares a queue, its window and its connections. It reaches these hosts
	// even when Nexthop has come to lead elsewhere. It is in lower case.
	Site string
	// NeedsLookup tells that Site and Reply are not known yet: Nexthop has to be
	// looked up first. They are zero then.
	NeedsLookup bool
	Reply       Reply
}

// A Host is one address to connect to.
type Host struct {
	Name       string         // the name that led to the address; "" for a literal
	Addr       netip.AddrPort // where to connect
	Preference uint16         // of its MX record; 0 without one
}

// A HostSet is the hosts that serve a nexthop: tiers of hosts in the order in
// which they are to be tried; within a tier any host is as good as any other
// (RFC 5321 5.1). A tier is never empty.
type HostSet struct {
	Tiers [][]Host
	Until Instant // when the answer should be looked up again
}
