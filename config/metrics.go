package config

import (
	"net/netip"
	"slices"
)

// Metrics says who may read the metrics, and how detailed they are.
type Metrics struct {
	Listen   []netip.AddrPort // metrics_listen
	Networks []netip.Prefix   // metrics_networks
	Top      int              // metrics_top
}

func metricsParameters() []parameter[Config] {
	return []parameter[Config]{
		define("metrics_listen", list(listener(), "addresses"), func(c *Config) *[]netip.AddrPort { return &c.Metrics.Listen }, nil,
			"The addresses and ports where /metrics, /healthz and /readyz are served by HTTP, and nothing else; they are also on admin_socket.",
			"Set it, for example to \"127.0.0.1:9125\", if Prometheus, or a health check that cannot use a unix socket, is to read them."),
		define("metrics_networks", list(network(), "networks"), func(c *Config) *[]netip.Prefix { return &c.Metrics.Networks }, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
			"The clients that metrics_listen answers; others get 403.",
			"Add the address of the Prometheus server if that is another machine; metrics name domains and tenants, and there is neither a password nor TLS."),
		define("metrics_top", integer(limit[int]{max: 1000, zero: "none"}), func(c *Config) *int { return &c.Metrics.Top }, 20,
			"The number of destinations, and of tenants, that have metrics of their own, which are those with the most mail waiting; all others together are \"other\".",
			"Raise it if you must see more of them at once; each destination has six time series, and each tenant three."),
	}
}

// metrics warns of addresses that no client may use.
func (w *warner) metrics() {
	m := &w.c.Metrics
	outside := func(a netip.AddrPort) bool { return !a.Addr().IsLoopback() }
	inside := func(p netip.Prefix) bool { return p.Addr().IsLoopback() }
	if slices.ContainsFunc(m.Listen, outside) && !slices.ContainsFunc(m.Networks, func(p netip.Prefix) bool { return !inside(p) }) {
		w.about("metrics_listen", "it listens on addresses that other machines can reach, and metrics_networks has none of these")
	}
}
