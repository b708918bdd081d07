package admin

import "net/http/pprof"

// registerDebug adds Go's profiles under /debug/pprof/, for clients that may give
// orders: where time is spent and what uses the memory. They are not part of the
// API and not in its description.
//
//	curl --unix-socket admin.sock 'http://x/debug/pprof/profile?seconds=10' >cpu.prof
func (s *Server) registerDebug() {
	s.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	s.mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	s.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	s.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	s.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
