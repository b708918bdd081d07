package dkim

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
)

// stringMax is the maximum length of one string of a TXT record (RFC 1035 3.3.14).
const stringMax = 255

// Record returns the text of the record that publishes a key (RFC 6376 3.6.1, RFC 8463 4).
func Record(k PrivateKey) string {
	return "v=DKIM1; k=" + k.Algorithm().String() + "; p=" + base64.StdEncoding.EncodeToString(publicBytes(k.Public()))
}

// publicBytes returns a public key as in the p= tag.
func publicBytes(public crypto.PublicKey) []byte {
	switch k := public.(type) {
	case *rsa.PublicKey:
		der, err := x509.MarshalPKIXPublicKey(k)
		if err != nil {
			panic(err) // every RSA key can be written
		}
		return der
	case ed25519.PublicKey:
		return k
	}
	panic(fmt.Sprintf("dkim: a public key of type %T", public))
}

// ZoneLine returns a record as in a zone file, its text in strings of at most 255 bytes.
func ZoneLine(selector, domain, record string) string {
	var b strings.Builder
	b.WriteString(RecordName(selector, domain) + ". IN TXT ")
	parts := Strings(record)
	if len(parts) == 1 {
		return b.String() + `"` + parts[0] + `"`
	}
	b.WriteString("(")
	for _, part := range parts {
		b.WriteString("\n\t\"" + part + `"`)
	}
	return b.String() + " )"
}

// Strings splits a record into the strings of which a TXT record consists.
func Strings(record string) (parts []string) {
	for len(record) > stringMax {
		parts, record = append(parts, record[:stringMax]), record[stringMax:]
	}
	return append(parts, record)
}
