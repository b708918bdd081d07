package mail

import (
	"net/netip"
	"strings"
)

// SocketPrefix begins a nexthop that is a unix socket; its absolute path follows.
const SocketPrefix = "unix:"

// SocketAddr returns what stands for a unix socket where the address of a host is
// expected, as in Host.Addr: an address of the prefix that is set apart for packets to
// be dropped (RFC 6666), with the path as its zone. No host has it; it can be compared,
// written and read like any other address, and different paths have different ones. The
// path is absolute.
func SocketAddr(path string) netip.AddrPort {
	return netip.AddrPortFrom(socketAddr().WithZone(path), 0)
}

// SocketPath returns the path of the unix socket that an address stands for; false if
// it is the address of a host.
func SocketPath(a netip.AddrPort) (path string, ok bool) {
	zone := a.Addr().Zone()
	ok = strings.HasPrefix(zone, "/") && a.Addr().WithZone("") == socketAddr()
	if !ok {
		return "", false
	}
	return zone, true
}

func socketAddr() netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0x01, 15: 0x01}) // 100::1
}

// FoldNexthop returns a nexthop in lower case, as names of queues have it, except for the
// path of a socket.
func FoldNexthop(nexthop string) string {
	if strings.HasPrefix(nexthop, SocketPrefix) {
		return nexthop
	}
	return strings.ToLower(nexthop)
}

// Label returns a host in the form of logs and replies, without the port:
// "mx.example.com[192.0.2.1]", "[192.0.2.1]", or "unix:/path". Control characters in the
// name are made visible.
func (h *Host) Label() string {
	if path, ok := SocketPath(h.Addr); ok {
		return CleanText(SocketPrefix + strings.ReplaceAll(path, "\n", "?"))
	}
	return CleanText(strings.ReplaceAll(h.Name, "\n", "?")) + "[" + h.Addr.Addr().String() + "]"
}
