package outbound

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/posthaste-mta/posthaste/mail"
)

// A SourceConfig is one of our identities towards receivers (mail.Opening.Source).
type SourceConfig struct {
	// IPv4 and IPv6 are the addresses that its connections come from; with one of them
	// only, it reaches hosts of that family only.
	IPv4, IPv6 netip.Addr
	Hello      string // its name in EHLO (default: Config.Hello)
}

// address returns the source's address for connections to a host.
func (s *SourceConfig) address(to netip.Addr) netip.Addr {
	if to.Unmap().Is4() {
		return s.IPv4
	}
	return s.IPv6
}

// CheckSources returns which addresses of the sources cannot be used on this machine, and
// why, as one error; nil if all can.
func (c Config) CheckSources() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		s := c.Sources[name]
		for _, a := range []netip.Addr{s.IPv4, s.IPv6} {
			if !a.IsValid() {
				continue
			}
			if err := bind(a); err != nil {
				errs = append(errs, fmt.Errorf("source %s: address %s cannot be used: %w; add it to a network interface of this machine, or correct [source.%s]", name, a, cause(err), name))
			}
		}
	}
	return errors.Join(errs...)
}

// bind reports whether a socket can have an address, without sending anything.
func bind(a netip.Addr) error {
	sock, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err == nil {
		sock.Close()
	}
	return err
}

// cause returns the system's error if there is one.
func cause(err error) error {
	var sys syscall.Errno
	if errors.As(err, &sys) {
		return sys
	}
	return err
}

// An origin is our end of a connection.
type origin struct {
	addr  netip.Addr // invalid: the system chooses
	hello string     // in EHLO
}

// origin returns where a connection is to come from; false if its source has no address of
// the host's family, or was removed by a reload.
func (c *Client) origin(config *TransportConfig, o *mail.Opening) (origin, bool) {
	s := c.cfg.Sources[o.Source]
	if _, local := mail.SocketPath(o.Host.Addr); local {
		return origin{hello: cmp.Or(s.Hello, c.cfg.Hello)}, true
	}
	if o.Source == "" {
		return origin{config.BindAddress, c.cfg.Hello}, true
	}
	addr := s.address(o.Host.Addr.Addr())
	return origin{addr, cmp.Or(s.Hello, c.cfg.Hello)}, addr.IsValid()
}

// unbound is the reply for a dial that failed because of the local address. Senders see it,
// so it does not say which address that is.
func unbound(text string) mail.Reply {
	return mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3}, Text: mail.CleanText(text)}
}

// blamesAddress reports whether a dial failed because the local address cannot be used: it
// is not on this machine any more, or there is no way to the host from it although there is
// one from others.
func blamesAddress(err error, from netip.Addr, to netip.AddrPort) bool {
	var call *os.SyscallError
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return errors.As(err, &call) && call.Syscall == "bind"
	case errors.Is(err, syscall.ENETUNREACH):
		return !routed(from, to) && routed(netip.Addr{}, to)
	}
	return false
}

// routed reports whether the system knows a way to a host from an address, or from any if
// that is invalid. It sends nothing.
func routed(from netip.Addr, to netip.AddrPort) bool {
	var local *net.UDPAddr
	if from.IsValid() {
		local = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	sock, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(to))
	if err == nil {
		sock.Close()
	}
	return err == nil
}
