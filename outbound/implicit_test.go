package outbound

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound/credential"
)

// With TLS from the first octet messages arrive at a foreign server as they do with STARTTLS, and the
// second connection resumes the session of the first.
func TestMessagesUnderImplicitTLS(t *testing.T) {
	ca := newAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := startPeerOn(t, tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "mx.test", time.Hour)}}), nil)
	bodies := store{1: fakeContent{data: "Subject: x\r\n\r\n" + strings.Repeat("0123456789\r\n", 20_000)}}
	c, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"smtp": {TLS: TLSConfig{CAFile: ca.file(t)}}}}, nil, bodies, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o := mail.Opening{Transport: "smtp", Nexthop: "[mx.test]:465", Security: "verify+implicit", Host: mail.Host{Name: "mx.test", Addr: l.Addr().(*net.TCPAddr).AddrPort()}, Level: mail.LevelOverlap}
		result, opened := deliver(t, c, o)
		if result != mail.Delivered || opened.Security.Trust != mail.TrustVerified || opened.Extensions&mail.ExtStartTLS != 0 {
			t.Fatalf("%v %+v", result, opened)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.resumed, []bool{false, true}) || len(p.got) != 2 || !strings.HasSuffix(p.got[0], ": "+fmt.Sprintf("%q", bodies[1].data)) {
		t.Errorf("resumed %v, %d messages", p.resumed, len(p.got))
	}
}

// A password is sent under TLS from the first octet as under STARTTLS: bound to the connection where the
// mechanism is, and to the right server only.
func TestLoginUnderImplicitTLS(t *testing.T) {
	ca := newAuthority(t)
	for _, row := range []struct {
		cert tls.Certificate
		want string
	}{
		{ca.certificate(t, "office.test", time.Hour), credential.SCRAMPlus},
		{ca.certificate(t, "elsewhere.test", time.Hour), ""},
		{newAuthority(t).certificate(t, "office.test", time.Hour), ""},
	} {
		o := &office{mechanisms: credential.Mechanisms(), first: true}
		h := o.open(t, &tls.Config{Certificates: []tls.Certificate{row.cert}})
		opened := newDesk(t, ca, credential.Credential{Password: credential.NewSecret(thePass)}).visit(t, h, "encrypt+implicit+auth=office")
		if got := strings.Join(o.tried, " "); got != row.want || o.knows != (row.want != "") || opened.Reply.IsZero() != o.knows || opened.Insecure == o.knows {
			t.Errorf("%q was used, want %q: %+v", got, row.want, opened)
		}
	}
}

// Where the two ends disagree about who begins with TLS, the reply says what is likely to be wrong, and
// says it within the time for a handshake, or for a greeting.
func TestDisagreementAboutImplicitTLS(t *testing.T) {
	ca := newAuthority(t)
	plaintext := func(sock net.Conn) {
		io.WriteString(sock, "220 mx.test ESMTP\r\n")
		io.Copy(io.Discard, sock)
	}
	silent := func(sock net.Conn) { io.Copy(io.Discard, sock) }
	closes := func(sock net.Conn) { sock.Close() }
	alert := func(sock net.Conn) { // what a server of TLS says to a client that it does not understand
		sock.Write([]byte{21, 3, 3, 0, 2, 2, 10})
		sock.Close()
	}
	const advice, missing = "tls_wrappermode needs a port at which the server expects TLS first, such as 465", "set tls_wrappermode = true"
	for _, row := range []struct {
		name     string
		security string
		port     uint16
		serve    func(net.Conn)
		took     time.Duration
		insecure bool
		want     string
	}{
		{"plaintext", "encrypt+implicit", 587, plaintext, 0, true, `the server speaks plaintext ("220 m"); ` + advice},
		{"plaintext with a weak level", "mta-sts+implicit", 587, plaintext, 0, true, advice},
		{"silence", "encrypt+implicit", 587, silent, 7 * time.Second, true, "timed out; " + advice},
		{"hangs up", "encrypt+implicit", 587, closes, 0, true, "the server closed the connection; " + advice},
		{"STARTTLS at 465, silence", "encrypt", 465, silent, 9 * time.Second, false, missing},
		{"STARTTLS at 465, hangs up", "", 465, closes, 0, false, missing},
		{"STARTTLS at 465, an alert", "", 465, alert, 0, false, missing},
		{"plaintext at 465", "", 465, plaintext, 9 * time.Second, false, "timed out while waiting for the reply to EHLO"},
		{"silence at 25", "encrypt", 25, silent, 9 * time.Second, false, "timed out while waiting for the greeting"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &tap{serve: row.serve, cut: -1}
				c, o := attacked(t, ca, p, row.security)
				c.transports["smtp"].TLS.HandshakeTimeout, c.transports["smtp"].HeloTimeout = 7*time.Second, 9*time.Second
				o.Host.Addr = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), row.port)
				began := time.Now()
				k, opened := c.Dial(t.Context(), o)
				if k != nil || opened.Insecure != row.insecure || !opened.Reply.Temporary() || !strings.Contains(opened.Reply.Text, row.want) {
					t.Errorf("%+v", opened)
				}
				if strings.Contains(row.want, "tls_wrappermode") != strings.Contains(opened.Reply.Text, "tls_wrappermode") {
					t.Errorf("advice: %s", opened.Reply.Text)
				}
				if took := time.Since(began); took != row.took {
					t.Errorf("it took %v, want %v", took, row.took)
				}
				if len(p.sent) != 1 {
					t.Errorf("%d connections", len(p.sent))
				}
			})
		})
	}
}

// No network is between the ends of a unix socket, so nothing is encrypted there, whatever the transport's
// other nexthops need.
func TestImplicitTLSNotOverASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lmtp")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		sock, err := l.Accept()
		if err == nil {
			(&ability{}).serve(sock)
		}
	}()
	c, err := New(Config{Hello: "me.test", Transports: map[string]TransportConfig{"lmtp": {LMTP: true}}}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, opened := become(t, c, mail.Opening{Transport: "lmtp", Nexthop: "unix:" + path, Security: "encrypt+implicit", Host: mail.Host{Addr: mail.SocketAddr(path)}})
	if got != "plaintext" {
		t.Errorf("%s %+v", got, opened)
	}
}
