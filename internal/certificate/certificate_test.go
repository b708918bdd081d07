package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write makes the files of a self-signed certificate.
func write(t *testing.T, file string, key crypto.Signer, end time.Time, names ...string) Pair {
	t.Helper()
	p := Pair{filepath.Join(t.TempDir(), file+".pem"), filepath.Join(t.TempDir(), file+".key")}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: file}, DNSNames: names, NotBefore: end.Add(-48 * time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	save(t, p.Cert, "CERTIFICATE", der)
	save(t, p.Key, "PRIVATE KEY", private)
	return p
}

func save(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func ecKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// B-113: the certificate is that of the name which the client asks for, exact names before
// wildcards, which stand for one label; without a name that is known, it is the first. Of
// two with the same name, a client that cannot use one gets the other.
func TestChoose(t *testing.T) {
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(24 * time.Hour)
	set, err := Load([]Pair{
		write(t, "first", ecKey(t), end, "mail.example.com"),
		write(t, "wild", ecKey(t), end, "*.example.net", "Example.NET"),
		write(t, "exact", ecKey(t), end, "smtp.example.net"),
		write(t, "rsa", old, end, "smtp.example.net", "mail.example.com"),
		write(t, "bare.example.org", ecKey(t), end),
	})
	if err != nil || set.Len() != 5 {
		t.Fatal(err)
	}
	modern := tls.ClientHelloInfo{SupportedVersions: []uint16{tls.VersionTLS13}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256, tls.PSSWithSHA256}}
	onlyRSA := tls.ClientHelloInfo{SupportedVersions: []uint16{tls.VersionTLS13}, SignatureSchemes: []tls.SignatureScheme{tls.PSSWithSHA256}}
	for _, test := range []struct {
		name, want string
		hello      tls.ClientHelloInfo
	}{
		{"", "first", modern}, {"mail.example.com", "first", modern}, {"MAIL.example.COM", "first", modern},
		{"smtp.example.net", "exact", modern}, {"example.net", "wild", modern}, {"other.example.net", "wild", modern},
		{"a.b.example.net", "first", modern}, {"bare.example.org", "bare.example.org", modern}, {"unknown.example", "first", modern},
		{".", "first", modern}, {"..", "first", modern}, {".example.net", "wild", modern}, {strings.Repeat("a", 255), "first", modern}, {"mail.example.com\x00.evil", "first", modern},
		{"smtp.example.net", "rsa", onlyRSA}, {"", "rsa", onlyRSA}, {"other.example.net", "wild", onlyRSA}, // it fails then, and the log says why
		{"mail.example.com", "rsa", onlyRSA},
	} {
		test.hello.ServerName = test.name
		got, err := set.Choose(&test.hello)
		if err != nil || got.Leaf.Subject.CommonName != test.want {
			t.Errorf("%q: %v, %v; want %s", test.name, got.Leaf.Subject, err, test.want)
		}
	}
	if _, err := new(Set).Choose(&modern); err == nil {
		t.Error("there is a certificate in an empty set")
	}
}

// Files that cannot be used are all named, with the reason and what to do.
func TestLoadFails(t *testing.T) {
	end := time.Now().Add(24 * time.Hour)
	good, other := write(t, "good", ecKey(t), end), write(t, "other", ecKey(t), end)
	open := write(t, "open", ecKey(t), end)
	if err := os.Chmod(open.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	group := write(t, "group", ecKey(t), end)
	if err := os.Chmod(group.Key, 0o640); err != nil {
		t.Fatal(err)
	}
	_, err := Load([]Pair{good, {good.Cert, other.Key}, open, group, {"/nowhere/cert", good.Key}, {good.Cert, "/nowhere/key"}, {good.Key, good.Key}})
	if err == nil {
		t.Fatal("all can be used")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{
		"certificate " + good.Cert + " with key " + other.Key + ": private key does not match public key",
		"certificate's key " + open.Key + " can be read by all users (mode 0644): run chmod o-rwx on it",
		"certificate: open /nowhere/cert: no such file",
		"certificate's key: stat /nowhere/key: no such file",
		"certificate " + good.Key + " with key " + good.Key + ": failed to find",
	}
	if len(lines) != len(want) {
		t.Fatalf("%s", err)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("%q\nwant %q", line, want[i])
		}
	}
}

// Certificates are reported from some days before their end.
func TestExpiring(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	set, err := Load([]Pair{
		write(t, "later", ecKey(t), now.Add(15*24*time.Hour)),
		write(t, "soon", ecKey(t), now.Add(13*24*time.Hour+time.Hour), "mail.example.com"),
		write(t, "gone", ecKey(t), now),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := set.Expiring(now.Add(14 * 24 * time.Hour))
	want := []string{
		"the certificate of mail.example.com expires in 13 days, on 2026-12-06T13:00:00Z",
		"the certificate of gone expired on 2026-11-23T12:00:00Z: clients that verify it do not connect",
	}
	if len(got) != 2 || got[0].Text(now) != want[0] || got[1].Text(now) != want[1] {
		t.Errorf("%v", got)
	}
}

// Fingerprints are written as openssl writes them, and read with or without colons.
func TestFingerprint(t *testing.T) {
	set, err := Load([]Pair{write(t, "x", ecKey(t), time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	prints := Fingerprints(set.all[0].Leaf)
	for _, f := range prints {
		for _, text := range []string{f.String(), strings.ToLower(f.String()), strings.ReplaceAll(f.String(), ":", "")} {
			if back, ok := ParseFingerprint(text); !ok || back != f {
				t.Errorf("%s is read as %s, %t", text, back, ok)
			}
		}
	}
	if prints[0] == prints[1] {
		t.Error("the certificate and its key have one fingerprint")
	}
	good := prints[0].String()
	for _, bad := range []string{"", ":", good[:len(good)-1], good + ":", good + "0", "x" + good[1:], strings.Replace(good, ":", "", 1), strings.Replace(good, ":", "-", 1), strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("0", 66)} {
		if f, ok := ParseFingerprint(bad); ok {
			t.Errorf("%q is read as %s", bad, f)
		}
	}
}

func FuzzParseFingerprint(f *testing.F) {
	f.Add(strings.Repeat("AB:", 31) + "AB")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := ParseFingerprint(text); ok && !strings.EqualFold(strings.ReplaceAll(p.String(), ":", ""), strings.ReplaceAll(text, ":", "")) {
			t.Errorf("%q is read as %s", text, p)
		}
	})
}
