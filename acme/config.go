package acme

import (
	"crypto/x509"
	"time"
)

// DefaultDirectory is the directory of Let's Encrypt.
const DefaultDirectory = "https://acme-v02.api.letsencrypt.org/directory"

// A Challenge is the method by which the authority verifies that a name is ours.
type Challenge uint8

const (
	HTTP01    Challenge = iota // it fetches a file by HTTP from port 80 (RFC 8555 8.3)
	TLSALPN01                  // it asks for a certificate by TLS on port 443 (RFC 8737)
)

// String returns the name that the protocol uses.
func (c Challenge) String() string { return [...]string{"http-01", "tls-alpn-01"}[c] }

// Port returns the port to which the authority connects.
func (c Challenge) Port() uint16 { return [...]uint16{80, 443}[c] }

// A KeyType is the algorithm of a certificate's key.
type KeyType uint8

const (
	ECDSA KeyType = iota // on the curve P-256
	RSA                  // of 2048 bits
)

// String returns the name that the configuration uses.
func (k KeyType) String() string { return [...]string{"ecdsa", "rsa"}[k] }

// A Config describes the wanted certificate, and how to obtain it. It is not used without names.
type Config struct {
	Names     []string // of this server, in lower case; the certificate is for all of them
	Email     string   // of the account, for the authority's notices; "" for none
	Directory string   // URL of the authority
	Challenge Challenge
	// Addresses are the addresses, as net.Listen takes them, at which challenges are answered. They are
	// bound only while a certificate is being obtained.
	Addresses []string
	Keys      KeyType
	// Roots are the authorities that may vouch for the directory; nil for those of the system.
	Roots *x509.CertPool
	// Dir is the directory of the account and the certificate, with mode 0700. It is made if necessary.
	Dir string
}

// The pause after a failure, first and at most, and the time that one attempt may take.
const (
	firstPause  = 5 * time.Minute
	lastPause   = 6 * time.Hour
	attemptTime = 10 * time.Minute
)
