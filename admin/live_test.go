package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/admintest"
	"github.com/posthaste-mta/posthaste/admin/live"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// sampled serves a core with two destinations, of which samples are taken.
func sampled(t *testing.T) (address string, stop func()) {
	t.Helper()
	q := admintest.New()
	view := qmgr.View{Messages: 7, Busy: 2, Transports: []qmgr.TransportView{{Name: "smtp", All: qmgr.QueueSum{Queues: 2, Todo: 12, Ready: 3}}}}
	q.SetCore(view)
	var known []qmgr.DestinationView
	for _, name := range []string{"a.test", "b.test"} {
		known = append(known, qmgr.DestinationView{DestinationSummary: qmgr.DestinationSummary{Transport: "smtp", Queue: qmgr.QueueView{Nexthop: name, Window: 5, Todo: 6}}})
	}
	q.SetDestinations(known...)
	sampler := live.New(live.Config{View: q.View, Destinations: q.Destinations, Flows: q.Flows, Facts: func() live.Facts { return live.Facts{Free: 1 << 30} }})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); sampler.Run(ctx) }()
	s, err := admin.New(admin.Config{Live: sampler}, q, q, q)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	stop = func() { end(); <-ended }
	t.Cleanup(stop)
	return server.URL, stop
}

func getJSON(t *testing.T, address string, into any) int {
	t.Helper()
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode
}

// The last sample, the history, and the windows of destinations are there as soon as the server is.
func TestLive(t *testing.T) {
	address, _ := sampled(t)
	var sample live.Sample
	if code := getJSON(t, address+"/v1/live?sites=1&trend=true", &sample); code != 200 {
		t.Fatal(code)
	}
	if sample.Totals.CoreMessages != 7 || sample.Totals.Waiting != 12 || sample.Totals.Connections != 3 || len(sample.Sites) != 1 || sample.SitesKnown != 2 ||
		sample.Sites[0].Window != 5 || len(sample.Sites[0].Trend) == 0 || sample.Sites[0].Moved == nil || len(sample.Transports) != 1 || sample.Flows == nil {
		t.Errorf("%+v", sample)
	}
	var h live.History
	if code := getJSON(t, address+"/v1/live/history", &h); code != 200 || len(h.At) == 0 || h.Core[0] != 7 || h.Free[0] != 1<<30 {
		t.Errorf("%d %+v", code, h)
	}
	var site live.SiteHistory
	if code := getJSON(t, address+"/v1/live/sites/smtp:b.test?step=10s", &site); code != 200 || len(site.Window) == 0 || site.Window[0] != 5 || site.Moves[0].Cause != live.CauseNew {
		t.Errorf("%d %+v", code, site)
	}
	for path, want := range map[string]int{"/v1/live/sites/smtp:c.test": 404, "/v1/live/history?step=5s": 422, "/v1/live?sites=257": 422, "/v1/live?site=1": 422} {
		var problem map[string]any
		if code := getJSON(t, address+path, &problem); code != want || problem["status"] != float64(want) {
			t.Errorf("%s: %d %v, want %d", path, code, problem, want)
		}
	}
}

// A stream sends samples until the daemon stops. There are only so many streams, since each keeps a connection.
func TestLiveStream(t *testing.T) {
	address, stop := sampled(t)
	var open []*http.Response
	for i := range 9 {
		r, err := http.Get(address + "/v1/live/stream?sites=0")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		want := 200
		if i == 8 {
			want = 429
		}
		if r.StatusCode != want {
			t.Fatalf("stream %d: %d, want %d", i, r.StatusCode, want)
		}
		open = append(open, r)
	}
	if kind := open[0].Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Error(kind)
	}
	stop()
	lines, samples := bufio.NewScanner(open[0].Body), 0
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var sample live.Sample
			if err := json.Unmarshal([]byte(text), &sample); err != nil || sample.Totals.CoreMessages != 7 {
				t.Errorf("%v: %s", err, text)
			}
			samples++
		}
	}
	if lines.Err() != nil || samples == 0 {
		t.Errorf("%d samples, then %v; want some, and an end", samples, lines.Err())
	}
}

// Without a sampler the API says so.
func TestNotSampled(t *testing.T) {
	a := serve(t, admintest.New(message(1, mail.AreaDeferred, "a@b", "c@d")), admin.Config{})
	for _, path := range []string{"/v1/live", "/v1/live/stream", "/v1/live/history", "/v1/live/sites/x"} {
		if w := a.do("GET", path, ""); w.Code != http.StatusNotImplemented {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
