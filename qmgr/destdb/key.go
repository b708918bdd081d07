package destdb

import (
	"fmt"
	"net/netip"
	"strings"
)

// A Key names a destination of connections: connections may stand in for each
// other only if their keys are equal.
type Key struct {
	Addr netip.AddrPort
	// Egress names where connections come from: the source address or the pool
	// of them. A host that shuns one of our addresses may like another.
	Egress string
	// Security names all else that makes connections different: the TLS policy,
	// the identity that must be verified, the SASL identity, the name in EHLO.
	Security string
}

// textMax is the longest Egress or Security that is saved, in octets.
const textMax = 1024

// String returns the parts, empty ones left out, as in
// "192.0.2.1:25 egress=a security=dane".
func (k Key) String() string {
	var b strings.Builder
	b.WriteString(k.Addr.String())
	if k.Egress != "" {
		b.WriteString(" egress=" + k.Egress)
	}
	if k.Security != "" {
		b.WriteString(" security=" + k.Security)
	}
	return b.String()
}

// A State is what a host is good for.
type State uint8

const (
	// Unused: it has no open connection, and nothing speaks for or against it.
	Unused State = iota
	// InUse: it has open connections, or one is being made.
	InUse
	// Closed: its last connection was shut not long ago.
	Closed
	// RetryLater: it failed, and is to be left alone for now.
	RetryLater
	// RetryDue: it failed, and may be probed with one connection.
	RetryDue
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Unused:
		return "unused"
	case InUse:
		return "in-use"
	case Closed:
		return "closed"
	case RetryLater:
		return "retry-later"
	case RetryDue:
		return "retry-due"
	}
	return fmt.Sprintf("state %d", uint8(s))
}
