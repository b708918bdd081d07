package outbound

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound/credential"
)

// A parrot is a server that repeats, in one kind of its replies, all that it was sent for AUTH, in this
// session and in those before.
type parrot struct {
	at   string // greeting, a verb, "." or "idle"
	code string // of these replies

	mu    sync.Mutex
	heard string
}

// what returns what it was sent.
func (p *parrot) what() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

// hear notes a response, as it came and decoded.
func (p *parrot) hear(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	decoded, _ := base64.StdEncoding.DecodeString(text)
	p.heard += " " + text + " " + strings.ReplaceAll(string(decoded), "\x00", " ")
}

// serve serves one connection.
func (p *parrot) serve(sock net.Conn) {
	defer sock.Close()
	say := func(at, code, text string) {
		if at == p.at {
			code, text = p.code, p.what()
		}
		fmt.Fprintf(sock, "%s %s\r\n", code, text)
	}
	if p.what() == "" {
		io.WriteString(sock, "220 office.test\r\n")
	} else {
		say("greeting", "220", "office.test")
	}
	in := bufio.NewReader(sock)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "EHLO":
			if p.at == "EHLO" && p.what() != "" {
				say("EHLO", "", "")
				continue
			}
			io.WriteString(sock, "250-office.test\r\n250-AUTH PLAIN LOGIN XOAUTH2\r\n250 8BITMIME\r\n")
		case "AUTH":
			mechanism, initial, _ := strings.Cut(rest, " ")
			if initial != "" {
				p.hear(initial)
			}
			for range strings.Count(mechanism, "LOGIN") * 2 {
				io.WriteString(sock, "334 VXNlcg==\r\n")
				response, _ := in.ReadString('\n')
				p.hear(strings.TrimSpace(response))
			}
			say("AUTH", "235", "fine")
		case "DATA":
			if say("DATA", "354", "go on"); p.at == "DATA" {
				continue
			}
			for line != ".\r\n" {
				if line, err = in.ReadString('\n'); err != nil {
					return
				}
			}
			if say(".", "250", "taken"); p.at == "idle" {
				say("idle", "", "")
			}
		case "QUIT":
			say("QUIT", "221", "bye")
			return
		default:
			say(verb, "250", "fine")
		}
	}
}

// Some servers repeat what they were sent, and not only in their reply to it. Wherever that comes, in this session or in the
// next one, nothing of it gets into outcomes, what is said of connections, or the log.
func TestSecretsInAnyReply(t *testing.T) {
	for _, row := range []struct{ at, code string }{
		{"greeting", "220"}, {"greeting", "554"}, {"greeting", "421"}, {"EHLO", "250"}, {"EHLO", "550"}, {"AUTH", "235"}, {"AUTH", "535"}, {"AUTH", "421"}, {"AUTH", "454"},
		{"MAIL", "250"}, {"MAIL", "550"}, {"MAIL", "450"}, {"MAIL", "421"}, {"RCPT", "250"}, {"RCPT", "550"}, {"RCPT", "452"}, {"DATA", "554"}, {"DATA", "250"}, {".", "250"}, {".", "554"}, {".", "451"}, {".", "421"},
		{"idle", "421"}, {"idle", "250"}, {"QUIT", "221"},
	} {
		for _, mechanism := range []string{credential.Plain, credential.Login, credential.XOAuth2} {
			t.Run(row.at+" "+row.code+" "+mechanism, func(t *testing.T) {
				t.Parallel()
				p := &parrot{at: row.at, code: row.code}
				c := credential.Credential{Mechanisms: []string{mechanism}, Protection: credential.Optional, InClear: true, Password: credential.NewSecret(thePass)}
				if mechanism == credential.XOAuth2 {
					c.Password, c.Token.File = credential.Secret{}, secretFile(t, theToken+"\n")
				}
				d := newDesk(t, newAuthority(t), c)
				d.bodies, d.dialer = store{1: fakeContent{data: "Subject: x\r\n\r\nx\r\n"}}, &tap{serve: p.serve, cut: -1}
				hub := new(wiretap.Hub)
				d.cfg.Wiretap = hub
				text := ""
				for range 2 {
					k, opened := d.Dial(t.Context(), mail.Opening{Transport: "smtp", Nexthop: "[office.test]:587", Security: d.demand("+auth=office"), Level: mail.LevelOverlap,
						Host: mail.Host{Name: "office.test", Addr: address("1")}})
					text += fmt.Sprintf("%+v\n", opened)
					if k == nil {
						continue
					}
					// A watcher that begins now, after the login, does not see it either.
					w, err := hub.Watch(func(wiretap.Connection) bool { return true }, 0, 1)
					if err != nil {
						t.Fatal(err)
					}
					closing := make(chan mail.Closing)
					told := make(chan mail.DeliveryResult, 1)
					go func() { closing <- k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) { told <- r }) }()
					k.Send(1, message(1, "b@example.net"))
					text += fmt.Sprintf("%+v\n", <-told)
					if row.at != "idle" {
						k.Hangup()
					}
					text += fmt.Sprintf("%+v\n", <-closing)
					lines := watched(t, w)
					w.Close()
					if len(lines) < 4 {
						t.Errorf("the watcher has seen only %q", lines)
					}
					text += strings.Join(lines, "\n")
				}
				text += d.log.String()
				if p.what() == "" {
					t.Fatalf("it was not sent anything:\n%s", text)
				}
				for _, said := range append(strings.Fields(p.what()), thePass, theToken) {
					decoded, _ := base64.StdEncoding.DecodeString(said)
					is := strings.Contains(said+string(decoded), thePass) || strings.Contains(said+string(decoded), theToken)
					if is && strings.Contains(text, said) {
						t.Errorf("%q is shown:\n%s", said, text)
					}
				}
			})
		}
	}
}
