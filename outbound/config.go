package outbound

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/wiretap"
	"github.com/posthaste-mta/posthaste/outbound/credential"
	"github.com/posthaste-mta/posthaste/smtp/client"
)

// Config is the configuration shared by all SMTP transports.
type Config struct {
	// Counters count what happens; nil: those of the Client alone. A Client that takes the
	// place of another after a reload goes on with its Counters.
	Counters *Counters
	// Hello is the name in EHLO: this host's fully-qualified name, which should
	// resolve to the address that connections come from. Required.
	Hello string
	// Self is the name by which a server is recognized as this host, which means
	// that mail loops (default: Hello). Change it if our servers greet with another
	// name.
	Self string
	// AllowSelf disables the check for Self. Set it where several hosts share
	// one name, for instance behind a load balancer.
	AllowSelf bool
	// Own are addresses on which this program listens. They are never dialed
	// for a nexthop that came from the DNS.
	Own []netip.AddrPort
	// Trusted are the nexthops that the operator configured, in canonical form
	// (route.Table.Nexthops). They may be at any address.
	Trusted []string
	// Transports are the SMTP transports by name. Required.
	Transports map[string]TransportConfig
	// Sources are our identities that an Opening may name, by name.
	Sources map[string]SourceConfig
	// Credentials are those by which we authenticate to servers (default: none).
	Credentials *credential.Table
	// VERPSecrets are the keys of tags in VERP senders (package verp).
	VERPSecrets [][]byte
	// TLSA finds TLSA records (default: no host has any).
	TLSA TLSAFinder
	// Sessions is called with each session with a host if, at the level in force, the DNS or the
	// domain decides how it is secured (default: not called). It is called concurrently, must
	// not block, and must not change what it gets.
	Sessions func(Session)
	// Wiretap has the watchers of connections (default: they cannot be watched).
	Wiretap *wiretap.Hub
	// Seed is the seed of the random order of equal hosts. The default is 0; give
	// each process its own, so that they do not all favor the same hosts.
	Seed uint64
	// Log gets debug records about connections (default: none). Outcomes are
	// not logged here.
	Log *slog.Logger
}

// TransportConfig is the configuration of one SMTP transport. The names are those
// of Postfix's smtp_ parameters. 0 means the default. For limits a negative
// value means no limit; timeouts cannot be disabled.
type TransportConfig struct {
	// LMTP makes the transport speak LMTP (RFC 2033) instead of SMTP. Its nexthops
	// may also be unix sockets, written "unix:" and an absolute path.
	LMTP bool

	ConnectTimeout  time.Duration // TCP connection to one address (default 30 s)
	HeloTimeout     time.Duration // greeting; reply to EHLO; each reply to AUTH (default 300 s)
	MailTimeout     time.Duration // reply to MAIL (default 300 s)
	RcptTimeout     time.Duration // reply to RCPT (default 300 s)
	DataInitTimeout time.Duration // reply to DATA (default 120 s)
	DataXferTimeout time.Duration // writing up to 64 KiB of content (default 180 s)
	DataDoneTimeout time.Duration // reply to the content (default 600 s); shorter ones cause duplicates
	RsetTimeout     time.Duration // reply to RSET (default 20 s)

	// MXAddressLimit is the maximum number of addresses of a nexthop that are used
	// until it is looked up again (default 5).
	MXAddressLimit int
	// FallbackRelays are nexthops to try after the hosts of the nexthop itself
	// are exhausted (smtp_fallback_relay).
	FallbackRelays []string
	// KeepOrder tries equal hosts in the order of the resolver's answer instead of
	// a random order (smtp_randomize_addresses=no).
	KeepOrder bool
	// PermitPrivateHosts allows addresses that are not public. Set it on a
	// transport for internal mail.
	PermitPrivateHosts bool
	// DeliverByStrict returns mail of mode ByReturn (RFC 2852) if the server does not promise to keep its deadline.
	// Without it such mail is sent, with its deadline if the server takes that.
	DeliverByStrict bool
	// BindAddress is the source address of connections (default: the system
	// chooses).
	BindAddress netip.Addr
	TLS         TLSConfig
}

// WithDefaults returns the configuration with all defaults filled in.
func (c Config) WithDefaults() Config {
	if c.Self == "" {
		c.Self = c.Hello
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	transports := make(map[string]TransportConfig, len(c.Transports))
	for name, t := range c.Transports {
		transports[name] = t.WithDefaults()
	}
	c.Transports = transports
	return c
}

// WithDefaults returns the configuration with all defaults filled in.
func (t TransportConfig) WithDefaults() TransportConfig {
	t.ConnectTimeout = cmp.Or(t.ConnectTimeout, 30*time.Second)
	t.HeloTimeout = cmp.Or(t.HeloTimeout, 300*time.Second)
	t.MailTimeout = cmp.Or(t.MailTimeout, 300*time.Second)
	t.RcptTimeout = cmp.Or(t.RcptTimeout, 300*time.Second)
	t.DataInitTimeout = cmp.Or(t.DataInitTimeout, 120*time.Second)
	t.DataXferTimeout = cmp.Or(t.DataXferTimeout, 180*time.Second)
	t.DataDoneTimeout = cmp.Or(t.DataDoneTimeout, 600*time.Second)
	t.RsetTimeout = cmp.Or(t.RsetTimeout, 20*time.Second)
	t.TLS.HandshakeTimeout = cmp.Or(t.TLS.HandshakeTimeout, time.Minute)
	t.MXAddressLimit = cmp.Or(t.MXAddressLimit, 5)
	return t
}

// wait returns the time limit of a wait (RFC 5321 4.5.3.2).
func (t *TransportConfig) wait(k client.WaitKind) time.Duration {
	switch k {
	case client.WaitGreeting, client.WaitHello, client.WaitAuth:
		return t.HeloTimeout
	case client.WaitMail:
		return t.MailTimeout
	case client.WaitRcpt:
		return t.RcptTimeout
	case client.WaitDataInit:
		return t.DataInitTimeout
	case client.WaitDataBlock:
		return t.DataXferTimeout
	case client.WaitFinal:
		return t.DataDoneTimeout
	case client.WaitStartTLS, client.WaitHandshake:
		return t.TLS.HandshakeTimeout
	}
	return t.RsetTimeout
}

// Validate returns all errors of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if !nameLike(c.Hello) {
		errs = append(errs, fmt.Errorf("hello: %q is not a host name", c.Hello))
	}
	if len(c.Transports) == 0 {
		errs = append(errs, errors.New("transports: none is configured"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		if err := c.Transports[name].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("transport %s: %w", name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		if s := c.Sources[name]; s.Hello != "" && !nameLike(s.Hello) {
			errs = append(errs, fmt.Errorf("source %s: hello: %q is not a host name", name, s.Hello))
		}
	}
	return errors.Join(errs...)
}

// Validate returns all errors of the configuration, joined, or nil.
func (t TransportConfig) Validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"connect_timeout", t.ConnectTimeout}, {"helo_timeout", t.HeloTimeout}, {"mail_timeout", t.MailTimeout},
		{"rcpt_timeout", t.RcptTimeout}, {"data_init_timeout", t.DataInitTimeout},
		{"data_xfer_timeout", t.DataXferTimeout}, {"data_done_timeout", t.DataDoneTimeout},
		{"rset_timeout", t.RsetTimeout}, {"starttls_timeout", t.TLS.HandshakeTimeout},
	} {
		if d.value < 0 || d.value > 0 && d.value < time.Second {
			errs = append(errs, fmt.Errorf("%s: %v is less than a second", d.name, d.value))
		}
	}
	for _, relay := range t.FallbackRelays {
		if relay == "" {
			errs = append(errs, errors.New("fallback_relay: empty nexthop"))
		}
	}
	return errors.Join(errs...)
}

// nameLike reports whether a text can be an argument of EHLO.
func nameLike(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != ""
}
