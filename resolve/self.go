package resolve

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// OwnAddresses returns the addresses and ports at which mail reaches us, for
// route.Self: the listeners, with wildcard addresses replaced by all addresses of
// this machine, and the proxies, which are addresses of a relay or address
// translator in front of it, at every port on which we listen.
func OwnAddresses(listeners []netip.AddrPort, proxies []netip.Addr) ([]netip.AddrPort, error) {
	var own []netip.AddrPort
	var machine []netip.Addr
	for _, l := range listeners {
		addrs := []netip.Addr{l.Addr().Unmap()}
		if l.Addr().IsUnspecified() {
			if machine == nil {
				var err error
				if machine, err = interfaceAddresses(); err != nil {
					return nil, err
				}
			}
			addrs = machine
		}
		for _, a := range slices.Concat(addrs, proxies) {
			own = append(own, netip.AddrPortFrom(a.WithZone(""), l.Port()))
		}
	}
	slices.SortFunc(own, netip.AddrPort.Compare)
	return slices.Compact(own), nil
}

func interfaceAddresses() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("resolve: list this machine's addresses: %w", err)
	}
	var all []netip.Addr
	for _, n := range nets {
		if ipNet, ok := n.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(ipNet.IP); ok {
				all = append(all, a.Unmap())
			}
		}
	}
	return all, nil
}
