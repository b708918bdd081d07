package route

import (
	"net/netip"
	"slices"
)

// Families says which kinds of addresses are used.
type Families uint8

const (
	FamiliesBoth Families = iota
	FamiliesIPv4
	FamiliesIPv6
)

// String returns the word used in configuration, as in Postfix's
// inet_protocols.
func (f Families) String() string {
	switch f {
	case FamiliesBoth:
		return "all"
	case FamiliesIPv4:
		return "ipv4"
	case FamiliesIPv6:
		return "ipv6"
	}
	return "unknown"
}

// ParseFamilies reads the word back.
func ParseFamilies(word string) (Families, error) {
	for f := FamiliesBoth; f <= FamiliesIPv6; f++ {
		if f.String() == word {
			return f, nil
		}
	}
	return 0, &SyntaxError{"address families", word, "it is not one of all, ipv4, ipv6", ""}
}

// Includes tells whether addresses such as a are used.
func (f Families) Includes(a netip.Addr) bool {
	return f == FamiliesBoth || a.Is4() == (f == FamiliesIPv4)
}

// A Self is what tells us that we ourselves are among the hosts of a domain,
// in which case mail must not go to us or to any host that is worse
// (RFC 5321 5.1).
type Self struct {
	// Names are what this machine is called: its host name, and what it says in
	// its greeting and in EHLO. Canonical domains.
	Names []string
	// Listeners are the addresses and ports at which mail for this program
	// arrives: those it listens on, wildcards replaced by the machine's
	// addresses, and those of a proxy or address translator in front of it.
	Listeners []netip.AddrPort
}

// isName tells whether a host to be reached at port is ourselves by its name.
// Where listeners are known, a name counts only for a port on which we
// listen: another server on this machine may well be the MX host for whose
// mail we are the way out.
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

// A Policy says which of the hosts that the DNS names are used.
type Policy struct {
	Self     Self
	Reach    Reach
	Families Families
	// HostsMax is how many host names of one domain are looked up at once, the best
	// first; as many again if none of them can be used. 0 means DefaultHostsMax. Raise it for a domain that is known to
	// hide good hosts behind many dead ones.
	HostsMax int
	// AddressesMax is how many addresses serve one nexthop, shared out between
	// the address families; 0 means DefaultAddressesMax, as Postfix's
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
