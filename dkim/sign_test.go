package dkim

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/posthaste-mta/posthaste/mail"
)

// testKeys are made once: an RSA key takes a tenth of a second.
var testKeys = sync.OnceValue(func() (keys [2]PrivateKey) {
	r, err := rsa.GenerateKey(nil, 2048)
	if err != nil {
		panic(err)
	}
	_, e, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	for i, k := range []any{r, e} {
		if keys[i], err = NewPrivateKey(k); err != nil {
			panic(err)
		}
	}
	return keys
})

// twoKeys returns a ring with an RSA and an Ed25519 key for example.com and all below.
func twoKeys(t testing.TB) *Ring {
	t.Helper()
	keys := testKeys()
	r, err := NewRing([]Key{
		{Name: "ed", Domains: []string{"example.com", "*.example.com"}, Selector: "s-ed", Private: keys[1]},
		{Name: "rsa", Domains: []string{"example.com", "*.example.com"}, Selector: "s-rsa", Private: keys[0]},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// now is when tests sign: 2026-11-23.
const now = mail.Instant(1_795_392_000_000_000_000)

// sign passes a content through a Message in pieces of the given sizes, and puts the
// signatures in front of it.
func sign(t testing.TB, r *Ring, content string, piece func() int) (signed string, p Plan) {
	t.Helper()
	var m Message
	m.Begin(r)
	for rest := []byte(content); len(rest) > 0; {
		n := min(len(rest), piece())
		m.Write(bytes.Clone(rest[:n]))
		rest = rest[n:]
	}
	p = m.Finish("sender@example.com", mail.Flow{}, now)
	fields, err := p.Sign()
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(fields)) != p.Octets() {
		t.Fatalf("%d bytes of signatures, and %d were announced", len(fields), p.Octets())
	}
	return string(fields) + content, p
}

func whole() int { return 1 << 30 }

// verify has the library check all signatures of a message; it returns how many there are.
func verify(t testing.TB, r *Ring, message string) (n int) {
	t.Helper()
	found, err := dkim.VerifyWithOptions(strings.NewReader(message), &dkim.VerifyOptions{LookupTXT: records(r)})
	if err != nil {
		t.Fatalf("%v\n%.3000q", err, message)
	}
	for _, v := range found {
		if v.Err != nil {
			t.Errorf("signature of %s: %v\n%.3000q", v.Domain, v.Err, message)
		}
	}
	return len(found)
}

// records is a zone with the records of a ring's keys.
func records(r *Ring) func(name string) ([]string, error) {
	zone := make(map[string][]string)
	for i := range r.Keys() {
		k := &r.Keys()[i]
		for _, d := range k.SigningDomains() {
			zone[RecordName(k.Selector, d)] = []string{Record(k.Private)}
		}
	}
	return func(name string) ([]string, error) {
		if all := zone[name]; all != nil {
			return all, nil
		}
		return nil, fmt.Errorf("no such name: %s", name)
	}
}

// contents are messages that have made trouble for signers.
var contents = map[string]string{
	"tiny":                   "From: a@example.com\r\n\r\nx\r\n",
	"usual":                  "Received: from x\r\n\tby y; date\r\nFrom: A <a@example.com>\r\nTo: b@example.net\r\nSubject: Hello\r\nDate: today\r\nMessage-ID: <1@x>\r\n\r\nHello, world.\r\n\r\nBye.\r\n",
	"empty body":             "From: a@example.com\r\n\r\n",
	"only empty lines":       "From: a@example.com\r\n\r\n\r\n\r\n\r\n",
	"only white space":       "From: a@example.com\r\n\r\n  \r\n\t\r\n \r\n",
	"trailing empty lines":   "From: a@example.com\r\n\r\nx\r\n\r\n \r\n\t\r\n\r\n",
	"white space at ends":    "From: a@example.com\r\n\r\nx \r\n y\t\t\r\n\tz  z\t z\r\n",
	"no line end":            "From: a@example.com\r\n\r\nx",
	"space and no line end":  "From: a@example.com\r\n\r\nx ",
	"empty lines in between": "From: a@example.com\r\n\r\n\r\n\r\nx\r\n\r\n\r\n\r\ny\r\n",
	"long lines":             "From: a@example.com\r\n\r\n" + strings.Repeat("x y  ", 3000) + "\r\n" + strings.Repeat("z", 9000) + "\r\n",
	"folded field":           "From: a\r\n <a@example.com>\r\nSubject: one\r\n two\r\n\t three \t\r\n \r\n\r\nx\r\n",
	"empty fields":           "From: a@example.com\r\nSubject:\r\nTo: \r\nCc:\t \r\n\r\nx\r\n",
	"space before the colon": "From : a@example.com\r\nSubject \t:x\r\n\r\nx\r\n",
	"odd case":               "FROM: a@example.com\r\nsUBJECT: x\r\n\r\nx\r\n",
	"long field":             "From: a@example.com\r\nTo: " + strings.Repeat("somebody@example.net, \r\n\t", 1200) + "x@example.net\r\n\r\nx\r\n",
	"8-bit":                  "From: \xc3\xa4 <a@example.com>\r\nSubject: gr\xfc\xdfe \xff\r\n\r\n\xe4\xf6\xfc \xff \x00\r\n",
	"repeated fields":        "From: a@example.com\r\nTo: b\r\nSubject: 1\r\nTo: c\r\nSubject: 2\r\nTo: d\r\nList-Id: x\r\nList-Id: y\r\n\r\nx\r\n",

	"all fields":              allFields(),
	"below the domain":        "From: a@x.y.EXAMPLE.com\r\n\r\nx\r\n",
	"from of several":         "From: a@example.com, b@example.net\r\nSender: a@example.com\r\n\r\nx\r\n",
	"dots at line beginnings": "From: a@example.com\r\n\r\n.\r\n..\r\n. x\r\n",
	"a megabyte":              "From: a@example.com\r\n\r\n" + strings.Repeat("The quick brown fox jumps over the lazy dog.\r\n", 1<<20/46),
}

func allFields() string {
	var b strings.Builder
	for _, f := range signedFields {
		value := "value of " + f.name
		if f.name == "From" {
			value = "a@example.com"
		}
		b.WriteString(f.name + ": " + value + "\r\n")
	}
	return b.String() + "\r\nx\r\n"
}

// What a library that we did not write finds valid was signed as the standard says, however
// the content was split.
func TestSignaturesAreValid(t *testing.T) {
	r := twoKeys(t)
	for name, content := range contents {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				rng := rand.New(rand.NewPCG(seed, 1))
				piece := func() int { return 1 + rng.IntN(1<<rng.IntN(16)) }
				if seed == 0 {
					piece = whole
				}
				signed, p := sign(t, r, content, piece)
				if p.Reason != Signed {
					t.Fatalf("seed %d: %v", seed, p.Reason)
				}
				if n := verify(t, r, signed); n != 2 {
					t.Fatalf("seed %d: %d signatures", seed, n)
				}
			}
		})
	}
}
