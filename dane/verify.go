package dane

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Flaw is why a certificate does not satisfy the records. Flaws are distinguished
// as far as a report to the domain does (RFC 8460 4.3.2).
type Flaw uint8

const (
	// NoMatch: no record matches a certificate that the server sent
	// ("certificate-not-trusted").
	NoMatch Flaw = iota
	// Untrusted: an authority matches, but no chain of valid signatures leads to it
	// ("certificate-not-trusted").
	Untrusted
	// Expired: a certificate of the chain is not valid now ("certificate-expired").
	Expired
	// WrongName: the server's certificate is for none of the names
	// ("certificate-host-mismatch").
	WrongName
	// NoRecord: no record is usable, so nothing can be verified ("tlsa-invalid").
	NoRecord
)

// An Error says why Verify failed.
type Error struct {
	Flaw Flaw
	text string
}

func (e *Error) Error() string { return "dane: " + e.text }

// chainMax is the maximum number of certificates that are considered. A chain has
// three or four; each further one costs a comparison with each record.
const chainMax = 20

// Verify reports whether the certificates that a server sent, its own first, satisfy
// one of the records, and returns that record. names are the reference identifiers
// (RFC 7672 3.2.2): the TLSA base domain, and if MX records led to the host the
// domain of the mail; they matter only for DANE-TA. An error is an *Error.
//
// The handshake must have proved that the server has the key of the first
// certificate. It needs no other verification.
func Verify(records Records, chain []*x509.Certificate, names []string, now time.Time) (Record, error) {
	usable := records.Usable()
	switch {
	case len(usable) == 0:
		return Record{}, &Error{NoRecord, "no TLSA record is usable"}
	case len(chain) == 0:
		return Record{}, &Error{NoMatch, "the server sent no certificate"}
	case len(chain) > chainMax:
		chain = chain[:chainMax]
	}
	for _, r := range usable {
		if r.Usage == DANEEE && r.matches(chain[0]) {
			return r, nil
		}
	}
	worst := &Error{NoMatch, fmt.Sprintf("none of %d usable TLSA records matches a certificate of the server", len(usable))}
	for _, r := range usable {
		if r.Usage != DANETA {
			continue
		}
		err := r.anchors(chain, names, now)
		if err == nil {
			return r, nil
		}
		if err.Flaw > worst.Flaw {
			worst = err
		}
	}
	return Record{}, worst
}

// anchors reports whether a valid chain leads from the first certificate to the
// authority that the record names.
func (r Record) anchors(chain []*x509.Certificate, names []string, now time.Time) *Error {
	roots := r.roots(chain)
	if len(roots) == 0 {
		return &Error{NoMatch, "the server sent no certificate of the authority in the TLSA record"}
	}
	opts := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now}
	if now.IsZero() { // x509 would read the clock
		return &Error{Expired, "the time is not known"}
	}
	for _, c := range roots {
		opts.Roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	if _, err := chain[0].Verify(opts); err != nil {
		return flawOf(err)
	}
	for _, name := range names {
		if isFor(chain[0], name) {
			return nil
		}
	}
	return &Error{WrongName, "the server's certificate is not for " + strings.Join(names, " or ")}
}

// roots returns the certificates at which a chain to the record's authority may
// end.
func (r Record) roots(chain []*x509.Certificate) []*x509.Certificate {
	var roots []*x509.Certificate
	for _, c := range chain[1:] {
		if r.matches(c) && !c.Equal(chain[0]) {
			roots = append(roots, c)
		}
	}
	if r.Matching != Full || len(roots) > 0 {
		return roots
	}
	if r.Selector == Cert {
		if c, err := x509.ParseCertificate(r.Data); err == nil && !c.Equal(chain[0]) {
			roots = append(roots, c)
		}
		return roots
	}
	// A key alone has no certificate with which x509 could end a chain. What the
	// key signed ends it instead, be it the server's own certificate.
	key, err := x509.ParsePKIXPublicKey(r.Data)
	if err != nil {
		return roots
	}
	for _, c := range chain {
		if !r.matches(c) && isSignedBy(c, key) {
			roots = append(roots, c)
		}
	}
	return roots
}

// isSignedBy reports whether a key signed a certificate. x509 refuses SHA-1 in chains,
// but not in the check of a single signature.
func isSignedBy(c *x509.Certificate, key any) bool {
	switch c.SignatureAlgorithm {
	case x509.SHA1WithRSA, x509.ECDSAWithSHA1:
		return false
	}
	signer := &x509.Certificate{PublicKey: key}
	return signer.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// isFor reports whether a certificate is for a host: by its subject alternative names,
// and if none is a DNS name by its common name (RFC 6125 6.4.4), which Go's own check
// does not look at.
func isFor(c *x509.Certificate, host string) bool {
	host = strings.TrimSuffix(host, ".")
	if len(c.DNSNames) == 0 && c.Subject.CommonName != "" {
		c = &x509.Certificate{DNSNames: []string{c.Subject.CommonName}}
	}
	return host != "" && !strings.HasPrefix(host, "[") && c.VerifyHostname(host) == nil
}

// flawOf returns what x509 has against a chain.
func flawOf(err error) *Error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return &Error{Expired, err.Error()}
	}
	return &Error{Untrusted, err.Error()}
}
