package dane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// A pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

var serial int64

// issue makes a certificate; with a nil issuer it signs itself.
func issue(t testing.TB, by *pair, change func(*x509.Certificate)) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: fmt.Sprint("certificate ", serial)},
		NotBefore:    now.Add(-24 * time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
	}
	change(c)
	signer := &pair{c, key}
	if by != nil {
		signer = by
	}
	der, err := x509.CreateCertificate(rand.Reader, c, signer.cert, key.Public(), signer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{cert, key}
}

func authority(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }

func host(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

func expired(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }

func both(fs ...func(*x509.Certificate)) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		for _, f := range fs {
			f(c)
		}
	}
}

// record returns the TLSA record of a certificate.
func record(u Usage, s Selector, m Matching, c *x509.Certificate) Record {
	part := c.Raw
	if s == SPKI {
		part = c.RawSubjectPublicKeyInfo
	}
	switch m {
	case SHA256:
		sum := sha256.Sum256(part)
		part = sum[:]
	case SHA512:
		sum := sha512.Sum512(part)
		part = sum[:]
	}
	return Record{u, s, m, part}
}

// verdict renders the result of Verify.
func verdict(_ Record, err error) string {
	var e *Error
	switch {
	case err == nil:
		return "ok"
	case !errors.As(err, &e):
		return "not an *Error: " + err.Error()
	case !strings.HasPrefix(e.Error(), "dane: "):
		return "odd text: " + e.Error()
	}
	return [...]string{"no match", "untrusted", "expired", "wrong name", "no record"}[e.Flaw]
}

// Every kind of record against every kind of server: with DANE-EE only the
// certificate matters, with DANE-TA the chain, the names and the dates too.
func TestVerify(t *testing.T) {
	root := issue(t, nil, authority)
	middle := issue(t, root, authority)
	const mx, other = "mx.example.com", "mx.example.net"
	good := issue(t, middle, host(mx))
	stranger := issue(t, issue(t, nil, authority), host(mx))
	late := issue(t, middle, both(host(mx), expired))
	misnamed := issue(t, middle, host(other))
	lateMiddle := issue(t, root, both(authority, expired))
	underLate := issue(t, lateMiddle, host(mx))
	lateRoot := issue(t, nil, both(authority, expired))
	underLateRoot := issue(t, lateRoot, host(mx))
	lone := issue(t, nil, host(mx))
	noCA := issue(t, root, func(*x509.Certificate) {})
	underNoCA := issue(t, noCA, host(mx))

	chain := func(ps ...*pair) []*x509.Certificate {
		var cs []*x509.Certificate
		for _, p := range ps {
			cs = append(cs, p.cert)
		}
		return cs
	}
	for _, c := range []struct {
		name  string
		usage Usage
		of    *pair // the certificate of the record
		chain []*x509.Certificate
		// The results for a digest, the whole certificate, and the whole key.
		digest, cert, key string
	}{
		{"EE match", DANEEE, good, chain(good, middle), "ok", "ok", "ok"},
		{"EE match, nothing else sent", DANEEE, good, chain(good), "ok", "ok", "ok"},
		{"EE mismatch", DANEEE, stranger, chain(good, middle), "no match", "no match", "no match"},
		{"EE expired", DANEEE, late, chain(late), "ok", "ok", "ok"},
		{"EE wrong name", DANEEE, misnamed, chain(misnamed), "ok", "ok", "ok"},
		{"EE names an authority", DANEEE, middle, chain(good, middle), "no match", "no match", "no match"},
		{"EE nothing sent", DANEEE, good, nil, "no match", "no match", "no match"},

		{"TA match", DANETA, root, chain(good, middle, root), "ok", "ok", "ok"},
		{"TA match, any order", DANETA, root, chain(good, root, middle), "ok", "ok", "ok"},
		{"TA match, the middle", DANETA, middle, chain(good, middle), "ok", "ok", "ok"},
		{"TA match, strangers sent too", DANETA, root, chain(good, stranger, middle, root), "ok", "ok", "ok"},
		{"TA mismatch", DANETA, stranger, chain(good, middle, root), "no match", "untrusted", "no match"},
		{"TA expired", DANETA, root, chain(late, middle, root), "expired", "expired", "expired"},
		{"TA expired middle", DANETA, root, chain(underLate, lateMiddle, root), "expired", "expired", "expired"},
		{"TA expired root", DANETA, lateRoot, chain(underLateRoot, lateRoot), "expired", "expired", "expired"},
		{"TA wrong name", DANETA, root, chain(misnamed, middle, root), "wrong name", "wrong name", "wrong name"},
		{"TA not sent", DANETA, root, chain(good, middle), "no match", "ok", "ok"},
		{"TA not sent, the middle", DANETA, middle, chain(good), "no match", "ok", "ok"},
		{"TA not sent, nor the middle", DANETA, root, chain(good), "no match", "untrusted", "no match"},
		{"TA not sent, wrong name", DANETA, middle, chain(misnamed), "no match", "wrong name", "wrong name"},
		{"TA not sent, expired", DANETA, middle, chain(late), "no match", "expired", "expired"},
		{"TA sent, signed nothing", DANETA, stranger, chain(good, stranger), "untrusted", "untrusted", "untrusted"},
		{"TA is the server's own", DANETA, lone, chain(lone), "no match", "no match", "no match"},
		{"TA is the server's own, sent twice", DANETA, lone, chain(lone, lone), "no match", "no match", "no match"},
		{"TA is no authority", DANETA, noCA, chain(underNoCA, noCA), "untrusted", "untrusted", "untrusted"},
		{"TA above no authority", DANETA, root, chain(underNoCA, noCA, root), "untrusted", "untrusted", "untrusted"},

		{"PKIX-TA", PKIXTA, root, chain(good, middle, root), "no record", "no record", "no record"},
		{"PKIX-EE", PKIXEE, good, chain(good), "no record", "no record", "no record"},
		{"unknown usage", 4, good, chain(good), "no record", "no record", "no record"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range []Selector{Cert, SPKI} {
				for _, m := range []Matching{Full, SHA256, SHA512} {
					want := c.digest
					switch {
					case m == Full && s == Cert:
						want = c.cert
					case m == Full:
						want = c.key
					}
					r := record(c.usage, s, m, c.of.cert)
					if got := verdict(Verify(Records{r}, c.chain, []string{mx}, now)); got != want {
						t.Errorf("%d %d %d: got %s, want %s", c.usage, s, m, got, want)
					}
				}
			}
		})
	}
}

// The certificate of a DANE-TA server must be for one of the names: that of the
// host, or the domain of the mail. Wildcards are for one label.
func TestNames(t *testing.T) {
	root := issue(t, nil, authority)
	for _, c := range []struct {
		cert  func(*x509.Certificate)
		names []string
		want  string
	}{
		{host("mx.example.com"), []string{"MX.Example.com."}, "ok"},
		{host("mx.example.com"), []string{"mx.example.com", "example.com"}, "ok"},
		{host("example.com"), []string{"mx.example.com", "example.com"}, "ok"},
		{host("*.example.com"), []string{"mx.example.com"}, "ok"},
		{host("*.example.com"), []string{"a.mx.example.com"}, "wrong name"},
		{host("*.example.com"), []string{"example.com"}, "wrong name"},
		{host("m*.example.com"), []string{"mx.example.com"}, "wrong name"},
		{host("mx.example.com"), nil, "wrong name"},
		{host("mx.example.com"), []string{""}, "wrong name"},
		{func(c *x509.Certificate) { c.Subject.CommonName = "mx.example.com" }, []string{"mx.example.com"}, "ok"},
		{func(c *x509.Certificate) { c.Subject.CommonName = "" }, []string{"mx.example.com"}, "wrong name"},
		{both(host("www.example.com"), func(c *x509.Certificate) { c.Subject.CommonName = "mx.example.com" }), []string{"mx.example.com"}, "wrong name"},
	} {
		leaf := issue(t, root, c.cert)
		got := verdict(Verify(Records{record(DANETA, SPKI, SHA256, root.cert)}, []*x509.Certificate{leaf.cert, root.cert}, c.names, now))
		if got != c.want {
			t.Errorf("certificate for %v %q, names %q: got %s, want %s", leaf.cert.DNSNames, leaf.cert.Subject.CommonName, c.names, got, c.want)
		}
	}
}

// A certificate for clients is not one for servers, even of the right authority.
func TestPurpose(t *testing.T) {
	root := issue(t, nil, authority)
	leaf := issue(t, root, both(host("mx.example.com"), func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}))
	records := Records{record(DANETA, Cert, SHA256, root.cert)}
	if got := verdict(Verify(records, []*x509.Certificate{leaf.cert, root.cert}, []string{"mx.example.com"}, now)); got != "untrusted" {
		t.Errorf("got %s", got)
	}
}

// A server changes its key: the new record is published beside the old one, and
// either suffices. What is unusable is as if it were not there.
func TestSeveralRecords(t *testing.T) {
	root := issue(t, nil, authority)
	leaf, next := issue(t, root, host("mx.example.com")), issue(t, root, host("mx.example.com"))
	chain := []*x509.Certificate{leaf.cert, root.cert}
	current := record(DANEEE, SPKI, SHA256, leaf.cert)
	future := record(DANEEE, SPKI, SHA256, next.cert)
	forged := record(DANEEE, SPKI, SHA512, next.cert)
	broken := Record{DANEEE, SPKI, SHA512, make([]byte, 63)}
	for _, c := range []struct {
		name    string
		records Records
		want    string
	}{
		{"rollover", Records{future, current}, "ok"},
		{"both old", Records{future, future}, "no match"},
		{"EE fails, TA matches", Records{future, record(DANETA, Cert, SHA256, root.cert)}, "ok"},
		{"beside PKIX", Records{record(PKIXTA, Cert, SHA256, root.cert), current}, "ok"},
		{"the stronger digest counts", Records{current, forged}, "no match"},
		{"an unusable one is not stronger", Records{current, broken}, "ok"},
		{"of another selector, no rival", Records{current, record(DANEEE, Cert, SHA512, next.cert)}, "ok"},
		{"of another usage, no rival", Records{current, record(DANETA, SPKI, SHA512, next.cert)}, "ok"},
		{"a digest does not rival the whole", Records{record(DANEEE, SPKI, Full, leaf.cert), forged}, "ok"},
		{"none", nil, "no record"},
	} {
		if got := verdict(Verify(c.records, chain, []string{"mx.example.com"}, now)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if r, _ := Verify(Records{future, current}, chain, nil, now); r.String() != current.String() {
		t.Errorf("the record that matched is given as %v", r)
	}
	if got := verdict(Verify(Records{record(DANETA, Cert, SHA256, root.cert)}, chain, []string{"mx.example.com"}, time.Time{})); got != "expired" {
		t.Errorf("without a time: %s", got)
	}
}

// A server sends thousands of certificates with the matching one at the end: the
// cost is bounded, and the record does not match.
func TestLongChain(t *testing.T) {
	root := issue(t, nil, authority)
	leaf := issue(t, root, host("mx.example.com"))
	chain := []*x509.Certificate{leaf.cert}
	for len(chain) < chainMax {
		chain = append(chain, leaf.cert)
	}
	records := Records{record(DANETA, Cert, SHA256, root.cert)}
	if got := verdict(Verify(records, append(chain, root.cert), []string{"mx.example.com"}, now)); got != "no match" {
		t.Errorf("got %s", got)
	}
	if got := verdict(Verify(records, append(chain[:chainMax-1], root.cert), []string{"mx.example.com"}, now)); got != "ok" {
		t.Errorf("at the limit: got %s", got)
	}
}
