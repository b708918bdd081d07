package inbound

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/internal/certificate"
)

// selfSigned returns a certificate for a name.
func selfSigned(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func serverTLS(t testing.TB) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{selfSigned(t, "mx.example")}, MinVersion: tls.VersionTLS12}
}

// clientTLS verifies nothing: the names are not what is tested.
func clientTLS() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// startTLS runs a server whose listener uses TLS.
func startTLS(t *testing.T, cfg Config, purpose Purpose, use TLSUse) *testServer {
	t.Helper()
	ts := start(t, cfg, nil, EarlyLog)
	ts.SetListeners(Listener{Listener: ts.listener, Name: "tested", Purpose: purpose, Use: use, TLS: serverTLS(t)})
	return ts
}

// shake makes the handshake on the client's side.
func (c *client) shake(cfg *tls.Config) *client {
	c.t.Helper()
	conn := tls.Client(c.Conn, cfg)
	if err := conn.Handshake(); err != nil {
		c.t.Fatal(err)
	}
	return &client{Conn: conn, t: c.t, replies: bufio.NewReader(conn)}
}

// A message comes after STARTTLS, and the log and the Received field have what was
// negotiated.
func TestStartTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startTLS(t, Config{}, PurposeRelay, TLSMay)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.say("STARTTLS")
		c.hear("220 2.0.0")
		c = c.shake(clientTLS())
		c.say("MAIL FROM:<a@a.example>")
		c.hear("503 5.5.1 Error: send EHLO first")
		c.say("EHLO client.example")
		if lines := c.hearAll(); strings.Contains(lines, "STARTTLS") {
			t.Errorf("%q", lines)
		}
		c.envelope()
		body := strings.Repeat(strings.Repeat("x", 70)+"\r\n", 2000) // many records
		c.say("Subject: x", "", body+".")
		c.hear("250 2.0.0 Ok: queued as ")
		c.say("QUIT")
		c.hear("221 ")
		if _, err := c.replies.ReadByte(); err != io.EOF { // a close_notify came
			t.Errorf("at the end: %v", err)
		}
		ts.end(t)
		got := ts.sink.taken()
		if len(got) != 1 || !strings.Contains(string(got[0].content), "with ESMTPS id ") || !strings.Contains(string(got[0].content), "\r\n\ttls TLS_AES_128_GCM_SHA256 (TLSv1.3);\r\n") ||
			!strings.HasSuffix(string(got[0].content), "\r\nSubject: x\r\n\r\n"+body) {
			t.Fatalf("%d messages: %.300s", len(got), fmt.Sprint(got))
		}
		if got[0].envelope.Client.Proto != "ESMTPS" || !strings.Contains(ts.log.String(), " listener=tested tls=TLSv1.3 cipher=TLS_AES_128_GCM_SHA256\n") {
			t.Errorf("protocol %s, log %s", got[0].envelope.Client.Proto, ts.log)
		}
		if n := ts.Snapshot(); n.TLS != 1 || n.TLSFailed+n.TLSRefused != 0 {
			t.Errorf("%+v", n)
		}
		if h := &ts.handshakes; h.all+len(h.byPrefix) != 0 {
			t.Errorf("handshakes left behind: %+v", h)
		}
	})
}

// S-74: on port 465 TLS comes first; B-07: a client that speaks SMTP there gets no SMTP
// back.
func TestImplicitTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startTLS(t, Config{}, PurposeSubmissions, TLSImplicit)
		c := ts.dial(t, "127.0.0.1").shake(clientTLS())
		c.hello()
		c.envelope()
		c.say("x", ".")
		c.hear("250 2.0.0")

		plain := ts.dial(t, "127.0.0.1")
		plain.say("EHLO client.example")
		all, err := io.ReadAll(plain)
		if err != nil || strings.Contains(string(all), "220") || strings.Contains(string(all), "mx.example") {
			t.Errorf("%q, %v", all, err)
		}
		plain.Close()

		stranger := ts.dial(t, "192.0.2.1").shake(clientTLS())
		stranger.hello()
		stranger.say("MAIL FROM:<a@a.example>", "RCPT TO:<x@b.example>")
		stranger.hear("250")
		stranger.hear("530 5.7.0")
		c.Close()
		stranger.Close()
		ts.end(t)
		if !strings.Contains(ts.log.String(), `msg="TLS handshake failed" client=127.0.0.1 listener=tested reason="the client does not speak TLS"`) || ts.Snapshot().TLSFailed != 1 {
			t.Errorf("%+v %s", ts.Snapshot(), ts.log)
		}
	})
}

// B-110: octets behind STARTTLS, cut by the network at every place. Those that arrive with
// the command end the session; those that arrive after the 220 are no TLS record. In no
// case is a command among them executed.
func TestInjectionBehindStartTLS(t *testing.T) {
	injected := "STARTTLS\r\nRSET\r\nEHLO evil\r\nMAIL FROM:<evil@evil.example>\r\n"
	for cut := 1; cut < len(injected); cut++ {
		synctest.Test(t, func(t *testing.T) {
			ts := startTLS(t, Config{}, PurposeRelay, TLSMay)
			c := ts.dial(t, "127.0.0.1")
			c.hello()
			go func() {
				io.WriteString(c, injected[:cut]) // the replies show it
				synctest.Wait()
				io.WriteString(c, injected[cut:])
			}()
			all, _ := io.ReadAll(c.replies) // the server closes in any case
			c.Close()
			ts.end(t)
			said := string(all)
			want := "501 5.5.0 Error: there is input after STARTTLS; closing connection\r\n"
			if cut == len("STARTTLS\r\n") {
				want = "220 2.0.0 Ready to start TLS\r\n"
				said, _, _ = strings.Cut(said, "\x15") // an alert of TLS
			}
			if said != want {
				t.Errorf("cut at %d: %q, want %q", cut, all, want)
			}
			if n := ts.Snapshot(); n.TLS != 0 || len(ts.sink.taken()) != 0 || ts.sink.begun() != 0 {
				t.Errorf("cut at %d: %+v", cut, n)
			}
		})
	}
}

// B-112: a client that says nothing, or one octet of the handshake every two seconds, is
// cut off after thirty.
func TestSlowHandshake(t *testing.T) {
	for _, implicit := range []bool{true, false} {
		for _, trickles := range []bool{true, false} {
			t.Run(fmt.Sprint(implicit, trickles), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					purpose, use := PurposeRelay, TLSMay
					if implicit {
						purpose, use = PurposeSubmissions, TLSImplicit
					}
					ts := startTLS(t, Config{}, purpose, use)
					c := ts.dial(t, "127.0.0.1")
					if !implicit {
						c.hello()
						c.say("STARTTLS")
						c.hear("220")
					}
					from := time.Now()
					var writing sync.WaitGroup
					defer writing.Wait()
					if trickles {
						writing.Go(func() {
							// The header of a record of 512 octets, and of a ClientHello.
							for _, octet := range []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 500)) {
								if _, err := c.Write([]byte{octet}); err != nil {
									return
								}
								time.Sleep(2 * time.Second)
							}
						})
					}
					io.ReadAll(c) // until the server closes
					inTime(t, from, 30*time.Second)
					c.Close()
					ts.end(t)
					if n := ts.Snapshot(); n.Timeouts != 1 || n.TLSFailed != 1 {
						t.Errorf("%+v", n)
					}
				})
			})
		}
	}
}

// Handshakes in progress are limited: a client beyond the limit hears 454 and may go on
// without TLS, one network has half of them, and a place is free again when a handshake
// has failed.
func TestHandshakeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startTLS(t, Config{HandshakeLimit: 4, LimitExceptions: noNetworks}, PurposeRelay, TLSMay)
		starting := func(from, want string) *client {
			c := ts.dial(t, from)
			c.hello()
			c.say("STARTTLS")
			c.hear(want)
			return c
		}
		slow := []*client{starting("192.0.2.1", "220"), starting("192.0.2.2", "220")}
		c := starting("192.0.2.3", "454 4.3.0 TLS not available at the moment")
		c.say("MAIL FROM:<a@a.example>")
		c.hear("250")
		slow = append(slow, starting("198.51.100.1", "220"), starting("203.0.113.1", "220"))
		starting("203.0.114.1", "454 4.3.0")
		for _, c := range slow {
			c.Close()
		}
		synctest.Wait()
		starting("192.0.2.3", "220").shake(clientTLS()).hello2()
		ts.end(t)
		if n := ts.Snapshot(); n.TLSRefused != 2 || n.TLS != 1 {
			t.Errorf("%+v", n)
		}
		if h := &ts.handshakes; h.all+len(h.byPrefix) != 0 {
			t.Errorf("handshakes left behind: %+v", h)
		}
	})
}

func (c *client) hello2() {
	c.t.Helper()
	c.say("EHLO again")
	c.hear("250 ")
}

// A shutdown does not wait for a handshake, nor is it reported as one that has failed.
func TestStopDuringHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startTLS(t, Config{}, PurposeSubmissions, TLSImplicit)
		c := ts.dial(t, "127.0.0.1")
		synctest.Wait()
		from := time.Now()
		ts.end(t)
		inTime(t, from, 0)
		c.Close()
		if n := ts.Snapshot(); n.TLSFailed != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// B-95: TLS ends in the middle of a chunk, and plaintext follows. The connection is dead:
// what follows is neither content nor a command.
func TestNothingIsReadAfterTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startTLS(t, Config{}, PurposeRelay, TLSMay)
		plain := ts.dial(t, "127.0.0.1")
		plain.hello()
		plain.say("STARTTLS")
		plain.hear("220")
		c := plain.shake(clientTLS())
		c.hello2()
		c.say("MAIL FROM:<a@a.example>", "RCPT TO:<b@b.example>")
		c.hear("250")
		c.hear("250")
		go func() {
			io.WriteString(c, "BDAT 10 LAST\r\nabc") // the end shows it
			c.Conn.(*tls.Conn).CloseWrite()
			io.WriteString(plain.Conn, "defghijklmnop\r\nMAIL FROM:<evil@evil.example>\r\n")
		}()
		io.ReadAll(plain)
		plain.Close()
		ts.end(t)
		if n := len(ts.sink.taken()); n != 0 || ts.sink.begun() != 1 {
			t.Errorf("%d messages, %d begun", n, ts.sink.begun())
		}
	})
}

// relay_clientcerts: a client of any network that shows a certificate whose fingerprint, or
// that of whose key, is known may send anywhere; with another certificate it may not.
func TestClientCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known, byKey, other := selfSigned(t, "known.example"), selfSigned(t, "key.example"), selfSigned(t, "other.example")
		print := func(c tls.Certificate, i int) certificate.Fingerprint {
			leaf, err := x509.ParseCertificate(c.Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			return certificate.Fingerprints(leaf)[i]
		}
		policy, err := NewRelayPolicy(RelayConfig{ClientCertificates: []certificate.Fingerprint{print(known, 0), print(byKey, 1)}})
		if err != nil {
			t.Fatal(err)
		}
		ts := start(t, Config{}, nil, EarlyLog)
		ts.policy = policy
		asking := serverTLS(t)
		asking.ClientAuth = tls.RequestClientCert
		ts.SetListeners(Listener{Listener: ts.listener, Use: TLSMay, TLS: asking})
		for _, test := range []struct {
			name string
			show []tls.Certificate
			want string
		}{
			{"known", []tls.Certificate{known}, "250 2.1.5"}, {"key", []tls.Certificate{byKey}, "250 2.1.5"},
			{"other", []tls.Certificate{other}, "550 5.7.1"}, {"none", nil, "550 5.7.1"},
		} {
			c := ts.dial(t, "192.0.2.1")
			c.hello()
			c.say("STARTTLS")
			c.hear("220")
			cfg := clientTLS()
			cfg.Certificates = test.show
			c = c.shake(cfg)
			c.say("EHLO x", "MAIL FROM:<a@a.example>", "RCPT TO:<x@elsewhere.example>")
			c.hear("250 ")
			c.hear("250 2.1.0")
			c.hear(test.want)
			c.Close()
		}
		ts.end(t)
	})
}

// B-112: a client that shows more certificates than TLS permits in one message is given up, and the next
// one is served. A listener without client certificates does not ask for any.
func TestManyClientCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		asking := serverTLS(t)
		asking.ClientAuth = tls.RequestClientCert
		ts.SetListeners(Listener{Listener: ts.listener, Purpose: PurposeSubmissions, Use: TLSImplicit, TLS: asking})
		cfg := clientTLS()
		chain := selfSigned(t, "many.example")
		for len(chain.Certificate) < 1000 {
			chain.Certificate = append(chain.Certificate, chain.Certificate[0])
		}
		asked := false
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			asked = true
			return &chain, nil
		}
		c := tls.Client(ts.dial(t, "192.0.2.1").Conn, cfg)
		c.Handshake() // with TLS 1.3 it is over for the client before the server has judged
		if got, err := io.ReadAll(c); err == nil || len(got) > 0 || !asked {
			t.Errorf("%q, %v, asked %t", got, err, asked)
		}
		c.Close()
		chain.Certificate = chain.Certificate[:1]
		good := ts.dial(t, "192.0.2.1").shake(cfg)
		good.hello()
		good.Close()

		asked = false
		ts.SetListeners(Listener{Listener: ts.listener, Purpose: PurposeSubmissions, Use: TLSImplicit, TLS: serverTLS(t)})
		unasked := ts.dial(t, "192.0.2.1").shake(cfg)
		unasked.hello()
		unasked.Close()
		ts.end(t)
		if n := ts.Snapshot(); asked || n.TLS != 2 || n.TLSFailed != 1 {
			t.Errorf("asked %t, %+v", asked, n)
		}
	})
}

// A listener for submission wants TLS first (RFC 8314 3.3), and executes next to nothing
// without.
func TestTLSRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startTLS(t, Config{}, PurposeSubmission, TLSRequire)
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example>")
		c.hear("530 5.7.0 Error: must issue a STARTTLS command first")
		c.say("STARTTLS")
		c.hear("220")
		c = c.shake(clientTLS())
		c.hello2()
		c.envelope()
		c.say(".")
		c.hear("250")
		c.Close()
		ts.end(t)
	})
}

// TLS 1.1 is refused where 1.2 is the lowest version.
func TestOldTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startTLS(t, Config{}, PurposeSubmissions, TLSImplicit)
		c := ts.dial(t, "127.0.0.1")
		old := clientTLS()
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if err := tls.Client(c, old).Handshake(); err == nil || !strings.Contains(err.Error(), "protocol version not supported") {
			t.Error(err)
		}
		c.Close()
		ts.end(t)
	})
}

// A Config whose TLS does not fit its purpose is refused.
func TestValidateTLS(t *testing.T) {
	for _, l := range []Listener{{Purpose: PurposeSubmissions}, {Use: TLSImplicit}, {Use: 9}, {Purpose: 9}} {
		if l.Validate() == nil {
			t.Errorf("%+v is valid", l)
		}
	}
}

// The memory of an idle connection with TLS is bounded, and what it has read last does
// not wait with it.
func TestIdleTLS(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	s := loopbackServer(t, l, Config{}, &nullSink{})
	s.SetListeners(Listener{Listener: l, Use: TLSMay, TLS: serverTLS(t)})
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	greet(t, conn)
	io.WriteString(conn, "STARTTLS\r\n") // the reply shows it
	lines := lineReader{conn: conn, buffer: make([]byte, 512)}
	lines.skip(t, 1)
	sure := tls.Client(conn, clientTLS())
	// One command, then content of one record that is larger than the first buffer.
	big := strings.Repeat("text text text text text text\r\n", 400)
	io.WriteString(sure, "EHLO x\r\n")
	greetTLS(t, sure)
	for range 3 {
		io.WriteString(sure, "MAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\n")
		secure := lineReader{conn: sure, buffer: make([]byte, 512)}
		secure.skip(t, 3)
		io.WriteString(sure, big+".\r\n")
		secure.skip(t, 1)
	}
	if n := s.Snapshot(); n.Messages != 3 {
		t.Errorf("%+v", n)
	}
}

func greetTLS(t testing.TB, conn net.Conn) {
	t.Helper()
	r := bufio.NewReaderSize(conn, 512)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line[3] == ' ' {
			return
		}
	}
}

// The prefix under which handshakes are counted is the network, not the address.
func TestHandshakesOfNetworks(t *testing.T) {
	h := places{limit: 6, byPrefix: map[netip.Prefix]int{}}
	one, other := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")
	for i, test := range []struct {
		of   netip.Prefix
		want bool
	}{{one, true}, {one, true}, {one, true}, {one, false}, {other, true}, {netip.Prefix{}, true}, {netip.Prefix{}, true}, {netip.Prefix{}, false}, {other, false}} {
		if got := h.begin(test.of); got != test.want {
			t.Errorf("%d: %t", i, got)
		}
	}
	h.end(one)
	if !h.begin(other) || h.begin(one) {
		t.Error("a place is not free")
	}
}
