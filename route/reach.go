package route

import (
	"net/netip"

	"github.com/posthaste-mta/posthaste/mail"
)

// Reach says which kinds of addresses may be connected to. Whoever owns a
// domain decides what addresses its mail goes to, so without a limit anybody
// could make this program talk to services on its own network: a metadata
// service, a database on localhost, a printer.
type Reach uint8

const (
	ReachPublic  Reach = iota // neither special nor private addresses: mail routed by somebody else's records
	ReachPrivate              // also RFC 1918, RFC 4193 and RFC 6598: sites that exchange mail inside their network
	ReachAny                  // every address: nexthops that the operator wrote down
)

// String returns the word used in configuration.
func (r Reach) String() string {
	switch r {
	case ReachPublic:
		return "public"
	case ReachPrivate:
		return "private"
	case ReachAny:
		return "any"
	}
	return "unknown"
}

// ParseReach reads the word back.
func ParseReach(word string) (Reach, error) {
	for r := ReachPublic; r <= ReachAny; r++ {
		if r.String() == word {
			return r, nil
		}
	}
	return 0, &SyntaxError{"reach", word, "it is not one of public, private, any", ""}
}

// Permits tells whether a may be connected to.
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
