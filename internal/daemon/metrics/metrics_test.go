package metrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/internal/histogram"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/milter"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/window"
	"github.com/posthaste-mta/posthaste/spool"
)

// values are what some durations of an hour look like.
func values(n int) histogram.Values {
	var h histogram.Histogram
	for i := range n {
		h.Duration(time.Duration(i+1) * time.Second)
	}
	return h.Snapshot()
}

// whole is a daemon of which everything is known.
func whole() Facts {
	core := &qmgr.View{Transports: []qmgr.TransportView{{Name: "smtp", Busy: 3, Queues: []qmgr.QueueView{{Nexthop: "a.example", Todo: 5, Window: 7}},
		All: qmgr.QueueSum{Queues: 2, Dead: 1, Todo: 9, Window: 10}}}}
	list := &qmgr.TenantList{Tenants: []qmgr.TenantView{{Class: "bulk", Tenant: "shop", Waiting: 4}}, Classes: []qmgr.TenantView{{Class: "bulk", Waiting: 4}}}
	return Facts{Version: "1.0", Core: core, Tenants: list, Totals: &spool.Totals{}, Milters: []Milter{{Name: "filter"}},
		Driver: driver.Counters{First: []driver.ClassTimes{{Class: "bulk", Times: values(3)}}}, Now: time.Now()}
}

// gather returns the families as Prometheus gets them.
func gather(t *testing.T, f Facts, top int) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newCollector(Config{Top: top, Gather: func(context.Context) Facts { return f }}))
	list, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*dto.MetricFamily)
	for _, family := range list {
		byName[family.GetName()] = family
	}
	return byName
}

// series counts what a server stores: each bucket of a histogram is a time series, too.
func series(families map[string]*dto.MetricFamily) (n int) {
	for _, family := range families {
		for _, m := range family.Metric {
			n++
			if m.Histogram != nil {
				n += len(m.Histogram.Bucket) + 2
			}
		}
	}
	return n
}

const document = "../../../docs/metrics.md"

// Operators rely on the table in docs/metrics.md, so it is that of the program: UPDATE=1 writes it. A metric without a line fails, and so does a line without a metric.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "| `" + prefix
	var want, got []string
	for i := range families {
		f := &families[i]
		labels := ""
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", f.fullName(), f.kind, labels, f.help))
	}
	lines := strings.Split(string(text), "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, mark) })
	for _, l := range lines {
		if strings.HasPrefix(l, mark) {
			got = append(got, l)
		}
	}
	if slices.Equal(got, want) {
		return
	}
	if os.Getenv("UPDATE") == "1" {
		rest := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.HasPrefix(l, mark) })
		if err := os.WriteFile(document, []byte(strings.Join(slices.Insert(rest, first, want...), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			t.Errorf("missing in %s (UPDATE=1 writes it): %s", document, l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			t.Errorf("%s has a line of what is not there: %s", document, l)
		}
	}
	if !t.Failed() {
		t.Errorf("the lines of %s are in another order (UPDATE=1 writes them)", document)
	}
}

// Each family that is documented can be scraped, with the labels and the type that it should have, and is
// named as Prometheus recommends.
func TestEveryFamily(t *testing.T) {
	got := gather(t, whole(), 10)
	for i := range families {
		f := &families[i]
		family := got[f.fullName()]
		if family == nil {
			t.Errorf("%s is not in a scrape of a daemon of which everything is known", f.fullName())
			continue
		}
		var labels []string
		for _, pair := range family.Metric[0].Label {
			labels = append(labels, pair.GetName())
		}
		if want := slices.Sorted(slices.Values(f.labels)); !slices.Equal(labels, want) || strings.ToLower(family.GetType().String()) != f.kind.String() || family.GetHelp() != f.help {
			t.Errorf("%s: labels %q, want %q; type %v; %q", f.fullName(), labels, want, family.GetType(), family.GetHelp())
		}
		if f.help == "" || !strings.HasSuffix(f.help, ".") {
			t.Errorf("%s: the help is no sentence: %q", f.fullName(), f.help)
		}
	}
	if len(got) != len(families) {
		t.Errorf("%d families, of which %d are in the table", len(got), len(families))
	}
	var all []*dto.MetricFamily
	for _, family := range got {
		all = append(all, family)
	}
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// seriesMost is the bound that docs/metrics.md states for the default of metrics_top.
const seriesMost = 1500

// Senders choose destinations and tenants, and can choose a hundred thousand of each. Their names have
// whatever a client or a receiver has written. Neither makes a scrape fail or the server's memory grow.
func TestHostileNames(t *testing.T) {
	f := whole()
	f.Core.Transports = nil
	for i := range 10 {
		tr := qmgr.TransportView{Name: fmt.Sprintf("t%d", i)}
		for j := range 10_000 {
			q := qmgr.QueueView{Nexthop: fmt.Sprintf("%d.\xff%s\n\"}.example", j, strings.Repeat("x", j%300)), Todo: j, Window: 1, Source: "\xfe"}
			switch j % 1000 {
			case 997:
				q.Nexthop = other
			case 998:
				q.Nexthop = strings.Repeat("y", 300) + fmt.Sprint(j) // the same after the first characters
			case 999:
				q.State, q.Window = window.Dead, 0
				tr.All.Dead++
			}
			tr.Queues = append(tr.Queues, q)
			tr.All.Queues++
			tr.All.Todo += q.Todo
			tr.All.Window += q.Window
		}
		f.Core.Transports = append(f.Core.Transports, tr)
	}
	f.Milters = []Milter{{Name: "\xff" + strings.Repeat("m", 300)}}
	f.Tenants = &qmgr.TenantList{}
	for i := range 100_000 {
		v := qmgr.TenantView{Class: "\xffc" + fmt.Sprint(i), Tenant: strings.Repeat("z", 200) + fmt.Sprint(i), Waiting: 1, Messages: 2}
		f.Tenants.Tenants = append(f.Tenants.Tenants, v)
		f.Tenants.Classes = append(f.Tenants.Classes, qmgr.TenantView{Class: v.Class, Waiting: 1})
	}
	for i := range 33 {
		f.Driver.First = append(f.Driver.First, driver.ClassTimes{Class: fmt.Sprint("\xff", i), Times: values(1)})
	}
	got := gather(t, f, 20)
	if n := series(got); n > seriesMost {
		t.Errorf("%d time series, the bound is %d", n, seriesMost)
	}
	for _, family := range got {
		for _, m := range family.Metric {
			for _, pair := range m.Label {
				if v := pair.GetValue(); len(v) > 120 || !utf8.ValidString(v) {
					t.Errorf("a label of %s is %q", family.GetName(), v)
				}
			}
		}
	}
	// All that waits is there, if only in sums.
	for name, want := range map[string]float64{"destination_waiting": 10 * 10_000 * 9_999 / 2, "destination_dead": 100, "destination_window": 99_900, "tenant_waiting": 100_000, "class_waiting": 100_000} {
		sum := 0.0
		for _, m := range got[prefix+name].Metric {
			sum += m.Gauge.GetValue()
		}
		if sum != want {
			t.Errorf("%s: %v in all, want %v", name, sum, want)
		}
	}
	if n := len(got[prefix+"destination_waiting"].Metric); n != 20+10 {
		t.Errorf("%d destinations with a time series, want 20 and one for the others of each transport", n)
	}
	// None at all is a choice, too.
	if n := len(gather(t, f, 0)[prefix+"destination_waiting"].Metric); n != 10 {
		t.Errorf("%d destinations with metrics_top = 0, want one for each transport", n)
	}
}

// Mail that waits to be deferred has the reason where others have their destination, which is a receiver's text.
func TestNoReasonsAsNames(t *testing.T) {
	f := whole()
	f.Core.Transports = []qmgr.TransportView{{Name: "retry", Queues: []qmgr.QueueView{{Nexthop: "450 4.2.1 secret words", Instead: mail.Origin{Transport: "smtp", Nexthop: "a.example"}, Todo: 2}}, All: qmgr.QueueSum{Queues: 1, Todo: 2}}}
	got := gather(t, f, 20)[prefix+"destination_waiting"].Metric
	if len(got) != 1 || !strings.Contains(got[0].String(), `value:"other"`) || got[0].Gauge.GetValue() != 2 {
		t.Errorf("%v", got)
	}
}

// Queues that differ in the demands on their security alone are one destination. If all are dead it is dead, and no
// other one is.
//
// Seen failing: a destination that was not there was dead among the others.
func TestDestinationsOfOneName(t *testing.T) {
	f := whole()
	q := qmgr.QueueView{Nexthop: "a.example", State: window.Dead, Window: 3, Todo: 2}
	from := q
	from.Source, from.State = "one", window.Ready
	f.Core.Transports[0].Queues, f.Core.Transports[0].All = []qmgr.QueueView{q, q, from}, qmgr.QueueSum{Queues: 4, Dead: 2, Window: 9, Todo: 7}
	got := flat(t, f)
	for series, want := range map[string]float64{
		"destination_dead{destination=a.example,source=,transport=smtp}":       1,
		"destination_dead{destination=a.example,source=one,transport=smtp}":    0,
		"destination_dead{destination=other,source=,transport=smtp}":           0,
		"destination_window{destination=a.example,source=,transport=smtp}":     6,
		"destination_window{destination=a.example,source=one,transport=smtp}":  3,
		"destination_waiting{destination=a.example,source=,transport=smtp}":    4,
		"destination_waiting{destination=a.example,source=one,transport=smtp}": 2,
		"destination_waiting{destination=other,source=,transport=smtp}":        1,
	} {
		if v, there := got[series]; v != want || !there {
			t.Errorf("%s: %v, want %v", series, v, want)
		}
	}
}

// Those with most mail waiting have time series of their own, and of equals those that are busiest.
//
// Seen failing: none; without this test, the destinations with the least mail could have been shown.
func TestTopDestinations(t *testing.T) {
	f := whole()
	f.Core.Transports[0].Queues = []qmgr.QueueView{{Nexthop: "c", Todo: 1}, {Nexthop: "b", Todo: 5}, {Nexthop: "d", Todo: 3}, {Nexthop: "a", Todo: 3, Busy: 1}}
	f.Core.Transports[0].All = qmgr.QueueSum{Queues: 4, Todo: 12, Busy: 1}
	var names []string
	for _, m := range gather(t, f, 2)[prefix+"destination_waiting"].Metric {
		names = append(names, m.Label[0].GetValue())
	}
	if want := []string{"a", "b", other}; !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("%q have time series, want %q", names, want)
	}
}

// A server takes a histogram for a native one only if it has a span, so one without observations has an empty one.
func TestEmptyNativeHistogram(t *testing.T) {
	for _, m := range gather(t, whole(), 1)[prefix+"delivery_delay_seconds"].Metric {
		if len(m.Histogram.PositiveSpan) != 1 || m.Histogram.GetSchema() != histogram.Schema {
			t.Errorf("no span: %v", m.Histogram)
		}
	}
}

// Scrapes at the same time share one question to the core, which has 5 s to answer it. Further ones than eight are refused
// meanwhile, so that clients that do not give up cannot pile up.
func TestScrapesAtOnce(t *testing.T) {
	answer, deadlines := make(chan struct{}), make(chan time.Duration, 2)
	h := NewHandler(Config{Gather: func(ctx context.Context) Facts {
		at, _ := ctx.Deadline()
		deadlines <- time.Until(at)
		<-answer
		return whole()
	}})
	codes := make(chan int)
	for range scrapes + 1 {
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			codes <- w.Code
		}()
	}
	if code := <-codes; code != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", code)
	}
	close(answer)
	for range scrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("one of eight: %d", code)
		}
	}
	if patient := <-deadlines; patient > 5*time.Second || len(deadlines) > 0 {
		t.Errorf("the core has %v to answer, and was asked %d times more", patient, len(deadlines))
	}
}

// What operators have suspended is counted by scope, those of which nothing is suspended included.
func TestCountOfSuspensions(t *testing.T) {
	f := whole()
	f.Suspensions = []qmgr.SuspensionView{{Scope: measure.Tenant, Value: "a"}, {Scope: measure.Site, Value: "b"}, {Scope: measure.Tenant, Value: "c"}}
	got := flat(t, f)
	for scope, want := range map[string]float64{"tenant": 2, "site": 1, "domain": 0, "class": 0, "source": 0, "transport": 0} {
		if v, there := got["suspensions{scope="+scope+"}"]; v != want || !there {
			t.Errorf("%s: %v, want %v", scope, v, want)
		}
	}
}

// A message whose time is ahead of the clock is not younger than now.
func TestAge(t *testing.T) {
	f := Facts{Now: time.Unix(100, 0)}
	for at, want := range map[mail.Instant]float64{0: 0, mail.Instant(90 * time.Second): 10, mail.Instant(110 * time.Second): 0} {
		if got := f.age(at); got != want {
			t.Errorf("age(%v) = %v, want %v", at, got, want)
		}
	}
}

// A name that is wrong in spite of all ends neither the process nor the scrape.
func TestInvalidName(t *testing.T) {
	f := whole()
	f.Core.Transports[0].Name = "\xff"
	h := NewHandler(Config{Top: 3, Gather: func(context.Context) Facts { return f }})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "posthaste_queue_messages") || strings.Contains(body, "posthaste_transport_busy{") {
		t.Errorf("%d: %.200s", w.Code, body)
	}
}

// A configuration may have two milters of one name. Time series that are there twice would make every scrape fail.
//
// Seen failing: "collected before with the same name and label values".
func TestMiltersOfOneName(t *testing.T) {
	f := whole()
	one := milter.Counters{Connections: 1, Messages: 2, Refused: 3, Deferred: 4, Discarded: 5, Held: 6, Changed: 7, Failures: 8}
	f.Milters = []Milter{{"filter", one}, {"other", one}, {"filter", one}}
	got := gather(t, f, 20)
	for name, want := range map[string]float64{"milter_connections_total": 2, "milter_messages_total": 4, "milter_rulings_total": 2 * (3 + 4 + 5 + 6 + 7), "milter_failures_total": 16} {
		sum := 0.0
		for _, m := range got[prefix+name].Metric {
			if strings.Contains(m.String(), `"filter"`) {
				sum += m.Counter.GetValue()
			}
		}
		if sum != want {
			t.Errorf("%s: %v, want %v", name, sum, want)
		}
	}
}

// A scheduler that hangs is seen: what is known without it is still there.
func TestSilentCore(t *testing.T) {
	f := whole()
	f.Core, f.Tenants, f.Totals = nil, nil, nil
	got := gather(t, f, 20)
	if up := got[prefix+"core_up"].Metric[0].Gauge.GetValue(); up != 0 {
		t.Errorf("core_up is %v", up)
	}
	for _, name := range []string{"core_messages", "destination_waiting", "tenant_waiting", "queue_messages"} {
		if got[prefix+name] != nil {
			t.Errorf("%s is known without the core", name)
		}
	}
	if got[prefix+"spool_free_bytes"] == nil || got[prefix+"attempt_seconds"] == nil {
		t.Error("what the core does not know is missing, too")
	}
}

// The same counts are a classic histogram and a native one, whose spans and deltas are as Prometheus' own
// library writes them.
func TestNativeHistogram(t *testing.T) {
	own := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "x", Buckets: []float64{0.25, 1, 4},
		NativeHistogramBucketFactor: 1.19, NativeHistogramZeroThreshold: histogram.Threshold})
	var ours histogram.Histogram
	for _, v := range []float64{0, 0.1, 0.11, 0.25, 0.26, 1, 1.2, 3, 3, 3, 100, 1e6} {
		own.Observe(v)
		ours.Observe(v)
	}
	v := ours.Snapshot()
	var want, got dto.Metric
	if err := own.Write(&want); err != nil {
		t.Fatal(err)
	}
	if err := newHistogram(own.Desc(), &v, []int{-2, 0, 2}, nil).Write(&got); err != nil {
		t.Fatal(err)
	}
	want.Histogram.CreatedTimestamp = nil
	if !reflect.DeepEqual(buckets(got.Histogram), buckets(want.Histogram)) || want.Histogram.GetSchema() != histogram.Schema {
		t.Errorf("got  %v\nwant %v", got.Histogram, want.Histogram)
	}
	if want.Histogram.GetSampleSum() != got.Histogram.GetSampleSum() || want.Histogram.GetSampleCount() != got.Histogram.GetSampleCount() {
		t.Errorf("sum %v, count %v", got.Histogram.GetSampleSum(), got.Histogram.GetSampleCount())
	}
}

// buckets returns the counts of the classes of a native histogram by their indexes, those of the classic one by
// their bounds, and those of zero.
func buckets(h *dto.Histogram) map[string]int64 {
	all := map[string]int64{"zero": int64(h.GetZeroCount())}
	index, at, count := int32(0), 0, int64(0)
	for _, span := range h.PositiveSpan {
		index += span.GetOffset()
		for range span.GetLength() {
			count += h.PositiveDelta[at]
			if count > 0 {
				all[fmt.Sprint(index)] = count
			}
			index, at = index+1, at+1
		}
	}
	for _, b := range h.Bucket {
		all[fmt.Sprint("up to ", b.GetUpperBound())] = int64(b.GetCumulativeCount())
	}
	return all
}

// Clients choose the format. Facts are gathered once a second, however many clients ask.
func TestFormats(t *testing.T) {
	asked := 0
	h := NewHandler(Config{Top: 3, Gather: func(context.Context) Facts { asked++; return whole() }})
	for accept, want := range map[string]string{
		"": "text/plain; version=0.0.4",
		"application/openmetrics-text; version=1.0.0":                                                "application/openmetrics-text; version=1.0.0",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited": "application/vnd.google.protobuf",
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body := w.Body.String()
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), want) || !strings.Contains(body, "posthaste_queue_messages") {
			t.Errorf("%q: %d, %s", accept, w.Code, w.Header().Get("Content-Type"))
		}
		if strings.HasPrefix(want, "application/openmetrics") && !strings.HasSuffix(body, "# EOF\n") {
			t.Errorf("%q: the end is missing", accept)
		}
	}
	if asked != 1 {
		t.Errorf("facts were gathered %d times in a moment", asked)
	}
}
