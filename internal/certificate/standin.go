package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"maps"
	"math/big"
	"slices"
	"time"
)

// standInLife is for how long a stand-in is good: much longer than it should have to be.
const standInLife = 365 * 24 * time.Hour

// with returns a set that also has another certificate, behind the others.
func (s *Set) with(p Pair, c tls.Certificate) *Set {
	both := &Set{all: append(slices.Clone(s.all), member{p, c}), byName: maps.Clone(s.byName)}
	for _, name := range names(c.Leaf) {
		both.byName[name] = append(slices.Clone(both.byName[name]), len(s.all))
	}
	return both
}

// WithPair returns a set that also has the certificate in some files, behind the others.
func (s *Set) WithPair(p Pair) (*Set, error) {
	c, err := load(p)
	if err != nil {
		return nil, err
	}
	return s.with(p, c), nil
}

// WithStandIn returns a set that also has a self-signed certificate for some names, with a key that
// is in no file. Clients that verify do not accept it.
func (s *Set) WithStandIn(names []string, now time.Time) (*Set, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "stand-in"}, DNSNames: names,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(standInLife), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return s.with(Pair{}, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}), nil
}
