package route

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/mail"
)

// Reach is the set of addresses to which connections are permitted. The owner of a
// domain decides to which addresses its mail goes; without a limit anyone could
// make this program connect to services on its own network: a metadata
// service, a database on localhost, a printer.
type Reach uint8

const (
	ReachPublic  Reach = iota // neither special nor private addresses: mail routed by the DNS
	ReachPrivate              // also RFC 1918, RFC 4193 and RFC 6598: sites that exchange mail inside their network
	ReachAny                  // every address: nexthops that the operator configured
)

// String returns the word for the configuration.
func (r Reach) String() string { return [...]string{"public", "private", "any"}[r] }

// Permits reports whether connections to a are permitted.
func (r Reach) Permits(a netip.Addr) bool {
	if r == ReachAny {
		return a.IsValid()
	}
	switch mail.ClassOf(a) {
	case mail.AddrPublic:
		return true
	case mail.AddrPrivate:
		return r == ReachPrivate
	}
	return false
}
