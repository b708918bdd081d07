package smtp

import "strings"

// Mechanisms is a set of mechanisms of AUTH by which a client can show who it is (RFC 4954,
// RFC 4422). A set of one is that mechanism.
type Mechanisms uint8

const (
	MechScramPlus Mechanisms = 1 << iota // SCRAM-SHA-256-PLUS (RFC 7677), bound to the TLS connection
	MechScram                            // SCRAM-SHA-256
	MechPlain                            // PLAIN (RFC 4616)
	MechLogin                            // LOGIN (draft-murchison-sasl-login)
)

// AllMechanisms are all mechanisms. Revealing are those that show the password to the server
// and to anyone who can read the connection. Bound are those that exist only with TLS, although
// they do not reveal the password.
const (
	AllMechanisms = MechScramPlus | MechScram | MechPlain | MechLogin
	Revealing     = MechPlain | MechLogin
	Bound         = MechScramPlus
)

// mechanismNames are in the order in which EHLO offers them: many clients take the first
// that they know.
var mechanismNames = [...]struct {
	name string
	m    Mechanisms
}{
	{"SCRAM-SHA-256-PLUS", MechScramPlus}, {"SCRAM-SHA-256", MechScram}, {"PLAIN", MechPlain}, {"LOGIN", MechLogin},
}

// String returns the names with spaces between them, the strongest first, as EHLO offers
// them.
func (m Mechanisms) String() string {
	var all []string
	for _, n := range mechanismNames {
		if m&n.m != 0 {
			all = append(all, n.name)
		}
	}
	return strings.Join(all, " ")
}

// ParseMechanism returns the mechanism of a name, in any case, and 0 if it is not known.
func ParseMechanism(name string) Mechanisms {
	for _, n := range mechanismNames {
		if strings.EqualFold(n.name, name) {
			return n.m
		}
	}
	return 0
}
