package resolve

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/route"
)

// A Config says whom to ask, how long to wait and how long to remember. The
// zero Config asks the servers of /etc/resolv.conf.
type Config struct {
	// Servers are addresses of recursive name servers, "192.0.2.53" or
	// "[2001:db8::53]:5353", in order of preference. Set it where mail has a
	// name server of its own; empty means those of ResolvConf.
	Servers []string
	// ResolvConf is the file that names servers, search list, timeout and
	// attempts where these are not set here. It is read again when it changes.
	// "" means /etc/resolv.conf.
	ResolvConf string
	// HostsFile is where a nexthop "[host]" is looked up first. It is read again
	// when it changes. "" means /etc/hosts.
	HostsFile string
	// Timeout is how long one server may take to answer. Raise it on a slow
	// link; 0 means what ResolvConf says, else 5 s.
	Timeout time.Duration
	// Attempts is how many times the list of servers is gone through; 0 means
	// what ResolvConf says, else 2.
	Attempts int
	// Deadline bounds the look-up of one nexthop, all questions and attempts
	// together; 0 means 60 s.
	Deadline time.Duration
	// Concurrency is how many questions are under way at once; 0 means 200. Those that
	// have taken more than 50 ms do not count, as far as Slow allows.
	// Lower it where a name server drops bursts.
	Concurrency int
	// Slow is how many questions that have taken more than 50 ms may be under way
	// beside these; 0 means ten times Concurrency. Each has a file descriptor.
	Slow int
	// CacheEntries is how many nexthops, and how many questions, are remembered;
	// 0 means 20000, which takes some 15 MB when full of ordinary domains.
	CacheEntries int

	// PositiveMin and PositiveMax bound how long records are used, whatever
	// their TTL; 0 means 30 s and 1 day.
	PositiveMin, PositiveMax time.Duration
	// NegativeMin and NegativeMax bound how long absence is believed, whatever
	// the zone's SOA says (RFC 2308 5); 0 means 30 s and 1 hour.
	NegativeMin, NegativeMax time.Duration
	// FailureMin is how long after a failed look-up of a name it is tried again;
	// it doubles with every further failure up to FailureMax. 0 means 5 s and
	// 30 s. RFC 2308 7 allows five minutes at most.
	FailureMin, FailureMax time.Duration
	// StaleMax is for how long after their time records are still used when
	// there is no answer; 0 means 1 hour.
	StaleMax time.Duration
	// NoStale turns the use of old records off.
	NoStale bool

	// Policy says which hosts and addresses are used, and what is ourselves.
	Policy route.Policy
	// Trusted are the nexthops that the operator wrote down, in canonical form
	// (route.Table.Nexthops). They may be at any address, and if they cannot be
	// found the mail waits, because the mistake is ours. "[host]" and all with
	// brackets and a port are trusted anyway: no recipient's address has that form.
	Trusted []string

	Logger *slog.Logger // nil: no log
	// Exchange carries messages to servers; nil means UDP and TCP sockets.
	Exchange Exchange
}

// WithDefaults fills in what is not set, except for what ResolvConf may say.
func (c Config) WithDefaults() Config {
	setDefault(&c.ResolvConf, "/etc/resolv.conf")
	setDefault(&c.HostsFile, "/etc/hosts")
	setDefault(&c.Deadline, 60*time.Second)
	setDefault(&c.Concurrency, 200)
	setDefault(&c.Slow, SlowFactor*c.Concurrency)
	setDefault(&c.CacheEntries, 20000)
	setDefault(&c.PositiveMin, 30*time.Second)
	setDefault(&c.PositiveMax, 24*time.Hour)
	setDefault(&c.NegativeMin, 30*time.Second)
	setDefault(&c.NegativeMax, time.Hour)
	setDefault(&c.FailureMin, 5*time.Second)
	setDefault(&c.FailureMax, 30*time.Second)
	setDefault(&c.StaleMax, time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Exchange == nil {
		c.Exchange = exchange
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate says all that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	for _, s := range c.Servers {
		if _, err := parseServer(s); err != nil {
			errs = append(errs, err)
		}
	}
	for _, d := range []struct {
		name     string
		min, max time.Duration
	}{
		{"positive", c.PositiveMin, c.PositiveMax},
		{"negative", c.NegativeMin, c.NegativeMax},
		{"failure", c.FailureMin, c.FailureMax},
		{"stale", 0, c.StaleMax},
		{"timeout", 0, c.Timeout},
		{"deadline", 0, c.Deadline},
	} {
		switch {
		case d.min < 0 || d.max < 0:
			errs = append(errs, fmt.Errorf("%s: a time cannot be negative", d.name))
		case d.min > d.max && d.min > 0:
			errs = append(errs, fmt.Errorf("%s: the minimum %v is above the maximum %v", d.name, d.min, d.max))
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"attempts", c.Attempts}, {"concurrency", c.Concurrency}, {"cache entries", c.CacheEntries},
		{"hosts", c.Policy.HostsMax}, {"addresses", c.Policy.AddressesMax},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s: %d is below zero", n.name, n.value))
		}
	}
	for _, s := range c.Trusted {
		if n, err := route.ParseNexthop(s); err != nil {
			errs = append(errs, fmt.Errorf("trusted: %w", err))
		} else if n.String() != s {
			errs = append(errs, fmt.Errorf("trusted: nexthop %q: the canonical form is %q", s, n))
		}
	}
	return errors.Join(errs...)
}

// dnsPort is where name servers listen.
const dnsPort = 53

// parseServer reads "address", "address:port" or "[address]:port".
func parseServer(text string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, dnsPort), nil
	}
	ap, err := netip.ParseAddrPort(text)
	if err != nil || ap.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("name server %q: want an address, or address:port, such as 192.0.2.53 or [2001:db8::53]:53", text)
	}
	return ap, nil
}
