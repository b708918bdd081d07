package route

import "net/netip"

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
	a = innermost(a)
	if special(a) {
		return false
	}
	return r == ReachPrivate || !private(a)
}

// special tells whether an address cannot be that of somebody else's mail
// server: unspecified, "this network", loopback, link-local (where the
// metadata services of hosting providers are), multicast, reserved.
func special(a netip.Addr) bool {
	if !a.IsValid() || a.IsUnspecified() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() {
		return true
	}
	if a.Is4() {
		first := a.As4()[0]
		return first == 0 || first >= 240
	}
	return false
}

// private tells whether an address has a meaning inside one network only.
func private(a netip.Addr) bool {
	if a.IsPrivate() {
		return true
	}
	if a.Is4() {
		b := a.As4()
		return b[0] == 100 && b[1]&0xc0 == 64 // 100.64.0.0/10, RFC 6598
	}
	return false
}

// innermost returns the IPv4 address that a mapped, compatible, NAT64 or 6to4
// address stands for, since that is where the packets end up.
func innermost(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch {
	case [12]byte(b[:12]) == [12]byte{0x00, 0x64, 0xff, 0x9b}: // RFC 6052 2.1
		return netip.AddrFrom4([4]byte(b[12:]))
	case [12]byte(b[:12]) == [12]byte{} && b[12] != 0: // RFC 4291 2.5.5.1
		return netip.AddrFrom4([4]byte(b[12:]))
	case b[0] == 0x20 && b[1] == 0x02: // RFC 3056 2
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}
