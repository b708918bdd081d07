package dane

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"math/big"
	"slices"
	"testing"
)

// Which records are usable, and what a host's records mean together.
func TestUsable(t *testing.T) {
	c := issue(t, nil, host("mx.example.com")).cert
	huge := new(big.Int).Lsh(big.NewInt(1), rsaBitsMax)
	key, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: huge.Add(huge, big.NewInt(1)), E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		name string
		Record
		want bool
	}{
		{"3 1 1", Record{DANEEE, SPKI, SHA256, make([]byte, 32)}, true},
		{"2 0 1", Record{DANETA, Cert, SHA256, make([]byte, 32)}, true},
		{"3 1 2", Record{DANEEE, SPKI, SHA512, make([]byte, 64)}, true},
		{"a certificate", Record{DANEEE, Cert, Full, c.Raw}, true},
		{"a key", Record{DANETA, SPKI, Full, c.RawSubjectPublicKeyInfo}, true},
		{"short digest", Record{DANEEE, SPKI, SHA256, make([]byte, 31)}, false},
		{"long digest", Record{DANEEE, SPKI, SHA256, make([]byte, 64)}, false},
		{"SHA-512 of SHA-256's size", Record{DANEEE, SPKI, SHA512, make([]byte, 32)}, false},
		{"a key as a certificate", Record{DANEEE, Cert, Full, c.RawSubjectPublicKeyInfo}, false},
		{"a certificate as a key", Record{DANEEE, SPKI, Full, c.Raw}, false},
		{"a certificate and more", Record{DANEEE, Cert, Full, append(bytes.Clone(c.Raw), 0)}, false},
		{"a huge key", Record{DANETA, SPKI, Full, key}, false},
		{"too much", Record{DANEEE, Cert, Full, make([]byte, DataMax+1)}, false},
		{"usage 0", Record{PKIXTA, SPKI, SHA256, make([]byte, 32)}, false},
		{"usage 1", Record{PKIXEE, SPKI, SHA256, make([]byte, 32)}, false},
		{"usage 255", Record{255, SPKI, SHA256, make([]byte, 32)}, false},
		{"selector 2", Record{DANEEE, 2, SHA256, make([]byte, 32)}, false},
		{"matching 3", Record{DANEEE, SPKI, 3, make([]byte, 32)}, false},
		{"zero", Record{}, false},
	} {
		if r.Usable() != r.want {
			t.Errorf("%s: usable %v", r.name, r.Usable())
		}
		want := Unusable
		if r.want {
			want = Usable
		}
		if got := StateOf(Records{{}, r.Record}); got != want {
			t.Errorf("%s: state %v", r.name, got)
		}
	}
	if StateOf(nil) != None || (Answer{}).State != Failed {
		t.Error("no records are not a failure, and nothing known is not success")
	}
	words := []string{Failed.String(), None.String(), Unusable.String(), Usable.String()}
	if !slices.Equal(words, []string{"failed", "none", "unusable", "usable"}) {
		t.Errorf("states are shown as %q", words)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		rdata []byte
		want  string
		err   error
	}{
		{[]byte{3, 1, 1, 0xab, 0xcd}, "3 1 1 abcd", nil},
		{[]byte{255, 254, 253, 0}, "255 254 253 00", nil},
		{append([]byte{3, 0, 0}, make([]byte, DataMax)...), "", nil},
		{nil, "", ErrShort},
		{[]byte{3, 1, 1}, "", ErrShort},
		{append([]byte{3, 0, 0}, make([]byte, DataMax+1)...), "", ErrLong},
	} {
		r, err := Parse(c.rdata)
		if !errors.Is(err, c.err) || c.want != "" && r.String() != c.want {
			t.Errorf("%d octets: %.30s, %v", len(c.rdata), r, err)
		}
	}
	rdata := []byte{3, 1, 1, 7}
	r, _ := Parse(rdata)
	rdata[3] = 8
	if r.Data[0] != 7 {
		t.Error("the record shares the caller's buffer")
	}
}

// No record from the net makes parsing or verification fail otherwise than by an
// error, and what is parsed is what was written.
func FuzzParse(f *testing.F) {
	root := issue(f, nil, authority)
	leaf := issue(f, root, host("mx.example.com"))
	for _, u := range []Usage{DANETA, DANEEE, PKIXTA} {
		for _, s := range []Selector{Cert, SPKI, 2} {
			for _, m := range []Matching{Full, SHA256, SHA512, 3} {
				f.Add(record(u, s, m, root.cert).AppendData(nil))
				f.Add(record(u, s, m, leaf.cert).AppendData(nil))
			}
		}
	}
	junk := make([]byte, 40)
	rand.Read(junk)
	f.Add(junk)
	f.Add([]byte{3})
	f.Fuzz(func(t *testing.T, rdata []byte) {
		r, err := Parse(rdata)
		if err != nil {
			if r.Usable() {
				t.Error("a record that does not parse is usable")
			}
			return
		}
		if !bytes.Equal(r.AppendData(nil), rdata) {
			t.Errorf("%x became %v", rdata, r)
		}
		got, err := Verify(Records{r}, []*x509.Certificate{leaf.cert, root.cert}, []string{"mx.example.com"}, now)
		matches := r.matches(leaf.cert) && r.Usage == DANEEE || r.matches(root.cert) && r.Usage == DANETA
		if (err == nil) != (r.Usable() && matches) && !(r.Usage == DANETA && r.Matching == Full) {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	})
}
