package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Programs read the JSON: the names of its keys are an interface.
func TestJSON(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(second), ConnectionLimit: 3}, Arrivals{Messages: 2, Min: 5, Max: 5})
	s.Runs[0].Parameters = []Parameter{{"process_limit", "5"}}
	s.Runs[0].References = []Reference{{Source: "somebody", DeferredPct: 12.5, WindowMean: -1, WindowStddev: -1}}
	r, err := Simulate(s, Options{Seeds: 2})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Scenario string
		Seed     uint64
		Runs     []map[string]any
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Scenario != "test" || got.Seed != 1 || len(got.Runs) != 1 {
		t.Fatalf("%s", text)
	}
	run := got.Runs[0]
	for _, key := range []string{"name", "parameters", "deliveries", "deferred_pct", "goodput_per_s", "window_mean", "window_stddev",
		"connections_peak", "delivered", "failed", "expired", "left", "delay_ms", "checks", "deviation", "references"} {
		if _, ok := run[key]; !ok {
			t.Errorf("there is no %s in %s", key, text)
		}
	}
	delays := run["delay_ms"].(map[string]any)
	for _, class := range []string{"all", "mail"} {
		for _, q := range []string{"p50", "p90", "p99", "max"} {
			if _, ok := delays[class].(map[string]any)[q].(float64); !ok {
				t.Errorf("there is no delay_ms.%s.%s in %s", class, q, text)
			}
		}
	}
	if run["parameters"].(map[string]any)["process_limit"] != "5" || run["checks"].(map[string]any)["limits"] != "ok" {
		t.Errorf("%s", text)
	}
}

// A reader of the table sees the difference to a reference at once, what each
// class had to wait, and what is wrong.
func TestTable(t *testing.T) {
	s := oneSite(Behaviour{Recipient: Fixed(second)}, Arrivals{Messages: 2, Min: 5, Max: 5})
	s.Arrivals = append(s.Arrivals, Arrivals{Class: "later", To: []string{"site"}, From: minute, Messages: 1})
	s.Runs[0].References = []Reference{{Source: "somebody", DeferredPct: 12.5, WindowMean: 3, WindowStddev: 0.5, Sequence: "12"}}
	r, err := Simulate(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	write := func() string {
		var b strings.Builder
		if err := r.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	text := write()
	for _, part := range []string{"test, seed 1\n", "12.50 (-12.50)", "3.00/0.50", "\nlater ", "differs", "\nchecked: conservation, "} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	r.Runs[0].Checks["limits"] = "1.000s: too much"
	if text := write(); !strings.Contains(text, `VIOLATION of limits in run "run": 1.000s: too much`) || strings.Contains(text, "\nchecked:") {
		t.Errorf("the violation is not in\n%s", text)
	}
}

// A scenario that makes no sense is refused with all that is wrong, and not run.
func TestValidate(t *testing.T) {
	_, err := Simulate(&Scenario{Name: "x", Sites: []Site{{Name: "a"}, {Name: "a"}}, Arrivals: []Arrivals{
		{Class: "one", To: []string{"b"}, Pattern: PatternRegular}, {Class: "two", Min: 3, Max: 2, Pattern: PatternBursts},
		{Class: "three", To: []string{"a"}, Pattern: PatternRecorded, Records: []Record{{At: second, Recipients: 1}, {At: 0, Recipients: 1, To: "c"}}},
	}}, Options{})
	if err == nil {
		t.Fatal("no complaint")
	}
	for _, want := range []string{`two sites "a"`, "no run", `no site "b"`, "rate is missing", "from 3 to 2", "bursts need", "they go nowhere", `no site "c"`, "order of time"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint about %q in %v", want, err)
		}
	}
}

// What is too old to be tried again has neither been delivered nor refused; the
// report says so, and what it says adds up: also of what is left at the end.
func TestFates(t *testing.T) {
	s := oneSite(Behaviour{HardPercent: 30}, Arrivals{Messages: 10, Min: 20, Max: 20})
	s.Sites = append(s.Sites, Site{Name: "dead", Outages: []Outage{{Until: 100 * 24 * time.Hour}}})
	s.Arrivals = append(s.Arrivals, Arrivals{Class: "lost", To: []string{"dead"}, Messages: 7},
		Arrivals{Class: "late", To: []string{"dead"}, Messages: 3, From: 6 * 24 * time.Hour})
	s.Duration = 7 * 24 * time.Hour
	r, err := Simulate(s, Options{})
	if err != nil || r.Verdict() != VerdictOK {
		t.Fatal(err, r)
	}
	run := &r.Runs[0]
	if run.Recipients != 210 || run.Expired != 7 || run.Left != 3 || run.Failed < 30 || run.Delivered+run.Failed != 200 {
		t.Errorf("accepted %d, delivered %d, failed %d, expired %d, left %d", run.Recipients, run.Delivered, run.Failed, run.Expired, run.Left)
	}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d  %9d  %6d  %7d  %4d\n", run.Recipients, run.Delivered, run.Failed, run.Expired, run.Left); !strings.Contains(b.String(), want) {
		t.Errorf("there is no %q in\n%s", want, b.String())
	}
}
