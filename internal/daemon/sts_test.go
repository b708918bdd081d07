package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mtasts"
)

// selfSigned writes a certificate for names, which is its own authority, and its key to files.
func selfSigned(t *testing.T, names ...string) (certFile, keyFile string, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * 30 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert, priv := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, data := range map[string][]byte{certFile: cert, keyFile: priv} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if pair, err = tls.X509KeyPair(cert, priv); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, pair
}

// One daemon sends to another over TLS, as the receiver's domain demands in its MTA-STS policy:
// not to the better MX host, which the policy does not name, and verified. When the policy
// names another host, mail waits, and says why.
func TestPolicyOfADomainIsEnforced(t *testing.T) {
	t.Parallel()
	cert, key, _ := selfSigned(t, "mx.d.test")
	ln, err := net.Listen("tcp", "127.0.0.4:0")
	if err != nil {
		t.Skipf("this machine has only one loopback address: %v", err)
	}
	box, other := receive(t, sink.Config{}), receive(t, sink.Config{}, ln)
	_, port, err := net.SplitHostPort(other.address)
	if err != nil {
		t.Fatal(err)
	}
	start(t, t.TempDir(), fmt.Sprintf("myhostname = \"mx.d.test\"\nrelay_domains = [\"d.test\"]\n[[listener]]\naddress = \"127.0.0.3:%s\"\ntls = \"may\"\n[[certificate]]\ncert = %q\nkey = %q\n", port, cert, key)+routes("d.test", box.address))
	policy := "version: STSv1\r\nmode: enforce\r\nmx: mx.d.test\r\nmax_age: 86400\r\n"
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, policy)
	}))
	_, _, pair := selfSigned(t, "mta-sts.d.test", "mta-sts.e.test")
	web.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	web.StartTLS()
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	server := zone(t, `
d.test.          60 IN MX 5 other.d.test.
d.test.          60 IN MX 10 mx.d.test.
mx.d.test.       60 IN A 127.0.0.3
other.d.test.    60 IN A 127.0.0.4
_mta-sts.d.test. 60 IN TXT "v=STSv1; id=1"
mta-sts.d.test.  60 IN A 127.0.0.1
e.test.          60 IN MX 5 other.d.test.
_mta-sts.e.test. 60 IN TXT "v=STSv1; id=1"
mta-sts.e.test.  60 IN A 127.0.0.1
`)
	sts := mtasts.Config{Roots: roots, Permit: func(netip.Addr) bool { return true }}
	sts.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, web.Listener.Addr().String())
	}
	r := startWith(t, t.TempDir(), fmt.Sprintf("dns.servers = [%q]\nsmtp_permit_private_hosts = true\nsmtp_tls_security_level = \"mta-sts\"\nsmtp_tls_ca_file = %q\n", server, cert)+
		routes("d.test", "smtp:d.test:"+port, "e.test", "smtp:e.test:"+port), Options{STS: sts})
	r.feed(letter("<1>", "a@d.test"), letter("<2>", "a@e.test"))
	r.until("the mail for d.test to arrive", func() bool { return len(box.deliveries()) == 1 })
	r.until("the mail for e.test to be deferred", func() bool {
		return strings.Contains(r.log.tail(64<<10), "MTA-STS policy does not name this host")
	})
	if r.log.count("msg=delivery", "to=a@d.test", "status=sent", `policy=sts tls="TLS 1.3 TLS_AES_128_GCM_SHA256 verified"`) != 1 {
		t.Error("the log does not say what was demanded, and that the host was verified")
	}
	if r.log.count("msg=delivery", "to=a@e.test", "status=deferred", "policy=sts") == 0 {
		t.Error("the log does not say what was demanded where the mail waits")
	}
	if n := len(other.deliveries()); n != 0 {
		t.Errorf("%d messages went to a host that no policy names", n)
	}
	box.copies().matches(t, copies{"<1> a@d.test": 1})
	r.end()
	if _, err := os.Stat(filepath.Join(r.dir, policyFile)); err != nil {
		t.Errorf("the policies are not kept: %v", err)
	}
}

// Policies are fetched from private addresses if and only if mail may go to such hosts, and never
// from this machine or its link, where services are that trust whoever reaches them.
func TestAddressesOfPolicies(t *testing.T) {
	s := newSTSFinder(&config.Config{}, &Options{}, &agents{})
	for addr, want := range map[string][2]bool{"192.0.32.10": {true, true}, "10.1.2.3": {false, true}, "fd00::1": {false, true}, "100.64.0.1": {false, true},
		"127.0.0.1": {}, "::1": {}, "169.254.169.254": {}, "fe80::1": {}, "0.0.0.0": {}, "224.0.0.1": {}, "::ffff:127.0.0.1": {}} {
		for i, private := range []bool{false, true} {
			s.private.Store(private)
			if got := s.cfg.Permit(netip.MustParseAddr(addr)); got != want[i] {
				t.Errorf("%s, private hosts permitted %v: %v", addr, private, got)
			}
		}
	}
}
