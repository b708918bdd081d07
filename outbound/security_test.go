package outbound

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/dane"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// An authority signs certificates.
type authority struct {
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	serial int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert = a.signed(t, template, template, &a.key.PublicKey)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) signed(t testing.TB, template, parent *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// certificate returns one for some names that ends after so long.
func (a *authority) certificate(t testing.TB, name string, end time.Duration, more ...string) tls.Certificate {
	t.Helper()
	a.serial++
	key := newKey(t)
	cert := a.signed(t, &x509.Certificate{SerialNumber: big.NewInt(a.serial + 1), DNSNames: append([]string{name}, more...), NotBefore: time.Now().Add(-2 * time.Hour),
		NotAfter: time.Now().Add(end), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// file writes the authority's certificate to a file.
func (a *authority) file(t testing.TB) string {
	t.Helper()
	return pemFile(t, "ca.pem", 0o644, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func pemFile(t testing.TB, name string, mode os.FileMode, blocks ...*pem.Block) string {
	t.Helper()
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(b)...)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// An ability is how a server deals with TLS.
type ability struct {
	name    string
	first   bool   // it expects TLS before it greets
	offers  bool   // STARTTLS, and with first again under TLS
	reply   string // to STARTTLS
	garbage string // in place of a handshake
	config  *tls.Config
	silent  bool // in place of a handshake
	keyword bool // offers REQUIRETLS under TLS
	heard   atomic.Value
	asked   atomic.Int32 // how often STARTTLS came
}

// serve serves one connection: enough of SMTP for one message after the other.
func (a *ability) serve(sock net.Conn) {
	defer sock.Close()
	sock.SetDeadline(time.Now().Add(20 * time.Second))
	conn := sock
	if a.first {
		if a.silent {
			io.Copy(io.Discard, sock)
			return
		}
		t := tls.Server(sock, a.config)
		if a.config == nil || t.Handshake() != nil {
			return
		}
		conn = t
	}
	io.WriteString(conn, "220 mx.test ESMTP\r\n")
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.TrimSpace(strings.SplitN(line, " ", 2)[0])); verb {
		case "EHLO":
			io.WriteString(conn, "250-mx.test\r\n250-PIPELINING\r\n")
			switch {
			case (conn == sock || a.first) && a.offers:
				io.WriteString(conn, "250-STARTTLS\r\n")
			case a.keyword:
				io.WriteString(conn, "250-REQUIRETLS\r\n")
			}
			io.WriteString(conn, "250 SIZE\r\n")
		case "STARTTLS":
			a.asked.Add(1)
			io.WriteString(conn, a.reply+"\r\n"+a.garbage)
			if !strings.HasPrefix(a.reply, "220 ") {
				continue
			}
			if a.silent {
				io.Copy(io.Discard, sock)
				return
			}
			if a.garbage != "" || a.config == nil {
				return
			}
			t := tls.Server(sock, a.config)
			if t.Handshake() != nil {
				return
			}
			conn, in = t, bufio.NewReader(t)
		case "QUIT":
			io.WriteString(conn, "221 bye\r\n")
			return
		case "MAIL":
			a.heard.Store(strings.TrimSpace(line))
			io.WriteString(conn, "250 fine\r\n")
		case "DATA":
			io.WriteString(conn, "354 go on\r\n")
			for line != ".\r\n" {
				if line, err = in.ReadString('\n'); err != nil {
					return
				}
			}
			io.WriteString(conn, "250 taken\r\n")
		default:
			io.WriteString(conn, "250 fine\r\n")
		}
	}
}

// listen serves connections until the test ends, and counts them.
func (a *ability) listen(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go a.serve(c)
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// records is what the DNS says of all hosts, and of the domains of the mail.
type records struct {
	answer dane.Answer
	names  []string
}

func (r records) TLSA(context.Context, string, uint16) dane.Answer { return r.answer }
func (r records) Names(context.Context, string) []string           { return r.names }

// What becomes of mail at each level, with each kind of server and each state of the DNS: the
// rows are written out, so that each can be read and argued about.
func TestPolicyMatrix(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	valid, wrong := ca.certificate(t, "mx.test", time.Hour), ca.certificate(t, "elsewhere.test", time.Hour)
	expired, unknown := ca.certificate(t, "mx.test", -time.Hour), other.certificate(t, "mx.test", time.Hour)
	domain := ca.certificate(t, "example.test", time.Hour)
	servers := []*ability{
		{name: "none"}, {name: "refuses", offers: true, reply: "454 4.7.0 not now"}, {name: "closes", offers: true, reply: "220 go ahead"},
		{name: "injects", offers: true, reply: "220 go ahead", garbage: "250 OK\r\n"},
		{name: "first-closes", first: true}, {name: "first-silent", first: true, silent: true},
	}
	for name, c := range map[string]tls.Certificate{"unknown": unknown, "expired": expired, "wrong": wrong, "domain": domain, "valid": valid} {
		servers = append(servers, &ability{name: name, offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{c}}},
			&ability{name: "first-" + name, first: true, offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{c}}})
	}
	addrs := make(map[string]netip.AddrPort)
	for _, s := range servers {
		addrs[s.name] = s.listen(t)
	}
	digest := sha256.Sum256(valid.Leaf.Raw)
	spki := sha256.Sum256(valid.Leaf.RawSubjectPublicKeyInfo)
	dns := map[string]dane.Answer{
		"none":     {State: dane.None},
		"failed":   {State: dane.Failed, Why: "SERVFAIL"},
		"unusable": {State: dane.Unusable, Base: "mx.test"},
		"match":    {State: dane.Usable, Base: "mx.test", Records: dane.Records{{Usage: 3, Selector: 1, Matching: 1, Data: spki[:]}}},
	}
	demands := map[string]string{"none": "none", "may": "", "encrypt": "encrypt", "fingerprint": "fingerprint=" + hex.EncodeToString(digest[:]),
		"verify": "verify", "secure": "secure=.example.test,example.test", "dane": "dane", "dane-only": "dane-only", "mta-sts": "mta-sts", "enforced": "sts"}
	for name, demand := range maps.Clone(demands) {
		demands[name+"+implicit"] = demand + "+implicit"
	}
	demands["none+implicit"], demands["may+implicit"] = implicitly(t, tlspolicy.None), implicitly(t, tlspolicy.May)
	text, err := os.ReadFile("testdata/tables/tls.txt")
	if err != nil {
		t.Fatal(err)
	}
	var header []string
	var group sync.WaitGroup
	cells := 0
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#":
			continue
		case fields[0] == "level":
			header = fields
			continue
		case len(fields) != len(header):
			t.Fatalf("line %d has %d cells, the header %d", n+1, len(fields), len(header))
		}
		demand, ok := demands[fields[0]]
		answer, found := dns[fields[1]]
		if !ok || !found {
			t.Fatalf("line %d: there is no level %s or state %s", n+1, fields[0], fields[1])
		}
		for i, want := range fields[2:] {
			server := header[i+2]
			if !addrs[server].IsValid() {
				t.Fatalf("there is no server %s", server)
			}
			cells++
			c, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"smtp": {TLS: TLSConfig{CAFile: ca.file(t), HandshakeTimeout: time.Second}}}, TLSA: records{answer: answer}}, nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			o := mail.Opening{Transport: "smtp", Nexthop: "example.test", Security: demand, Host: mail.Host{Name: "mx.test", Addr: addrs[server]}}
			try := func() {
				if got, opened := become(t, c, o); got != want {
					t.Errorf("level %s, TLSA records %s, server %s: %s, want %s (%v)", fields[0], fields[1], server, got, want, opened.Reply)
				}
			}
			if server == "first-silent" { // it takes a second
				group.Go(try)
				continue
			}
			try()
		}
	}
	group.Wait()
	if want := (9 + 8) * (6 + 3*4 + 4); cells != want {
		t.Errorf("%d cells were tried, there are %d", cells, want)
	}
	for _, s := range servers {
		if s.first && s.asked.Load() > 0 {
			t.Errorf("%s: STARTTLS was sent under TLS", s.name)
		}
	}
}

// Under a DANE-TA record the certificate must be for the host or for the domain of the mail, each before or
// after its aliases are followed (RFC 7672 3.2.2): the domain's names are those that DNSSEC vouches for.
func TestNamesUnderDANETA(t *testing.T) {
	ca := newAuthority(t)
	digest := sha256.Sum256(ca.cert.Raw)
	answer := dane.Answer{State: dane.Usable, Base: "base.test", Records: dane.Records{{Usage: dane.DANETA, Selector: dane.Cert, Matching: 1, Data: digest[:]}}}
	for _, row := range []struct {
		cert  string
		names []string
		want  string
	}{
		{"base.test", nil, "verified"}, {"mx.test", nil, "verified"}, {"example.test", nil, "refused"},
		{"example.test", []string{"example.test", "real.test"}, "verified"}, {"real.test", []string{"example.test", "real.test"}, "verified"},
		{"real.test", []string{"example.test"}, "refused"}, {"elsewhere.test", []string{"example.test", "real.test"}, "refused"},
	} {
		cert := ca.certificate(t, row.cert, time.Hour)
		cert.Certificate = append(cert.Certificate, ca.cert.Raw)
		a := &ability{offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{cert}}}
		c, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"smtp": {}}, TLSA: records{answer, row.names}}, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, opened := become(t, c, mail.Opening{Transport: "smtp", Nexthop: "example.test:25", Security: "dane", Host: mail.Host{Name: "mx.test", Addr: a.listen(t)}})
		if got != row.want {
			t.Errorf("%s, names %q: %s, want %s (%v)", row.cert, row.names, got, row.want, opened.Reply)
		}
	}
}

// The reply for a certificate that is for another name says first for which one it should be: the server chooses how
// many names it has.
func TestLongNamesDoNotHideTheReason(t *testing.T) {
	ca := newAuthority(t)
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprintf("%s.%d.elsewhere.test", strings.Repeat("long", 15), i))
	}
	a := &ability{offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, many[0], time.Hour, many...)}}}
	c, o := demanding(t, ca, nil, a, TransportConfig{})
	_, opened := become(t, c, o)
	if text := opened.Reply.Text; !strings.Contains(text[:120], "the server's certificate is not for mx.test; ") || !strings.HasSuffix(text, ", …") {
		t.Errorf("%q", text)
	}
}

// implicitly returns what a policy demands of the servers of example.test with TLS from the first octet.
func implicitly(t testing.TB, level tlspolicy.Level) string {
	t.Helper()
	d, why := tlspolicy.Policy{Level: level, Implicit: true}.For(tlspolicy.Nexthop{Domain: "example.test"})
	if !why.IsZero() {
		t.Fatal(why)
	}
	return d.String()
}

// become says what has become of a dial, in the words of the table.
func become(t testing.TB, c *Client, o mail.Opening) (got string, opened mail.OpenedConnection) {
	t.Helper()
	k, opened := c.Dial(t.Context(), o)
	got = "plaintext"
	switch {
	case k == nil && !opened.Insecure:
		got = "failed"
	case k == nil:
		got = "refused"
	case !opened.Security.IsZero():
		got = opened.Security.Trust.String()
	}
	if k != nil {
		k.Hangup()
		k.Run(t.Context(), func(uint64, mail.DeliveryResult) {})
	}
	if (k == nil) != !opened.Reply.IsZero() || k == nil && !opened.Reply.Temporary() {
		t.Errorf("%s to %v: %v", o.Security, o.Host.Addr, opened.Reply)
	}
	return got, opened
}

// demanding returns a client, and an Opening to a server that demands TLS of it.
func demanding(t testing.TB, ca *authority, bodies Bodies, a *ability, more TransportConfig) (*Client, mail.Opening) {
	t.Helper()
	more.TLS.CAFile = ca.file(t)
	c, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"smtp": more}}, nil, bodies, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, mail.Opening{Transport: "smtp", Nexthop: "example.test", Security: "verify", Host: mail.Host{Name: "mx.test", Addr: a.listen(t)}, Level: mail.LevelOverlap}
}

// Messages of all sizes arrive over TLS as they are, pipelined, and a second connection resumes
// the session of the first. Contents larger than the buffers of the connection are written by
// the other goroutine, while replies are read.
func TestMessagesUnderTLS(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, "mx.test", time.Hour)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := startPeerOn(t, l, &tls.Config{Certificates: []tls.Certificate{cert}})
	bodies := store{}
	const count = 20
	for id := range count {
		bodies[mail.QueueID(id)] = fakeContent{data: fmt.Sprintf("Subject: %d\r\n\r\n..dots\r\n", id) + strings.Repeat(".0123456789\r\n", id*id*200), inFile: id%2 == 0}
	}
	c, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"smtp": {TLS: TLSConfig{CAFile: ca.file(t)}}}}, nil, bodies, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o := mail.Opening{Transport: "smtp", Nexthop: "example.test", Security: "verify", Host: mail.Host{Name: "mx.test", Addr: l.Addr().(*net.TCPAddr).AddrPort()}, Level: mail.LevelOverlap}
		k, opened := c.Dial(t.Context(), o)
		if k == nil {
			t.Fatal(opened.Reply)
		}
		if want := "TLS 1.3 TLS_AES_128_GCM_SHA256 verified"; opened.Security.String() != want {
			t.Errorf("%v, want %s", opened.Security, want)
		}
		for id := range count {
			k.Send(uint64(id), message(mail.QueueID(id), "b@example.net", "no-c@example.net"))
		}
		k.Hangup()
		ended := 0
		k.Run(t.Context(), func(id uint64, r mail.DeliveryResult) {
			ended++
			if r.Outcomes[0].Result != mail.Delivered || r.Outcomes[1].Result != mail.Failed || r.Security != opened.Security {
				t.Errorf("message %d: %+v", id, r)
			}
		})
		if ended != count {
			t.Errorf("%d messages ended of %d", ended, count)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.resumed, []bool{false, true}) {
		t.Errorf("connections that resumed a session: %v", p.resumed)
	}
	for id := range count {
		want := fmt.Sprintf("%q", bodies[mail.QueueID(id)].data)
		n := 0
		for _, got := range p.got {
			if strings.HasSuffix(got, ": "+want) {
				n++
			}
		}
		if n != 2 {
			t.Errorf("message %d, of %d octets, arrived %d times, want 2", id, len(bodies[mail.QueueID(id)].data), n)
		}
	}
}

// An idle connection under TLS takes messages as they come: each interrupts the read that waits
// for the server, and TLS goes on where it was.
func TestIdleUnderTLS(t *testing.T) {
	ca := newAuthority(t)
	a := &ability{offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "mx.test", time.Hour)}}}
	bodies := store{}
	for id := range 10 {
		bodies[mail.QueueID(id)] = fakeContent{data: "Subject: x\r\n\r\n" + strings.Repeat("text\r\n", id*1000)}
	}
	c, o := demanding(t, ca, bodies, a, TransportConfig{})
	k, opened := c.Dial(t.Context(), o)
	if k == nil {
		t.Fatal(opened.Reply)
	}
	results, ended := make(chan mail.DeliveryResult), make(chan mail.Closing)
	go func() { ended <- k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) { results <- r }) }()
	for id := range 10 {
		if id%2 == 0 {
			for reading := false; !reading; runtime.Gosched() {
				k.line.mu.Lock()
				reading = k.line.reading
				k.line.mu.Unlock()
			}
		}
		k.Send(uint64(id), message(mail.QueueID(id), "b@example.net"))
		if r := <-results; r.Outcomes[0].Result != mail.Delivered {
			t.Fatalf("message %d: %+v", id, r)
		}
	}
	k.Hangup()
	if closing := <-ended; closing.Why != mail.CloseAsked {
		t.Errorf("%+v", closing)
	}
}

// A server that falls silent where TLS begins costs no more than the time for it; mail for which
// plaintext will do goes over a new connection, and the next one does not try again.
func TestStallsBeforeTLS(t *testing.T) {
	for name, a := range map[string]*ability{
		"reply":     {offers: true, reply: "220-wait\r\n220-wait"},
		"handshake": {offers: true, reply: "220 go ahead", silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, o := demanding(t, newAuthority(t), nil, a, TransportConfig{TLS: TLSConfig{HandshakeTimeout: time.Second}})
			began := time.Now()
			if k, opened := c.Dial(t.Context(), o); k != nil || opened.Reply.Code != 451 || name == "handshake" && !opened.Insecure {
				t.Errorf("with a demand: %v %+v", k, opened)
			}
			if took := time.Since(began); took < time.Second || took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if name == "reply" {
				return // what the server says is no TLS, and it may be as slow about anything else
			}
			o.Security = ""
			for range 2 {
				began = time.Now()
				k, opened := c.Dial(t.Context(), o)
				if k == nil || !opened.Security.IsZero() {
					t.Fatalf("without a demand: %+v", opened)
				}
				k.Hangup()
				k.Run(t.Context(), func(uint64, mail.DeliveryResult) {})
			}
			if took := time.Since(began); took > time.Second/2 {
				t.Errorf("the handshake that failed was tried again: %v", took)
			}
		})
	}
}

// A dial is broken off wherever it is, and so is the handshake.
func TestHandshakeIsBrokenOff(t *testing.T) {
	c, o := demanding(t, newAuthority(t), nil, &ability{offers: true, reply: "220 go ahead", silent: true}, TransportConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, security := range []string{"verify", ""} {
		o.Security = security
		began := time.Now()
		if k, opened := c.Dial(ctx, o); k != nil || opened.Insecure || opened.Reply != interrupted() {
			t.Errorf("%q: %v %+v", security, k, opened)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	}
}

// A server that asks for our certificate gets it.
func TestOwnCertificate(t *testing.T) {
	ca := newAuthority(t)
	own := ca.certificate(t, "me.test", time.Hour)
	trusted := x509.NewCertPool()
	trusted.AddCert(ca.cert)
	a := &ability{offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "mx.test", time.Hour)},
		ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tls.VersionTLS12}}
	der, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := &pem.Block{Type: "CERTIFICATE", Bytes: own.Leaf.Raw}, &pem.Block{Type: "PRIVATE KEY", Bytes: der}
	both := pemFile(t, "both.pem", 0o600, cert, key)
	for name, files := range map[string]TLSConfig{
		"one file":  {CertFile: both},
		"two files": {CertFile: pemFile(t, "cert.pem", 0o644, cert), KeyFile: pemFile(t, "key.pem", 0o600, key)},
		"none":      {},
	} {
		c, o := demanding(t, ca, nil, a, TransportConfig{TLS: files})
		k, opened := c.Dial(t.Context(), o)
		if (k != nil) != (name != "none") {
			t.Errorf("%s: %+v", name, opened)
		}
		if k != nil {
			k.Hangup()
			k.Run(t.Context(), func(uint64, mail.DeliveryResult) {})
		}
	}
	for want, files := range map[string]TLSConfig{
		"chmod 600":               {CertFile: pemFile(t, "open.pem", 0o644, cert, key)},
		"no such file":            {CertFile: "/nonexistent/x"},
		"there is no tls_cert":    {KeyFile: both},
		"has no certificate":      {CAFile: pemFile(t, "empty.pem", 0o644)},
		"tls_ca_file: open /none": {CAFile: "/nonexistent/ca"},
	} {
		if _, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"smtp": {TLS: files}}}, nil, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", files, err, want)
		}
	}
}

// A message that demands REQUIRETLS goes only to a server that offers it under TLS, and that is
// known by its certificate, whatever the level.
func TestRequireTLSKeyword(t *testing.T) {
	ca := newAuthority(t)
	valid, other := ca.certificate(t, "mx.test", time.Hour), newAuthority(t).certificate(t, "mx.test", time.Hour)
	for _, c := range []struct {
		a      *ability
		ok     bool
		status string // 5.x.y: the mail is returned at once where no host does better; 4.x.y: it waits
	}{
		{&ability{offers: true, reply: "220 go ahead", keyword: true, config: &tls.Config{Certificates: []tls.Certificate{valid}}}, true, ""},
		{&ability{offers: true, reply: "220 go ahead", config: &tls.Config{Certificates: []tls.Certificate{valid}}}, false, "5.7.30"},
		{&ability{offers: true, reply: "220 go ahead", keyword: true, config: &tls.Config{Certificates: []tls.Certificate{other}}}, false, "5.7.10"},
		{&ability{}, false, "5.7.10"},
		{&ability{offers: true, reply: "454 4.7.0 not now"}, false, "4.7.4"},
		{&ability{offers: true, reply: "220 go ahead"}, false, "4.7.5"},
	} {
		a := c.a
		client, o := demanding(t, ca, nil, a, TransportConfig{})
		for _, security := range []string{"+requiretls", "none+requiretls", "encrypt+requiretls"} {
			o.Security = security
			k, opened := client.Dial(t.Context(), o)
			if (k != nil) != c.ok || k == nil && (!opened.Insecure || opened.Reply.Status.String() != c.status || opened.Reply.Code/100 != opened.Reply.Status.Class || opened.Reply.By != "") {
				t.Errorf("%s, %s: %+v", security, c.status, opened)
			}
			if k != nil {
				k.Hangup()
				k.Run(t.Context(), func(uint64, mail.DeliveryResult) {})
			}
		}
	}
}

// A connection that cannot be secured fails mail permanently only with REQUIRETLS: mail with the null sender waits as
// other mail does, and so does mail with REQUIRETLS while it is not known how the host must be secured.
func TestRequireTLSForGood(t *testing.T) {
	ca := newAuthority(t)
	valid, other := ca.certificate(t, "mx.test", time.Hour), newAuthority(t).certificate(t, "mx.test", time.Hour)
	for _, c := range []struct {
		security string
		answer   dane.State
		cert     tls.Certificate
		status   string
	}{
		{"verify", dane.None, other, "4.7.5"},
		{"verify+wants-requiretls", dane.None, other, "4.7.5"},
		{"verify+requiretls", dane.None, other, "5.7.10"},
		{"sts=*.other.test+wants-requiretls", dane.None, valid, "4.7.5"},
		{"sts=*.other.test+requiretls", dane.None, valid, "5.7.10"},
		{"mta-sts+wants-requiretls", dane.Failed, valid, "4.7.5"},
		{"mta-sts+requiretls", dane.Failed, valid, "4.7.5"},
		{"dane-only+requiretls", dane.Failed, valid, "4.7.5"},
		{"dane-only+requiretls", dane.None, valid, "5.7.10"},
		{"dane-only+wants-requiretls", dane.None, valid, "4.7.5"},
		{"mta-sts+requiretls", dane.Unusable, other, "5.7.10"},
	} {
		a := &ability{offers: true, reply: "220 go ahead", keyword: true, config: &tls.Config{Certificates: []tls.Certificate{c.cert}}}
		client, o := demanding(t, ca, nil, a, TransportConfig{})
		client.cfg.TLSA = records{answer: dane.Answer{State: c.answer}}
		o.Security = c.security
		if k, opened := client.Dial(t.Context(), o); k != nil || !opened.Insecure || opened.Reply.Status.String() != c.status || opened.Reply.Code/100 != opened.Reply.Status.Class {
			t.Errorf("%s, TLSA %v: %+v, want %s", c.security, c.answer, opened.Reply, c.status)
		}
	}
}

// A broken text is no reason to send mail in plaintext.
func TestUnknownDemand(t *testing.T) {
	c, o := demanding(t, newAuthority(t), nil, &ability{}, TransportConfig{})
	o.Security = "quantum"
	if k, opened := c.Dial(t.Context(), o); k != nil || !opened.Insecure || !strings.Contains(opened.Reply.Text, "quantum") {
		t.Errorf("%+v", opened)
	}
}

// REQUIRETLS goes on with mail that came with it, on connections that were judged for that, and with no
// other: mail with the null sender goes without it where it cannot be had, and is not lost (RFC 8689 5).
func TestRequireTLSPassesOn(t *testing.T) {
	ca := newAuthority(t)
	valid, other := ca.certificate(t, "mx.test", time.Hour), newAuthority(t).certificate(t, "mx.test", time.Hour)
	for _, c := range []struct {
		security string
		keyword  bool
		cert     tls.Certificate
		asked    mail.TLSRequest
		passes   bool
	}{
		{"+requiretls", true, valid, mail.TLSRequired, true}, {"+requiretls", true, valid, mail.TLSUnset, false}, {"+wants-requiretls", true, valid, mail.TLSRequired, true},
		{"+wants-requiretls", false, valid, mail.TLSRequired, false}, {"+wants-requiretls", true, other, mail.TLSRequired, false}, {"", true, valid, mail.TLSRequired, false},
	} {
		a := &ability{offers: true, reply: "220 go ahead", keyword: c.keyword, config: &tls.Config{Certificates: []tls.Certificate{c.cert}}}
		client, o := demanding(t, ca, nil, a, TransportConfig{})
		o.Security = c.security
		k, opened := client.Dial(t.Context(), o)
		if k == nil {
			t.Errorf("%+v: %+v", c, opened)
			continue
		}
		d := mail.Delivery{Callout: true, Transport: "smtp", Envelope: mail.Envelope{ID: 1, Sender: "a@a.test", TLS: c.asked}, Recipients: []mail.Recipient{{Address: "b@b.test"}}}
		k.Send(1, d)
		k.Hangup()
		k.Run(t.Context(), func(uint64, mail.DeliveryResult) {})
		heard, _ := a.heard.Load().(string)
		if strings.HasSuffix(heard, " REQUIRETLS") != c.passes || !strings.HasPrefix(heard, "MAIL FROM:<a@a.test>") {
			t.Errorf("%q, keyword %t, asked %v: %q", c.security, c.keyword, c.asked, heard)
		}
	}
}
