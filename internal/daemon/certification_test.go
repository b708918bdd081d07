package daemon

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/acme"
)

// Before a certificate has been obtained, clients that do not verify are served with a self-signed
// one. The obtained certificate is used as soon as it is there, without a reload, and again after a
// start, even while the authority cannot be reached.
func TestObtainedCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "acme_names = [\"Mail.example.com\"]\nacme_directory = \"https://127.0.0.1:1/directory\"\nacme_addresses = [\"127.0.0.1:0\"]\n" +
		"[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submissions\"\n"
	r := start(t, dir, text)
	shownName := func(r *rig) string {
		return shown(t, r.d.addresses()[1], &tls.Config{ServerName: "mail.example.com"}).PeerCertificates[0].Subject.CommonName
	}
	if got := shownName(r); got != "stand-in" {
		t.Errorf("the first certificate is of %q", got)
	}
	r.until("the reason why there is no other", func() bool { return r.log.count("no certificate was obtained", "connection refused") > 0 })

	file := acme.Path(configure(t, dir, text).AcmePath())
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	issue(t, filepath.Dir(file), "obtained", 90*24*time.Hour, "mail.example.com")
	var both []byte
	for _, part := range []string{"obtained.pem", "obtained.key"} {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(file), part))
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, b...)
	}
	if err := os.WriteFile(file, both, 0o600); err != nil {
		t.Fatal(err)
	}
	r.d.showCertificates() // as after an order
	if got := shownName(r); got != "obtained" {
		t.Errorf("the second certificate is of %q", got)
	}
	if _, err := r.d.reload(configure(t, dir, "acme_key = \"rsa\"\n"+text)); err != nil {
		t.Fatal(err)
	}
	if got := shownName(r); got != "obtained" {
		t.Errorf("after a reload the certificate is of %q", got)
	}
}
