package daemon

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/certificate"
)

// issue writes the files of a self-signed certificate, in place of those that are there,
// and returns it as a client would hold it.
func issue(t *testing.T, dir, file string, end time.Duration, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: file}, DNSNames: names, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(end)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{file + ".pem": {Type: "CERTIFICATE", Bytes: der}, file + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pairs is the configuration of certificates.
func pairs(dir string, files ...string) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "[[certificate]]\ncert = %q\nkey = %q\n", filepath.Join(dir, f+".pem"), filepath.Join(dir, f+".key"))
	}
	return b.String()
}

// shown returns the state of a connection with TLS to a listener of purpose submissions,
// after a command.
func shown(t *testing.T, address string, cfg *tls.Config) tls.ConnectionState {
	t.Helper()
	cfg.InsecureSkipVerify = true
	conn, err := tls.Dial("tcp", address, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lines := bufio.NewReader(conn)
	greeting, err := lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(greeting, "220 ") {
		t.Errorf("%q, %v", greeting, err)
	}
	io.WriteString(conn, "NOOP\r\n") // with the reply a ticket has come, too
	if _, err := lines.ReadString('\n'); err != nil {
		t.Error(err)
	}
	return conn.ConnectionState()
}

// An authority's client renews a certificate in the same files, and has the daemon reload:
// new connections see the new one, and clients that know the old one resume their sessions.
// If the files are bad, the log says which, and the certificate in force stays.
func TestReloadOfCertificates(t *testing.T) {
	t.Parallel()
	files, dir := t.TempDir(), t.TempDir()
	issue(t, files, "first", 90*24*time.Hour, "mail.example.com")
	issue(t, files, "second", 90*24*time.Hour, "*.example.net")
	text := "[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submissions\"\n" + pairs(files, "first", "second")
	r := start(t, dir, text)
	at := r.d.addresses()[1]
	cache := tls.NewLRUClientSessionCache(8)
	before := shown(t, at, &tls.Config{ServerName: "smtp.example.net", ClientSessionCache: cache})
	if got := before.PeerCertificates[0].Subject.CommonName; got != "second" {
		t.Errorf("the certificate of %s", got)
	}

	if err := os.WriteFile(filepath.Join(files, "second.pem"), []byte("not yet written"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := r.d.reload(configure(t, dir, text))
	if err == nil || !strings.Contains(err.Error(), "certificate "+filepath.Join(files, "second.pem")+" with key") {
		t.Errorf("a reload with a broken certificate: %v", err)
	}
	if got := shown(t, at, &tls.Config{ServerName: "smtp.example.net"}); !got.PeerCertificates[0].Equal(before.PeerCertificates[0]) {
		t.Error("the certificate in force is gone")
	}

	issue(t, files, "second", 90*24*time.Hour, "*.example.net")
	if restart, err := r.d.reload(configure(t, dir, text)); err != nil || len(restart) > 0 {
		t.Fatal(restart, err)
	}
	if got := shown(t, at, &tls.Config{ServerName: "smtp.example.net"}); got.PeerCertificates[0].Equal(before.PeerCertificates[0]) {
		t.Error("new clients see the old certificate")
	}
	if got := shown(t, at, &tls.Config{ServerName: "smtp.example.net", ClientSessionCache: cache}); !got.DidResume {
		t.Error("a client that had a session has to begin anew")
	}
	if r.d.addresses()[1] != at {
		t.Error("the listener was closed")
	}
}

// tls_min is that of the listener; a client of TLS 1.2 is served where 1.2 is the lowest.
func TestLowestVersion(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	issue(t, files, "x", 90*24*time.Hour)
	r := start(t, t.TempDir(), "[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submissions\"\nname = \"new\"\ntls_min = \"1.3\"\n"+
		"[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submissions\"\nname = \"usual\"\n"+pairs(files, "x"))
	all := r.d.addresses()
	old := &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	if _, err := tls.Dial("tcp", all[1], old); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.2 where 1.3 is the lowest: %v", err)
	}
	if got := shown(t, all[2], old.Clone()); got.Version != tls.VersionTLS12 {
		t.Errorf("version %x", got.Version)
	}
	older := &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10, InsecureSkipVerify: true}
	if _, err := tls.Dial("tcp", all[2], older); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.1 where 1.2 is the lowest: %v", err)
	}
}

// A certificate that ends within 14 days is reported at the start and at a reload.
func TestExpiryIsLogged(t *testing.T) {
	t.Parallel()
	files, dir := t.TempDir(), t.TempDir()
	issue(t, files, "x", 5*24*time.Hour+time.Minute, "mail.example.com")
	r := start(t, dir, pairs(files, "x"))
	r.d.logExpiry(r.d.current, time.Now())
	if n := r.log.count("level=WARN", "the certificate of mail.example.com expires in 5 days", "certificate.", "x.pem"); n != 1 {
		t.Errorf("%d warnings", n)
	}
	issue(t, files, "x", 50*24*time.Hour, "mail.example.com")
	if _, err := r.d.reload(configure(t, dir, pairs(files, "x"))); err != nil {
		t.Fatal(err)
	}
	r.d.logExpiry(r.d.current, time.Now())
	if n := r.log.count("expires in"); n != 1 {
		t.Errorf("%d warnings after the renewal", n)
	}
}

// A client that shows a known certificate may send anywhere from any address, and a reload
// takes that back. The fingerprint is read from a file with a comment behind it.
func TestClientCertificateReload(t *testing.T) {
	t.Parallel()
	files, dir := t.TempDir(), t.TempDir()
	issue(t, files, "x", 50*24*time.Hour, "mail.example.com")
	own := issue(t, files, "client", 50*24*time.Hour)
	leaf, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(files, "clients")
	if err := os.WriteFile(list, []byte("# our branch\n"+certificate.Fingerprints(leaf)[0].String()+" branch office\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := "mynetworks = []\nrelay_clientcerts = [\"" + list + "\"]\n"
	rest := "[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submissions\"\n" + pairs(files, "x")
	r := start(t, dir, with+rest)
	ask := func() string {
		conn, err := tls.Dial("tcp", r.d.addresses()[1], &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{own}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		lines := bufio.NewReader(conn)
		last := ""
		for _, command := range []string{"EHLO x\r\n", "MAIL FROM:<a@a.test>\r\n", "RCPT TO:<b@b.test>\r\n", "QUIT\r\n"} {
			io.WriteString(conn, command) // the replies show it
		}
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return last
			}
			if !strings.HasPrefix(line, "221") {
				last = line
			}
		}
	}
	if got := ask(); !strings.HasPrefix(got, "250 2.1.5") {
		t.Errorf("%q", got)
	}
	if _, err := r.d.reload(configure(t, dir, "mynetworks = []\n"+rest)); err != nil {
		t.Fatal(err)
	}
	if got := ask(); !strings.HasPrefix(got, "530 5.7.0") {
		t.Errorf("after the reload: %q", got)
	}
	if err := os.WriteFile(list, []byte("\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.d.reload(configure(t, dir, with+rest)); err == nil || !strings.Contains(err.Error(), "relay_clientcerts: "+list+`:2: "nonsense" is not a SHA-256 fingerprint`) {
		t.Errorf("a file with a mistake: %v", err)
	}
}
