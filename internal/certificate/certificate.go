// Package certificate reads certificates with their keys from files, chooses one for each
// TLS client by the name that it asks for, and reports those that expire soon.
package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// A Pair names the files of a certificate.
type Pair struct {
	Cert string // PEM: the certificate and those of the authorities between it and the root
	Key  string // PEM
}

// A Set is certificates to choose from. It does not change, and any number of goroutines
// may use it.
type Set struct {
	all    []member
	byName map[string][]int // exact names in lower case, and those behind "*" with its dot
}

type member struct {
	pair Pair
	tls.Certificate
}

// Load reads certificates. The first is the one for clients that ask for no name, or for
// one that none has. The error joins those of all files that cannot be used, and names them.
func Load(pairs []Pair) (*Set, error) {
	s := &Set{byName: make(map[string][]int)}
	var failures []error
	for _, p := range pairs {
		c, err := load(p)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, name := range names(c.Leaf) {
			s.byName[name] = append(s.byName[name], len(s.all))
		}
		s.all = append(s.all, member{p, c})
	}
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	return s, nil
}

func load(p Pair) (tls.Certificate, error) {
	if err := checkMode(p.Key); err != nil {
		return tls.Certificate{}, err
	}
	cert, err := os.ReadFile(p.Cert)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err) // it names the file
	}
	key, err := os.ReadFile(p.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate's key: %w", err)
	}
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate %s with key %s: %s", p.Cert, p.Key, strings.TrimPrefix(err.Error(), "tls: "))
	}
	if c.Leaf == nil { // GODEBUG=x509keypairleaf=0
		if c.Leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return tls.Certificate{}, fmt.Errorf("certificate %s: %w", p.Cert, err)
		}
	}
	return c, nil
}

// othersMayRead is the mode bits of users who are neither the owner nor of the group.
const othersMayRead = 0o004

func checkMode(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("certificate's key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&othersMayRead != 0 {
		return fmt.Errorf("certificate's key %s can be read by all users (mode %04o): run chmod o-rwx on it", path, mode)
	}
	return nil
}

// names returns the names that a certificate is for, as keys of byName.
func names(leaf *x509.Certificate) []string {
	all := leaf.DNSNames
	if len(all) == 0 && leaf.Subject.CommonName != "" { // as old tools make them
		all = []string{leaf.Subject.CommonName}
	}
	var keys []string
	for _, name := range all {
		keys = append(keys, strings.TrimPrefix(strings.ToLower(name), "*"))
	}
	return keys
}

// Len returns the number of certificates.
func (s *Set) Len() int { return len(s.all) }

// Choose returns the certificate for a client, as tls.Config.GetCertificate must: the first
// of its name, else of a wildcard above it, else of all, and in each case rather one that
// the client can use.
func (s *Set) Choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(s.all) == 0 {
		return nil, errors.New("there is no certificate")
	}
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if c := s.usable(hello, s.byName[name]); c != nil {
		return c, nil
	}
	if i := strings.IndexByte(name, '.'); i > 0 {
		if c := s.usable(hello, s.byName[name[i:]]); c != nil {
			return c, nil
		}
	}
	for i := range s.all {
		if c := &s.all[i].Certificate; supports(hello, c) {
			return c, nil
		}
	}
	return &s.all[0].Certificate, nil
}

// usable returns the first of some certificates that the client can use, or the first, or
// nil if there is none.
func (s *Set) usable(hello *tls.ClientHelloInfo, some []int) *tls.Certificate {
	for _, i := range some {
		if c := &s.all[i].Certificate; supports(hello, c) {
			return c
		}
	}
	if len(some) == 0 {
		return nil
	}
	return &s.all[some[0]].Certificate
}

// supports reports whether a client can use a certificate, whatever its name.
func supports(hello *tls.ClientHelloInfo, c *tls.Certificate) bool {
	any := *hello
	any.ServerName = ""
	return any.SupportsCertificate(c) == nil
}

// A Notice is about a certificate that has expired or soon will.
type Notice struct {
	File string
	Name string // the first that the certificate is for
	End  time.Time
}

// Expired reports whether the certificate is of no use any more.
func (n *Notice) Expired(now time.Time) bool { return !now.Before(n.End) }

// Text returns the notice as a sentence.
func (n *Notice) Text(now time.Time) string {
	if n.Expired(now) {
		return fmt.Sprintf("the certificate of %s expired on %s: clients that verify it do not connect", n.Name, n.End.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the certificate of %s expires in %d days, on %s", n.Name, int(n.End.Sub(now)/(24*time.Hour)), n.End.UTC().Format(time.RFC3339))
}

// Expiring returns the certificates that have expired by an instant, in their order.
func (s *Set) Expiring(by time.Time) []Notice {
	var list []Notice
	for i := range s.all {
		leaf := s.all[i].Leaf
		if leaf.NotAfter.After(by) {
			continue
		}
		name := leaf.Subject.CommonName
		if len(leaf.DNSNames) > 0 {
			name = leaf.DNSNames[0]
		}
		list = append(list, Notice{s.all[i].pair.Cert, name, leaf.NotAfter})
	}
	return list
}

// A Fingerprint is the SHA-256 of a certificate, or of its public key
// (SubjectPublicKeyInfo), in DER.
type Fingerprint [sha256.Size]byte

// ParseFingerprint reads 64 hexadecimal digits, with or without colons between bytes.
func ParseFingerprint(text string) (f Fingerprint, ok bool) {
	plain := text
	if strings.Contains(text, ":") {
		if len(text) != 3*len(f)-1 {
			return f, false
		}
		for i := 2; i < len(text); i += 3 {
			if text[i] != ':' {
				return f, false
			}
		}
		plain = strings.ReplaceAll(text, ":", "")
	}
	n, err := hex.Decode(f[:], []byte(plain[:min(len(plain), 2*len(f)+1)]))
	return f, err == nil && n == len(f) && len(plain) == 2*len(f)
}

// String returns the fingerprint as openssl x509 -fingerprint -sha256 writes it.
func (f Fingerprint) String() string {
	text := strings.ToUpper(hex.EncodeToString(f[:]))
	var b strings.Builder
	for i := 0; i < len(text); i += 2 {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(text[i : i+2])
	}
	return b.String()
}

// Fingerprints returns those of a certificate and of its key.
func Fingerprints(c *x509.Certificate) [2]Fingerprint {
	return [2]Fingerprint{sha256.Sum256(c.Raw), sha256.Sum256(c.RawSubjectPublicKeyInfo)}
}
