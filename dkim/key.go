package dkim

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/ascii"
	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/mail"
)

// An Algorithm is a kind of key.
type Algorithm uint8

const (
	RSA     Algorithm = iota // rsa-sha256 (RFC 6376 3.3.2)
	Ed25519                  // ed25519-sha256 (RFC 8463)
)

// String returns the name as in the k= tag of a record.
func (a Algorithm) String() string { return [...]string{"rsa", "ed25519"}[a] }

// tag returns the name as in the a= tag of a signature.
func (a Algorithm) tag() string { return a.String() + "-sha256" }

// Sizes of RSA keys, in bits. What is smaller is not safe, and receivers need not be able to
// verify what is larger (RFC 8301 3.2).
const (
	RSAMin = 1024
	RSAMax = 4096
)

// A PrivateKey signs. It never shows itself: any way of printing it prints words only.
type PrivateKey struct{ signer crypto.Signer }

// NewPrivateKey returns a key; the error says why it cannot be used.
func NewPrivateKey(key any) (PrivateKey, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if bits := k.N.BitLen(); bits < RSAMin || bits > RSAMax {
			return PrivateKey{}, fmt.Errorf("an RSA key of %d bits: want %d to %d, best 2048", bits, RSAMin, RSAMax)
		}
		return PrivateKey{k}, nil
	case ed25519.PrivateKey:
		return PrivateKey{k}, nil
	}
	return PrivateKey{}, errors.New("not an RSA or an Ed25519 key, and DKIM has no others")
}

// ParsePrivateKey reads a file in PEM, PKCS #1 or PKCS #8. The error has nothing of what
// is in it.
func ParsePrivateKey(text []byte) (PrivateKey, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return PrivateKey{}, errors.New("this is not a private key in PEM: it has no line -----BEGIN PRIVATE KEY-----")
	case len(block.Headers) > 0 || block.Type == "ENCRYPTED PRIVATE KEY":
		return PrivateKey{}, errors.New("the key is encrypted; write it without a passphrase, for example with \"openssl pkey\"")
	case strings.TrimSpace(string(rest)) != "":
		return PrivateKey{}, errors.New("there is something after the private key")
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return PrivateKey{}, fmt.Errorf("a PEM block %.40q: want PRIVATE KEY or RSA PRIVATE KEY", block.Type)
	}
	if err != nil {
		return PrivateKey{}, errors.New("the private key in it cannot be read: it is damaged, or of another kind")
	}
	return NewPrivateKey(key)
}

// Algorithm returns the kind of the key.
func (k PrivateKey) Algorithm() Algorithm {
	if _, ok := k.signer.(ed25519.PrivateKey); ok {
		return Ed25519
	}
	return RSA
}

// Public returns the public key: an *rsa.PublicKey or an ed25519.PublicKey.
func (k PrivateKey) Public() crypto.PublicKey { return k.signer.Public() }

// Bits returns the size of an RSA key; 256 for Ed25519.
func (k PrivateKey) Bits() int {
	if public, ok := k.Public().(*rsa.PublicKey); ok {
		return public.N.BitLen()
	}
	return 8 * ed25519.PublicKeySize
}

// signatureSize returns the size of a signature in bytes.
func (k PrivateKey) signatureSize() int {
	if public, ok := k.Public().(*rsa.PublicKey); ok {
		return public.Size()
	}
	return ed25519.SignatureSize
}

// sign signs a digest. Neither algorithm is random (RFC 8017 8.2, RFC 8032 5.1.6).
func (k PrivateKey) sign(digest []byte) ([]byte, error) {
	if k.Algorithm() == Ed25519 { // RFC 8463 3: the digest is the message that is signed
		return k.signer.Sign(nil, digest, crypto.Hash(0))
	}
	return k.signer.Sign(nil, digest, crypto.SHA256)
}

// Format implements fmt.Formatter for all verbs: no log and no message shows a key.
func (k PrivateKey) Format(s fmt.State, _ rune) {
	io.WriteString(s, "[private key]") // a fmt.State does not fail
}

// MarshalText has encoders, among them those of slog, write what Format writes.
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte("[private key]"), nil }

// A Key signs for some domains.
type Key struct {
	Name     string   // for messages
	Domains  []string // of From fields: a domain, "*.example.com" for those below it, "*" for all others
	Domain   string   // in the d= tag; "" for the one in Domains that applies, without its star
	Selector string
	From     mail.Instant // signs from then on; 0: always
	Until    mail.Instant // does not sign from then on; 0: never ends
	Classes  []string     // signs mail of these classes only; none: of all
	Tenants  []string     // likewise
	Private  PrivateKey
}

// Validate returns all that is wrong with a key except for its private part, joined.
func (k *Key) Validate() error {
	var wrong mistakes.List
	wrong.Unless(len(k.Domains) > 0, "dkim key %s: it is for no domain", k.Name)
	for _, d := range k.Domains {
		name := strings.TrimPrefix(d, "*.")
		wrong.Unless(d == anyDomain || name != "" && asciiDomain(name) == name, "dkim key %s: %q is not a domain", k.Name, d)
		wrong.Unless(d != anyDomain || k.Domain != "", "dkim key %s: for all domains it needs one for its signatures", k.Name)
	}
	wrong.Unless(k.Domain == "" || asciiDomain(k.Domain) == k.Domain, "dkim key %s: %q is not a domain", k.Name, k.Domain)
	wrong.Unless(ValidSelector(k.Selector), "dkim key %s: %q is not a selector", k.Name, k.Selector)
	wrong.Unless(k.Until == 0 || k.From < k.Until, "dkim key %s: it ends before it begins", k.Name)
	return wrong.Join()
}

// anyDomain is the pattern for all domains that no other key has.
const anyDomain = "*"

// ParsePattern reads one of the domains of a key, in any case and script: a domain,
// "*.example.com" or ".example.com" for those below it, or "*".
func ParsePattern(text string) (pattern string, ok bool) {
	if text == anyDomain {
		return text, true
	}
	name, below := strings.CutPrefix(strings.TrimPrefix(text, "*"), ".")
	if name = asciiDomain(name); name == "" || !below && text[0] == '*' || name[0] == '[' {
		return "", false
	}
	if below {
		name = "*." + name
	}
	return name, true
}

// ParseDomain reads a domain, in any case and script.
func ParseDomain(text string) (domain string, ok bool) {
	domain, ok = ParsePattern(text)
	return domain, ok && domain[0] != '*'
}

// ValidSelector reports whether a text can be a selector: one or more labels of a domain
// name (RFC 6376 3.1), which may all be digits. Underscores are in use, too.
func ValidSelector(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label {
			return false
		}
		for i := range len(label) {
			if c := ascii.LowerByte(label[i]); (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return len(s) <= 200
}

// RecordName returns the name of a record in the DNS (RFC 6376 3.6.2.1).
func RecordName(selector, domain string) string { return selector + "._domainkey." + domain }

// SigningDomains returns the domains of d= tags that a key can write.
func (k *Key) SigningDomains() []string {
	if k.Domain != "" {
		return []string{k.Domain}
	}
	var all []string
	for _, d := range k.Domains {
		if name := strings.TrimPrefix(d, "*."); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Signs reports whether the key is published in a domain, or is for authors of the domain or
// of domains below it.
func (k *Key) Signs(domain string) bool {
	has := func(d string) bool { return strings.TrimPrefix(d, "*.") == domain }
	return slices.ContainsFunc(k.Domains, has) || slices.ContainsFunc(k.SigningDomains(), has)
}

// signs reports whether a key is for mail of a flow at a time.
func (k *Key) signs(f mail.Flow, at mail.Instant) bool {
	return k.From <= at && (k.Until == 0 || at < k.Until) && admits(k.Classes, f.Class) && admits(k.Tenants, f.Tenant)
}

// admits reports whether a condition is met, which an empty one is.
func admits(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }
