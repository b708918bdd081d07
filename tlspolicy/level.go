package tlspolicy

import (
	"fmt"
	"strings"
)

// A Level is a security level of connections.
type Level uint8

const (
	None Level = iota
	May
	Encrypt
	Fingerprint
	Verify
	Secure
	DANE
	DANEOnly
	STS
	levels = iota
)

var levelNames = [levels]string{"none", "may", "encrypt", "fingerprint", "verify", "secure", "dane", "dane-only", "mta-sts"}

// Levels returns the names of all levels.
func Levels() []string { return levelNames[:] }

// String returns the level's name.
func (l Level) String() string {
	if l >= levels {
		return fmt.Sprintf("level %d", uint8(l))
	}
	return levelNames[l]
}

// Encrypts reports whether a connection can always be under TLS at the level: at None it never is, and at
// May the server decides.
func (l Level) Encrypts() bool { return l >= Encrypt && l < levels }

// ParseLevel returns the level of a name.
func ParseLevel(name string) (Level, error) {
	for l, n := range levelNames {
		if n == name {
			return Level(l), nil
		}
	}
	return None, fmt.Errorf("there is no TLS level %q; there are %s", name, strings.Join(levelNames[:], ", "))
}
