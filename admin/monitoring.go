package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// monitoringPaths are what Config.Monitoring answers.
var monitoringPaths = [...]string{"/metrics", "/healthz", "/readyz"}

const (
	// MonitoringConnections is the maximum number of open connections to each listener of
	// ServeMonitoring. Further ones take the place of idle ones, or wait.
	MonitoringConnections = 16
	// monitoringTime is the time that a client has to read an answer. There is none for the
	// administration's answers, whose clients are the administrators.
	monitoringTime = 30 * time.Second
)

// registerMonitoring adds what Config.Monitoring answers to the administration's paths. It is
// no part of the API and not in its description.
func (s *Server) registerMonitoring() {
	if s.cfg.Monitoring == nil {
		return
	}
	for _, path := range monitoringPaths {
		s.mux.Handle("GET "+path, s.cfg.Monitoring)
	}
}

// ServeMonitoring answers requests for Config.Monitoring, and no others, on a TCP listener until ctx ends.
// Clients outside of the networks get 403. It closes the listener. The error is nil unless the listener fails.
func (s *Server) ServeMonitoring(ctx context.Context, ln net.Listener, networks []netip.Prefix) error {
	mux := http.NewServeMux()
	for _, path := range monitoringPaths {
		mux.Handle("GET "+path, s.cfg.Monitoring)
	}
	server := s.server(notQuiet(permitted(networks, noBody(mux))))
	server.WriteTimeout, server.MaxHeaderBytes = monitoringTime, 16<<10
	return s.serve(ctx, newBounded(ln, MonitoringConnections), server)
}

// permitted refuses clients outside of networks.
func permitted(networks []netip.Prefix, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := netip.ParseAddrPort(r.RemoteAddr)
		if inside := func(p netip.Prefix) bool { return p.Contains(client.Addr().Unmap().WithZone("")) }; err != nil || !slices.ContainsFunc(networks, inside) {
			w.Header().Set("Connection", "close")
			http.Error(w, "metrics_networks does not include your address", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// noBody refuses requests that have a body: the server would wait for its end.
func noBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			http.Error(w, "this request takes no body", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
