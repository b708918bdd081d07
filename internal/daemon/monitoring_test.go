package daemon

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
)

// get asks the daemon as Prometheus does.
func (r *rig) get(path string) (status int, body string) {
	r.t.Helper()
	answer, err := http.Get("http://" + r.d.monitorLns[0].Addr().String() + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// scraped returns the time series of a scrape.
func (r *rig) scraped() map[string]float64 {
	r.t.Helper()
	status, text := r.get("/metrics")
	if status != http.StatusOK {
		r.t.Fatalf("%d: %s", status, text)
	}
	all := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSpace(line), "} ")
		if name += "}"; !found {
			name, value, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(line, "#") {
			all[name] = v
		}
	}
	return all
}

// From a message's arrival to its delivery, a deferral or a bounce, each part of the program counts
// what it does, and a scrape has it.
func TestMetricsOfMail(t *testing.T) {
	t.Parallel()
	good, bad := receive(t, sink.Config{}), receive(t, sink.Config{Faults: []sink.Fault{{Stage: sink.AtRecipient, Kind: sink.RefuseForGood, Share: 1}}})
	r := start(t, t.TempDir(), "metrics_listen = \"127.0.0.1:0\"\n"+routes("good.test", good.address, "bad.test", bad.address, "origin.test", good.address))
	// The report on the third is the fourth.
	r.feed(letter("1", "a@good.test"), letter("2", "b@good.test"), letter("3", "c@bad.test"))
	want := map[string]float64{
		`posthaste_ready`:                              1,
		`posthaste_core_up`:                            1,
		`posthaste_inbound_messages_total`:             3,
		`posthaste_inbound_recipients_total`:           3,
		`posthaste_recipients_total{result="sent"}`:    3,
		`posthaste_recipients_total{result="bounced"}`: 1,
		`posthaste_refused_recipients_total{reply_class="no-such-user",result="bounced"}`: 1,
		`posthaste_delivery_delay_seconds_count`:                                          3,
		`posthaste_attempt_seconds_count{phase="before"}`:                                 4,
		`posthaste_attempt_seconds_count{phase="send"}`:                                   4,
		`posthaste_first_attempt_delay_seconds_count{class="normal"}`:                     4,
		`posthaste_outbound_pipeline_depth_count`:                                         4,
		`posthaste_spool_full`:                                                            0,
		`posthaste_queue_messages{area="deferred"}`:                                       0,
		`posthaste_destination_waiting{destination="other",source="",transport="smtp"}`:   0,
	}
	r.settled()
	var got map[string]float64
	r.until("all mail is counted", func() bool { // a scrape's facts are used for a second
		got = r.scraped()
		for name, v := range want {
			if got[name] != v {
				return false
			}
		}
		return true
	})
	for _, name := range []string{`posthaste_spool_commits_total`, `posthaste_spool_syncs_total`, `posthaste_spool_free_bytes`, `posthaste_spool_headroom_bytes`,
		`posthaste_change_batch_seconds_count`, `posthaste_change_batch_changes_sum`, `posthaste_arrived_messages_total`, `posthaste_attempts_started_total`,
		`posthaste_outbound_connects_total{result="ok"}`, `posthaste_message_events_total{event="removed"}`, `go_goroutines`, `process_open_fds`} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
}

// A reload makes new clients and resolvers, which go on with the counts of the old ones: a counter that
// began again would look like a restart.
func TestCountersSurviveAReload(t *testing.T) {
	t.Parallel()
	good := receive(t, sink.Config{})
	dir := t.TempDir()
	text := "metrics_listen = \"127.0.0.1:0\"\n" + routes("good.test", good.address)
	r := start(t, dir, text)
	const series = `posthaste_outbound_transactions_total{connection="new"}`
	r.feed(letter("1", "a@good.test"))
	r.until("the first delivery", func() bool { return r.scraped()[series] == 1 })
	if _, err := r.d.reload(configure(t, dir, "smtp_helo_timeout = 7\n"+text)); err != nil {
		t.Fatal(err)
	}
	if got := r.scraped()[series]; got != 1 {
		t.Errorf("after the reload: %v transactions", got)
	}
}

// A load balancer sends mail where /readyz says so, and a supervisor restarts what /healthz complains about.
func TestHealth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := New(configure(t, dir, ""), quiet)
	if err != nil {
		t.Fatal(err)
	}
	watch := d.monitor.handler(d.started)
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		watch.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	if status, text := ask("/readyz"); status != 503 || !strings.HasPrefix(text, "starting") {
		t.Errorf("before it runs: %d %s", status, text)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	await(t, "it is ready", func() bool { status, _ := ask("/readyz"); return status == 200 })
	if status, text := ask("/healthz"); status != 200 || text != "ok" {
		t.Errorf("while it runs: %d %s", status, text)
	}
	stop()
	await(t, "it is not ready", func() bool { status, _ := ask("/readyz"); return status == 503 })
	if _, text := ask("/readyz"); !strings.HasPrefix(text, "stopping") {
		t.Errorf("while it stops: %s", text)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// On a full disk no mail is accepted, and it says so: 503 and why.
func TestNotReadyOnAFullDisk(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), "metrics_listen = \"127.0.0.1:0\"\nqueue_minfree = \"1000000G\"\n")
	r.until("an answer", func() bool {
		status, text := r.get("/readyz")
		return status == 503 && strings.Contains(text, "disk space")
	})
	if status, text := r.get("/healthz"); status != 200 {
		t.Errorf("a full disk is no reason to restart: %d %s", status, text)
	}
	got := r.scraped()
	if got["posthaste_ready"] != 0 || got["posthaste_spool_full"] != 1 || got["posthaste_spool_headroom_bytes"] >= 0 {
		t.Errorf("ready %v, full %v, headroom %v", got["posthaste_ready"], got["posthaste_spool_full"], got["posthaste_spool_headroom_bytes"])
	}
}
