package sink

import (
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
)

// Content comes in pieces whose size the network decides: neither the key nor
// the sum may depend on that.
func TestContentInPieces(t *testing.T) {
	for _, test := range []struct{ name, text, key, body string }{
		{"plain", "A: b\r\nKey: k\r\nC: d\r\n\r\nbody\r\n\r\nmore\r\n", "k", "body\r\n\r\nmore\r\n"},
		{"no body", "Key: k\r\n\r\n", "k", ""},
		{"no end of header", "Key: k\r\n", "k", ""},
		{"no key", "Other: k\r\n\r\nKey: no\r\n", "", "Key: no\r\n"},
		{"two keys", "Key: k\r\nKey: l\r\n\r\n", "k", ""},
		{"empty", "", "", ""},
		{"header without end", "X: " + strings.Repeat("y", headerMax+50), "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for seed := range uint64(200) {
				dice := rand.New(rand.NewPCG(seed, 0))
				var c content
				for rest := test.text; rest != ""; {
					n := min(1+dice.IntN(len(rest)), 1+dice.IntN(10000))
					c.pass([]byte(rest[:n]), "Key:", 7)
					rest = rest[n:]
				}
				c.end("Key:")
				if c.key != test.key || c.size != int64(len(test.text)) || string(c.kept) != test.text[:min(7, len(test.text))] {
					t.Fatalf("seed %d: key %q, size %d, kept %q", seed, c.key, c.size, c.kept)
				}
				if want := crc32.Checksum([]byte(test.body), castagnoli()); len(test.text) < headerMax && c.sum != want {
					t.Fatalf("seed %d: sum %x, want %x", seed, c.sum, want)
				}
				if len(c.header) > headerMax+10000 {
					t.Fatalf("%d octets of header are kept", len(c.header))
				}
			}
		})
	}
}
