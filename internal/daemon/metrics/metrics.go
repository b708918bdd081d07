// Package metrics presents to Prometheus what the daemon counts. It is the only package that knows
// Prometheus' library: the others count in fields of their own, with atomic additions, and give
// copies of them.
//
// # Procedure
//
// For each scrape the Collector asks for all Facts, at most once a second, and converts them by the
// table in families.go: a family of metrics is its name, its help and a function of the Facts.
// docs/metrics.md is that table for people, which a test compares.
//
// What names destinations and tenants is bounded (Config.Top), since senders choose both: those with
// the most mail waiting have time series of their own, all others one together. So it is gauges alone that
// have such names: a counter of what is among the first only now and then would go up and down.
package metrics

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/posthaste-mta/posthaste/driver"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/milter"
	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/resolve"
	"github.com/posthaste-mta/posthaste/spool"

	"github.com/posthaste-mta/posthaste/internal/histogram"
)

// Facts are what the daemon has counted, and holds, at about one moment.
type Facts struct {
	Version string
	Unready string // why the daemon is not ready; "" if it is
	// Core and Tenants are nil if the core does not answer.
	Core    *qmgr.View
	Tenants *qmgr.TenantList
	// Suspensions are those that operators have ordered, if the core answers.
	Suspensions []qmgr.SuspensionView
	Driver      driver.Counters
	// Unrecorded are messages whose outcomes cannot be written to the spool.
	Unrecorded int
	// Totals are nil until they are known.
	Totals   *spool.Totals
	Store    spool.Health
	Commits  histogram.Values // seconds
	MinFree  int64            // bytes of free disk space below which mail is refused
	Inbound  inbound.Counters
	Milters  []Milter // by name
	Outbound outbound.Stats
	Resolve  resolve.Stats
	Now      time.Time

	// What the Collector derives from them.
	sites            []site
	classes, tenants []qmgr.TenantView
	milters          []Milter
}

// derive chooses the destinations and tenants that have time series of their own, and adds up what would have
// the same one.
func (f *Facts) derive(top int) {
	f.milters = distinct(f.Milters)
	if f.Core != nil {
		f.sites = topSites(f.Core, top)
	}
	if f.Tenants != nil {
		f.classes, f.tenants = topClasses(f.Tenants), topTenants(f.Tenants, top)
	}
}

// A Milter is what one milter has done.
type Milter struct {
	Name string
	milter.Counters
}

// Config configures a Collector.
type Config struct {
	// Top is how many destinations and tenants have metrics of their own.
	Top int
	// Gather returns all facts, about Top destinations and tenants at least. Its context ends when it must have.
	Gather func(ctx context.Context) Facts
	// Log gets a line for each scrape that fails; nil discards it.
	Log *slog.Logger
}

// A Collector gathers metrics.
type Collector struct {
	cfg   Config
	descs []*prometheus.Desc // of families

	mu    sync.Mutex // held while facts are gathered
	facts Facts
	until time.Time // when facts must be gathered again
}

const (
	// fresh is how long facts are used again: however many scrape, the core is asked once a second.
	fresh = time.Second
	// patience is the time that the core has to answer, which takes it milliseconds.
	patience = 5 * time.Second
	// scrapes is the maximum number of scrapes at the same time; further ones get 503.
	scrapes = 8
)

// NewHandler returns the handler of /metrics: the text that Prometheus reads, OpenMetrics, or
// Prometheus' protocol buffers, which have the native histograms, as the client asks for.
func NewHandler(cfg Config) http.Handler {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(cfg), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelError), EnableOpenMetrics: true, MaxRequestsInFlight: scrapes,
		ErrorHandling: promhttp.ContinueOnError, // one family that is wrong must not hide the others
	})
}

func newCollector(cfg Config) *Collector {
	c := &Collector{cfg: cfg}
	for i := range families {
		f := &families[i]
		c.descs = append(c.descs, prometheus.NewDesc(f.fullName(), f.help, f.labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	facts := c.get()
	for i := range families {
		f, desc := &families[i], c.descs[i]
		if f.histograms != nil {
			f.histograms(facts, func(v histogram.Values, labels ...string) {
				metrics <- newHistogram(desc, &v, f.bounds, labels)
			})
			continue
		}
		f.values(facts, func(v float64, labels ...string) {
			m, err := prometheus.NewConstMetric(desc, f.kind.value(), v, labels...)
			if err != nil { // a panic here would end the process, because of a name
				m = prometheus.NewInvalidMetric(desc, err)
			}
			metrics <- m
		})
	}
}

// get returns facts that are not older than a second. They must not be changed.
func (c *Collector) get() *Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.until) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c.facts = c.cfg.Gather(ctx)
		c.facts.Now = time.Now()
		c.facts.derive(c.cfg.Top)
		c.until = c.facts.Now.Add(fresh)
	}
	facts := c.facts
	return &facts
}
