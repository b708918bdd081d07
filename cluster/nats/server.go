package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startServer starts the server in this process.
func startServer(cfg *Config) (*server.Server, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	o, err := options(cfg)
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("the cluster's server: %w", err)
	}
	log := &serverLog{log: cfg.Log}
	srv.SetLoggerV2(log, cfg.Log.Enabled(context.Background(), slog.LevelDebug-1), false, false)
	srv.Start()
	if err := log.failed(); err != nil {
		srv.Shutdown()
		return nil, err
	}
	if cfg.Listen != "" {
		startRoutes(srv)
	}
	if err := log.failed(); err != nil {
		srv.Shutdown()
		return nil, err
	}
	return srv, nil
}

// startRoutes opens the port for routes, and has the server connect to its peers.
//
// Start leaves that to a goroutine which waits until the port for clients is open. Without
// such a port (DontListen) it waits forever (nats-server 2.15.3, Server.Start and
// Server.StartRouting), and so does Shutdown for its end. This call does its work, and
// takes its place in what Shutdown waits for; that goroutine remains until the process
// ends. A later version that starts routes by itself fails TestRoutes, as the port is
// then opened twice. NOTE: the alternative, a port for clients that refuses all of
// them, is one that no operator has configured.
func startRoutes(srv *server.Server) {
	open := make(chan struct{})
	close(open)
	srv.StartRouting(open)
}

func options(cfg *Config) (*server.Options, error) {
	o := &server.Options{
		ServerName: cfg.Node,
		DontListen: true,
		NoSigs:     true,

		JetStream:              true,
		DisableJetStreamBanner: true,
		StoreDir:               cfg.Dir,
		JetStreamMaxMemory:     cfg.MemoryMax,
		JetStreamMaxStore:      cfg.DiskMax,
		SyncInterval:           10 * time.Second,
		SyncAlways:             cfg.SyncAlways,
	}
	if cfg.Listen == "" {
		return o, nil
	}
	host, port, err := split(cfg.Listen)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	// One connection for all that is not the server's own, not three: there is one
	// account. Peers that are down are tried again for ever.
	o.Cluster = server.ClusterOpts{Name: cfg.Cluster, Host: host, Port: port, PoolSize: 1, TLSTimeout: 5}
	if cfg.TLS != nil {
		o.Cluster.TLSConfig = mutual(cfg.TLS)
	}
	for _, peer := range cfg.Peers {
		if peer != cfg.Listen {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: peer})
		}
	}
	return o, nil
}

// mutual returns the configuration for routes, where either end may be the one that
// connects.
func mutual(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return config
}

// A serverLog passes what the server says on to slog, and remembers what it calls
// fatal, after which it expects the process to be gone.
type serverLog struct {
	log   *slog.Logger
	mu    sync.Mutex
	fatal error
}

func (l *serverLog) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func (l *serverLog) say(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "cluster store", "text", fmt.Sprintf(format, v...))
	}
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.say(slog.LevelError, format, v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal = errors.Join(l.fatal, fmt.Errorf("the cluster's server: "+format, v...))
}

func (l *serverLog) Errorf(format string, v ...any)  { l.say(slog.LevelError, format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.say(slog.LevelWarn, format, v) }
func (l *serverLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.say(slog.LevelDebug-1, format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.say(slog.LevelDebug-2, format, v) }
