package admin_test

import (
	"bufio"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/event"
	"github.com/posthaste-mta/posthaste/internal/wiretap"
)

// Connections are chosen by each condition, and what they say arrives; the log names who watches.
func TestConnectionsAreWatched(t *testing.T) {
	connections := []wiretap.Connection{
		{Transport: "smtp", Nexthop: "{example.net}", Source: "one", Host: "mx.example.net[192.0.2.1]:25"}, // a
		{Transport: "smtp", Nexthop: "[mx.example.org]", Host: "mx.example.org[192.0.2.2]:25"},             // b
		{Transport: "lmtp", Nexthop: "unix:/box", Host: "unix:/box"},                                       // c
	}
	for query, want := range map[string]string{"": "abc", "site=example.net": "a", "site={example.net}": "a", "site=mx.example.org": "b", "host=EXAMPLE.net[": "a", "host=:25": "ab",
		"source=one": "a", "source=-": "bc", "transport=lmtp&transport=x": "c", "transport=smtp&source=one": "a", "transport=lmtp&source=one": "", "count=2": "ab"} {
		hub := new(wiretap.Hub)
		var log strings.Builder
		socket, stop := serveSocket(t, admin.Config{Wiretap: hub, Logger: event.NewStrict(&log, nil, nil)})
		got := ""
		followPath(t, socket, "/v1/trace/smtp", query, "", `"connection":0`, func(lines *bufio.Scanner) {
			for i, c := range connections {
				if tap := hub.Open(c, 0, nil); tap != nil {
					tap.Sent([]byte("NOOP " + "abc"[i:i+1] + "\r\n"))
				}
			}
			stop()
			for lines.Scan() {
				if _, text, ok := strings.Cut(lines.Text(), `"direction":"\u003e","text":"NOOP `); ok {
					got += text[:1]
				}
			}
		})
		if got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
		if !strings.Contains(log.String(), `msg=order verb="trace smtp" by=`) {
			t.Errorf("got the log %s", &log)
		}
	}
	for query, want := range map[string]int{"site=+": http.StatusUnprocessableEntity, "count=-1": http.StatusUnprocessableEntity, "lines=1001": http.StatusUnprocessableEntity} {
		if w := serve(t, admintest.New(), admin.Config{Wiretap: new(wiretap.Hub)}).do(http.MethodGet, "/v1/trace/smtp?"+query, ""); w.Code != want {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
	full := new(wiretap.Hub)
	for range wiretap.WatchersMax {
		if _, err := full.Watch(nil, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if w := serve(t, admintest.New(), admin.Config{Wiretap: full}).do(http.MethodGet, "/v1/trace/smtp", ""); w.Code != http.StatusTooManyRequests {
		t.Errorf("too many: %d", w.Code)
	}
	if w := serve(t, admintest.New(), admin.Config{}).do(http.MethodGet, "/v1/trace/smtp", ""); w.Code != http.StatusNotFound {
		t.Errorf("without connections: %d", w.Code)
	}
}

// The client passes its conditions on.
func TestClientWatches(t *testing.T) {
	hub := new(wiretap.Hub)
	socket, _ := serveSocket(t, admin.Config{Wiretap: hub})
	c := client.New(socket)
	defer c.Close()
	enough := errors.New("enough")
	err := c.Watch(t.Context(), admin.WiretapFilter{Site: []string{"a.test"}, Host: []string{"mx"}, Source: []string{"s"}, Transport: []string{"t"}, Count: 1, Lines: 2}, func(line []byte) error {
		if !strings.Contains(string(line), `"connection":0`) {
			return enough
		}
		right := wiretap.Connection{Nexthop: "a.test", Host: "mx[192.0.2.1]:25", Source: "s", Transport: "t"}
		for _, wrong := range []wiretap.Connection{{Host: right.Host, Source: "s", Transport: "t"}, {Nexthop: "a.test", Source: "s", Transport: "t"}, {Nexthop: "a.test", Host: right.Host, Transport: "t"}, {Nexthop: "a.test", Host: right.Host, Source: "s"}} {
			if hub.Open(wrong, 0, nil) != nil {
				t.Errorf("%+v is shown", wrong)
			}
		}
		if hub.Open(right, 0, nil) == nil || hub.Open(right, 0, nil) != nil {
			t.Error("not one connection is shown")
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}
