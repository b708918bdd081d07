package destdb

import (
	"fmt"
	"net/netip"
	"strings"
)

// A Key identifies a destination of connections: connections are interchangeable
// only if their keys are equal.
type Key struct {
	Addr netip.AddrPort
	// Transport names the transport whose connections they are: its settings
	// distinguish them.
	Transport string
	// Source names the origin of connections: the source address or a pool of
	// addresses. A host that refuses one of our addresses may accept another. Empty
	// where there is one origin only.
	Source string
	// Security names everything else that distinguishes connections: the TLS
	// policy, the identity that must be verified, which may be the host's name, the
	// SASL identity, the name in EHLO.
	Security string
}

// textMax is the maximum length, in bytes, of each text of a key that is saved.
const textMax = 1024

// String returns the nonempty parts, as in
// "192.0.2.1:25 transport=smtp source=a security=dane".
func (k Key) String() string {
	var b strings.Builder
	b.WriteString(k.Addr.String())
	for _, part := range [...]struct{ name, text string }{{"transport", k.Transport}, {"source", k.Source}, {"security", k.Security}} {
		if part.text != "" {
			b.WriteString(" " + part.name + "=" + part.text)
		}
	}
	return b.String()
}

// A State is the state of a host.
type State uint8

const (
	// Unused: it has no open connection, and nothing is known for or against it.
	Unused State = iota
	// InUse: it has open connections, or one is being opened.
	InUse
	// Closed: its last connection was shut recently.
	Closed
	// RetryLater: it failed, and must not be tried now.
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
