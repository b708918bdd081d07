package nats

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"

	"github.com/posthaste-mta/posthaste/cluster"
	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// A Config describes one node. Either it has a server in this process, with Dir, or it
// uses other servers, with URL.
type Config struct {
	// Node is this node's name, unique in the cluster; Cluster the cluster's. Both are
	// names (cluster.ValidName).
	Node, Cluster string
	// Log is for what the server and the connection have to say.
	Log *slog.Logger

	// Dir is the directory of the server's store, which is made with mode 0700.
	Dir string
	// Listen is the address and port for the routes of other nodes; empty for a node on
	// its own.
	Listen string
	// Peers are the addresses or names, with ports, of other nodes' routes: one at
	// least, from which the rest is learned. The own one may be among them.
	Peers []string
	// DiskMax and MemoryMax limit the server's store, in bytes (default 1 GiB and 64
	// MiB). All buckets together may not have a larger BytesMax.
	DiskMax, MemoryMax int64
	// SyncAlways has each change synced before it is confirmed, which takes five to
	// ten times as long.
	SyncAlways bool

	// URL names servers that are there already, as "nats://host:4222", separated by
	// commas.
	URL string
	// Credentials is the file with the credentials for them.
	Credentials string

	// TLS has this node's certificate and the authorities of the others'. For routes it
	// is needed unless all addresses are loopback; both ends must have certificates.
	// For a URL it may be nil.
	TLS *tls.Config

	// Replicas is how many nodes keep each bucket: 1, 3 or 5 (default: as many as
	// there are nodes, at most 3; 1 for a URL).
	Replicas int
}

// WithDefaults returns c with defaults in place of zero values.
func (c Config) WithDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.DiskMax = cmp.Or(c.DiskMax, 1<<30)
	c.MemoryMax = cmp.Or(c.MemoryMax, 64<<20)
	c.Replicas = cmp.Or(c.Replicas, min(3, 1+c.others()))
	return c
}

// others returns the number of peers besides the node itself.
func (c *Config) others() (n int) {
	for _, peer := range c.Peers {
		if peer != c.Listen {
			n++
		}
	}
	return n
}

// Validate returns all mistakes of c, nil if there are none.
func (c Config) Validate() error {
	var wrong mistakes.List
	wrong.Unless(cluster.ValidName(c.Node), "node %q: want a name of letters, digits, hyphens and underscores", c.Node)
	wrong.Unless(cluster.ValidName(c.Cluster), "cluster %q: want a name of letters, digits, hyphens and underscores", c.Cluster)
	wrong.Unless((c.Dir == "") != (c.URL == ""), "want either a directory or a URL")
	wrong.Unless(c.URL == "" || c.Listen == "" && len(c.Peers) == 0, "a node that uses other servers has no routes")
	wrong.Unless(c.Listen != "" || len(c.Peers) == 0, "peers without an address to listen on")
	wrong.Unless(c.Listen == "" || c.others() > 0, "an address to listen on without peers")
	wrong.Unless(c.DiskMax >= 0 && c.MemoryMax >= 0, "limits of %d and %d bytes: must be positive", c.DiskMax, c.MemoryMax)
	wrong.Unless(c.Replicas == 0 || c.Replicas%2 == 1 && c.Replicas > 0 && c.Replicas <= 5, "%d replicas: want 1, 3 or 5", c.Replicas)
	if c.Listen != "" {
		if _, _, err := split(c.Listen); err != nil {
			wrong.Add(fmt.Errorf("listen: %w", err))
		}
	}
	for _, peer := range c.Peers {
		if _, _, err := split(peer); err != nil {
			wrong.Add(fmt.Errorf("peer: %w", err))
		}
	}
	wrong.Unless(c.TLS != nil || c.onlyLoopback(), "routes without TLS are for loopback addresses only")
	wrong.Unless(c.TLS == nil || c.Listen == "" || c.TLS.ClientCAs != nil && c.TLS.RootCAs != nil, "TLS between nodes needs the authorities of their certificates")
	return wrong.Join()
}

func (c *Config) onlyLoopback() bool {
	for _, address := range append([]string{c.Listen}, c.Peers...) {
		if address == "" {
			continue
		}
		host, _, _ := split(address)
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
			return false
		}
	}
	return true
}

func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("%q: want host:port", address)
	}
	return host, int(number), nil
}
