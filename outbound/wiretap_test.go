package outbound

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound/credential"
)

// watched returns what a watcher has seen so far, each line with its direction.
func watched(t *testing.T, w *wiretap.Watcher) (all []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines, _ := w.Next(ctx)
	for _, l := range lines {
		var r wiretap.Record
		if err := json.Unmarshal(l.JSON, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Direction+" "+r.Text)
	}
	return all
}

// A watcher sees both sides of a connection, also under TLS, from its greeting or from its next message on if it was open before, also if another
// watches it already; and never a secret, by whatever mechanism, even if the server repeats it.
func TestWiretap(t *testing.T) {
	ca := newAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "office.test", time.Hour)}}
	for _, mechanism := range credential.Mechanisms() {
		for _, right := range []bool{true, false} {
			for _, early := range []bool{true, false} {
				hub := new(wiretap.Hub)
				watch := func() *wiretap.Watcher {
					w, err := hub.Watch(func(c wiretap.Connection) bool {
						return c.Transport == "smtp" && c.Nexthop == "[office.test]:587" && strings.HasPrefix(c.Host, "office.test[127.0.0.1]:")
					}, 0, 1)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(w.Close)
					return w
				}
				c := credential.Credential{Password: credential.NewSecret(thePass)}
				token := theToken
				if !right {
					c.Password, token = credential.NewSecret("wrong horse"), "ya29.token-1"
				}
				if mechanism == credential.OAuthBearer || mechanism == credential.XOAuth2 {
					c.Password, c.Token.File = credential.Secret{}, secretFile(t, token+"\n")
				}
				o := &office{mechanisms: []string{mechanism}, token: theToken, echo: true}
				host := o.open(t, cfg)
				d := newDesk(t, ca, c)
				d.cfg.Wiretap, d.bodies = hub, &memory4K{data: []byte("Subject: one\r\n\r\nHello.\r\n")}
				var w *wiretap.Watcher
				if early {
					w = watch()
				}
				demand := d.demand("+auth=office")
				k, _ := d.Dial(t.Context(), mail.Opening{Transport: "smtp", Nexthop: "[office.test]:587", Security: demand, Host: host, Level: mail.LevelOverlap})
				late := watch()
				if !early {
					w = late
				}
				if (k != nil) != right {
					t.Fatalf("%s, right %v: %v", mechanism, right, k)
				}
				if right {
					k.Send(1, mail.Delivery{Transport: "smtp", Nexthop: "[office.test]:587", Envelope: mail.Envelope{ID: 1, Sender: "a@shop.test", Size: 24, Recipients: 1},
						Recipients: []mail.Recipient{{Address: "b@office.test"}}})
					k.Hangup()
					k.Run(t.Context(), func(uint64, mail.DeliveryResult) {})
				}
				got := watched(t, w)
				var want []string
				if early {
					want = []string{"< 220 office.test ESMTP Service Ready", "> EHLO me.test", "> STARTTLS", "- TLS 1.3", "> AUTH " + mechanism}
				}
				if joined := watched(t, late); early && right != slices.Contains(joined, "> RCPT TO:<b@office.test>") {
					t.Errorf("%s, right %v: a second watcher sees %q", mechanism, right, joined)
				}
				if right {
					want = append(want, "> MAIL FROM:<a@shop.test>", "> RCPT TO:<b@office.test>", "> DATA", "> Subject: one", "- 24 octets of content", "> .", "> QUIT")
				} else if early {
					want = append(want, "> QUIT")
				}
				if early || right {
					want = append(want, ". the connection has ended")
				} else if len(got) > 0 {
					t.Errorf("%s: got %q", mechanism, got)
				}
				at := 0
				for _, line := range want {
					i := slices.IndexFunc(got[min(at, len(got)):], func(l string) bool { return strings.HasPrefix(l, line) })
					if i < 0 {
						t.Errorf("%s, right %v, early %v: no %q in\n%s", mechanism, right, early, line, strings.Join(got, "\n"))
						break
					}
					at += i + 1
				}
				text := strings.Join(got, "\n")
				for _, secret := range []string{thePass, "wrong horse", theToken, "ya29.token-1", "\x00" + theUser + "\x00" + thePass, "\x00" + theUser + "\x00wrong horse"} {
					if strings.Contains(text, secret) || strings.Contains(text, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "=")) {
						t.Errorf("%s: %q is shown in\n%s", mechanism, secret, text)
					}
				}
			}
		}
	}
}
