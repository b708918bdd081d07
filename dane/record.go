package dane

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
)

// A Usage says what a record's certificate is to the server (RFC 6698 2.1.1; the
// names are those of RFC 7218).
type Usage uint8

const (
	PKIXTA Usage = 0 // an authority, beside the usual ones: unusable for SMTP
	PKIXEE Usage = 1 // the server's own, beside the usual checks: unusable for SMTP
	DANETA Usage = 2 // an authority that the domain chose
	DANEEE Usage = 3 // the server's own
)

// A Selector says which part of a certificate is compared (RFC 6698 2.1.2).
type Selector uint8

const (
	Cert Selector = 0 // the whole certificate
	SPKI Selector = 1 // its public key: the DER of the SubjectPublicKeyInfo
)

// A Matching says how it is compared (RFC 6698 2.1.3).
type Matching uint8

const (
	Full   Matching = 0 // the data is the selected part itself
	SHA256 Matching = 1 // the data is its SHA-256
	SHA512 Matching = 2 // the data is its SHA-512
)

// A Record is a TLSA record (RFC 6698 2.1). The zero Record is unusable.
type Record struct {
	Usage    Usage
	Selector Selector
	Matching Matching
	Data     []byte // the certificate association data
}

const (
	// headerLen is the number of octets of a record before its data.
	headerLen = 3
	// DataMax is the maximum number of octets of a record's data. A certificate has
	// one or two thousand; one that is larger than this is not read.
	DataMax = 16 << 10
)

// Errors of Parse.
var (
	ErrShort = errors.New("dane: the TLSA record has no data")
	ErrLong  = errors.New("dane: the TLSA record is too long")
)

// Parse parses the data of a TLSA record as it is in a DNS message (RFC 6698 2.1).
// The record has a copy of it. A record that does not parse exists all the same:
// the caller must treat it as the zero Record, which is unusable, and not leave it
// out.
func Parse(rdata []byte) (Record, error) {
	switch {
	case len(rdata) <= headerLen:
		return Record{}, ErrShort
	case len(rdata) > headerLen+DataMax:
		return Record{}, ErrLong
	}
	return Record{
		Usage:    Usage(rdata[0]),
		Selector: Selector(rdata[1]),
		Matching: Matching(rdata[2]),
		Data:     append([]byte(nil), rdata[headerLen:]...),
	}, nil
}

// AppendData appends the record as it is in a DNS message; Parse is its inverse.
func (r Record) AppendData(dst []byte) []byte {
	dst = append(dst, byte(r.Usage), byte(r.Selector), byte(r.Matching))
	return append(dst, r.Data...)
}

// String returns the record as in a zone file, "3 1 1 0d6f…".
func (r Record) String() string {
	return fmt.Sprintf("%d %d %d %s", r.Usage, r.Selector, r.Matching, hex.EncodeToString(r.Data))
}

// Usable reports whether a server's certificate can match the record (RFC 7672 2.2
// and 3.1.3, RFC 7671 10.1.2).
func (r Record) Usable() bool {
	if r.Usage != DANETA && r.Usage != DANEEE || r.Selector > SPKI {
		return false
	}
	switch r.Matching {
	case SHA256:
		return len(r.Data) == sha256.Size
	case SHA512:
		return len(r.Data) == sha512.Size
	case Full:
		return r.isWhole()
	}
	return false
}

// rsaBitsMax is the size of the largest RSA key that is used, as in crypto/tls: larger
// ones only cost time.
const rsaBitsMax = 8192

// isWhole reports whether the data is a certificate or a key, as the selector says.
func (r Record) isWhole() bool {
	if len(r.Data) > DataMax {
		return false
	}
	var key any
	var err error
	if r.Selector == Cert {
		var c *x509.Certificate
		if c, err = x509.ParseCertificate(r.Data); err == nil {
			key = c.PublicKey
		}
	} else {
		key, err = x509.ParsePKIXPublicKey(r.Data)
	}
	big, is := key.(*rsa.PublicKey)
	return err == nil && (!is || big.N.BitLen() <= rsaBitsMax)
}

// matches reports whether a certificate is the one that the record names.
func (r Record) matches(c *x509.Certificate) bool {
	part := c.Raw
	if r.Selector == SPKI {
		part = c.RawSubjectPublicKeyInfo
	}
	switch r.Matching {
	case SHA256:
		sum := sha256.Sum256(part)
		part = sum[:]
	case SHA512:
		sum := sha512.Sum512(part)
		part = sum[:]
	}
	return string(part) == string(r.Data)
}

// Records are all TLSA records of a host, usable or not.
type Records []Record

// Usable returns the records that Verify uses: the usable ones, and among those
// with the same usage and selector not the digests for which there is a stronger one
// (RFC 7671 9).
func (rs Records) Usable() Records {
	var strong [DANEEE + 1][SPKI + 1]bool
	usable := make(Records, 0, len(rs))
	for _, r := range rs {
		if r.Usable() {
			usable = append(usable, r)
			strong[r.Usage][r.Selector] = strong[r.Usage][r.Selector] || r.Matching == SHA512
		}
	}
	n := 0
	for _, r := range usable {
		if r.Matching != SHA256 || !strong[r.Usage][r.Selector] {
			usable[n] = r
			n++
		}
	}
	return usable[:n]
}
