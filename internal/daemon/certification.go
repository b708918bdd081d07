package daemon

import (
	"context"
	"reflect"
	"sync"

	"github.com/posthaste-mta/posthaste/acme"
	"github.com/posthaste-mta/posthaste/config"
)

// A certification obtains and renews a certificate by ACME, as the configuration in force
// says. A reload that changes how begins anew; any other one has what failed tried at once.
type certification struct {
	changed chan struct{} // there is something new in wanted

	mu     sync.Mutex
	wanted wantedCertificate
}

// A wantedCertificate is the certificate that a configuration asks for.
type wantedCertificate struct {
	config.ACME
	how acme.Config
	on  bool
}

func newCertificate(cfg *config.Config) (wantedCertificate, error) {
	how, on, err := cfg.Certification()
	return wantedCertificate{cfg.ACME, how, on}, err
}

func newCertification() *certification {
	return &certification{changed: make(chan struct{}, 1)}
}

// configure takes what the configuration says now.
func (c *certification) configure(wanted wantedCertificate) {
	c.mu.Lock()
	c.wanted = wanted
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default: // what was new before has not been looked at yet
	}
}

// run keeps a certificate until ctx ends.
func (c *certification) run(ctx context.Context, keeper func(acme.Config) *acme.Keeper) {
	var inForce config.ACME
	var k *acme.Keeper
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
		c.mu.Lock()
		wanted := c.wanted
		c.mu.Unlock()
		if k != nil && reflect.DeepEqual(wanted.ACME, inForce) {
			k.Hurry()
			continue
		}
		stop()
		k, stop, inForce = nil, func() {}, wanted.ACME
		if wanted.on {
			k = keeper(wanted.how)
			stop = begin(ctx, k.Run)
		}
	}
}

// begin runs a function until the one that it returns is called, which waits for its end.
func begin(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// keepCertificate obtains and renews a certificate, and shows each new one to clients.
func (d *Daemon) keepCertificate(ctx context.Context) {
	d.certification.run(ctx, func(cfg acme.Config) *acme.Keeper {
		return acme.New(cfg, d.log, d.showCertificates)
	})
}

// showCertificates reads the certificates again. If that fails clients see those that there were.
func (d *Daemon) showCertificates() {
	d.mu.Lock()
	defer d.mu.Unlock()
	set, err := d.current.LoadCertificates()
	if err != nil {
		d.log.Error("the new certificate is not used: another cannot be read", "error", err)
		return
	}
	d.certificates.set.Store(set)
}
