package courier

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A Resolver looks up names in the DNS. Package resolve has one.
type Resolver interface {
	// TXT returns the TXT records of a name, each with its strings joined. Without an
	// error there may be none.
	TXT(ctx context.Context, name string) ([]string, error)
	// Addrs returns the addresses of a host. Without an error there may be none.
	Addrs(ctx context.Context, host string) ([]netip.Addr, error)
}

// An Identity describes the sender of reports.
type Identity struct {
	Organization string       // organization-name
	Contact      string       // contact-info; default: From
	From         mail.Address // of mail with reports
	Hostname     string       // makes the IDs of reports unique
}

// Config is the configuration of a Courier. Identity, Resolver and Mail must be set.
type Config struct {
	Identity Identity
	Resolver Resolver
	// Mail spools a message, or returns ErrUnsigned if it cannot be signed. It is called
	// concurrently.
	Mail func(context.Context, Message) error
	// File is the file in which counts are kept. It is replaced as a whole, by way of another one in its
	// directory. "" means that they are not.
	File string
	// Spread is the time after the end of a day over which reports are spread; 0 means 4 h.
	Spread time.Duration
	// Timeout is the time limit of one attempt to send a report; 0 means 60 s.
	Timeout time.Duration
	// Permit reports whether a web server may have an address. nil permits public
	// addresses only.
	Permit func(netip.Addr) bool
	// Roots are the authorities that certify web servers; nil means those of the system.
	Roots *x509.CertPool
	// Dial connects to a web server; nil means by TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now is the clock by which days end; nil means the system's.
	Now    func() time.Time
	Logger *slog.Logger // nil: no log
}

// ErrUnsigned is the error of Config.Mail for a message that no key signs. Receivers must
// not accept it (RFC 8460 3), so it is not sent.
var ErrUnsigned = errors.New("no DKIM key signs for the report's From domain")

// WithDefaults sets the defaults of all fields that are zero.
func (c Config) WithDefaults() Config {
	c.Identity.Contact = cmp.Or(c.Identity.Contact, string(c.Identity.From))
	c.Spread = cmp.Or(c.Spread, 4*time.Hour)
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	if c.Permit == nil {
		c.Permit = func(a netip.Addr) bool { return mail.ClassOf(a) == mail.AddrPublic }
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate returns the errors of the configuration, joined.
func (c Config) Validate() error {
	var wrong []error
	if c.Resolver == nil || c.Mail == nil {
		wrong = append(wrong, errors.New("courier: no resolver, or no way to send mail"))
	}
	if c.Identity.Organization == "" || c.Identity.Hostname == "" {
		wrong = append(wrong, errors.New("courier: no organization, or no host name"))
	}
	if !isAddress(c.Identity.From) {
		wrong = append(wrong, fmt.Errorf("courier: from: %q is no address that reports can come from", c.Identity.From))
	}
	if c.Spread < 0 || c.Timeout < 0 {
		wrong = append(wrong, errors.New("courier: spread and timeout must not be negative"))
	}
	return errors.Join(wrong...)
}

// isAddress reports whether an address can be written in a header field as it is.
func isAddress(a mail.Address) bool {
	local, domain := a.Local(), a.Domain()
	for i := range len(local) {
		switch c := local[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.' && i > 0 && i < len(local)-1 && local[i-1] != '.':
		case c == '+', c == '-', c == '_', c == '=', c == '/', c == '~', c == '\'':
		default:
			return false
		}
	}
	return local != "" && len(a) <= 254 && smtp.ValidDomain(domain)
}
