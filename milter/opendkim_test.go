package milter

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// OpenDKIM signs the mail of a program of this machine, and verifies the same mail when it comes from
// elsewhere: with simple canonicalization, under
// which one space more or less breaks a signature. The stage milter of
// .ci/run has it installed.
func TestOpenDKIM(t *testing.T) {
	program, err := exec.LookPath("opendkim")
	if err != nil {
		if _, statErr := os.Stat("/usr/sbin/opendkim"); statErr != nil {
			t.Skip("opendkim is not installed")
		}
		program = "/usr/sbin/opendkim"
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	private := write("key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	zone := write("zone", "sel._domainkey.x.test v=DKIM1; k=rsa; p="+base64.StdEncoding.EncodeToString(public)+"\n")
	socket := filepath.Join(dir, "socket")
	conf := write("conf", fmt.Sprintf("Mode sv\nDomain x.test\nSelector sel\nKeyFile %s\nTestPublicKeys %s\nSocket local:%s\nSyslog no\nBackground no\nRequireSafeKeys no\nUMask 007\nAuthservID mta.test\n", private, zone, socket))
	cmd := exec.Command(program, "-f", "-x", conf)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	await(t, "the socket of opendkim", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	j := &journal{}
	m, err := New(Config{Name: "opendkim", Network: "unix", Address: socket})
	if err != nil {
		t.Fatal(err)
	}
	look := func(client netip.AddrPort, content string) string {
		t.Helper()
		c := &Chain{Host: host(t, j), Milters: []*Milter{m}}
		s := c.Open()
		defer s.Close()
		facts := someFacts
		facts.Client, facts.User, facts.Mechanism = client, "", "" // of a user it would sign all
		if v := s.Mail(t.Context(), &facts, "a@x.test", nil); v != (Verdict{}) {
			t.Fatalf("%+v", v)
		}
		if v := s.Recipient(t.Context(), &mail.Recipient{Address: "b@y.test"}); v != (Verdict{}) {
			t.Fatalf("%+v", v)
		}
		msg := message(t, c.Host, content)
		if _, v, err := s.Message(t.Context(), msg, true); v != (Verdict{}) || err != nil {
			t.Fatalf("%+v, %v", v, err)
		}
		return contentOf(t, msg)
	}
	content := "From: Ann <a@x.test>\r\nTo: b@y.test\r\nSubject:  folded\r\n\tsubject\r\nDate: Tue, 24 Nov 2026 01:00:00 +0000\r\nMessage-ID: <1@x.test>\r\n\r\n" + strings.Repeat("A line.\r\n", 20_000)
	signed := look(netip.AddrPort{}, content)
	if !strings.HasPrefix(signed, "DKIM-Signature: v=1; a=rsa-sha256; c=simple/simple;") || !strings.HasSuffix(signed, "\r\nReceived: by mta.test\r\n"+content) {
		t.Fatalf("%.900q\n%s", signed, j.text())
	}
	verified := look(netip.MustParseAddrPort("192.0.2.9:25"), signed)
	if !strings.Contains(verified, "Authentication-Results: mta.test") || !strings.Contains(verified, "dkim=pass") {
		t.Errorf("%.900q\n%s", verified, j.text())
	}
	damaged := look(netip.MustParseAddrPort("192.0.2.9:25"), strings.Replace(signed, "A line.", "A lime.", 1))
	if !strings.Contains(damaged, "dkim=fail") {
		t.Errorf("%.900q", damaged)
	}
}
