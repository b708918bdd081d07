package inbound

import (
	"crypto/tls"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// startBehind runs a server whose listener believes proxies in 10.0.0.0/8.
func startBehind(t *testing.T, cfg Config, f Forwarders) *testServer {
	t.Helper()
	ts := start(t, cfg, nil, EarlyLog)
	ts.SetListeners(Listener{Listener: ts.listener, Name: "behind", Forwarders: f})
	return ts
}

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

const proxyHeader = "PROXY TCP4 192.0.2.1 198.51.100.2 40000 25\r\n"

// B-19, B-20: what a listed proxy says is believed, in whatever pieces it comes, with SMTP
// or TLS right behind it; from others the header is garbage, and gives no rights.
func TestProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startBehind(t, Config{}, Forwarders{Proxy: proxies})
		for cut := range len(proxyHeader) {
			c := ts.dial(t, "10.0.0.1")
			go func() {
				io.WriteString(c, proxyHeader[:cut]) // the greeting shows it
				io.WriteString(c, proxyHeader[cut:])
			}()
			c.hello()
			c.say("MAIL FROM:<a@a.example>", "RCPT TO:<x@elsewhere.example>", "QUIT")
			c.hear("250")
			c.hear("550 5.7.1")
			c.hear("221")
		}
		local := ts.dial(t, "10.0.0.1")
		go io.WriteString(local, "PROXY TCP4 127.0.0.1 127.0.0.1 1 25\r\n")
		local.hello()
		local.envelope()
		local.say(".")
		local.hear("250")
		if got := ts.sink.taken()[0]; got.envelope.Client.Addr != netip.MustParseAddr("127.0.0.1") || !strings.Contains(string(got.content), "([127.0.0.1])") {
			t.Errorf("%+v", got.envelope)
		}
		stranger := ts.dial(t, "203.0.113.1")
		stranger.hear("220")
		stranger.say("PROXY TCP4 127.0.0.1 127.0.0.1 1 25", "EHLO x", "MAIL FROM:<a@a.example>", "RCPT TO:<x@elsewhere.example>")
		stranger.hear("500 5.5.2")
		stranger.hear("250 ")
		stranger.hear("250 2.1.0")
		stranger.hear("550 5.7.1")
		check := ts.dial(t, "10.0.0.1") // a health check, by the proxy itself
		go io.WriteString(check, "PROXY UNKNOWN\r\n")
		check.hello()
		ts.end(t)
	})
}

// A proxy forwards TLS: behind its header comes the handshake.
func TestProxyAndTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		ts.SetListeners(Listener{Listener: ts.listener, Purpose: PurposeSubmissions, Use: TLSImplicit, TLS: serverTLS(t), Forwarders: Forwarders{Proxy: proxies}})
		c := ts.dial(t, "10.0.0.1")
		if _, err := io.WriteString(c, proxyHeader); err != nil {
			t.Fatal(err)
		}
		c = c.shake(clientTLS())
		c.hello()
		c.say("MAIL FROM:<a@a.example>", "RCPT TO:<x@b.example>")
		c.hear("250")
		c.hear("530 5.7.0") // 192.0.2.1 may not send anywhere
		c.Close()
		ts.end(t)
	})
}

// A connection of a proxy without a proper header is closed without a word: at once, or
// after ten seconds in which it trickles or is silent.
func TestProxyWithoutHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startBehind(t, Config{}, Forwarders{Proxy: proxies})
		from := time.Now()
		bad := ts.dial(t, "10.0.0.1")
		go io.WriteString(bad, "EHLO client.example\r\n")
		if all, _ := io.ReadAll(bad); len(all) > 0 {
			t.Errorf("%q", all)
		}
		inTime(t, from, 0)
		slow := ts.dial(t, "10.0.0.1")
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			for i := range proxyHeader {
				if _, err := io.WriteString(slow, proxyHeader[i:i+1]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		if all, _ := io.ReadAll(slow); len(all) > 0 {
			t.Errorf("%q", all)
		}
		inTime(t, from, 10*time.Second)
		slow.Close()
		silent := ts.dial(t, "10.0.0.1")
		synctest.Wait()
		ts.end(t) // without waiting for it
		silent.Close()
		if n := ts.Snapshot(); n.ProxyFailed != 2 {
			t.Errorf("%+v", n)
		}
		if !strings.Contains(ts.log.String(), `msg="no header of the PROXY protocol" client=10.0.0.1 listener=behind error="not a header of the PROXY protocol"`) {
			t.Error(ts.log)
		}
	})
}

// Limits are those of the clients, not of the proxy, whose connections are as many as its
// clients'.
func TestLimitsBehindProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startBehind(t, Config{ClientConnectionLimit: 2}, Forwarders{Proxy: proxies, XClient: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}})
		connect := func(client string) *client {
			c := ts.dial(t, "10.0.0.1")
			go io.WriteString(c, "PROXY TCP4 "+client+" 198.51.100.2 40000 25\r\n")
			return c
		}
		for _, client := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"} {
			connect(client).hear("220")
		}
		connect("192.0.2.1").hear("421 4.7.0 mx.example Error: too many connections from your network")
		for range 3 {
			c := ts.dial(t, "172.16.0.1")
			c.hello()
			c.say("XCLIENT ADDR=192.0.2.3")
			if c.hearAll(); ts.admission.counts.byClient[netip.MustParseAddr("192.0.2.3")] > 2 {
				t.Error("more than the limit")
			}
		}
		c := ts.dial(t, "172.16.0.1")
		c.hello()
		c.say("XCLIENT ADDR=192.0.2.2")
		c.hear("421 4.7.0 mx.example Error: too many connections from your network")
		c.hearEnd()
		ts.end(t)
		if a := ts.admission; len(a.all)+len(a.counts.byClient)+len(a.counts.byPrefix) != 0 {
			t.Errorf("left behind: %v %v", a.counts.byClient, a.counts.byPrefix)
		}
	})
}

// XCLIENT changes what the client may do. That includes an unknown address, which stands for an
// untrusted client, not for a program of this machine. XFORWARD only adds to the log.
func TestXClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startBehind(t, Config{RefuseNetworks: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}, Forwarders{XClient: proxies, XForward: proxies})
		send := func(from, command, greeting, reply string) {
			t.Helper()
			c := ts.dial(t, from)
			c.hello()
			c.say(command)
			if c.hear(greeting); reply == "" {
				c.Close()
				return
			}
			c.say("EHLO client.example", "MAIL FROM:<a@a.example>", "RCPT TO:<x@elsewhere.example>")
			c.hear("250 ")
			c.hear("250 2.1.0")
			c.hear(reply)
			c.Close()
		}
		send("10.0.0.1", "XCLIENT ADDR=127.0.0.1", "220 mx.example", "250 2.1.5")
		send("10.0.0.1", "XCLIENT ADDR=192.0.2.1", "220 mx.example", "550 5.7.1")
		send("10.0.0.1", "XCLIENT ADDR=[UNAVAILABLE] NAME=[UNAVAILABLE]", "220 mx.example", "550 5.7.1")
		send("10.0.0.1", "XCLIENT HELO=x", "220 mx.example", "550 5.7.1")
		send("10.0.0.1", "XCLIENT ADDR=203.0.113.9", "554 5.7.1", "")
		send("127.0.0.1", "XCLIENT ADDR=10.0.0.1", "550 5.7.0", "")
		send("192.0.2.1", "XFORWARD ADDR=127.0.0.1", "550 5.7.0", "")

		c := ts.dial(t, "10.0.0.1")
		c.hello()
		c.say("XFORWARD NAME=spike.example ADDR=127.0.0.1 IDENT=4F2A", "MAIL FROM:<a@a.example>", "RCPT TO:<x@elsewhere.example>", "RCPT TO:<x@b.example>", "DATA")
		c.hear("250 2.0.0")
		c.hear("250 2.1.0")
		c.hear("550 5.7.1") // 10.0.0.1 may not, whatever it forwards
		c.hear("250 2.1.5")
		c.hear("354")
		c.say(".")
		c.hear("250")
		ts.end(t)
		if !strings.Contains(ts.log.String(), " listener=behind orig_client=127.0.0.1 orig_name=spike.example orig_helo=\"\" orig_id=4F2A\n") {
			t.Error(ts.log)
		}
	})
}

// A client that a proxy speaks for does not inherit the certificate that the proxy showed.
func TestXClientHasNoCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		asking := serverTLS(t)
		asking.ClientAuth = tls.RequestClientCert
		ts.SetListeners(Listener{Listener: ts.listener, Use: TLSMay, TLS: asking, Forwarders: Forwarders{XClient: proxies}})
		var seen []Client
		ts.policy = policyFunc(func(c *Client) { seen = append(seen, *c) })
		c := ts.dial(t, "10.0.0.1")
		c.hello()
		c.say("STARTTLS")
		c.hear("220")
		cfg := clientTLS()
		cfg.Certificates = []tls.Certificate{selfSigned(t, "proxy.example")}
		c = c.shake(cfg)
		for _, command := range []string{"NOOP", "XCLIENT ADDR=192.0.2.1"} {
			c.say(command)
			c.hear("2")
			c.say("EHLO x", "MAIL FROM:<a@a.example>", "RCPT TO:<x@b.example>", "RSET")
			c.hear("250 ")
			c.hear("250 2.1.0")
			c.hear("250 2.1.5")
			c.hear("250 2.0.0")
		}
		c.Close()
		ts.end(t)
		none := Client{}.Certificates
		if len(seen) != 2 || seen[0].Certificates == none || seen[1].Addr != netip.MustParseAddr("192.0.2.1") || seen[1].Certificates != none {
			t.Errorf("%+v", seen)
		}
	})
}
