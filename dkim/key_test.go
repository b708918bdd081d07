package dkim

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

var fourThousand = sync.OnceValues(func() (PrivateKey, error) {
	k, err := rsa.GenerateKey(nil, RSAMax)
	if err != nil {
		return PrivateKey{}, err
	}
	return NewPrivateKey(k)
})

// largestKey is an RSA key of RSAMax bits; with -short, of half of that.
func largestKey(t *testing.T) PrivateKey {
	t.Helper()
	if testing.Short() {
		return testKeys()[0]
	}
	k, err := fourThousand()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Keys of other programs are read in both formats; everything else is refused with a reason
// that has nothing of the key in it.
func TestParsePrivateKey(t *testing.T) {
	keys := testKeys()
	good := map[string][]byte{}
	for _, k := range keys {
		der, err := x509.MarshalPKCS8PrivateKey(k.signer)
		if err != nil {
			t.Fatal(err)
		}
		good["PKCS #8 "+k.Algorithm().String()] = pemOf("PRIVATE KEY", der)
	}
	good["PKCS #1"] = pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(keys[0].signer.(*rsa.PrivateKey)))
	for name, text := range good {
		k, err := ParsePrivateKey(text)
		if err != nil || Record(k) != Record(keys[k.Algorithm()]) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ParsePrivateKey(append([]byte("\n# a comment\n"), text...)); err != nil {
			t.Errorf("%s after a comment: %v", name, err)
		}
	}
	t.Setenv("GODEBUG", "rsa1024min=0")
	small, err := rsa.GenerateKey(nil, 768)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := x509.MarshalPKCS8PrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	text := good["PKCS #1"]
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"empty":     {nil, "not a private key in PEM"},
		"a record":  {[]byte(Record(keys[0])), "not a private key in PEM"},
		"cut":       {text[:len(text)/2], "not a private key in PEM"},
		"two":       {slices.Concat(text, text), "something after"},
		"public":    {pemOf("PUBLIC KEY", publicBytes(keys[0].Public())), `"PUBLIC KEY"`},
		"damaged":   {pemOf("PRIVATE KEY", []byte("xyz")), "cannot be read"},
		"encrypted": {[]byte(strings.Replace(string(text), "KEY-----\n", "KEY-----\nDEK-Info: x\n\n", 1)), "encrypted"},
		"small":     {pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(small)), "768 bits"},
		"curve":     {pemOf("PRIVATE KEY", ec), "not an RSA or an Ed25519 key"},
	} {
		_, err := ParsePrivateKey(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A key that gets into a message or a log by mistake does not show itself.
func TestPrivateKeyIsNeverShown(t *testing.T) {
	k := testKeys()[0]
	secret := k.signer.(*rsa.PrivateKey).D.String()[:20]
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		for _, v := range []any{k, &k, []PrivateKey{k}, Key{Private: k}, struct{ A any }{k}} {
			if got := fmt.Sprintf(format, v); !strings.Contains(got, "[private key]") || strings.Contains(got, secret) {
				t.Errorf("%s of %T: %.100s", format, v, got)
			}
		}
	}
	text, err := json.Marshal(Key{Private: k})
	if err != nil || !strings.Contains(string(text), `"[private key]"`) {
		t.Errorf("%.200s %v", text, err)
	}
	for _, h := range []func(*bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(h(&b)).Info("x", "key", k, "keys", []Key{{Private: k}})
		if strings.Contains(b.String(), secret) || strings.Count(b.String(), "[private key]") != 2 {
			t.Errorf("%.300s", b.String())
		}
	}
}

// Which keys sign: those for the domain itself before those for all below a domain, and
// these before the default; of several it is the one that has begun last.
func TestChoose(t *testing.T) {
	keys := testKeys()
	day := func(n int64) mail.Instant { return mail.Instant(n * 86_400_000_000_000) }
	key := func(name string, private PrivateKey, domains ...string) Key {
		return Key{Name: name, Selector: name, Domains: domains, Private: private}
	}
	old, next, ended, bulk, tenant, any := key("old", keys[0], "a.example"), key("next", keys[0], "a.example"), key("ended", keys[0], "b.example"),
		key("bulk", keys[0], "d.example"), key("tenant", keys[0], "d.example"), key("any", keys[0], "*")
	old.Until, next.From, ended.Until = day(21), day(20), day(20)
	bulk.Classes, tenant.Tenants = []string{"bulk"}, []string{"t"}
	any.Domain = "esp.example"
	below := key("below", keys[0], "*.example", "*.deep.example")
	ring := func(keys ...Key) *Ring {
		t.Helper()
		r, err := NewRing(keys)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := ring(old, next, key("ed", keys[1], "a.example"), ended, bulk, tenant, below)
	all := ring(old, next, key("ed", keys[1], "a.example"), ended, bulk, tenant, below, any)
	for _, c := range []struct {
		ring   *Ring
		domain string
		flow   mail.Flow
		day    int64
		want   string
	}{
		{r, "a.example", mail.Flow{}, 19, "old@a.example ed@a.example"},
		{r, "a.example", mail.Flow{}, 20, "next@a.example ed@a.example"},
		{r, "a.example", mail.Flow{}, 99, "next@a.example ed@a.example"},
		{r, "b.example", mail.Flow{}, 19, "ended@b.example"},
		{r, "b.example", mail.Flow{}, 20, "below@example"},
		{r, "x.y.example", mail.Flow{}, 1, "below@example"},
		{r, "x.y.deep.example", mail.Flow{}, 1, "below@deep.example"},
		{r, "deep.example", mail.Flow{}, 1, "below@example"},
		{r, "example", mail.Flow{}, 1, ""},
		{all, "example", mail.Flow{}, 1, "any@esp.example"},
		{all, "c.test", mail.Flow{}, 1, "any@esp.example"},
		{r, "c.test", mail.Flow{}, 1, ""},
		{r, "d.example", mail.Flow{Class: "bulk"}, 1, "bulk@d.example"},
		{r, "d.example", mail.Flow{Class: "bulk", Tenant: "t"}, 1, "bulk@d.example"},
		{r, "d.example", mail.Flow{Class: "otp", Tenant: "t"}, 1, "tenant@d.example"},
		{r, "d.example", mail.Flow{Class: "otp"}, 1, "below@example"},
	} {
		chosen, known := c.ring.Choose(c.domain, c.flow, day(c.day))
		var got []string
		for _, one := range chosen {
			got = append(got, one.Key.Name+"@"+one.Domain)
		}
		if strings.Join(got, " ") != c.want || known != (c.want != "") || c.ring.covers(c.domain) != (c.want != "") {
			t.Errorf("%s %v on day %d: %v, want %s", c.domain, c.flow, c.day, got, c.want)
		}
	}
	one := ring(ended)
	if chosen, known := one.Choose("b.example", mail.Flow{}, day(30)); len(chosen) != 0 || !known {
		t.Errorf("%v %v", chosen, known)
	}
	var m Message
	m.Begin(one)
	m.Write([]byte("From: a@b.example\r\n\r\n"))
	if p := m.Finish("", mail.Flow{}, day(30)); p.Reason != NoneNow {
		t.Error(p.Reason)
	}
}

// By option, mail whose author has no key is signed for its envelope sender.
func TestBySender(t *testing.T) {
	r := twoKeys(t)
	r.BySender = true
	for _, c := range []struct{ sender, from, want string }{
		{"a@example.com", "b@other.example", "example.com"},
		{"a@b.example.com", "b@[192.0.2.1]", "example.com"},
		{"a@other.example", "b@example.com", "example.com"},
		{"", "b@other.example", ""},
		{"a@other.example", "b@other.example", ""},
	} {
		var m Message
		m.Begin(r)
		m.Write([]byte("From: " + c.from + "\r\n\r\n"))
		p := m.Finish(mail.Address(c.sender), mail.Flow{}, now)
		got := ""
		if len(p.drafts) > 0 {
			got = p.drafts[0].domain
		}
		if got != c.want {
			t.Errorf("%+v: %q (%v)", c, got, p.Reason)
		}
	}
}

// All that is wrong with keys is said at once.
func TestRingValidate(t *testing.T) {
	keys := testKeys()
	other, err := rsa.GenerateKey(nil, 1024)
	if err != nil {
		t.Fatal(err)
	}
	private, err := NewPrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewRing([]Key{
		{Name: "k1", Domains: []string{"a..b", "*"}, Selector: "s", Private: keys[0]},
		{Name: "k2", Selector: "s s", From: 2, Until: 1},
		{Name: "k3", Domains: []string{"x.example"}, Domain: "[", Selector: "s", Private: keys[0]},
		{Name: "k4", Domains: []string{"x.example"}, Selector: "s", Private: keys[0]},
		{Name: "k5", Domains: []string{"*.x.example"}, Selector: "s", Private: private},
		{Name: "k7", Domains: []string{"y.example"}, Selector: "s"},
		{Name: "k6", Domains: []string{"X.example"}, Selector: "t", Private: private},
	})
	for _, want := range []string{`k1: "a..b" is not a domain`, "k1: for all domains it needs one", "k2: it is for no domain", `k2: "s s" is not a selector`, "k2: it ends before it begins",
		"k7: there is no private key", `k3: "[" is not a domain`, "k4 and k5 are different and have one record, s._domainkey.x.example", `k6: "X.example" is not a domain`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}

// Domains are written in several ways, and compared in one.
func TestParsePattern(t *testing.T) {
	for text, want := range map[string]string{
		"Example.COM": "example.com", "*.Example.com": "*.example.com", ".example.com": "*.example.com", "*": "*",
		"b\u00fccher.example": "xn--bcher-kva.example", "*.b\u00fccher.example": "*.xn--bcher-kva.example",
		"": "", ".": "", "*.": "", "*example.com": "", "a.*.com": "", "a@b.com": "", "**.com": "", "*.*.com": "", "[192.0.2.1]": "", "a b": "",
	} {
		got, ok := ParsePattern(text)
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", text, got, ok, want)
		}
		domain, ok := ParseDomain(text)
		if wanted := want != "" && want[0] != '*'; ok != wanted || ok && domain != want {
			t.Errorf("%q as a domain: %q %v", text, domain, ok)
		}
		if k := (Key{Domains: []string{got}, Domain: "x.example", Selector: "s"}); ok && k.Validate() != nil {
			t.Error(k.Validate())
		}
	}
}

// Selectors of large senders are nothing but digits.
func TestValidSelector(t *testing.T) {
	for s, want := range map[string]bool{"s1": true, "20230601": true, "a.b-c.1": true, "A_b": true, "": false, ".": false, "a.": false, "-a": false, "a-": false, "a b": false,
		"\u00fc": false, "a;b": false, strings.Repeat("a", 64): false, strings.Repeat("a.", 101) + "a": false, strings.Repeat("a.", 99) + "a": true} {
		if ValidSelector(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}
