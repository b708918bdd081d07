package daemon

import (
	"context"
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/config"
	"github.com/posthaste-mta/posthaste/internal/certificate"
)

// certificates are those that listeners show to TLS clients. A reload replaces them under
// the same tls.Config, whose tickets stay valid: clients that connected before resume their
// sessions.
type certificates struct {
	set     atomic.Pointer[certificate.Set]
	configs map[tlsTerms]*tls.Config // under the daemon's mutex
}

// tlsTerms are the parameters in which the TLS configurations differ.
type tlsTerms struct {
	min  uint16
	asks bool // clients for a certificate
}

// config returns the server's side of TLS for a listener.
func (c *certificates) config(cfg *config.Config, l *config.Listener) *tls.Config {
	t := tlsTerms{l.TLS.Min, len(cfg.RelayClientCerts) > 0}
	if had := c.configs[t]; had != nil {
		return had
	}
	made := &tls.Config{
		MinVersion:     t.min,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return c.set.Load().Choose(hello) },
	}
	if t.asks {
		made.ClientAuth = tls.RequestClientCert // its issuer does not matter
	}
	if c.configs == nil {
		c.configs = make(map[tlsTerms]*tls.Config)
	}
	c.configs[t] = made
	return made
}

// noticeInterval is the interval at which certificates that expire soon are reported.
const noticeInterval = 24 * time.Hour

// watchCertificates reports certificates that expire soon, day by day, until ctx ends. The
// reports of the start and of reloads are logWarnings's.
func (d *Daemon) watchCertificates(ctx context.Context) {
	tick := time.NewTicker(noticeInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			d.mu.Lock()
			cfg := d.current
			d.mu.Unlock()
			d.logExpiry(cfg, now)
		case <-ctx.Done():
			return
		}
	}
}

func (d *Daemon) logExpiry(cfg *config.Config, now time.Time) {
	d.logEach(cfg.ExpiryWarnings(d.certificates.set.Load(), now))
}
