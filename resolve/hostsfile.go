package resolve

import (
	"net/netip"
	"strings"

	"github.com/posthaste-mta/posthaste/route"
)

// A hostsTable is the contents of a hosts(5) file: the addresses of each name, in
// the order of the file. It contains localhost even if the file does not
// (RFC 6761 6.3).
type hostsTable map[string][]netip.Addr

func parseHosts(text string) hostsTable {
	t := make(hostsTable)
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		a, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		a = a.Unmap().WithZone("")
		for _, f := range fields[1:] {
			if name, err := route.ParseDomain(f); err == nil {
				t[name] = append(t[name], a)
			}
		}
	}
	const localhost = "localhost"
	if len(t[localhost]) == 0 {
		t[localhost] = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	return t
}
