package inbound

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdg-go/scram"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/internal/users"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/sasl"
	"github.com/posthaste-mta/posthaste/smtp"
)

// usersFile has alice and bob, whose password is sesame, with the cheapest hash.
func usersFile(t testing.TB) *users.File {
	t.Helper()
	const hash = "$argon2id$v=19$m=8192,t=1,p=1$c2FsdHNhbHRzYWx0$HgjxOI6ax85WfXptpOiYlJEe3uIIlEJzBowyiJdUM6s"
	k, err := sasl.NewKeys("sesame", []byte("0123456789abcdef"), sasl.IterationsMin)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.StdEncoding.EncodeToString
	keys := fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", k.Iterations, b64(k.Salt), b64(k.Stored), b64(k.Server))
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte("alice "+hash+" "+keys+"\nbob@b.example "+hash+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := users.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// startLogin runs a server of purpose submission on which strangers must log in.
func startLogin(t *testing.T, cfg Config) *testServer {
	t.Helper()
	cfg.Auth.Users = usersFile(t)
	ts := start(t, cfg, nil, EarlyLog)
	ts.SetListeners(Listener{Listener: ts.listener, Name: "tested", Purpose: PurposeSubmission, Use: TLSRequire, TLS: serverTLS(t), Auth: AuthRequired, Mechanisms: smtp.AllMechanisms})
	return ts
}

// connect returns a client after STARTTLS and EHLO.
func (ts *testServer) connect(t *testing.T, address string, cfg *tls.Config) *client {
	t.Helper()
	c := ts.dial(t, address)
	c.hello()
	c.say("STARTTLS")
	c.hear("220 2.0.0")
	c = c.shake(cfg)
	c.say("EHLO client.example")
	c.hear("250 ")
	return c
}

func plainText(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password))
}

// A stranger logs in with a password over TLS and sends anywhere; before that it sends
// nowhere. The log, the protocol and the flow have the user.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Flows: flowRules(t, flow.Config{})}
		cfg.Session.ShowUser = true
		ts := startLogin(t, cfg)
		c := ts.dial(t, "192.0.2.1")
		c.hear("220 ")
		c.say("EHLO client.example")
		if lines := c.hearAll(); strings.Contains(lines, "AUTH") {
			t.Errorf("without TLS: %s", lines)
		}
		c.say("AUTH PLAIN " + plainText("alice", "sesame"))
		c.hear("530 5.7.0")
		c.say("STARTTLS")
		c.hear("220 ")
		c = c.shake(clientTLS())
		c.say("EHLO client.example")
		if lines := c.hearAll(); !strings.Contains(lines, "250-AUTH SCRAM-SHA-256-PLUS SCRAM-SHA-256 PLAIN LOGIN\n") {
			t.Errorf("with TLS: %s", lines)
		}
		c.say("MAIL FROM:<a@a.example>")
		c.hear("530 5.7.0 Authentication required")
		c.say("AUTH PLAIN " + plainText("Alice", "sesame"))
		c.hear("235 2.7.0")
		c.say("MAIL FROM:<a@a.example> AUTH=<>", "RCPT TO:<x@elsewhere.example>", "DATA")
		c.hear("250 ")
		c.hear("250 ")
		c.hear("354 ")
		c.say("Subject: x", "", "x", ".")
		c.hear("250 ")
		c.Close()
		ts.end(t)
		m := ts.sink.taken()[0]
		if m.envelope.Client.Proto != "ESMTPSA" || m.envelope.Flow.Tenant != "alice" {
			t.Errorf("%+v", m.envelope)
		}
		if !strings.Contains(string(m.content), "])\r\n\t(Authenticated sender: alice)\r\n\tby mx.example (Posthaste) with ESMTPSA id ") {
			t.Errorf("%.300s", m.content)
		}
		if log := ts.log.String(); !strings.Contains(log, "listener=tested user=alice auth=PLAIN tls=TLSv1.3") || strings.Contains(log, "sesame") || strings.Contains(log, "c2VzYW1l") {
			t.Errorf("%s", log)
		}
		if n := ts.Snapshot(); n.Logins != 1 || n.LoginFailed+n.LoginLater != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// SCRAM with each binding that the connection can have; the client of another
// implementation, and TLS by Go on its side.
func TestScramOverTLS(t *testing.T) {
	for name, c := range map[string]struct {
		max  uint16
		bind func(*tls.ConnectionState) scram.ChannelBinding
		want string
	}{
		"tls-exporter": {tls.VersionTLS13, func(s *tls.ConnectionState) scram.ChannelBinding {
			b, err := scram.NewTLSExporterBinding(s)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}, "235 2.7.0"},
		"tls-unique":            {tls.VersionTLS12, func(s *tls.ConnectionState) scram.ChannelBinding { return scram.NewTLSUniqueBinding(s.TLSUnique) }, "235 2.7.0"},
		"tls-unique of TLS 1.3": {tls.VersionTLS13, func(s *tls.ConnectionState) scram.ChannelBinding { return scram.NewTLSUniqueBinding([]byte("x")) }, "535 5.7.8"},
		"another connection": {tls.VersionTLS13, func(*tls.ConnectionState) scram.ChannelBinding {
			return scram.ChannelBinding{Type: scram.ChannelBindingTLSExporter, Data: make([]byte, 32)}
		}, "535 5.7.8"},
		"none": {tls.VersionTLS13, nil, "235 2.7.0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := startLogin(t, Config{})
				cfg := clientTLS()
				cfg.MaxVersion = c.max
				conn := ts.connect(t, "192.0.2.1", cfg)
				user, err := scram.SHA256.NewClient("alice", "sesame", "")
				if err != nil {
					t.Fatal(err)
				}
				talk, mechanism := user.NewConversation(), "SCRAM-SHA-256"
				if c.bind != nil {
					state := conn.Conn.(*tls.Conn).ConnectionState()
					talk, mechanism = user.NewConversationWithChannelBinding(c.bind(&state)), "SCRAM-SHA-256-PLUS"
				}
				conn.say("AUTH " + mechanism)
				line, message := conn.hear(""), ""
				for strings.HasPrefix(line, "334 ") {
					challenge, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line[4:]))
					if err != nil {
						t.Fatal(err)
					}
					if message, err = talk.Step(string(challenge)); err != nil {
						t.Fatal(err)
					}
					conn.say(base64.StdEncoding.EncodeToString([]byte(message)))
					line = conn.hear("")
				}
				if !strings.HasPrefix(line, c.want) || strings.HasPrefix(c.want, "2") != talk.Valid() {
					t.Errorf("%q, want %q", line, c.want)
				}
				conn.Close()
				ts.end(t)
			})
		})
	}
}

// A client that guesses gets the same replies for users that exist and for others, each later than
// the last, until passwords are not checked any more. Clients of other networks are not affected,
// nor is a user who has logged in from one of them.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{}
		cfg.Session.SoftErrorLimit, cfg.Session.HardErrorLimit = 100, 100
		cfg.Auth.Guesses.Limit = 5
		cfg.IdleTime = 10 * time.Hour
		ts := startLogin(t, cfg)
		home := ts.connect(t, "198.51.100.1", clientTLS())
		home.say("AUTH PLAIN " + plainText("alice", "sesame"))
		home.hear("235 ")
		c := ts.connect(t, "192.0.2.1", clientTLS())
		for i, user := range []string{"alice", "nobody", "alice", "alice", "alice"} {
			from := time.Now()
			c.say("AUTH PLAIN " + plainText(user, "guess"))
			c.hear("535 5.7.8 Error: authentication failed\r\n")
			inTime(t, from, time.Duration(i+1)*time.Second)
		}
		c.say("AUTH PLAIN " + plainText("alice", "sesame"))
		c.hear("454 4.7.0")
		c.say("AUTH SCRAM-SHA-256")
		c.hear("454 4.7.0")
		c.Close()
		c = ts.connect(t, "192.0.2.2", clientTLS())
		c.say("AUTH PLAIN " + plainText("alice", "guess")) // the fifth failure of alice
		c.hear("535 ")
		c.say("AUTH PLAIN " + plainText("alice", "sesame"))
		c.hear("454 ")
		c.say("AUTH SCRAM-SHA-256 " + base64.StdEncoding.EncodeToString([]byte("n,,n=alice,r=x")))
		c.hear("334 ")
		c.say("eA==")
		c.hear("454 ")
		c.say("AUTH PLAIN " + plainText("bob@b.example", "sesame"))
		c.hear("235 ")
		c.Close()
		home.Close()
		home = ts.connect(t, "198.51.100.1", clientTLS())
		home.say("AUTH LOGIN " + base64.StdEncoding.EncodeToString([]byte("alice")))
		home.hear("334 UGFzc3dvcmQ6")
		home.say(base64.StdEncoding.EncodeToString([]byte("sesame")))
		home.hear("235 ")
		home.Close()
		ts.end(t)
		log := ts.log.String()
		for _, want := range []string{`msg="authentication failed" client=192.0.2.1 user=alice mechanism=PLAIN listener=tested reason="wrong user or password"`,
			`msg="authentication not tried" client=192.0.2.1`, `user=nobody`} {
			if !strings.Contains(log, want) {
				t.Errorf("the log lacks %q", want)
			}
		}
		if strings.Contains(log, "guess ") || strings.Contains(log, "=guess") {
			t.Errorf("a password is in the log:\n%s", log)
		}
		if n := ts.Snapshot(); n.Logins != 3 || n.LoginFailed != 6 || n.LoginLater != 4 {
			t.Errorf("%+v", n)
		}
	})
}

// While other passwords are being checked, one waits ten seconds at most; with too many
// waiting, none of a network that has half of them is taken.
func TestPasswordsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startLogin(t, Config{Auth: AuthConfig{Concurrency: 1}})
		ts.logins.slots <- struct{}{}
		c := ts.connect(t, "192.0.2.1", clientTLS())
		from := time.Now()
		c.say("AUTH PLAIN " + plainText("alice", "sesame"))
		c.hear("454 4.7.0")
		inTime(t, from, waitMax)
		network := netip.MustParsePrefix("192.0.2.0/24")
		for range waitersMax / 2 {
			if !ts.logins.waiting.begin(network) {
				t.Fatal("no place")
			}
		}
		from = time.Now()
		c.say("AUTH PLAIN " + plainText("alice", "sesame"))
		c.hear("454 4.7.0")
		inTime(t, from, 0)
		<-ts.logins.slots
		other := ts.connect(t, "198.51.100.1", clientTLS())
		other.say("AUTH PLAIN " + plainText("alice", "sesame"))
		other.hear("235 ")
		c.Close()
		other.Close()
		ts.end(t)
		if h := &ts.logins.waiting; h.all != waitersMax/2 {
			t.Errorf("%d places are taken", h.all)
		}
	})
}

// A password that waits to be checked is not checked any more if others have guessed too often meanwhile: whoever
// sends a thousand guesses at once would otherwise have them all tried. The right one is no exception, or it would
// be known by that.
func TestGuessesWhileOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Auth: AuthConfig{Concurrency: 1}}
		cfg.Auth.Guesses.Limit = 5
		ts := startLogin(t, cfg)
		ts.logins.slots <- struct{}{}
		c, other := ts.connect(t, "192.0.2.1", clientTLS()), ts.connect(t, "198.51.100.1", clientTLS())
		c.say("AUTH PLAIN " + plainText("alice", "sesame"))
		other.say("AUTH PLAIN " + plainText("bob@b.example", "sesame"))
		synctest.Wait() // until both wait
		for range cfg.Auth.Guesses.Limit {
			ts.logins.failed(netip.MustParsePrefix("192.0.2.1/32"), "nobody")
		}
		<-ts.logins.slots
		c.hear("454 4.7.0")
		other.hear("235 ")
		c.Close()
		other.Close()
		ts.end(t)
		if n := ts.Snapshot(); n.Logins != 1 || n.LoginFailed != 0 || n.LoginLater != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// A proxy that has let a user in says so with XCLIENT; STARTTLS and another XCLIENT forget
// it. What is not a user's name ends the session.
func TestLoginByProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		proxies := []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")}
		ts.SetListeners(Listener{Listener: ts.listener, Name: "tested", Use: TLSMay, TLS: serverTLS(t), Forwarders: Forwarders{XClient: proxies}})
		c := ts.dial(t, "192.0.2.9")
		c.hello()
		ask := func(want string) {
			t.Helper()
			c.hear("220 ")
			c.say("EHLO x", "MAIL FROM:<a@a.example>", "RCPT TO:<x@elsewhere.example>")
			c.hear("250 ")
			c.hear("250 ")
			c.hear(want)
			c.say("RSET")
			c.hear("250 ")
		}
		c.say("XCLIENT ADDR=198.51.100.1 LOGIN=Alice")
		ask("250 2.1.5")
		c.say("XCLIENT ADDR=198.51.100.1")
		ask("550 5.7.1")
		c.say("XCLIENT ADDR=198.51.100.1 LOGIN=alice")
		c.hear("220 ")
		c.say("STARTTLS")
		c.hear("220 ")
		c = c.shake(clientTLS())
		c.say("EHLO x", "MAIL FROM:<a@a.example>", "RCPT TO:<x@elsewhere.example>")
		c.hear("250 ")
		c.hear("250 ")
		c.hear("550 5.7.1")
		c.say("RSET", "XCLIENT LOGIN=uid:0")
		c.hear("250 ")
		c.hear("421 4.7.0")
		c.Close()
		ts.end(t)
	})
}

// Without a file of users, no client can log in; a reload loads them. If the file is invalid later,
// the log says so, and the users from before can still log in.
func TestUsersAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startLogin(t, Config{})
		file := ts.logins.file.Load()
		ts.SetUsers(nil)
		c := ts.connect(t, "192.0.2.1", clientTLS())
		c.say("AUTH PLAIN " + plainText("alice", "sesame"))
		c.hear("454 ")
		ts.SetUsers(file)
		if err := errors.Join(os.WriteFile(file.Path(), []byte("alice sesame\n"), 0o600), os.Chtimes(file.Path(), time.Now(), time.Now())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		c.say("AUTH PLAIN " + plainText("alice", "sesame"))
		c.hear("235 ")
		c.Close()
		ts.end(t)
		if log := ts.log.String(); !strings.Contains(log, "the file of users cannot be used") || !strings.Contains(log, "users:1: ") || strings.Contains(log, "sesame") {
			t.Error(log)
		}
	})
}

// Failures count for the address, with IPv6 for the network, and not for exceptions.
func TestGuesser(t *testing.T) {
	ts := &Server{cfg: Config{}.WithDefaults()}
	ts.admission = newAdmission(&ts.cfg)
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1/32", "2001:db8::1": "2001:db8::/64", "127.0.0.1": "invalid Prefix", "": "invalid Prefix"} {
		c := &connection{server: ts}
		if address != "" {
			c.client.Addr = netip.MustParseAddr(address)
		}
		if got := c.guesser().String(); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// Users write as whom they may: addresses first, then the patterns in their order. Others
// are not asked.
func TestSenderLogins(t *testing.T) {
	p, err := NewRelayPolicy(RelayConfig{SenderLogins: []SenderLogin{
		{"news-*@b.example", []string{"bob"}}, {"*@b.example", []string{SameUser, "admin"}}, {"Info@b.example", []string{"alice", "bob"}},
		{"c.example", []string{AnyUser}}, {".d.example", []string{"alice"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user, sender string
		want         bool
	}{
		{"alice", "info@b.example", true}, {"bob", "INFO@B.example", true}, {"admin", "info@b.example", false},
		{"bob", "news-1@b.example", true}, {"admin", "news-1@b.example", false}, {"admin", "any@b.example", true},
		{"alice@b.example", "Alice@b.example", true}, {"alice@b.example", "bob@b.example", false},
		{"x", "y@c.example", true}, {"x", "y@sub.c.example", false}, {"alice", "y@sub.d.example", true}, {"bob", "y@sub.d.example", false},
		{"alice", "a@elsewhere.example", false}, {"alice", "", true},
	} {
		client := Client{Addr: netip.MustParseAddr("192.0.2.1"), User: c.user}
		r := p.Sender(&client, mail.Address(c.sender))
		if r.IsZero() != c.want || !c.want && (r.Code != 553 || r.Status.Detail != 1) {
			t.Errorf("%s as <%s>: %s", c.user, c.sender, r)
		}
	}
	if r := p.Sender(&Client{Addr: netip.MustParseAddr("192.0.2.1")}, "info@b.example"); !r.IsZero() {
		t.Errorf("a client that has not logged in: %s", r)
	}
}

// A sender that is reserved for a user is so in every spelling of its domain, also if a later
// pattern is for all: A-labels, capitals, and wide letters and dots, which IDNA makes plain.
func TestSenderLoginsSpellings(t *testing.T) {
	p, err := NewRelayPolicy(RelayConfig{SenderLogins: []SenderLogin{
		{"ceo@b.example", []string{"ceo"}}, {"ceo@bücher.example", []string{"ceo"}}, {"ceo@xn--mnchen-3ya.example", []string{"ceo"}},
		{"*@öl.example", []string{SameUser}}, {"zürich.example", []string{"ceo"}}, {"*", []string{AnyUser}}, {"*@*", []string{AnyUser}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user, sender string
		want         bool
	}{
		{"bob", "ceo@ｂ.example", false}, {"ceo", "ceo@ｂ.example", true}, {"bob", "ceo@b。example", false}, {"bob", "Ceo@B.ｅxample", false},
		{"bob", "ceo@xn--bcher-kva.example", false}, {"bob", "ceo@XN--bcher-KVA.example", false}, {"ceo", "ceo@xn--bcher-kva.example", true},
		{"bob", "ceo@BÜCHER.example", false}, {"bob", "ceo@bu\u0308cher.example", false},
		{"bob", "ceo@münchen.example", false}, {"ceo", "ceo@münchen.example", true},
		{"bob", "ceo@xn--l-0ga.example", false}, {"bob@öl.example", "bob@xn--l-0ga.example", true}, {"bob@xn--l-0ga.example", "bob@öl.example", true},
		{"bob", "x@xn--zrich-kva.example", false}, {"ceo", "x@xn--zrich-kva.example", true},
		{"bob", "bob@elsewhere.example", true}, {"bob", "bob@[192.0.2.1]", true},
	} {
		r := p.Sender(&Client{Addr: netip.MustParseAddr("192.0.2.1"), User: c.user}, mail.Address(c.sender))
		if r.IsZero() != c.want {
			t.Errorf("%s as <%s>: %s", c.user, c.sender, r)
		}
	}
}

// Where clients must log in, those that may send anywhere for another reason need not, as
// with permit_mynetworks before permit_sasl_authenticated.
func TestMustLogin(t *testing.T) {
	p, err := NewRelayPolicy(RelayConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		client Client
		want   uint16
	}{
		{Client{Addr: netip.MustParseAddr("192.0.2.1"), MustLogin: true}, 530}, {Client{Addr: netip.MustParseAddr("192.0.2.1")}, 0},
		{Client{Addr: netip.MustParseAddr("127.0.0.1"), MustLogin: true}, 0}, {Client{MustLogin: true}, 0},
		{Client{Addr: netip.MustParseAddr("192.0.2.1"), MustLogin: true, User: "alice"}, 0},
	} {
		if r := p.Sender(&c.client, "a@a.example"); r.Code != c.want {
			t.Errorf("%+v: %s", c.client, r)
		}
	}
}
