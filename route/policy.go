package route

import (
	"net/netip"
	"slices"
)

// Families is the set of address families in use.
type Families uint8

const (
	FamiliesBoth Families = iota
	FamiliesIPv4
	FamiliesIPv6
)

// String returns the word used in configuration, as in Postfix's
// inet_protocols.
func (f Families) String() string { return [...]string{"all", "ipv4", "ipv6"}[f] }

// Includes reports whether addresses of a's family are used.
func (f Families) Includes(a netip.Addr) bool {
	return f == FamiliesBoth || a.Is4() == (f == FamiliesIPv4)
}

// A Self identifies this host among the hosts of a domain. Mail must not go to it
// or to any host with a worse preference (RFC 5321 5.1).
type Self struct {
	// Names are the names of this machine: its host name, and the names in its
	// greeting and EHLO. Canonical domains.
	Names []string
	// Listeners are the addresses and ports at which mail for this program
	// arrives: those it listens on, wildcards replaced by the machine's
	// addresses, and those of a proxy or address translator in front of it.
	Listeners []netip.AddrPort
}

// isName reports whether a host to connect to at port has one of our own names.
// Where listeners are known, a name counts only for a port on which we
// listen: another server on this machine may be the MX host whose outgoing mail
// we relay.
func (s Self) isName(name string, port uint16) bool {
	if !slices.Contains(s.Names, name) {
		return false
	}
	return len(s.Listeners) == 0 ||
		slices.ContainsFunc(s.Listeners, func(l netip.AddrPort) bool { return l.Port() == port })
}

func (s Self) isListener(a netip.Addr, port uint16) bool {
	return slices.Contains(s.Listeners, netip.AddrPortFrom(a, port))
}

// Defaults of a Policy's limits.
const (
	DefaultHostsMax     = 10
	DefaultAddressesMax = 5
)

// A Policy selects the hosts from the DNS that are used.
type Policy struct {
	Self     Self
	Reach    Reach
	Families Families
	// HostsMax is the maximum number of host names of one domain that are looked up
	// at once, the best first; if none of them can be used, the next ones follow. 0
	// means DefaultHostsMax. Raise it for a domain that is known to hide good hosts
	// after many dead ones.
	HostsMax int
	// AddressesMax is the maximum number of addresses of one nexthop, divided
	// between the address families; 0 means DefaultAddressesMax, as in Postfix's
	// smtp_mx_address_limit. Raise it to spread over more of a big site's hosts.
	AddressesMax int
}

func (p Policy) hostsMax() int {
	if p.HostsMax == 0 {
		return DefaultHostsMax
	}
	return p.HostsMax
}

func (p Policy) addressesMax() int {
	if p.AddressesMax == 0 {
		return DefaultAddressesMax
	}
	return p.AddressesMax
}
