package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/event"
)

// happens are events that a filter may choose from; the comment is their letter.
var happens = []struct {
	name  string
	attrs []slog.Attr
}{
	{"accepted", []slog.Attr{slog.String("id", "A1"), slog.String("from", "Jane@Shop.example"), slog.String("class", "bulk"), slog.String("tenant", "shop"), slog.String("flow", "news@shop.example")}},                                                             // a
	{"delivery", []slog.Attr{slog.String("id", "A1"), slog.String("from", "jane@shop.example"), slog.String("to", "joe@mail.example.net"), slog.String("transport", "smtp"), slog.String("nexthop", "{example.net}"), slog.String("status", "sent")}},               // b
	{"delivery", []slog.Attr{slog.String("id", "A2"), slog.String("from", ""), slog.String("to", "joe@example.org"), slog.String("transport", "lmtp"), slog.String("nexthop", "[mx.example.org]"), slog.String("status", "bounced"), slog.String("source", "one")}}, // c
	{"feedback", []slog.Attr{slog.String("id", "A3"), slog.String("kind", "complaint"), slog.String("original_id", "A1"), slog.String("recipient", "joe@mail.example.net"), slog.String("sender", "jane@shop.example"), slog.String("tenant", "shop")}},             // d
	{"report", []slog.Attr{slog.String("id", "A2"), slog.String("report", "A4"), slog.String("to", "jane@shop.example")}},                                                                                                                                           // e
}

// Each condition chooses the events that it should, those of one kind are alternatives, and those of different kinds are all met.
func TestEventsAreChosen(t *testing.T) {
	for query, want := range map[string]string{
		"":                             "abcde",
		"kind=delivery":                "bc",
		"kind=delivery&kind=report":    "bce",
		"kind=delivery&status=bounced": "c",
		"id=A1*":                       "abd",
		"id=A4*":                       "e",
		"class=bulk":                   "a",
		"class=-":                      "",
		"tenant=sh*":                   "ad",
		"flow=/^NEWS/":                 "a",
		"site=example.net":             "b",
		"site={example.net}":           "b",
		"site=mx.example.org":          "c",
		"site=[mx.example.org]":        "c",
		"site=*":                       "bc",
		"transport=lmtp&transport=x":   "c",
		"source=one":                   "c",
		"sender=jane@shop.example":     "abd",
		"sender=<>":                    "c",
		"sender=@shop.example":         "abd",
		"recipient=joe@example.org":    "c",
		"recipient=@shop.example":      "e",
		"domain=.example.net":          "bd",
		"domain=example.net":           "",
		"tenant=shop&sender=jane@*":    "ad",
		"tenant=shop&site=example.net": "",
	} {
		hub := new(event.Hub)
		s, stop := serveSocket(t, admin.Config{Events: hub})
		var got strings.Builder
		follow(t, s, query, "", func(lines *bufio.Scanner) {
			for _, h := range happens {
				hub.Offer(time.Unix(1, 0), slog.LevelInfo, h.name, h.attrs)
			}
			stop() // which ends the stream, after what was offered
			for lines.Scan() {
				for i, h := range happens {
					if strings.Contains(lines.Text(), fmt.Sprintf(`"msg":%q,"id":%q`, h.name, h.attrs[0].Value)) {
						got.WriteByte("abcde"[i])
					}
				}
			}
		})
		if got.String() != want {
			t.Errorf("%s: got %q, want %q", query, got.String(), want)
		}
	}
}

// serveSocket serves an API on a socket until stop, which waits for that, or the end of the test.
func serveSocket(t *testing.T, cfg admin.Config) (socket string, stop func()) {
	t.Helper()
	return serveSocketOf(t, admintest.New(), cfg)
}

func serveSocketOf(t *testing.T, q *admintest.Queue, cfg admin.Config) (socket string, stop func()) {
	t.Helper()
	s, err := admin.New(cfg, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return socket, stop
}

// follow calls then with a stream of events after its first line.
func follow(t *testing.T, socket, query, accept string, then func(*bufio.Scanner)) {
	t.Helper()
	followPath(t, socket, "/v1/events", query, accept, fmt.Sprintf(`"msg":"subscribed","log_schema":%d}`, event.Version), then)
}

// followPath does the same with any stream whose first line has a text in it.
func followPath(t *testing.T, socket, path, query, accept, first string, then func(*bufio.Scanner)) {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+path+"?"+values.Encode(), nil)
	r.Header.Set("Accept", accept)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	if !lines.Scan() || answer.StatusCode != http.StatusOK || !strings.Contains(lines.Text(), first) {
		t.Fatalf("%s: %s begins with %q", query, answer.Status, lines.Text())
	}
	if kind := answer.Header.Get("Content-Type"); (kind == "text/event-stream") != (accept != "") {
		t.Errorf("the answer to %q is %s", accept, kind)
	}
	then(lines)
}

// A browser gets server-sent events.
func TestEventsForBrowsers(t *testing.T) {
	hub := new(event.Hub)
	socket, stop := serveSocket(t, admin.Config{Events: hub})
	follow(t, socket, "", "text/event-stream", func(lines *bufio.Scanner) {
		hub.Offer(time.Unix(1, 0).UTC(), slog.LevelInfo, "late", []slog.Attr{slog.String("id", "A1")})
		hub.Offer(time.Unix(1, 0).UTC(), slog.LevelInfo, "late", []slog.Attr{slog.String("id", "A2")})
		stop()
		var got []string
		for lines.Scan() {
			got = append(got, lines.Text())
		}
		want := []string{"", `data: {"time":"1970-01-01T00:00:01Z","level":"INFO","msg":"late","id":"A1"}`, "", `data: {"time":"1970-01-01T00:00:01Z","level":"INFO","msg":"late","id":"A2"}`, ""}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
}

// Wrong conditions are refused with what is wrong, and so are followers beyond the limits: half of the connections, and event.FollowersMax.
func TestEventsAreRefused(t *testing.T) {
	a := serve(t, admintest.New(), admin.Config{Events: new(event.Hub)})
	for query, want := range map[string]string{"kind=delivered": "there is no such event; there are accepted, ", "status=send": "there is no such status; there are sent, ", "kinds=a": "kinds", "site=+": "empty", "site=": "empty", "site=a&site=": "empty", "id=zz": "not a queue ID", "sender=//": "empty regular expression"} {
		if w := a.do(http.MethodGet, "/v1/events?"+query, ""); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %q", query, w.Code, w.Body, want)
		}
	}
	if w := serve(t, admintest.New(), admin.Config{}).do(http.MethodGet, "/v1/events", ""); w.Code != http.StatusNotFound {
		t.Errorf("without events: %d", w.Code)
	}
	full := new(event.Hub)
	for range event.FollowersMax {
		if _, err := full.Follow(nil); err != nil {
			t.Fatal(err)
		}
	}
	if w := serve(t, admintest.New(), admin.Config{Events: full}).do(http.MethodGet, "/v1/events", ""); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("too many: %d", w.Code)
	}
	hub := new(event.Hub)
	socket, _ := serveSocket(t, admin.Config{Events: hub, Connections: 4})
	c := client.New(socket)
	defer c.Close()
	served := errors.New("it is served")
	follow(t, socket, "", "", func(*bufio.Scanner) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // the client would try again
		defer cancel()
		if err := c.Events(ctx, admin.EventFilter{}, func([]byte) error { return served }); err == nil || errors.Is(err, served) {
			t.Error(err)
		}
	})
	if err := c.Events(t.Context(), admin.EventFilter{}, func([]byte) error { return served }); !errors.Is(err, served) { // once the server knows that the first has gone
		t.Error(err)
	}
}

// The client passes on each line, and ends without an error when the server stops, with that of its caller before.
func TestClientFollowsEvents(t *testing.T) {
	hub := new(event.Hub)
	socket, stop := serveSocket(t, admin.Config{Events: hub})
	c := client.New(socket)
	defer c.Close()
	enough := errors.New("enough")
	seen := 0
	visit := func(line []byte) error {
		var v struct{ Msg, ID string }
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		switch {
		case v.Msg == "subscribed":
			hub.Offer(time.Unix(1, 0), slog.LevelInfo, "late", []slog.Attr{slog.String("id", "A1")})
			hub.Offer(time.Unix(1, 0), slog.LevelInfo, "held", []slog.Attr{slog.String("id", "A2")})
		case v.Msg != "held" || v.ID != "A2":
			t.Errorf("got %s", line)
		default:
			if seen++; seen == 2 {
				return enough
			}
			stop()
		}
		return nil
	}
	if err := c.Events(t.Context(), admin.EventFilter{Kind: []string{"held"}}, visit); err != nil || seen != 1 {
		t.Errorf("%d events, %v", seen, err)
	}
	if err := c.Events(t.Context(), admin.EventFilter{}, visit); err == nil {
		t.Error("a server that has stopped is followed")
	}
	socket, _ = serveSocket(t, admin.Config{Events: hub})
	c2 := client.New(socket)
	defer c2.Close()
	if err := c2.Events(t.Context(), admin.EventFilter{Kind: []string{"held"}}, visit); !errors.Is(err, enough) {
		t.Error(err)
	}
}
