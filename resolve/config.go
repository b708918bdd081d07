package resolve

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
	"github.com/posthaste-mta/posthaste/route"
)

// A Config selects the name servers and sets timeouts and cache lifetimes. The
// zero Config uses the servers of /etc/resolv.conf.
type Config struct {
	// Counters count what happens; nil: those of the Resolver alone. A Resolver that takes the
	// place of another after a reload goes on with its Counters.
	Counters *Counters
	// Servers are addresses of recursive name servers, "192.0.2.53" or
	// "[2001:db8::53]:5353", in order of preference. Set it where mail has a
	// dedicated name server; empty means those of ResolvConf.
	Servers []string
	// ResolvConf is the file that supplies servers, search list, timeout and
	// attempts where these are not set here. It is read again when it changes.
	// "" means /etc/resolv.conf.
	ResolvConf string
	// HostsFile is the file in which a nexthop "[host]" is looked up before the DNS.
	// It is read again when it changes. "" means /etc/hosts.
	HostsFile string
	// TrustAD means that the servers validate by DNSSEC, and that their answers cannot be
	// changed on the way, so their AD bit is trusted. Otherwise the bit is trusted only if all
	// servers are on loopback addresses (RFC 7672 2.1, RFC 4035 4.9.3), or if they are those of
	// ResolvConf and that has the option trust-ad. TLSA records are used only if the bit is
	// trusted.
	TrustAD bool
	// Timeout is the time one server has to answer. Raise it on a slow
	// link; 0 means the value of ResolvConf, or 5 s if it has none.
	Timeout time.Duration
	// Attempts is the number of rounds through the list of servers; 0 means
	// the value of ResolvConf, or 2 if it has none.
	Attempts int
	// Deadline is the time limit of the lookup of one nexthop, including all
	// questions and attempts; 0 means 60 s.
	Deadline time.Duration
	// Concurrency is the maximum number of concurrent questions; 0 means 200. Up to
	// Slow questions that have taken more than 50 ms do not count.
	// Lower it where a name server drops bursts.
	Concurrency int
	// Slow is the maximum number of further questions that have taken more than
	// 50 ms; 0 means ten times Concurrency. Each uses a file descriptor.
	Slow int
	// CacheEntries is the size of the cache of nexthops, and of that of questions;
	// 0 means 20000, which takes some 15 MB when full of ordinary domains.
	CacheEntries int

	// PositiveMin and PositiveMax limit the time for which records are used,
	// whatever their TTL; 0 means 30 s and 1 day.
	PositiveMin, PositiveMax time.Duration
	// NegativeMin and NegativeMax limit the time for which negative answers are
	// used, whatever the zone's SOA says (RFC 2308 5); 0 means 30 s and 1 hour.
	NegativeMin, NegativeMax time.Duration
	// FailureMin is the delay before a failed lookup of a name is retried; it
	// doubles with every further failure up to FailureMax. 0 means 5 s and
	// 30 s. RFC 2308 7 allows five minutes at most.
	FailureMin, FailureMax time.Duration
	// StaleMax is the time for which expired records are still used when there is
	// no answer; 0 means 1 hour.
	StaleMax time.Duration
	// NoStale disables the use of expired records.
	NoStale bool

	// Policy selects the hosts and addresses that are used, and identifies our own.
	Policy route.Policy
	// Trusted are the nexthops that the operator configured, in canonical form
	// (route.Table.Nexthops). They may be at any address, and if they are not
	// found the mail waits, because the error is in the configuration. Nexthops
	// of a form that no recipient's address leads to are always trusted (route.Nexthop.Written).
	Trusted []string

	Logger *slog.Logger // nil: no log
	// Exchange carries messages to servers; nil means UDP and TCP sockets.
	Exchange Exchange
}

// WithDefaults sets the defaults of all fields, except where ResolvConf may.
func (c Config) WithDefaults() Config {
	c.ResolvConf = cmp.Or(c.ResolvConf, "/etc/resolv.conf")
	c.HostsFile = cmp.Or(c.HostsFile, "/etc/hosts")
	c.Deadline = cmp.Or(c.Deadline, 60*time.Second)
	c.Concurrency = cmp.Or(c.Concurrency, 200)
	c.Slow = cmp.Or(c.Slow, SlowFactor*c.Concurrency)
	c.CacheEntries = cmp.Or(c.CacheEntries, 20000)
	c.PositiveMin = cmp.Or(c.PositiveMin, 30*time.Second)
	c.PositiveMax = cmp.Or(c.PositiveMax, 24*time.Hour)
	c.NegativeMin = cmp.Or(c.NegativeMin, 30*time.Second)
	c.NegativeMax = cmp.Or(c.NegativeMax, time.Hour)
	c.FailureMin = cmp.Or(c.FailureMin, 5*time.Second)
	c.FailureMax = cmp.Or(c.FailureMax, 30*time.Second)
	c.StaleMax = cmp.Or(c.StaleMax, time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Exchange == nil {
		c.Exchange = exchange
	}
	return c
}

// Validate returns all errors of the configuration, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var wrong mistakes.List
	for _, s := range c.Servers {
		_, err := parseServer(s)
		wrong.Add(err)
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
		wrong.Unless(d.min >= 0 && d.max >= 0, "%s: must not be negative", d.name)
		wrong.Unless(d.min <= d.max || min(d.min, d.max) < 0, "%s: minimum %v is above maximum %v", d.name, d.min, d.max)
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"attempts", c.Attempts}, {"concurrency", c.Concurrency}, {"cache entries", c.CacheEntries},
		{"hosts", c.Policy.HostsMax}, {"addresses", c.Policy.AddressesMax},
	} {
		wrong.Unless(n.value >= 0, "%s: %d is negative", n.name, n.value)
	}
	for _, s := range c.Trusted {
		n, err := route.ParseNexthop(s)
		wrong.AddOf("trusted", err)
		wrong.Unless(err != nil || n.String() == s, "trusted: nexthop %q: the canonical form is %q", s, n)
	}
	return wrong.Join()
}

// BelievesAD reports whether the AD bit of the name servers is believed, as ResolvConf is now. If
// not, no host has TLSA records, as far as a Resolver knows.
func (c Config) BelievesAD() bool {
	c = c.WithDefaults()
	return parseSystem(c)(readSome(c.ResolvConf)).trustAD
}

// dnsPort is the port of name servers.
const dnsPort = 53

// parseServer parses "address", "address:port" or "[address]:port".
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
