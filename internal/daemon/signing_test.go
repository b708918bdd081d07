package daemon

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	msgauth "github.com/emersion/go-msgauth/dkim"

	"github.com/posthaste-mta/posthaste/dkim"
	"github.com/posthaste-mta/posthaste/dkim/keyring"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/spool"
)

// records are those of keys, for the receivers.
type records map[string]string

// newKeys writes keys to the directory of a daemon, publishes them, and returns the tables of
// its configuration. Each is NAME, ALGORITHM, and lines of its table besides.
func (z records) newKeys(t *testing.T, dir string, keys ...[3]string) (tables string) {
	t.Helper()
	at := filepath.Join(dir, "dkim")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		name, file := k[0], filepath.Join(at, k[0]+".pem")
		private, text := newKey(t, k[1])
		if err := keyring.Write(file, text); err != nil {
			t.Fatal(err)
		}
		z[dkim.RecordName(name, "origin.test")] = dkim.Record(private)
		tables += fmt.Sprintf("[dkim.%s]\nselector = %[1]q\nkey = \"%[1]s.pem\"\n%s", name, k[2])
		if !strings.Contains(k[2], "domain =") {
			tables += "domain = [\"origin.test\", \"*.origin.test\"]\n"
		}
	}
	return tables
}

func newKey(t *testing.T, algorithm string) (dkim.PrivateKey, []byte) {
	t.Helper()
	var key any
	_, key, err := ed25519.GenerateKey(nil)
	if algorithm == "rsa" {
		key, err = rsa.GenerateKey(nil, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	private, err := dkim.NewPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// selectors returns the selectors of the signatures of a message that was delivered, all of
// which must be valid.
func (z records) selectors(t *testing.T, content []byte) (list []string) {
	t.Helper()
	var mu sync.Mutex // the library verifies signatures side by side
	found, err := msgauth.VerifyWithOptions(bytes.NewReader(content), &msgauth.VerifyOptions{LookupTXT: func(name string) ([]string, error) {
		selector, _, _ := strings.Cut(name, ".")
		mu.Lock()
		list = append(list, selector)
		mu.Unlock()
		if record, ok := z[name]; ok {
			return []string{record}, nil
		}
		return nil, errors.New("no such record")
	}})
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, content)
	}
	for _, v := range found {
		if v.Err != nil {
			t.Errorf("signature of %s: %v\n%.2000s", v.Domain, v.Err, content)
		}
	}
	return list
}

// two is an RSA and an Ed25519 key.
func two(more string) [][3]string { return [][3]string{{"one", "rsa", more}, {"two", "ed25519", more}} }

// Whatever a client sends arrives with two valid signatures, whether it is stored in memory
// or in a file, comes by DATA or BDAT, and goes by one or the other; and its size in the
// queue is what is sent.
func TestSignaturesAreValidAtTheFarEnd(t *testing.T) {
	t.Parallel()
	keep := sink.Config{ContentKept: 64 << 20}
	plain := sink.Config{ContentKept: 64 << 20, Withheld: []string{"CHUNKING", "PIPELINING"}}
	box, single := receive(t, keep), receive(t, plain)
	z, dir := make(records), t.TempDir()
	r := start(t, dir, "message_size_limit = \"64M\"\n"+routes("good.test", box.address, "single.test", single.address)+z.newKeys(t, dir, two("")...))
	big := 3 << 20
	if golden.Runs(0) > 0 {
		big = 30 << 20
	}
	header := "From: <sender@origin.test>\r\nMessage-ID: <k>\r\nSubject: test\r\n"
	contents := map[string]string{
		"tiny":                  "From: sender@origin.test\r\n\r\nx\r\n",
		"empty body":            header + "\r\n",
		"trailing empty lines":  header + "\r\nx\r\n" + strings.Repeat("\r\n", 1000),
		"only empty lines":      header + "\r\n" + strings.Repeat("\r\n", 50_000),
		"white space":           header + "\r\n  x \t y\t\r\n \r\n\tz\r\n \r\n",
		"dots":                  header + "\r\n.\r\n..\r\n.x\r\n",
		"long field":            "To: " + strings.Repeat("somebody@good.test,\r\n\t", 2000) + "a@good.test\r\n" + header + "\r\nx\r\n",
		"long line in a field":  "To: " + strings.Repeat("somebody@good.test, ", 40) + "a@good.test\r\n" + header + "\r\nx\r\n",
		"folded fields":         "From: A\r\n\t<sender@origin.test>\r\nSubject: a\r\n \t b\r\n  c\r\n\r\nx\r\n",
		"8-bit":                 header + "\r\nGr\xc3\xbc\xc3\x9fe \xff\r\n",
		"below the domain":      "From: x@a.b.origin.test\r\n\r\nx\r\n",
		"class field removed":   "X-Posthaste-Class: bulk\r\n" + header + "X-Posthaste-Tenant: t\r\n\r\nx\r\n",
		"at the inline limit":   header + "\r\n" + bodyOf(65_000),
		"beyond the limit":      header + "\r\n" + bodyOf(66_000),
		"large":                 header + "\r\n" + bodyOf(big),
		"no line end":           header + "\r\nx",
		"header alone":          header,
		"signed by others":      "DKIM-Signature: v=1; a=rsa-sha256; d=x.test; s=foreign; h=from; bh=; b=\r\n" + header + "\r\nx\r\n",
		"repeated To and Cc":    "To: a@good.test\r\nCc: b\r\n" + header + "To: c@good.test\r\n\r\nx\r\n",
		"empty Subject, no To":  "Subject:\r\nFrom: sender@origin.test\r\n\r\nx\r\n",
		"address in the phrase": "From: \"other@x.test\" <sender@origin.test>\r\n\r\nx\r\n",
	}
	sent := make(map[string]string) // what must arrive below the Received field
	for name, content := range contents {
		for _, chunked := range []bool{false, true} {
			m := feed.Message{Sender: "sender@origin.test", Recipients: []mail.Address{"a@good.test", "b@single.test"}, Content: []byte(content), Chunked: chunked}
			m.Parameters = " BODY=8BITMIME ENVID=" + strings.ReplaceAll(name, " ", "-") + fmt.Sprint("-", chunked)
			r.feed(m)
			arrives := strings.NewReplacer("X-Posthaste-Class: bulk\r\n", "", "X-Posthaste-Tenant: t\r\n", "").Replace(content)
			sent[strings.Fields(m.Parameters)[1][len("ENVID="):]] = strings.TrimSuffix(arrives, "\r\n") + "\r\n"
		}
	}
	r.settled()
	deliveries := append(box.deliveries(), single.deliveries()...)
	if len(deliveries) != 2*len(sent) {
		t.Fatalf("%d deliveries of %d", len(deliveries), 2*len(sent))
	}
	for _, d := range deliveries {
		signatures, received, ok := strings.Cut(string(d.Content), "Received: ")
		_, rest, _ := strings.Cut(received, "+0000\r\n")
		if want := sent[d.EnvID]; !ok || strings.TrimSuffix(rest, "\r\n")+"\r\n" != want {
			t.Errorf("%s: it arrives changed:\n%.300q\n%.300q", d.EnvID, rest, want)
		}
		if n := strings.Count(signatures, "DKIM-Signature:"); n != 2 {
			t.Errorf("%s: %d signatures in front:\n%s", d.EnvID, n, signatures)
		}
		switch {
		case strings.HasPrefix(d.EnvID, "header-alone"):
			d.Content = append(d.Content, "\r\n"...) // without which this verifier refuses it
		case strings.HasPrefix(d.EnvID, "signed-by-others"):
			d.Content = bytes.Replace(d.Content, []byte("DKIM-Signature: v=1; a=rsa-sha256; d=x.test"), []byte("X: y"), 1)
		}
		if got := strings.Join(z.selectors(t, d.Content), " "); got != "one two" && got != "two one" {
			t.Errorf("%s: signed by %q", d.EnvID, got)
		}
	}
}

// Mail that cannot be signed goes as it came, with a line in the log that says why.
func TestUnsignedMail(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"info", "warn", "no"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			box := receive(t, sink.Config{})
			z, dir := make(records), t.TempDir()
			r := start(t, dir, "dkim_log_unsigned = \""+level+"\"\n"+routes("good.test", box.address)+z.newKeys(t, dir, [3]string{"one", "ed25519", ""}))
			reasons := map[string]string{
				"Subject: x\r\n\r\nx\r\n":                                 "no From field",
				"From: a@origin.test\r\nFrom: b@origin.test\r\n\r\nx\r\n": "several From fields",
				"From: a@other.test\r\n\r\nx\r\n":                         "no key for the domain",
				"From: nobody\r\n\r\nx\r\n":                               "no domain in the From field",
				"From: a@origin.test\r\nno field\r\n\r\nx\r\n":            "a line of the header is not a field",
			}
			for content := range reasons {
				r.feed(feed.Message{Sender: "sender@origin.test", Recipients: []mail.Address{"a@good.test"}, Content: []byte(content)})
			}
			r.settled()
			for _, d := range box.deliveries() {
				if bytes.Contains(d.Content, []byte("DKIM-Signature")) {
					t.Errorf("%s", d.Content)
				}
			}
			for _, reason := range reasons {
				want := 1
				if level == "no" {
					want = 0
				}
				if n := r.log.count("level="+strings.ToUpper(level), `msg="not signed"`, reason); n != want {
					t.Errorf("%d lines about %s", n, reason)
				}
			}
		})
	}
}

// Strangers may send to relay_domains, and get no signature in our name. A bare LF is refused
// whether or not mail is signed.
func TestStrangersGetNoSignature(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	z, dir := make(records), t.TempDir()
	r := start(t, dir, "mynetworks = [\"192.0.2.0/24\"]\nrelay_domains = [\"good.test\"]\n"+routes("good.test", box.address)+z.newKeys(t, dir, two("")...))
	r.feed(letter("<1>", "a@good.test"))
	r.settled()
	if got := z.selectors(t, box.deliveries()[0].Content); got != nil {
		t.Errorf("signed by %v", got)
	}
	if n := r.log.count("not signed"); n != 0 {
		t.Errorf("%d lines in the log", n)
	}
	c := r.dial()
	m := letter("<2>", "a@good.test")
	m.Content, m.Chunked = []byte("From: a@origin.test\r\n\r\nx\ny\r\n"), true // feed ends lines of DATA in CRLF
	if got := c.Send(m); got.Fate == feed.Accepted || got.Reply.Code != 550 {
		t.Errorf("a bare LF: %+v", got)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Reports are signed for the domain of this host, with keys of the tenant's mail among
// others. A copy of mail that others have written is not.
func TestReportsAreSigned(t *testing.T) {
	t.Parallel()
	origin, boss := receive(t, sink.Config{}), receive(t, sink.Config{})
	z, dir := make(records), t.TempDir()
	keys := z.newKeys(t, dir, [3]string{"one", "rsa", "domain = \"mta.test\"\nsigning_domain = \"origin.test\"\n"}, [3]string{"two", "ed25519", ""})
	r := start(t, dir, "double_bounce = \"report\"\n2bounce_notice_recipient = \"boss@boss.test\"\n"+
		routes("gone.test", "error:5.1.1 gone", "origin.test", origin.address, "boss.test", boss.address)+keys)
	r.feed(letter("<1>", "a@gone.test"))
	m := letter("<2>", "b@gone.test")
	m.Sender = ""
	r.feed(m)
	r.settled()
	d, rep, _ := reportTo(t, origin)
	if got := strings.Join(z.selectors(t, d.Content), " "); got != "one" || rep.Host != "mta.test" {
		t.Errorf("signed by %q\n%s", got, d.Content)
	}
	copied := boss.deliveries()
	if len(copied) != 1 || bytes.Count(copied[0].Content, []byte("DKIM-Signature:")) != 1 { // that of the client's mail
		t.Fatalf("%d copies: %+v", len(copied), copied)
	}
	z.selectors(t, copied[0].Content)
}

// A message that is tried again and again, over a restart, has the signatures that it got
// when it was accepted, and no others.
func TestRetriesAreNotSignedAgain(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	box.refuse(sink.AtCommit, sink.RefuseForNow)
	z, dir := make(records), t.TempDir()
	text := "minimal_backoff_time = \"1s\"\nmaximal_backoff_time = \"1s\"\n" + routes("good.test", box.address) + z.newKeys(t, dir, two("")...)
	r := start(t, dir, text)
	r.feed(letter("<1>", "a@good.test"))
	r.waiting("it is deferred", census{mail.AreaDeferred: 1})
	id := r.ids(mail.AreaDeferred)[0]
	before := contentOf(t, r.d.spool, id)
	size := envelopeOf(t, r.d.spool, id).Size
	r.end()
	r = start(t, dir, text)
	box.accept()
	r.settled()
	taken := box.deliveries()
	if len(taken) != 1 || string(taken[0].Content) != string(before) || size != int64(len(before)) || taken[0].Size != size {
		t.Fatalf("%d deliveries, %d bytes in the queue, %d announced", len(taken), len(before), size)
	}
	if got := z.selectors(t, taken[0].Content); len(got) != 2 {
		t.Errorf("signed by %v", got)
	}
}

func contentOf(t *testing.T, s *spool.Spool, id mail.QueueID) []byte {
	t.Helper()
	c, err := s.Content(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return bytes.Clone(c.Bytes)
}

func envelopeOf(t *testing.T, s *spool.Spool, id mail.QueueID) mail.Envelope {
	t.Helper()
	m, err := s.Lookup(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return m.Envelope
}

// A reload puts new keys into force, reads files again, and keeps the old keys if one of the
// new ones cannot be used. Dates and tenants decide which key signs.
func TestReloadOfKeys(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	z, dir := make(records), t.TempDir()
	day := func(d int) string { return time.Now().UTC().AddDate(0, 0, d).Format(time.DateOnly) }
	old := z.newKeys(t, dir, [3]string{"old", "ed25519", "valid_until = " + day(0) + "\n"})
	next := z.newKeys(t, dir, [3]string{"next", "ed25519", "valid_from = " + day(-1) + "\n"}, [3]string{"later", "ed25519", "valid_from = " + day(+1) + "\n"},
		[3]string{"ended", "ed25519", "valid_until = " + day(-1) + "\n"}, [3]string{"theirs", "rsa", "tenant = \"others\"\n"})
	route := routes("good.test", box.address)
	r := start(t, dir, route+old)
	n := 0
	sign := func() string {
		t.Helper()
		n++
		r.feed(letter(fmt.Sprintf("<%d>", n), "a@good.test"))
		r.settled()
		return strings.Join(z.selectors(t, box.deliveries()[n-1].Content), " ")
	}
	reload := func(text string) error {
		t.Helper()
		restart, err := r.d.reload(configure(t, dir, text))
		if len(restart) > 0 {
			t.Errorf("%v need a restart", restart)
		}
		return err
	}
	if got := sign(); got != "old" {
		t.Fatalf("signed by %q", got)
	}
	if err := reload(route + old + next); err != nil {
		t.Fatal(err)
	}
	if got := sign(); got != "next" {
		t.Errorf("after a reload: signed by %q", got)
	}
	path := filepath.Join(dir, "dkim", "next.pem")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := reload(route + next); !errors.Is(err, keyring.ErrUnusable) || !strings.Contains(err.Error(), path) {
		t.Errorf("a key that all may read: %v", err)
	}
	if got := sign(); got != "next" {
		t.Errorf("after a reload that failed: signed by %q", got)
	}
	private, text := newKey(t, "ed25519")
	if err := errors.Join(os.Remove(path), keyring.Write(path, text)); err != nil {
		t.Fatal(err)
	}
	z["next._domainkey.origin.test"] = dkim.Record(private)
	if err := reload(route + next); err != nil {
		t.Fatal(err)
	}
	if got := sign(); got != "next" {
		t.Errorf("with the new key in the old file: signed by %q", got)
	}
	if err := reload(route); err != nil {
		t.Fatal(err)
	}
	if got := sign(); got != "" {
		t.Errorf("without keys: signed by %q", got)
	}
	if _, err := New(configure(t, t.TempDir(), route+old), quiet); !errors.Is(err, keyring.ErrUnusable) {
		t.Errorf("a start without the file of a key: %v", err)
	}
}

// The largest signatures fit into what the spool puts in front of a message; package dkim has
// a test that they have at most 16 KiB.
var _ = [1]struct{}{}[16<<10-spool.PrependMax]
