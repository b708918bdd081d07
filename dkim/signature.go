package dkim

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Plan is the signatures that a message gets. The zero Plan has none.
type Plan struct {
	Reason Reason // Signed, or why it gets none
	Author string // the domain of the From field; "" if it has none
	drafts []draft
}

// A draft is a signature that lacks nothing but what the key computes.
type draft struct {
	key    *Key
	domain string
	text   []byte // the field up to its b= tag
	digest [sha256.Size]byte
}

// Signatures describes the signatures for a log, such as "s1._domainkey.example.com".
func (p *Plan) Signatures() []string {
	var all []string
	for i := range p.drafts {
		all = append(all, RecordName(p.drafts[i].key.Selector, p.drafts[i].domain))
	}
	return all
}

// Octets returns the size in bytes of what Sign will return.
func (p *Plan) Octets() (n int64) {
	for i := range p.drafts {
		d := &p.drafts[i]
		n += int64(len(d.text)) + foldedSize(d.key.Private.signatureSize())
	}
	return n
}

// Sign computes the signatures and returns their fields, which belong in front of the
// content; nothing if there are none. It takes about a millisecond for RSA with 2048 bits,
// and a fiftieth of that for Ed25519.
func (p *Plan) Sign() ([]byte, error) {
	if len(p.drafts) == 0 {
		return nil, nil
	}
	out := make([]byte, 0, p.Octets())
	for i := range p.drafts {
		d := &p.drafts[i]
		signature, err := d.key.Private.sign(d.digest[:])
		if err != nil {
			return nil, fmt.Errorf("dkim: sign with the key %s: %w", d.key.Name, err)
		}
		out = appendFolded(append(out, d.text...), signature)
	}
	return out, nil
}

// lineMax is the maximum length of a line of the field, unless one tag is longer (RFC 5322 2.1.1).
const lineMax = 76

// draft writes the field of a signature without the signature, and hashes what is signed:
// the fields, and this field in the relaxed form (RFC 6376 3.7).
func (m *Message) draft(c Choice, bodySum [sha256.Size]byte, at mail.Instant) draft {
	w := folder{text: make([]byte, 0, 768), relaxed: make([]byte, 0, 768)}
	w.begin()
	w.write("v=1;")
	w.tag("a=", c.Key.Private.Algorithm().tag())
	w.tag("c=", "relaxed/relaxed")
	w.tag("d=", c.Domain)
	w.tag("s=", c.Key.Selector)
	w.tag("t=", strconv.FormatInt(max(0, at.Seconds()), 10))
	w.list("h=", m.names)
	w.tag("bh=", base64.StdEncoding.EncodeToString(bodySum[:]))
	w.fold()
	w.write("b=")
	d := draft{key: c.Key, domain: c.Domain, text: w.text}
	sum := m.fields.(hash.Cloner) // as are all of the standard library
	one, err := sum.Clone()
	if err != nil {
		panic(err) // only a hash with a foreign implementation has errors
	}
	one.Write(w.relaxed)
	one.Sum(d.digest[:0])
	return d
}

// A folder writes the field of a signature with its lines folded, and in the relaxed form.
type folder struct {
	text    []byte
	relaxed []byte
	line    int // bytes in the line
}

// tag writes a tag after those before it.
func (w *folder) tag(name, value string) {
	if w.line+len(" ;")+len(name)+len(value) > lineMax {
		w.fold()
	} else {
		w.space()
	}
	w.write(name)
	w.write(value)
	w.write(";")
}

// list writes a tag whose value is a list, in which a line may end after each colon.
func (w *folder) list(tag string, names []uint8) {
	w.fold()
	w.write(tag)
	for i, field := range names {
		name, end := signedFields[field].name, ":"
		if i == len(names)-1 {
			end = ";"
		}
		if i > 0 && w.line+len(name)+len(end) > lineMax {
			w.fold()
		}
		w.write(name)
		w.write(end)
	}
}

func (w *folder) begin() {
	w.text = append(w.text, "DKIM-Signature: "...)
	w.relaxed = append(w.relaxed, "dkim-signature:"...)
	w.line = len(w.text)
}

func (w *folder) write(s string) {
	w.text = append(w.text, s...)
	w.relaxed = append(w.relaxed, s...)
	w.line += len(s)
}

// space and fold write white space, which is one space in the relaxed form.
func (w *folder) space() {
	w.text, w.relaxed, w.line = append(w.text, ' '), append(w.relaxed, ' '), w.line+1
}

func (w *folder) fold() {
	w.text, w.relaxed, w.line = append(w.text, "\r\n\t"...), append(w.relaxed, ' '), 1
}

// A signature in base64 is written in lines of signatureLine, the first of which comes after
// "b=".
const signatureLine = 72

// appendFolded appends a signature and the end of the field. White space in the tag does not
// count (RFC 6376 3.7).
func appendFolded(dst, signature []byte) []byte {
	const whole = signatureLine / 4 * 3 // bytes in a line
	for len(signature) > whole {
		dst = append(base64.StdEncoding.AppendEncode(dst, signature[:whole]), "\r\n\t"...)
		signature = signature[whole:]
	}
	return append(base64.StdEncoding.AppendEncode(dst, signature), '\r', '\n')
}

// foldedSize returns how much appendFolded appends for a signature of n bytes.
func foldedSize(n int) int64 {
	size := base64.StdEncoding.EncodedLen(n)
	return int64(size + (size-1)/signatureLine*len("\r\n\t") + len("\r\n"))
}
