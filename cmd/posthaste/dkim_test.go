package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/cli/dkim"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// runDKIM runs a command of "dkim" and returns its output, and the code of its error.
func runDKIM(t *testing.T, args ...string) (out string, code exit.Code, err error) {
	t.Helper()
	var b bytes.Buffer
	err = command.Execute(context.Background(), dkim.NewCommand(), args, command.Streams{In: strings.NewReader(""), Out: &b, Err: &b})
	var known *exit.Error
	if errors.As(err, &known) {
		code = known.Code
	} else if err != nil {
		code = exit.Unavailable
	}
	return b.String(), code, err
}

// A zone is a name server with TXT records.
type zone struct {
	mu      sync.Mutex
	records map[string][]string // the text of each record
	address string
}

func serveZone(t *testing.T) *zone {
	t.Helper()
	z := &zone{records: make(map[string][]string)}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z.address = conn.LocalAddr().String()
	s := &dns.Server{PacketConn: conn, Handler: z}
	ended := make(chan error, 1)
	go func() { ended <- s.ActivateAndServe() }()
	t.Cleanup(func() {
		conn.Close()
		<-ended
	})
	return z
}

// ServeDNS implements dns.Handler.
func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	name := strings.TrimSuffix(strings.ToLower(q.Question[0].Name), ".")
	texts, ok := z.records[name]
	if !ok {
		m.Rcode = dns.RcodeNameError
	}
	if len(texts) == 1 && texts[0] == "broken" {
		m.Rcode, texts = dns.RcodeServerFailure, nil
	}
	for _, text := range texts {
		rr := &dns.TXT{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}}
		for ; len(text) > 255; text = text[255:] {
			rr.Txt = append(rr.Txt, text[:255])
		}
		rr.Txt = append(rr.Txt, text)
		m.Answer = append(m.Answer, rr)
	}
	w.WriteMsg(m) // a client that is gone does not want it
}

func (z *zone) set(name string, texts ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records[name] = texts
}

// publish publishes the lines of a zone file as commands print them.
func (z *zone) publish(t *testing.T, text string) {
	t.Helper()
	parser := dns.NewZoneParser(strings.NewReader(text), "", "")
	parser.SetDefaultTTL(60)
	n := 0
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		txt := rr.(*dns.TXT)
		z.set(strings.TrimSuffix(txt.Hdr.Name, "."), strings.Join(txt.Txt, ""))
		n++
	}
	if parser.Err() != nil || n == 0 {
		t.Fatalf("%d records, %v:\n%s", n, parser.Err(), text)
	}
}

// An operator makes keys, publishes what is printed, adds what is printed, and asks whether
// all is right.
func TestFromKeygenToCheck(t *testing.T) {
	z, dir := serveZone(t), t.TempDir()
	file := filepath.Join(dir, "posthaste.toml")
	text := fmt.Sprintf("queue_directory = %q\n[dns]\nservers = [%q]\ntimeout = \"10s\"\n", dir, z.address)
	write := func() {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if _, code, err := runDKIM(t, "dns", "--config", file); code != exit.NoInput || !strings.Contains(err.Error(), "has no keys") {
		t.Errorf("no keys: %d %v", code, err)
	}
	out, _, err := runDKIM(t, "keygen", "Example.COM", "--selector", "s", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(out, "Publish in the DNS:\n")
	records, tables, ok := strings.Cut(rest, "\nThen add to the configuration:\n")
	if !ok {
		t.Fatal(out)
	}
	for _, name := range []string{"example.com.s-rsa.pem", "example.com.s-ed25519.pem"} {
		info, err := os.Stat(filepath.Join(dir, "dkim", name))
		if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(tables, "key = \""+name+"\"") {
			t.Errorf("%s: %v", name, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "dkim", name))
		if secret := strings.Split(string(text), "\n")[1]; err != nil || strings.Contains(out, secret[30:60]) {
			t.Errorf("the private key is shown: %v", err)
		}
	}
	if _, code, err := runDKIM(t, "keygen", "example.com", "--selector", "s", "--config", file); code != exit.IO || !strings.Contains(err.Error(), "exists, and is not replaced") {
		t.Errorf("again: %d %v", code, err)
	}
	text += tables
	write()
	if _, err := config.Load(file, config.Environment{Hostname: "mta.example.com"}); err != nil {
		t.Fatal(err)
	}

	// Nothing is published.
	out, code, err := runDKIM(t, "check", "--config", file)
	if code != exit.Wrong || err.Error() != "2 problems were found" || strings.Count(out, "WRONG: no record") != 2 || !strings.Contains(out, "mail from example.com: advice: example.com has no DMARC record") {
		t.Errorf("%d %v\n%s", code, err, out)
	}

	// All is.
	z.publish(t, records)
	z.set("_dmarc.example.com", "v=DMARC1; p=reject")
	out, code, err = runDKIM(t, "check", "--config", file)
	if err != nil || out != "s-rsa._domainkey.example.com (rsa, 2048 bits): good\nmail from example.com: good\nmail from *.example.com: good\ns-ed25519._domainkey.example.com (ed25519, 256 bits): good\n" {
		t.Errorf("%d %v\n%s", code, err, out)
	}

	// The command dns prints the same records as keygen.
	out, _, err = runDKIM(t, "dns", "example.com", "--config", file)
	if withoutComments(out) != strings.TrimPrefix(records, "\n") || err != nil {
		t.Errorf("%v\n%s\nand keygen printed\n%s", err, out, records)
	}
	if _, code, err := runDKIM(t, "dns", "example.org", "--config", file); code != exit.NoInput || !strings.Contains(err.Error(), "no key is for example.org") {
		t.Errorf("another domain: %d %v", code, err)
	}

	// One thing after another is wrong.
	const rsa, ed = "s-rsa._domainkey.example.com", "s-ed25519._domainkey.example.com"
	good := z.records[ed][0]
	for want, texts := range map[string][]string{
		"2 records":                {good, good},
		"the key is revoked":       {"v=DKIM1; k=ed25519; p="},
		"t=y":                      {good + "; t=y"},
		"it publishes another key": {good[:len(good)-6] + "AAAAA="},
		"it is for rsa":            {strings.Replace(good, "ed25519", "rsa", 1)},
		"failed: the name server returned SERVFAIL": {"broken"},
		"the record cannot be read":                 {"hello"},
	} {
		z.set(ed, texts...)
		out, code, err := runDKIM(t, "check", "example.com", "--config", file)
		if code != exit.Wrong || !strings.Contains(out, ed+" (ed25519, 256 bits): WRONG: ") || !strings.Contains(out, want) || !strings.Contains(out, rsa+" (rsa, 2048 bits): good\n") {
			t.Errorf("%s: %d %v\n%s", want, code, err, out)
		}
	}
	z.set(ed, good+"; s=email")
	if out, _, err := runDKIM(t, "check", "--config", file); err != nil || strings.Contains(out, "reports") {
		t.Errorf("without reports on TLS: %v\n%s", err, out)
	}
	before := text
	text = strings.Replace(text, "[dkim.", "[tls_reports]\norganization = \"o\"\nfrom = \"tls@Example.com\"\n[dkim.", 1)
	write()
	if out, _, err := runDKIM(t, "check", "--config", file); err != nil || !strings.Contains(out, ed+" (ed25519, 256 bits): advice: it is not for reports on TLS (s=email)") || strings.Count(out, "reports") != 1 {
		t.Errorf("a key that is not for reports: %v\n%s", err, out)
	}
	text = before
	write()
	z.set(ed, good)
	z.set("_dmarc.example.com", "v=DMARC1; p=reject; adkim=s")
	out, code, _ = runDKIM(t, "check", "--config", file)
	if code != exit.Wrong || !strings.Contains(out, "mail from *.example.com: WRONG: the DMARC record of *.example.com has adkim=s") || !strings.Contains(out, "mail from example.com: good") {
		t.Errorf("adkim=s: %d\n%s", code, out)
	}
	z.set("_dmarc.example.com", "broken")
	if out, code, _ = runDKIM(t, "check", "--config", file); code != exit.Wrong || strings.Count(out, "DNS lookup of TXT records of _dmarc.example.com failed") != 2 {
		t.Errorf("no answer about the policy: %d\n%s", code, out)
	}
}

func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, ";") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Wrong arguments are refused before anything is made.
func TestKeygenRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	for want, args := range map[string][]string{
		"is not a domain":        {"keygen", "a@example.com", "-d", dir},
		"--type is":              {"keygen", "example.com", "-d", dir, "--type", "dsa"},
		"--selector is":          {"keygen", "example.com", "-d", dir, "--selector", "a b"},
		"an argument is missing": {"keygen", "-d", dir},
	} {
		if _, code, err := runDKIM(t, args...); code != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %d %v", args, code, err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("there is a directory")
	}
	out, _, err := runDKIM(t, "keygen", "example.com", "-d", dir, "--type", "ed25519", "-s", "one")
	if err != nil || !strings.Contains(out, "one._domainkey.example.com. IN TXT \"v=DKIM1; k=ed25519; p=") || !strings.Contains(out, "key = \""+filepath.Join(dir, "example.com.one.pem")+"\"") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, code, err := runDKIM(t, "check"); code != exit.NoInput || !strings.Contains(err.Error(), "name its file with --config") {
		t.Errorf("check without a configuration: %d %v", code, err)
	}
}

// The check reports a key that the daemon would refuse, and one whose time is over.
func TestKeysOfTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := runDKIM(t, "keygen", "example.com", "-d", dir, "--type", "ed25519", "-s", "one"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "posthaste.toml")
	key := filepath.Join(dir, "example.com.one.pem")
	text := fmt.Sprintf("[dkim.a]\ndomain = \"*\"\nsigning_domain = \"example.com\"\nselector = \"one\"\nkey = %q\nvalid_until = 2026-01-31\n"+
		"[dkim.b]\ndomain = \"example.com\"\nselector = \"two\"\nkey = %[1]q\nvalid_from = 2100-02-01\n", key)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := runDKIM(t, "dns", "-c", file)
	if err != nil || !strings.Contains(out, "; [dkim.a]: ed25519 key of 256 bits, has signed until 2026-01-31\none._domainkey.example.com. IN TXT ") ||
		!strings.Contains(out, "; [dkim.b]: ed25519 key of 256 bits, signs from 2100-02-01 on\ntwo._domainkey.example.com. IN TXT ") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, code, err := runDKIM(t, "dns", "-c", file); code != exit.Config || !strings.Contains(err.Error(), "all users may use this file, which has secrets") {
		t.Errorf("%d %v", code, err)
	}
}
