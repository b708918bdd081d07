package mail

import "net/netip"

// An AddrClass is the scope in which an address has a meaning. The owner of a
// domain decides to which addresses its mail goes, so the class is checked before
// a connection is made.
type AddrClass uint8

const (
	// AddrSpecial is an address that cannot belong to another mail server:
	// unspecified, "this network", loopback, link-local (which includes the
	// metadata services of hosting providers), multicast, reserved.
	AddrSpecial AddrClass = iota
	// AddrPrivate is an address that has a meaning within one network only:
	// RFC 1918, RFC 4193, RFC 6598.
	AddrPrivate
	// AddrPublic is any other.
	AddrPublic
)

// ClassOf returns the class of an address. If it embeds an IPv4 address, the
// class is that of the embedded one, since that is where the packets end up.
func ClassOf(a netip.Addr) AddrClass {
	a = innermost(a)
	switch {
	case special(a):
		return AddrSpecial
	case private(a):
		return AddrPrivate
	}
	return AddrPublic
}

func special(a netip.Addr) bool {
	if !a.IsValid() || a.IsUnspecified() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() {
		return true
	}
	if a.Is4() {
		first := a.As4()[0]
		return first == 0 || first >= 240
	}
	b := a.As16()
	return b[0] == 0x01 && [7]byte(b[1:8]) == [7]byte{} // 100::/64, RFC 6666; see SocketAddr
}

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

// innermost returns the IPv4 address that is embedded in a mapped, compatible,
// NAT64 or 6to4 address, since that is where the packets end up.
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
