package mtasts

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Resolver looks up names in the DNS, with a cache. Package resolve has one.
type Resolver interface {
	// TXT returns the TXT records of a name, each with its strings joined. Without an
	// error there may be none.
	TXT(ctx context.Context, name string) ([]string, error)
	// Addrs returns the addresses of a host. Without an error there may be none.
	Addrs(ctx context.Context, host string) ([]netip.Addr, error)
}

// A Config is the configuration of a Store. Resolver must be set.
type Config struct {
	Resolver Resolver
	// File is the file that keeps policies from one run to the next. It is replaced as a
	// whole, by way of another one in its directory. "" means that they are not kept.
	File string
	// Entries is the size of the cache in domains with policies of ordinary size; one
	// counts once more for each KiB. 0 means 20000.
	Entries int
	// Timeout is the time limit of a fetch, with all that belongs to it; 0 means 60 s.
	Timeout time.Duration
	// Fetches is the maximum number of fetches at once; half as many are made to
	// renew policies. 0 means 100.
	Fetches int
	// Permit reports whether a web server may have an address. nil permits public
	// addresses only (mail.ClassOf): the owner of a domain chooses the addresses,
	// which may be those of services in our own network.
	Permit func(netip.Addr) bool
	// Roots are the authorities that certify web servers; nil means those of the system.
	Roots *x509.CertPool
	// Dial connects to a web server; nil means by TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Logger *slog.Logger // nil: no log
}

// WithDefaults sets the defaults of all fields that are zero.
func (c Config) WithDefaults() Config {
	c.Entries = cmp.Or(c.Entries, 20000)
	c.Timeout = cmp.Or(c.Timeout, 60*time.Second)
	c.Fetches = cmp.Or(c.Fetches, 100)
	if c.Permit == nil {
		c.Permit = isPublic
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func isPublic(a netip.Addr) bool { return mail.ClassOf(a) == mail.AddrPublic }

// Validate returns the errors of the configuration, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var wrong []error
	if c.Resolver == nil {
		wrong = append(wrong, errors.New("mtasts: no resolver"))
	}
	if c.Entries < 0 || c.Timeout < 0 || c.Fetches < 0 {
		wrong = append(wrong, errors.New("mtasts: entries, timeout and fetches must not be negative"))
	}
	return errors.Join(wrong...)
}
