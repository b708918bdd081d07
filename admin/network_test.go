package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/mail"
)

// overNetwork serves a queue to clients with the tokens "reads" and "operates", and returns
// the address and what is logged once it has ended.
func overNetwork(t *testing.T, q *admintest.Queue) (address string, logged func() string) {
	t.Helper()
	var log bytes.Buffer
	s, err := admin.New(admin.Config{Logger: event.NewStrict(&log, nil, nil)}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- s.ServeNetwork(ctx, ln, func(token string) (string, admin.Permission) {
			return "of " + token, map[string]admin.Permission{"reads": admin.PermissionRead, "operates": admin.PermissionOperate}[token]
		})
	}()
	ended := false
	end := func() string {
		if stop(); !ended {
			ended = true
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
		return log.String()
	}
	t.Cleanup(func() { end() })
	return "http://" + ln.Addr().String(), end
}

// On the network nothing answers without a token but the checks of health; one for reading
// gives no orders and no profiles, and orders are logged with the owner of the token.
func TestTokens(t *testing.T) {
	q := admintest.New(message(1, mail.AreaDeferred, "a@b", "c@d"))
	address, logged := overNetwork(t, q)
	hold := `{"filter":{"sender":["a@b"]}}`
	for _, c := range []struct {
		method, path, body string
		headers            []string
		code               int
		challenge          string
	}{
		{"GET", "/v1/messages", "", nil, 401, `Bearer realm="posthaste"`},
		{"GET", "/v1/messages", "", []string{"Bearer wrong"}, 401, `Bearer realm="posthaste", error="invalid_token"`},
		{"GET", "/v1/messages", "", []string{"Bearer"}, 401, `error="invalid_token"`},
		{"GET", "/v1/messages", "", []string{"Basic reads"}, 401, `error="invalid_token"`},
		{"GET", "/v1/messages", "", []string{"Bearer reads", "Bearer reads"}, 401, `error="invalid_token"`},
		{"GET", "/v1/messages?token=reads", "", nil, 401, `Bearer`},
		{"GET", "/nowhere", "", nil, 401, `Bearer`},
		{"POST", "/v1/messages/hold", hold, nil, 401, `Bearer`},
		{"GET", "/debug/pprof/", "", nil, 401, `Bearer`},
		{"GET", "/healthz/../v1/messages", "", nil, 401, `Bearer`},
		{"POST", "/healthz", "", nil, 401, `Bearer`},
		{"GET", "/v1/messages", "", []string{"Bearer reads"}, 200, ""},
		{"GET", "/v1/messages", "", []string{"bearer  reads"}, 200, ""},
		{"GET", "/nowhere", "", []string{"Bearer reads"}, 404, ""},
		{"GET", "/ui/", "", nil, 200, ""},
		{"GET", "/ui/app.js", "", nil, 200, ""},
		{"GET", "/ui/none", "", nil, 404, ""},
		{"GET", "/", "", nil, 303, ""},
		{"POST", "/ui/", "", nil, 401, `Bearer`},
		{"GET", "/ui/../v1/status", "", nil, 404, ""},
		{"GET", "/v1/identity", "", []string{"Bearer reads"}, 200, ""},
		{"GET", "/v1/identity", "", nil, 401, `Bearer`},
		{"GET", "/v1/live", "", nil, 401, `Bearer`},
		{"GET", "/v1/live/stream", "", nil, 401, `Bearer`},
		{"POST", "/v1/messages/hold", hold, []string{"Bearer reads"}, 403, `error="insufficient_scope"`},
		{"GET", "/v1/events", "", []string{"Bearer reads"}, 404, ""}, // there are none here
		{"GET", "/v1/trace/smtp", "", []string{"Bearer reads"}, 403, `error="insufficient_scope"`},
		{"GET", "/v1/trace/smtp", "", []string{"Bearer operates"}, 404, ""},
		{"GET", "/debug/pprof/cmdline", "", []string{"Bearer reads"}, 403, `error="insufficient_scope"`},
		{"GET", "/debug/pprof/cmdline", "", []string{"Bearer operates"}, 200, ""},
		{"GET", "/v1/messages", "", []string{"Bearer operates"}, 200, ""},
		{"POST", "/v1/messages/hold", hold, []string{"Bearer operates"}, 200, ""},
	} {
		r, err := http.NewRequest(c.method, address+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Opaque = r.URL.Path // as written
		r.Header["Authorization"] = c.headers
		r.Header.Set("Content-Type", "application/json")
		w, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(w.Body)
		w.Body.Close()
		got := w.Header.Get("WWW-Authenticate")
		if w.StatusCode != c.code || !strings.Contains(got, c.challenge) || (got == "") != (c.challenge == "") {
			t.Errorf("%s %s %q: %d %q %s, want %d %q", c.method, c.path, c.headers, w.StatusCode, got, body, c.code, c.challenge)
		}
		if page := strings.HasPrefix(c.path, "/ui") || c.path == "/"; c.code == 200 && !page && (w.Header.Get("Cache-Control") != "no-store" || w.Header.Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("%s %s may be kept, or taken for something else: %v", c.method, c.path, w.Header)
		}
		if c.code == 401 && w.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %s", c.method, c.path, w.Header.Get("Content-Type"))
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if q.Place(id(1)) != mail.AreaHold {
		t.Error("the order was not carried out")
	}
	log := logged()
	if !strings.Contains(log, `by="token of operates at 127.0.0.1:`) {
		t.Errorf("an order is logged without the token's owner:\n%s", log)
	}
	if n := strings.Count(log, "a client has no valid token"); n != 2 || !strings.Contains(log, " refused=1\n") || !strings.Contains(log, " refused=14\n") {
		t.Errorf("%d lines about refusals, want one about the first and one at the end about 14 more:\n%s", n, log)
	}
}

// What is refused is answered at once, though its body never comes, and nothing is answered
// before the token has been looked at.
func TestRefusedAtOnce(t *testing.T) {
	address, _ := overNetwork(t, admintest.New())
	for request, want := range map[string]string{
		"POST /v1/flush HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc":                                "401 Unauthorized",
		"POST /v1/flush HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n":                               "401 Unauthorized",
		"POST /v1/flush HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer reads\r\nContent-Length: 100000\r\n\r\nabc": "403 Forbidden",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                                                                  "401 Unauthorized",
		"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n":                                                                    "401 Unauthorized",
		"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n":                                                                "401 Unauthorized",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                                       "401 Unauthorized",
		"GET //healthz HTTP/1.1\r\nHost: x\r\n\r\n":                                                              "401 Unauthorized",
		"GET /healthz/. HTTP/1.1\r\nHost: x\r\n\r\n":                                                             "401 Unauthorized",
		"GET /v1/..%2fhealthz HTTP/1.1\r\nHost: x\r\n\r\n":                                                       "401 Unauthorized",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if conn.Close(); err != nil || !strings.HasSuffix(strings.TrimSpace(line), want) {
			t.Errorf("%q: %q %v, want %s", request, line, err, want)
		}
	}
}
