package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
)

// monitored returns a server with a handler that says which path was asked for.
func monitored(t *testing.T) *admin.Server {
	t.Helper()
	q := admintest.New()
	s, err := admin.New(admin.Config{Monitoring: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "seen ", r.URL.Path) })}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Who may watch must not be able to do anything else: at the address for Prometheus there are three paths, which
// only answer GET, and none of the API or of the profiles.
func TestMonitoringServesNothingElse(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- monitored(t).ServeMonitoring(ctx, ln, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/metrics", "", 200}, {"GET", "/healthz", "", 200}, {"GET", "/readyz", "", 200}, {"HEAD", "/metrics", "", 200},
		{"POST", "/metrics", "", 405}, {"GET", "/metrics", "body", 400}, {"DELETE", "/readyz", "", 405},
		{"GET", "/", "", 404}, {"GET", "/v1/status", "", 404}, {"GET", "/v1/messages", "", 404}, {"POST", "/v1/flush", "", 404}, {"POST", "/v1/messages/drop", "{}", 400},
		{"GET", "/openapi.json", "", 404}, {"GET", "/debug/pprof/", "", 404}, {"GET", "/metrics/x", "", 404}, {"GET", "/%2e%2e/v1/status", "", 404},
	} {
		r, err := http.NewRequest(c.method, "http://"+ln.Addr().String()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.status || c.method == "GET" && (c.status == 200) != bytes.HasPrefix(body, []byte("seen ")) {
			t.Errorf("%s %s: %s, %q; want %d", c.method, c.path, answer.Status, body, c.status)
		}
	}
}

// Names of domains and tenants are nobody's business outside of metrics_networks.
func TestMonitoringNetworks(t *testing.T) {
	for _, c := range []struct {
		networks string
		status   int
	}{{"127.0.0.0/8", 200}, {"::1/128", 403}, {"0.0.0.0/0", 200}, {"", 403}} {
		ctx, stop := context.WithCancel(t.Context())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var networks []netip.Prefix
		if c.networks != "" {
			networks = append(networks, netip.MustParsePrefix(c.networks))
		}
		ended := make(chan error, 1)
		go func() { ended <- monitored(t).ServeMonitoring(ctx, ln, networks) }()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Get("http://" + ln.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.status {
			t.Errorf("a client from 127.0.0.1, networks %q: %s, want %d", c.networks, answer.Status, c.status)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// The same paths are on the administration's socket.
func TestMonitoringOnTheSocket(t *testing.T) {
	api := monitored(t).Handler()
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 200, "/v1/status": 200} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
