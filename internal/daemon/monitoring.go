package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/daemon/metrics"
)

// A phase is how far the daemon's life is. It only grows.
type phase uint32

const (
	phaseStarting phase = iota
	phaseServing
	phaseStopping
)

// A monitor answers those who watch the daemon.
type monitor struct {
	d     *Daemon
	phase atomic.Uint32
}

// serving notes that mail is taken in from now on, until ctx ends.
func (m *monitor) serving(ctx context.Context) {
	m.phase.CompareAndSwap(uint32(phaseStarting), uint32(phaseServing))
	context.AfterFunc(ctx, m.stopping)
}

func (m *monitor) stopping() { m.phase.Store(uint32(phaseStopping)) }

// handler returns the handler of /metrics, /healthz and /readyz.
func (m *monitor) handler(cfg *config.Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.NewHandler(metrics.Config{Top: cfg.Metrics.Top, Gather: m.gather, Log: m.d.log}))
	mux.HandleFunc("/healthz", m.healthz)
	mux.HandleFunc("/readyz", m.readyz)
	return mux
}

// aliveWithin is the time within which the core answers if it is alive. It does so in milliseconds,
// and waits for neither disk nor network.
const aliveWithin = 5 * time.Second

// healthz answers whether the process should go on: not if the scheduler hangs.
func (m *monitor) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), aliveWithin)
	defer cancel()
	if _, err := m.d.driver.View(ctx, 0); err != nil {
		verdict(w, fmt.Sprintf("the scheduler has not answered within %v", aliveWithin))
		return
	}
	verdict(w, "")
}

// readyz answers whether mail should be sent here.
func (m *monitor) readyz(w http.ResponseWriter, _ *http.Request) { verdict(w, m.unready()) }

// unready returns why mail should not be sent here; "" if it should.
func (m *monitor) unready() string {
	switch phase(m.phase.Load()) {
	case phaseStarting:
		return "starting: no mail is accepted yet"
	case phaseStopping:
		return "stopping: no more mail is accepted"
	}
	if err := m.d.spool.Room(0); err != nil {
		return fmt.Sprintf("new mail is refused: %v", err)
	}
	return ""
}

// verdict answers 200, or 503 and the reason.
func verdict(w http.ResponseWriter, trouble string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if trouble != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, trouble+"\n") // an error means that the client is gone
		return
	}
	io.WriteString(w, "ok\n")
}

// gather returns what the daemon has counted.
func (m *monitor) gather(ctx context.Context) metrics.Facts {
	d := m.d
	f := metrics.Facts{Version: d.options.Version, Unready: m.unready(), Driver: d.driver.Snapshot(),
		Store: d.spool.Health(), Commits: d.spool.Latency(), MinFree: d.spool.MinFree(), Inbound: d.inbound.Snapshot(), Milters: d.milters.facts(),
		Outbound: d.counters.outbound.Stats()}
	f.Unrecorded, _, _ = d.driver.Trouble()
	if sum, known := d.spool.Totals(); known {
		f.Totals = &sum
	}
	if set := d.agents.try(); set != nil {
		f.Resolve = set.resolver.Stats()
		set.users.Done()
	}
	top := d.started.Metrics.Top
	view, err := d.driver.View(ctx, max(top, 1))
	if err != nil {
		return f
	}
	tenants, err := d.driver.Tenants(ctx, top)
	if err != nil {
		return f
	}
	suspensions, err := d.driver.Suspensions(ctx)
	if err != nil {
		return f
	}
	f.Core, f.Tenants, f.Suspensions = &view, &tenants, suspensions
	return f
}

// listenForMonitoring opens metrics_listen.
func (d *Daemon) listenForMonitoring(cfg *config.Config) error {
	for _, a := range cfg.Metrics.Listen {
		ln, err := net.Listen("tcp", a.String())
		if err != nil {
			return fmt.Errorf("metrics_listen: %w", err)
		}
		d.monitorLns = append(d.monitorLns, ln)
	}
	return nil
}
