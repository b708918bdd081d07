package inbound

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/posthaste-mta/posthaste/internal/wiretap"
)

// watchAll returns a watcher of all sessions.
func watchAll(t *testing.T, hub *wiretap.Hub) *wiretap.Watcher {
	t.Helper()
	w, err := hub.WatchVisits(func(*wiretap.Visit) wiretap.Choice { return wiretap.Now }, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

var queueID = regexp.MustCompile(`queued as \S+`)

// seen returns what a watcher has not read yet, without the lines of replies to EHLO.
func seen(t *testing.T, w *wiretap.Watcher) (all []string) {
	t.Helper()
	synctest.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines, _ := w.Next(ctx)
	for _, l := range lines {
		var r wiretap.Record
		if err := json.Unmarshal(l.JSON, &r); err != nil {
			t.Fatal(err)
		}
		if text := queueID.ReplaceAllString(r.Text, "queued as ID"); !strings.HasPrefix(text, "250-") {
			all = append(all, r.Direction+" "+text)
		}
	}
	return all
}

func wantSeen(t *testing.T, w *wiretap.Watcher, want ...string) {
	t.Helper()
	if got := seen(t, w); !slices.Equal(got, want) {
		t.Errorf("seen\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A watcher sees a session live, also under TLS: what was negotiated, the user and the mechanism of a login, and never a
// password.
func TestSessionIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := new(wiretap.Hub)
		w := watchAll(t, hub)
		ts := startLogin(t, Config{Wiretap: hub})
		c := ts.connect(t, "192.0.2.1", clientTLS())
		c.say("AUTH PLAIN " + plainText("alice", "wrong"))
		c.hear("535")
		c.say("AUTH LOGIN")
		c.hear("334")
		c.say("YWxpY2U=")
		c.hear("334")
		c.say("c2VzYW1l")
		c.hear("235")
		c.say("MAIL FROM:<a@a.example>", "RCPT TO:<b@b.example>", "DATA")
		c.hear("250")
		c.hear("250")
		c.hear("354")
		c.say("Subject: x", "", "text", ".", "QUIT")
		c.hear("250")
		c.hear("221")
		c.hearEnd()
		wantSeen(t, w, "- connection from 192.0.2.1 to tested", "> 220 mx.example ESMTP Posthaste", "< EHLO client.example", "> 250 CHUNKING", "< STARTTLS", "> 220 2.0.0 Ready to start TLS",
			"- TLSv1.3 TLS_AES_128_GCM_SHA256", "< EHLO client.example", "> 250 CHUNKING", "< AUTH PLAIN [hidden]", "> 535 5.7.8 Error: authentication failed",
			"< AUTH LOGIN", "> 334 [hidden]", "< [hidden]", "> 334 [hidden]", "< [hidden]", "- authenticated as alice", "> 235 2.7.0 Authentication successful",
			"< MAIL FROM:<a@a.example>", "> 250 2.1.0 Ok", "< RCPT TO:<b@b.example>", "> 250 2.1.5 Ok", "< DATA", "> 354 End data with <CR><LF>.<CR><LF>",
			"< Subject: x", "- 20 octets of content", "> 250 2.0.0 Ok: queued as ID", "< QUIT", "> 221 2.0.0 Bye", ". the connection has ended: quit")
		ts.end(t)
	})
}

// An open session is shown from its next command on, but not from the middle of a content. It goes on when its watcher
// has left.
func TestOpenSessionIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := new(wiretap.Hub)
		ts := startLogin(t, Config{Wiretap: hub})
		c := ts.connect(t, "192.0.2.1", clientTLS())
		c.say("AUTH PLAIN " + plainText("alice", "sesame"))
		c.hear("235")
		w := watchAll(t, hub)
		c.say("NOOP")
		c.hear("250")
		wantSeen(t, w, "- connection from 192.0.2.1 to tested", "- TLSv1.3 TLS_AES_128_GCM_SHA256", "- authenticated as alice", "< NOOP", "> 250 2.0.0 Ok")
		w.Close()
		c.envelope()
		c.say("Subject: x", "secret")
		synctest.Wait()
		w = watchAll(t, hub)
		c.say("secret", ".")
		c.hear("250")
		c.say("NOOP")
		c.hear("250")
		wantSeen(t, w, "- connection from 192.0.2.1 to tested", "- TLSv1.3 TLS_AES_128_GCM_SHA256", "- authenticated as alice", "> 250 2.0.0 Ok: queued as ID", "< NOOP", "> 250 2.0.0 Ok")
		c.Close()
		wantSeen(t, w, ". the connection has ended: the client has closed it")
		ts.end(t)
	})
}

// A failed handshake, a client that falls silent, and clients that others name are shown, too.
func TestEndsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := new(wiretap.Hub)
		w := watchAll(t, hub)
		ts := startTLS(t, Config{Wiretap: hub}, PurposeSubmissions, TLSImplicit)
		c := ts.dial(t, "192.0.2.1")
		c.say("EHLO x")
		c.hearEnd()
		wantSeen(t, w, "- connection from 192.0.2.1 to tested", "- TLS handshake failed: the client does not speak TLS", ". the connection has ended")
		ts.end(t)

		ts = startBehind(t, Config{Wiretap: hub}, Forwarders{XClient: proxies})
		known, err := hub.WatchVisits(func(v *wiretap.Visit) wiretap.Choice {
			if v.Client == (wiretap.Client{Listener: "behind", Address: "192.0.2.2"}) {
				return wiretap.Now
			}
			return wiretap.Never
		}, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer known.Close()
		c = ts.dial(t, "10.0.0.1")
		c.hello()
		c.say("XCLIENT ADDR=192.0.2.2")
		c.hear("220")
		c.hear("421")
		wantSeen(t, w, "- connection from 10.0.0.1 to behind", "> 220 mx.example ESMTP Posthaste", "< EHLO client.example", "> 250 CHUNKING",
			"< XCLIENT ADDR=192.0.2.2", "- XCLIENT: the client is 192.0.2.2", "> 220 mx.example ESMTP Posthaste", "> 421 4.4.2 mx.example Error: timeout exceeded", ". the connection has ended: timeout")
		wantSeen(t, known, "- connection from 192.0.2.2 to behind", "> 220 mx.example ESMTP Posthaste", "> 421 4.4.2 mx.example Error: timeout exceeded", ". the connection has ended: timeout")
		ts.end(t)
	})
}
