package daemon

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/tokens"
)

// remoteFiles is the number of file descriptors of the administration over the network.
func remoteFiles(cfg *config.Config) int {
	return len(cfg.Remote.Listen) * (1 + admin.NetworkConnections)
}

// listenRemote opens the listeners of the administration over the network.
func (d *Daemon) listenRemote(cfg *config.Config) error {
	programs, err := cfg.OpenTokens()
	if err != nil {
		return fmt.Errorf("admin_tokens: %w", err)
	}
	d.tokens.Store(programs)
	for _, a := range cfg.Remote.Listen {
		ln, err := net.Listen("tcp", a.String())
		if err != nil {
			return fmt.Errorf("admin_listen: %w", err)
		}
		if cfg.Remote.Secure(a) {
			ln = tls.NewListener(ln, d.certificates.remote())
		}
		d.remote = append(d.remote, ln)
	}
	return nil
}

// remote returns the server's side of TLS for the administration. HTTP/2 is not offered: it
// would let one connection have any number of requests.
func (c *certificates) remote() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return c.set.Load().Choose(hello) },
	}
}

// authorize returns whose token it is, and what it allows.
func (d *Daemon) authorize(token string) (name string, may admin.Permission) {
	t := d.tokens.Load().Find(token, time.Now())
	if t == nil {
		return "", admin.PermissionNone
	}
	return t.Name, map[tokens.Scope]admin.Permission{tokens.ScopeRead: admin.PermissionRead, tokens.ScopeOperate: admin.PermissionOperate}[t.Scope]
}
