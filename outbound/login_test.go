package outbound

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gosasl "github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound/credential"
	"github.com/posthaste-mta/posthaste/sasl"
)

const (
	theUser  = "mia@shop.test"
	thePass  = "correct horse"
	theToken = "ya29.token-2"
)

// An office is a go-smtp server that demands authentication. Its PLAIN and OAUTHBEARER are
// go-sasl's, its SCRAM is that of our listeners, the others are written here.
type office struct {
	mechanisms []string
	token      string // that it accepts
	echo       bool   // repeats what it was sent
	first      bool   // expects TLS before it greets

	mu    sync.Mutex
	tried []string // mechanisms
	knows bool     // a client has authenticated
}

func (o *office) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &visit{office: o, conn: c}, nil
}

type visit struct {
	office *office
	conn   *smtp.Conn
}

func (v *visit) Reset()                               {}
func (v *visit) Logout() error                        { return nil }
func (v *visit) Mail(string, *smtp.MailOptions) error { return nil }
func (v *visit) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (v *visit) Data(r io.Reader) error               { _, err := io.Copy(io.Discard, r); return err }
func (v *visit) AuthMechanisms() []string             { return v.office.mechanisms }

// Auth returns the server's side of a mechanism.
func (v *visit) Auth(mechanism string) (gosasl.Server, error) {
	v.office.mu.Lock()
	defer v.office.mu.Unlock()
	v.office.tried = append(v.office.tried, mechanism)
	password := func(_, user, pass string) error { return v.office.judge(user == theUser && pass == thePass, pass) }
	token := func(user, token string) error {
		return v.office.judge(user == theUser && token == v.office.token, token)
	}
	switch mechanism {
	case credential.Plain:
		return gosasl.NewPlainServer(password), nil
	case credential.Login:
		return &script{asks: []string{"User Name\x00", "Password"}, judge: func(said []string) error { return password("", said[0], said[1]) }}, nil
	case credential.CRAMMD5:
		return &script{asks: []string{"<1@office.test>"}, judge: func(said []string) error {
			mac := hmac.New(md5.New, []byte(thePass))
			io.WriteString(mac, "<1@office.test>")
			return v.office.judge(said[0] == theUser+" "+hex.EncodeToString(mac.Sum(nil)), "")
		}}, nil
	case credential.OAuthBearer:
		return gosasl.NewOAuthBearerServer(func(o gosasl.OAuthBearerOptions) *gosasl.OAuthBearerError {
			if token(o.Username, o.Token) != nil {
				return &gosasl.OAuthBearerError{Status: "invalid_token", Schemes: "bearer"}
			}
			return nil
		}), nil
	case credential.XOAuth2:
		return &script{begins: true, asks: []string{`{"status":"401"}`}, judge: func(said []string) error {
			fields := strings.Split(said[0], "\x01")
			user, _ := strings.CutPrefix(fields[0], "user=")
			text, _ := strings.CutPrefix(fields[1], "auth=Bearer ")
			return token(user, text)
		}}, nil
	}
	plus := mechanism == credential.SCRAMPlus
	return &ending{office: v.office, Server: sasl.NewScram(plus, slices.Contains(v.office.mechanisms, credential.SCRAMPlus), keysOf, func(kind string) []byte {
		state, _ := v.conn.TLSConnectionState()
		if kind == "tls-unique" {
			return state.TLSUnique
		}
		octets, _ := state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
		return octets
	})}, nil
}

func keysOf(string) sasl.Keys {
	k, err := sasl.NewKeys(thePass, []byte("twelve bytes"), sasl.IterationsMin)
	if err != nil {
		panic(err)
	}
	return k
}

func (o *office) judge(right bool, secret string) error {
	switch {
	case right:
		o.mu.Lock()
		o.knows = true
		o.mu.Unlock()
		return nil
	case o.echo:
		return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "not " + secret + ", go away"}
	}
	return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "who are you?"}
}

// A script is an exchange with fixed questions.
type script struct {
	begins bool // the first response comes with the command, and questions only if it is wrong
	asks   []string
	said   []string
	judge  func([]string) error
}

func (s *script) Next(response []byte) ([]byte, bool, error) {
	switch {
	case response == nil && !s.begins:
		return []byte(s.asks[0]), false, nil
	case s.begins && len(s.said) == 0:
		s.said = append(s.said, string(response))
		if s.judge(s.said) == nil {
			return nil, true, nil
		}
		return []byte(s.asks[0]), false, nil
	}
	if s.said = append(s.said, string(response)); len(s.said) < len(s.asks) {
		return []byte(s.asks[len(s.said)]), false, nil
	}
	return nil, true, s.judge(s.said)
}

// An ending notes that an exchange has succeeded.
type ending struct {
	gosasl.Server
	office *office
}

func (e *ending) Next(response []byte) ([]byte, bool, error) {
	challenge, done, err := e.Server.Next(response)
	if err != nil {
		err = e.office.judge(false, "")
	} else if done {
		err = e.office.judge(true, "")
	}
	return challenge, done, err
}

// open runs the server until the test ends, without TLS if cfg is nil, and returns its host.
func (o *office) open(t testing.TB, cfg *tls.Config) mail.Host {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.first {
		l, cfg = tls.NewListener(l, cfg), nil
	}
	server := smtp.NewServer(o)
	server.TLSConfig, server.Domain, server.AllowInsecureAuth = cfg, "office.test", cfg == nil && !o.first
	server.ErrorLog = log.New(io.Discard, "", 0)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("server: %v", err)
		}
	})
	return mail.Host{Name: "office.test", Addr: l.Addr().(*net.TCPAddr).AddrPort()}
}

// A desk is a client with one credential, and its log.
type desk struct {
	*Client
	log bytes.Buffer
}

func newDesk(t testing.TB, ca *authority, c credential.Credential) *desk {
	t.Helper()
	c.Name, c.User, c.For = "office", theUser, []string{"office.test"}
	table, err := credential.NewTable([]credential.Credential{c}, "")
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{}
	d.Client, err = New(Config{Hello: "me.test", Credentials: table, Log: slog.New(slog.NewTextHandler(&d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Transports: map[string]TransportConfig{"smtp": {TLS: TLSConfig{CAFile: ca.file(t)}}}}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// demand returns a demand with the label of the desk's credential in place of its name.
func (d *desk) demand(text string) string {
	if strings.Contains(text, "~") {
		return text
	}
	return strings.Replace(text, "+auth=office", "+auth="+d.cfg.Credentials.Named("office").Label(), 1)
}

// visit dials, and returns what has become of that.
func (d *desk) visit(t testing.TB, h mail.Host, demand string) mail.OpenedConnection {
	t.Helper()
	demand = d.demand(demand)
	k, opened := d.Dial(t.Context(), mail.Opening{Transport: "smtp", Nexthop: "[office.test]:587", Security: demand, Host: h, Level: mail.LevelOverlap})
	if k != nil {
		k.Hangup()
		k.Run(t.Context(), func(uint64, mail.DeliveryResult) {})
	}
	text := fmt.Sprintf("%+v %#v %s %+v", opened, opened, d.log.String(), d.cfg.Credentials.Named("office"))
	for _, secret := range []string{thePass, "wrong horse", theToken, "ya29.token-1"} {
		if strings.Contains(text, secret) {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	return opened
}

// We can authenticate with each mechanism, over both versions of TLS; and with a wrong secret the
// mail waits: the outcome is that of a demand that was not met, not of a host that is down.
func TestLoginMechanisms(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, "office.test", time.Hour)
	for _, mechanism := range credential.Mechanisms() {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			o := &office{mechanisms: []string{"X-ODD", mechanism}, token: theToken}
			h := o.open(t, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: version})
			for _, right := range []bool{true, false} {
				c := credential.Credential{Password: credential.NewSecret(thePass)}
				token := theToken
				if !right {
					c.Password, token = credential.NewSecret("wrong horse"), "ya29.token-1"
				}
				if mechanism == credential.OAuthBearer || mechanism == credential.XOAuth2 {
					c.Password, c.Token.File = credential.Secret{}, secretFile(t, token+"\n")
				}
				o.knows = false
				d := newDesk(t, ca, c)
				opened := d.visit(t, h, "+auth=office")
				if o.knows != right || opened.Reply.IsZero() != right || opened.Insecure == right {
					t.Errorf("%s, right %v: %+v", mechanism, right, opened)
				}
				code := uint16(535)
				if mechanism == credential.OAuthBearer {
					code = 454 // go-smtp does not know go-sasl's error
				}
				if !right && (opened.Reply.Code != code || opened.Reply.By == "" || d.Stats().AuthFailures != 1) {
					t.Errorf("%s: %v, %+v", mechanism, opened.Reply, d.Stats())
				}
				if right && opened.Security.Trust != mail.TrustVerified {
					t.Errorf("%s: %v", mechanism, opened.Security)
				}
			}
		}
	}
}

func secretFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The best mechanism that both sides support is used. A server for which we have no mechanism gets
// no AUTH command.
func TestLoginChoosesTheMechanism(t *testing.T) {
	ca := newAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "office.test", time.Hour)}}
	password := credential.Credential{Password: credential.NewSecret(thePass)}
	filtered := password
	filtered.Mechanisms = []string{credential.Login, credential.Plain}
	for _, row := range []struct {
		c       credential.Credential
		offered string
		want    string // "" for none
	}{
		{password, "LOGIN PLAIN CRAM-MD5 SCRAM-SHA-256 SCRAM-SHA-256-PLUS", "SCRAM-SHA-256-PLUS"},
		{password, "LOGIN PLAIN CRAM-MD5 SCRAM-SHA-256", "SCRAM-SHA-256"},
		{password, "LOGIN PLAIN", "PLAIN"},
		{filtered, "PLAIN LOGIN SCRAM-SHA-256", "LOGIN"},
		{filtered, "CRAM-MD5", ""},
		{password, "GSSAPI NTLM XOAUTH2", ""},
		{password, "", ""},
	} {
		o := &office{mechanisms: strings.Fields(row.offered)}
		opened := newDesk(t, ca, row.c).visit(t, o.open(t, cfg), "+auth=office")
		if got := strings.Join(o.tried, " "); got != row.want || opened.Reply.IsZero() != (row.want != "") {
			t.Errorf("offered %q: %q was used, want %q: %v", row.offered, got, row.want, opened.Reply)
		}
		if row.want == "" && (!opened.Insecure || !opened.Reply.Temporary() || !strings.Contains(opened.Reply.Text, "SASL authentication failed")) {
			t.Errorf("offered %q: %+v", row.offered, opened)
		}
	}
}

// A password is sent only to a server that has proved its identity; anything less must be
// configured explicitly.
func TestLoginNeedsProtection(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	certs := map[string]*tls.Config{"plaintext": nil}
	for name, c := range map[string]tls.Certificate{"valid": ca.certificate(t, "office.test", time.Hour), "unknown": other.certificate(t, "office.test", time.Hour), "wrong name": ca.certificate(t, "elsewhere.test", time.Hour)} {
		certs[name] = &tls.Config{Certificates: []tls.Certificate{c}}
	}
	strong, weak := "CRAM-MD5 PLAIN", "PLAIN"
	for _, row := range []struct {
		protection credential.Protection
		inClear    bool
		demand     string
		server     string
		offered    string
		want       string
	}{
		{credential.Verified, false, "", "valid", weak, "PLAIN"},
		{credential.Verified, false, "", "unknown", weak, ""},
		{credential.Verified, false, "", "wrong name", weak, ""},
		{credential.Verified, false, "", "plaintext", strong, ""},
		{credential.Verified, false, "none", "plaintext", strong, ""},
		{credential.Verified, false, "encrypt", "unknown", weak, ""},
		{credential.Verified, false, "verify=elsewhere.test", "wrong name", weak, "PLAIN"},
		{credential.Encrypted, false, "", "unknown", weak, "PLAIN"},
		{credential.Encrypted, false, "", "plaintext", strong, ""},
		{credential.Optional, false, "", "plaintext", strong, "CRAM-MD5"},
		{credential.Optional, false, "", "plaintext", weak, ""},
		{credential.Optional, true, "", "plaintext", weak, "PLAIN"},
		{credential.Optional, false, "", "unknown", weak, "PLAIN"},
		{credential.Optional, false, "verify", "unknown", weak, ""},
	} {
		o := &office{mechanisms: strings.Fields(row.offered)}
		c := credential.Credential{Password: credential.NewSecret(thePass), Protection: row.protection, InClear: row.inClear}
		opened := newDesk(t, ca, c).visit(t, o.open(t, certs[row.server]), row.demand+"+auth=office")
		if got := strings.Join(o.tried, " "); got != row.want || opened.Reply.IsZero() != (row.want != "") || row.want == "" && !opened.Insecure {
			t.Errorf("%+v: %q was used: %+v", row, got, opened)
		}
	}
}

// Without the credential that the mail demands, as after a reload, nothing is dialed. Nor is if the reload has given its name
// to another user: the mail was routed for the user before.
func TestLoginOfNobody(t *testing.T) {
	ca := newAuthority(t)
	d := newDesk(t, ca, credential.Credential{Password: credential.NewSecret(thePass)})
	for demand, want := range map[string]string{"+auth=gone~00000000": "credential gone does not exist", "+auth=office~00000000": "credential office is another one since a reload"} {
		opened := d.visit(t, mail.Host{Name: "office.test", Addr: address("1")}, demand)
		if !opened.Insecure || !strings.Contains(opened.Reply.Text, want) || d.Stats().ConnectFailures+d.Stats().Connects > 0 {
			t.Errorf("%s: %+v", demand, opened)
		}
	}
}

// A server that repeats what it was sent in its reply does not make us show it.
func TestLoginRedactsReplies(t *testing.T) {
	ca := newAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "office.test", time.Hour)}}
	o := &office{mechanisms: []string{"PLAIN"}, echo: true}
	opened := newDesk(t, ca, credential.Credential{Password: credential.NewSecret("wrong horse")}).visit(t, o.open(t, cfg), "+auth=office")
	if want := "not [secret], go away"; opened.Reply.Text != want {
		t.Errorf("%q, want %q", opened.Reply.Text, want)
	}
}

// A token is kept until the server refuses it; then the command is asked once more, and the
// mail does not wait.
func TestLoginRenewsTokens(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no shell")
	}
	ca := newAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "office.test", time.Hour)}}
	dir := t.TempDir()
	program := filepath.Join(dir, "token")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho run >>"+dir+"/runs\necho ya29.token-$(grep -c run "+dir+"/runs)\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := &office{mechanisms: []string{"XOAUTH2"}, token: "ya29.token-1"}
	h := o.open(t, cfg)
	d := newDesk(t, ca, credential.Credential{Token: credential.TokenSource{Command: []string{program}}})
	for i, want := range []bool{true, true} {
		if opened := d.visit(t, h, "+auth=office"); opened.Reply.IsZero() != want {
			t.Fatalf("connection %d: %v", i, opened.Reply)
		}
	}
	o.mu.Lock()
	o.token = "ya29.token-2"
	o.mu.Unlock()
	if opened := d.visit(t, h, "+auth=office"); !opened.Reply.IsZero() {
		t.Fatalf("with a new token: %v", opened.Reply)
	}
	o.mu.Lock()
	o.token = "none"
	o.mu.Unlock()
	if opened := d.visit(t, h, "+auth=office"); opened.Reply.Code != 535 || !opened.Insecure {
		t.Fatalf("with no right token: %v", opened.Reply)
	}
	runs, err := os.ReadFile(dir + "/runs")
	if err != nil || strings.Count(string(runs), "run") != 3 || len(o.tried) != 6 {
		t.Errorf("the command ran %d times for %d attempts (%v)", strings.Count(string(runs), "run"), len(o.tried), err)
	}
}

// Fallback relays are not the servers that the password is for.
func TestLoginExcludesFallbackRelays(t *testing.T) {
	table, err := credential.NewTable([]credential.Credential{
		{Name: "office", User: theUser, For: []string{"example.net"}, Password: credential.NewSecret(thePass)},
		{Name: "mia", User: theUser, For: []string{"mia.example"}, Senders: []string{"mia@example.com"}, Password: credential.NewSecret(thePass)},
	}, "")
	rest, restErr := credential.NewTable([]credential.Credential{{Name: "rest", User: theUser, For: []string{"*"}, Password: credential.NewSecret(thePass)}}, "")
	if err := errors.Join(err, restErr); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		table   *credential.Table
		nexthop string
		want    int
	}{
		{table, "example.net", 1}, {table, "mia.example", 1}, {table, "example.org", 2},
		{rest, "example.org", 1}, {rest, "domain.test", 2}, // "*" is not for the domains of recipients
	} {
		c, err := New(Config{Hello: "me.test", Credentials: row.table, Trusted: []string{"example.net", "mia.example", "example.org", "[fallback.test]"},
			Transports: map[string]TransportConfig{"smtp": {FallbackRelays: []string{"[fallback.test]"}}}}, hostsByName{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if set, why := c.Hosts(t.Context(), "smtp", row.nexthop); len(set.Tiers) != row.want {
			t.Errorf("%s has %d tiers, want %d: %v", row.nexthop, len(set.Tiers), row.want, why)
		}
	}
}

// hostsByName has one host for each nexthop.
type hostsByName struct{}

func (hostsByName) Hosts(_ context.Context, nexthop string) (mail.HostSet, mail.Reply) {
	return mail.HostSet{Tiers: [][]mail.Host{{{Name: nexthop, Addr: address(fmt.Sprint(len(nexthop)))}}}}, mail.Reply{}
}
