package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/mtasts"
)

// A secureWorld is what mail with REQUIRETLS meets: a daemon that offers it, one that has TLS
// only, and a receiver in plaintext, all at the same port of addresses of their own.
type secureWorld struct {
	port             string
	cert             string // authority of all certificates
	offers, tlsOnly  *rig
	plain            *mailbox
	boxes            *boxServer // into which both daemons deliver, by LMTP
	names            string     // server of the DNS
	sts              mtasts.Config
	fingerprintOfKey string
}

// newSecureWorld starts it. The name servers vouch for all names under secure.test, and for none
// else; policies are those of the domains under sts.test.
func newSecureWorld(t *testing.T) *secureWorld {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.4:0")
	if err != nil {
		t.Skipf("this machine has only one loopback address: %v", err)
	}
	w := &secureWorld{plain: receive(t, sink.Config{}, ln), boxes: &boxServer{got: make(copies), attempts: map[string]int{}}}
	_, w.port, err = net.SplitHostPort(w.plain.address)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lmtp")
	boxes, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { boxes.Close() })
	serving.Go(func() {
		for {
			c, err := boxes.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { w.boxes.serve(c) })
		}
	})
	cert, key, pair := selfSigned(t, "mx.secure.test", "mxtls.secure.test", "mx.open.test", "mx.sts.test")
	w.cert = cert
	digest := sha256.Sum256(pair.Leaf.RawSubjectPublicKeyInfo)
	w.fingerprintOfKey = hex.EncodeToString(digest[:])
	receiver := func(address, more string) *rig {
		return start(t, t.TempDir(), more+fmt.Sprintf("myhostname = \"mx.secure.test\"\nrelay_domains = [\"secure.test\", \"open.test\", \"sts.test\"]\ndefault_transport = \"lmtp:unix:%s\"\n"+
			"[[listener]]\naddress = \"%s:%s\"\ntls = \"may\"\n[[certificate]]\ncert = %q\nkey = %q\n", path, address, w.port, cert, key))
	}
	w.offers, w.tlsOnly = receiver("127.0.0.3", ""), receiver("127.0.0.5", "requiretls_enable = false\n")
	_, _, web := selfSigned(t, "mta-sts.enforce.sts.test", "mta-sts.testing.sts.test", "mta-sts.plain.sts.test")
	policies := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		mode := "enforce"
		if strings.Contains(in.Host, "testing") {
			mode = "testing"
		}
		out.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(out, "version: STSv1\r\nmode: %s\r\nmx: *.sts.test\r\nmax_age: 86400\r\n", mode)
	}))
	policies.TLS = &tls.Config{Certificates: []tls.Certificate{web}}
	policies.StartTLS()
	t.Cleanup(policies.Close)
	w.sts = mtasts.Config{Roots: x509.NewCertPool(), Permit: func(netip.Addr) bool { return true }, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, policies.Listener.Addr().String())
	}}
	w.sts.Roots.AddCert(web.Leaf)
	var records strings.Builder
	domain := func(name, mx, address string) {
		fmt.Fprintf(&records, "%s. 60 IN MX 10 %s.\n", name, mx)
		if !strings.Contains(records.String(), mx+". 60 IN A") {
			fmt.Fprintf(&records, "%s. 60 IN A %s\n", mx, address)
		}
	}
	domain("good.secure.test", "mx.secure.test", "127.0.0.3")
	domain("good.open.test", "mx.open.test", "127.0.0.3")
	domain("enforce.sts.test", "mx.sts.test", "127.0.0.3")
	domain("testing.sts.test", "mx.sts.test", "127.0.0.3")
	domain("plain.sts.test", "plain.sts.test", "127.0.0.4")
	domain("plain.secure.test", "mxplain.secure.test", "127.0.0.4")
	domain("tls.secure.test", "mxtls.secure.test", "127.0.0.5")
	domain("stranger.secure.test", "mx2.secure.test", "127.0.0.3") // without a certificate for its name
	domain("both.secure.test", "mxplain.secure.test", "")
	fmt.Fprint(&records, "both.secure.test. 60 IN MX 20 mx.secure.test.\n")
	domain("dane.secure.test", "mxdane.secure.test", "127.0.0.3")
	domain("otherdane.secure.test", "mxdane2.secure.test", "127.0.0.3")
	fmt.Fprintf(&records, "_%s._tcp.mxdane.secure.test. 60 IN TLSA 3 1 1 %s\n_%s._tcp.mxdane2.secure.test. 60 IN TLSA 3 1 1 %s\n", w.port, w.fingerprintOfKey, w.port, strings.Repeat("00", 32))
	for _, name := range []string{"enforce", "testing", "plain"} {
		fmt.Fprintf(&records, "_mta-sts.%s.sts.test. 60 IN TXT \"v=STSv1; id=1\"\nmta-sts.%[1]s.sts.test. 60 IN A 127.0.0.1\n", name)
	}
	w.names = zone(t, records.String(), ".secure.test.")
	return w
}

// sender starts the daemon that sends, with a port under TLS for its own clients; all domains of the
// world are reached at its port.
func (w *secureWorld) sender(t *testing.T, more string, rules ...string) (r *rig, client *feed.Client, text string) {
	t.Helper()
	cert, key, pair := selfSigned(t, "mta.test")
	for _, domain := range []string{"good.secure.test", "good.open.test", "enforce.sts.test", "testing.sts.test", "plain.sts.test", "plain.secure.test", "tls.secure.test", "stranger.secure.test", "both.secure.test",
		"dane.secure.test", "otherdane.secure.test"} {
		rules = append(rules, domain, "smtp:"+domain+":"+w.port)
	}
	text = fmt.Sprintf("dns.servers = [%q]\nsmtp_permit_private_hosts = true\nsmtp_tls_ca_file = %q\n", w.names, w.cert) + more +
		fmt.Sprintf("[[listener]]\naddress = \"127.0.0.1:0\"\npurpose = \"submissions\"\n[[certificate]]\ncert = %q\nkey = %q\n", cert, key) + routes(rules...)
	r = startWith(t, t.TempDir(), text, Options{STS: w.sts})
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	conn, err := tls.Dial("tcp", r.d.addresses()[1], &tls.Config{RootCAs: roots, ServerName: "mta.test"})
	if err != nil {
		t.Fatal(err)
	}
	client, err = feed.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return r, client, text
}

// required is a message that asks for REQUIRETLS.
func required(key string, to ...mail.Address) feed.Message {
	m := letter(key, to...)
	m.Parameters = " REQUIRETLS RET=FULL"
	return m
}

// statuses are the statuses in the reports that a mailbox has got, by the recipient.
func statuses(t *testing.T, box *mailbox) map[string]string {
	t.Helper()
	got := make(map[string]string)
	for _, d := range box.deliveries() {
		to := ""
		for line := range strings.Lines(string(d.Content)) {
			if name, ok := strings.CutPrefix(line, "Final-Recipient: rfc822; "); ok {
				to = strings.TrimSpace(name)
			}
			if status, ok := strings.CutPrefix(line, "Status: "); ok {
				got[to] = strings.TrimSpace(status)
			}
		}
		if strings.Contains(string(d.Content), "Hello.") {
			t.Errorf("a report has the content of a message that asks for REQUIRETLS:\n%s", d.Content)
		}
	}
	return got
}

// Two daemons over sockets. Mail with REQUIRETLS is sent with REQUIRETLS to a server that offers it and is known by
// DNSSEC, by DANE, by a policy in mode enforce, or by the operator's configuration, and to no other: all other mail is
// returned at once, with the reason, although reports are sent in plaintext to a host that offers nothing better. No
// byte of it goes to the plaintext receiver.
func TestRequireTLSBetweenDaemons(t *testing.T) {
	t.Parallel()
	w := newSecureWorld(t)
	origin := receive(t, sink.Config{})
	r, client, _ := w.sender(t, "", "origin.test", origin.address, "relayed.test", "smtp:[mx.secure.test]:"+w.port, "numbered.test", "smtp:[127.0.0.3]:"+w.port)
	returned := map[string]string{
		"a@good.open.test": "5.7.10", "a@testing.sts.test": "5.7.10", "a@plain.secure.test": "5.7.10", "a@tls.secure.test": "5.7.30", "a@stranger.secure.test": "5.7.10",
		"a@otherdane.secure.test": "5.7.10", "a@plain.sts.test": "5.7.10", "a@numbered.test": "5.7.10",
	}
	sent := []string{"a@good.secure.test", "a@enforce.sts.test", "a@dane.secure.test", "a@both.secure.test", "a@relayed.test"}
	wanted := make(copies)
	for to := range returned {
		if got := client.Send(required("<"+to+">", mail.Address(to))); got.Fate != feed.Accepted {
			t.Fatalf("%s: %+v", to, got)
		}
	}
	for _, to := range sent {
		if got := client.Send(required("<"+to+">", mail.Address(to))); got.Fate != feed.Accepted {
			t.Fatalf("%s: %+v", to, got)
		}
		wanted["<"+to+"> "+to]++
	}
	// REQUIRETLS counts, whatever the header says (RFC 8689 4.1).
	both := required("<both>", "b@plain.secure.test")
	both.Content = append([]byte("TLS-Required: No\r\n"), both.Content...)
	returned["b@plain.secure.test"] = "5.7.10"
	if got := client.Send(both); got.Fate != feed.Accepted {
		t.Fatalf("%+v", got)
	}
	r.settled()
	w.offers.settled()
	const newest = 3 // TLS 1.3, of versions that begin at 1.0
	if out, in := r.d.counters.outbound.Stats().TLS, w.offers.d.inbound.Snapshot(); out[newest] == 0 || in.TLSVersions[newest] == 0 || in.TLSVersions[newest] != in.TLS {
		t.Errorf("handshakes by version: %v as a client, %v as a server, which has made %d", out, in.TLSVersions, in.TLS)
	}
	if got := statuses(t, origin); fmt.Sprint(got) != fmt.Sprint(returned) {
		t.Errorf("returned: %v, want %v", got, returned)
	}
	w.boxes.mu.Lock()
	w.boxes.got.matches(t, wanted)
	w.boxes.mu.Unlock()
	if n := len(w.plain.deliveries()); n != 0 {
		t.Errorf("%d messages went in plaintext", n)
	}
	if got := w.offers.log.count("msg=accepted", "requiretls=yes"); got != len(sent) {
		t.Errorf("the other daemon got %d messages with REQUIRETLS, want %d", got, len(sent))
	}
	if w.offers.log.count("msg=accepted") != len(sent) || w.tlsOnly.log.count("msg=accepted") != 0 {
		t.Error("mail went on without REQUIRETLS")
	}
	if r.log.count("msg=accepted", "requiretls=yes") != len(sent)+len(returned) {
		t.Error("the log does not say what was asked for")
	}

	// Without TLS, REQUIRETLS is not offered (RFC 8689 2).
	c := r.dial()
	defer c.Close()
	if got := c.Send(required("<clear>", "a@good.secure.test")); got.Fate != feed.Refused || got.Reply.Code != 530 || got.Reply.Status.String() != "5.7.10" {
		t.Errorf("over plaintext: %+v", got)
	}
}

// A report on mail with REQUIRETLS goes with REQUIRETLS where the sender's domain has it.
func TestReportWithRequireTLS(t *testing.T) {
	t.Parallel()
	w := newSecureWorld(t)
	r, client, _ := w.sender(t, "")
	m := required("<1>", "a@plain.secure.test")
	m.Sender = "boss@good.secure.test"
	if got := client.Send(m); got.Fate != feed.Accepted {
		t.Fatalf("%+v", got)
	}
	r.settled()
	w.offers.settled()
	if w.offers.log.count("msg=accepted", `from=""`, "requiretls=yes") != 1 {
		t.Error("the report did not ask for REQUIRETLS")
	}
}

// A transport whose relay is safe without REQUIRETLS does not ask for it, and mail that need not be protected goes in
// plaintext where the policy of the receiver's domain would have it wait. The wish that a program of this machine
// puts into the header counts as well.
func TestTLSOptionalBetweenDaemons(t *testing.T) {
	t.Parallel()
	w := newSecureWorld(t)
	r, client, _ := w.sender(t, "smtp_tls_security_level = \"mta-sts\"\n[transport.own]\ntype = \"smtp\"\nrequiretls = false\ntls_security_level = \"encrypt\"\n", "own.test", "own:[mxtls.secure.test]:"+w.port)
	optional := func(key, field string, to mail.Address) feed.Message {
		m := letter(key, to)
		m.Content = append([]byte(field), m.Content...)
		return m
	}
	for _, m := range []feed.Message{required("<own>", "a@own.test"), optional("<plain>", "TLS-Required: No\r\n", "a@plain.sts.test"), optional("<dane>", "TLS-Required: no\r\n", "a@otherdane.secure.test"),
		optional("<twice>", "TLS-Required: No\r\nTLS-Required: No\r\n", "b@plain.sts.test"), optional("<never>", "TLS-Required: Never\r\n", "c@plain.sts.test"), letter("<unset>", "d@plain.sts.test")} {
		if got := client.Send(m); got.Fate != feed.Accepted {
			t.Fatalf("%s: %+v", m.Recipients[0], got)
		}
	}
	r.waiting("three messages for a host without TLS", census{mail.AreaDeferred: 3})
	w.offers.settled()
	w.tlsOnly.settled()
	w.plain.copies().matches(t, copies{"<plain> a@plain.sts.test": 1})
	w.boxes.mu.Lock()
	w.boxes.got.matches(t, copies{"<own> a@own.test": 1, "<dane> a@otherdane.secure.test": 1})
	w.boxes.mu.Unlock()
	if r.log.count("msg=accepted", "requiretls=no") != 2 {
		t.Error("the log does not say what was asked for")
	}
}

// A reload demands more while mail is deferred: the next attempt goes by the new level, and the
// receiver in plaintext gets nothing more.
func TestLevelChangesWhileDeferred(t *testing.T) {
	t.Parallel()
	w := newSecureWorld(t)
	r, client, text := w.sender(t, "")
	w.plain.refuse(sink.AtMail, sink.RefuseForNow)
	if got := client.Send(letter("<1>", "a@plain.secure.test")); got.Fate != feed.Accepted {
		t.Fatalf("%+v", got)
	}
	r.waiting("one deferred message", census{mail.AreaDeferred: 1})
	w.plain.accept()
	verify := strings.Replace(text, "smtp_permit_private_hosts", "smtp_tls_security_level = \"verify\"\nsmtp_permit_private_hosts", 1)
	if _, err := r.d.reload(configure(t, r.dir, verify)); err != nil {
		t.Fatal(err)
	}
	r.d.driver.RetryAll()
	r.until("an attempt by the new level", func() bool { return r.log.count("status=deferred", "4.7") > 0 })
	r.waiting("the message deferred again", census{mail.AreaDeferred: 1})
	if n := len(w.plain.deliveries()); n != 0 {
		t.Errorf("%d messages went in plaintext", n)
	}
	if _, err := r.d.reload(configure(t, r.dir, text)); err != nil {
		t.Fatal(err)
	}
	r.d.driver.RetryAll()
	r.settled()
	w.plain.copies().matches(t, copies{"<1> a@plain.secure.test": 1})
}
