package nats

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
)

// Whatever is wrong is said at once, and routes between machines are never without TLS
// at both ends.
func TestValidate(t *testing.T) {
	both := &tls.Config{ClientCAs: x509.NewCertPool(), RootCAs: x509.NewCertPool()}
	base := Config{Node: "a", Cluster: "c", Dir: "d"}
	for _, c := range []struct {
		change func(*Config)
		want   string // "" if nothing is wrong
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.Listen, c.Peers = "127.0.0.1:0", []string{"[::1]:4248"} }, ""},
		{func(c *Config) { c.Listen, c.Peers, c.TLS = "192.0.2.1:4248", []string{"mx.example:4248"}, both }, ""},
		{func(c *Config) { c.Listen, c.Peers = "127.0.0.1:4248", []string{"127.0.0.1:4248"} }, "without peers"},
		{func(c *Config) { c.Dir, c.URL = "", "nats://nats.example:4222" }, ""},
		{func(c *Config) { c.Node = "a.b" }, "node"},
		{func(c *Config) { c.Cluster = "" }, "cluster"},
		{func(c *Config) { c.URL = "nats://nats.example:4222" }, "either"},
		{func(c *Config) { c.Dir = "" }, "either"},
		{func(c *Config) { c.Peers = []string{"127.0.0.1:4248"} }, "without an address"},
		{func(c *Config) { c.Listen = "192.0.2.1:4248" }, "loopback"},
		{func(c *Config) { c.Listen, c.Peers = "127.0.0.1:4248", []string{"mx.example:4248"} }, "loopback"},
		{func(c *Config) { c.Listen, c.TLS = "192.0.2.1:4248", &tls.Config{RootCAs: x509.NewCertPool()} }, "authorities"},
		{func(c *Config) { c.Listen = "127.0.0.1" }, "listen"},
		{func(c *Config) { c.Listen, c.Peers = "127.0.0.1:0", []string{":4248"} }, "peer"},
		{func(c *Config) { c.Replicas = 2 }, "replicas"},
		{func(c *Config) { c.DiskMax = -1 }, "limits"},
	} {
		cfg := base
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", cfg, err, c.want)
		}
	}
	if n := (Config{Listen: "a:1", Peers: []string{"a:1", "b:1", "c:1", "d:1"}}).WithDefaults().Replicas; n != 3 {
		t.Errorf("%d replicas on four nodes", n)
	}
	if n := (Config{Listen: "a:1", Peers: []string{"a:1"}}).WithDefaults().Replicas; n != 1 {
		t.Errorf("%d replicas on one node", n)
	}
}
