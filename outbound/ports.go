package outbound

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Resolver finds the hosts that serve a nexthop. Its methods are called
// concurrently. A zero Reply means that the hosts can be tried; a 4xx Reply
// that they cannot be found now, a 5xx Reply that there are none.
type Resolver interface {
	Hosts(ctx context.Context, nexthop string) (mail.HostSet, mail.Reply)
}

// A TLSAFinder looks up the TLSA records of hosts. Its methods are called concurrently.
type TLSAFinder interface {
	TLSA(ctx context.Context, host string, port uint16) dane.Answer
	// Names returns the domains to which mail for a nexthop goes, if it is known by DNSSEC: the nexthop's, and if
	// it is an alias the one that it stands for. Certificates under DANE-TA records may be for them
	// (RFC 7672 3.2.2).
	Names(ctx context.Context, nexthop string) []string
}

// Bodies gives access to the content of messages. Its methods are called
// concurrently.
type Bodies interface {
	Body(ctx context.Context, id mail.QueueID) (Body, error)
}

// A Body is the content of one message, from its start: lines that end in
// CRLF, without dot-stuffing. It was verified when it was opened, and is used
// by one goroutine. A Body that is not in memory is verified again while it is
// read: if the content has changed, Read returns an error instead of the last
// octets.
type Body interface {
	Size() int64 // octets
	// Bytes returns the whole content if it is in memory, otherwise nil. Callers
	// must not change it. It is valid until Close.
	Bytes() []byte
	io.Reader
	Close() error
}

// A Dialer opens a TCP connection, from a given source address unless that is
// invalid, or one to a unix socket (mail.SocketPath). It must not do lookups: the
// address dialed is the one that was checked.
type Dialer interface {
	Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error)
}

// netDialer dials with the net package.
type netDialer struct{}

func (netDialer) Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	if path, ok := mail.SocketPath(to); ok {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	d := net.Dialer{KeepAlive: time.Minute, Control: only(to)}
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	return d.DialContext(ctx, "tcp", to.String())
}

// only returns a hook that refuses every address except one: whatever is between
// us and the system, the address dialed is the one that was checked.
func only(to netip.AddrPort) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("outbound: dial: %w", err)
		}
		if at.Port() != to.Port() || at.Addr().Unmap() != to.Addr().Unmap() {
			return fmt.Errorf("outbound: dial: about to connect to %s instead of %s", at, to)
		}
		return nil
	}
}
