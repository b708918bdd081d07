package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A Destination has limits for some receivers that replace those of the
// transport. Its patterns are kept as written in the file.
type Destination struct {
	Domains  []string
	MX       []string
	Networks []netip.Prefix
	Limits   shape.Limits
	// Security is the level of its TLS policy, which replaces all of the transport's; Match
	// and Fingerprints belong to it, and are as written.
	Security            shape.Opt[tlspolicy.Level]
	Match, Fingerprints []string
}

// destinationParameters is the table of the parameters of [destination.NAME].
var destinationParameters = allDestinationParameters()

func allDestinationParameters() []parameter[Destination] {
	return slices.Concat([]parameter[Destination]{
		define("domains", list(receiverDomain(), "domains"), func(d *Destination) *[]string { return &d.Domains }, nil,
			"The destination domains that these limits apply to, where \".example.com\" stands for all domains below example.com; mail that a route or relayhost sends elsewhere is matched by that host instead.",
			"Set it for a receiver that has few domains."),
		define("mx", list(mxPattern(), "patterns"), func(d *Destination) *[]string { return &d.MX }, nil,
			"The names of the hosts that these limits apply to, where \".example.com\" stands for all names below example.com and a star for any characters.",
			"Set it for a provider that receives mail for many domains."),
		define("networks", list(receiverNetwork(), "networks"), func(d *Destination) *[]netip.Prefix { return &d.Networks }, nil,
			"The host addresses that these limits apply to.",
			"Set it if a provider's hosts have many unrelated names."),
	}, destinationLimits(), []parameter[Destination]{
		replacing("tls_security_level", opt(securityLevel()), func(d *Destination) *shape.Opt[tlspolicy.Level] { return &d.Security }),
		replacing("tls_match", list(certificateName(), "names"), func(d *Destination) *[]string { return &d.Match }),
		replacing("tls_fingerprints", list(fingerprint(), "digests"), func(d *Destination) *[]string { return &d.Fingerprints }),
	})
}

func destinationLimits() []parameter[Destination] {
	count := integer(limit[int]{min: 1, max: 1_000_000})
	return []parameter[Destination]{
		limitAs("initial_destination_concurrency", count, func(l *shape.Limits) *shape.Opt[int] { return &l.InitialConcurrency }),
		limitAs("destination_concurrency_limit", counting("no limit"), func(l *shape.Limits) *shape.Opt[int] { return &l.ConcurrencyLimit }),
		limitAs("destination_host_concurrency_limit", counting("no limit"), func(l *shape.Limits) *shape.Opt[int] { return &l.HostConcurrencyLimit }),
		limitAs("destination_recipient_limit", counting("no limit"), func(l *shape.Limits) *shape.Opt[int] { return &l.RecipientLimit }),
		limitAs("destination_rate", rates(), func(l *shape.Limits) *shape.Opt[rate.Limits] { return &l.Rate }),
		limitAs("destination_rate_delay", pausing(), func(l *shape.Limits) *shape.Opt[time.Duration] { return &l.RateDelay }),
		limitAs("connection_rate", rates(), func(l *shape.Limits) *shape.Opt[rate.Limits] { return &l.ConnectionRate }),
		limitAs("connection_reuse_time_limit", carryingTime(), func(l *shape.Limits) *shape.Opt[time.Duration] { return &l.ReuseTimeLimit }),
		limitAs("connection_reuse_count_limit", carryingCount(), func(l *shape.Limits) *shape.Opt[int] { return &l.ReuseCountLimit }),
		limitAs("pipelining", levels(), func(l *shape.Limits) *shape.Opt[mail.Level] { return &l.Level }),
	}
}

// limitAs defines the limit that replaces the transport's parameter of the same
// name.
func limitAs[T any](name string, k kind[T], field func(*shape.Limits) *shape.Opt[T]) parameter[Destination] {
	return replacing(name, opt(k), func(d *Destination) *shape.Opt[T] { return field(&d.Limits) })
}

// replacing defines a parameter that replaces the transport's of the same name.
func replacing[T any](name string, k kind[T], field func(*Destination) *T) parameter[Destination] {
	i := slices.IndexFunc(transportParameters, func(p parameter[Transport]) bool { return p.name == name })
	as := transportParameters[i]
	var none T
	p := define(name, k, field, none, as.meaning, as.change)
	p.global = name
	return p
}

// destinationTable returns the full name of a destination's table.
func destinationTable(name string) string { return tableDestination + "." + tomlfile.QuoteKey(name) }

// destinations creates the destinations that the file defines.
func (l *loader) destinations(all *tomlfile.Entry) {
	if all == nil {
		return
	}
	t := l.asTable(all, tableDestination)
	if t == nil {
		return
	}
	tables := l.namedTables(tableDestination, t)
	for _, e := range t.Entries { // in the file's order, so that the second of two duplicates is reported
		if tables[e.Name] == nil {
			continue
		}
		var d Destination
		table := destinationTable(e.Name)
		for _, one := range tables[e.Name].Entries {
			l.setDestination(table, &d, one)
		}
		l.c.Destinations[e.Name] = d
		l.note(table, tables[e.Name].At)
		l.checkPatterns(e, &d)
	}
}

func (l *loader) setDestination(table string, d *Destination, e *tomlfile.Entry) {
	key := fullName(table, e.Name)
	for _, p := range destinationParameters {
		if p.name == e.Name {
			apply(l, p, d, key, e)
			return
		}
	}
	l.unknown(key, tableDestination, e)
}

// checkPatterns complains about a destination without patterns, and about
// patterns that another destination already has.
func (l *loader) checkPatterns(e *tomlfile.Entry, d *Destination) {
	table := destinationTable(e.Name)
	given := false
	for _, of := range []struct {
		name     string
		patterns []string
	}{{"domains", canonicalDomains(d.Domains)}, {"mx", canonicalMXs(d.MX)}, {"networks", prefixes(d.Networks)}} {
		key := fullName(table, of.name)
		given = given || len(of.patterns) > 0 || l.failed[key]
		for _, pattern := range of.patterns {
			l.claim(e.Name, key, of.name+" "+pattern, pattern)
		}
	}
	if !given && !l.broken {
		l.src.Complain(e.Value.Table.At, tomlfile.Problem{
			Key: table, Message: "this destination names no receivers", Hint: `add domains, mx or networks, such as mx = [".example.net"]`,
		})
	}
}

func (l *loader) claim(owner, key, what, pattern string) {
	if l.patterns == nil {
		l.patterns = make(map[string]string)
	}
	first, taken := l.patterns[what]
	switch {
	case !taken:
		l.patterns[what] = owner
	case first == owner:
		l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: pattern + " is in the list twice", Hint: "remove one of them"})
	default:
		l.src.Complain(l.places[key], tomlfile.Problem{Key: key, Message: fmt.Sprintf("%s is also in [%s]", pattern, destinationTable(first)), Hint: "remove one of them"})
	}
}

func canonicalDomains(written []string) []string {
	all := make([]string, len(written))
	for i, s := range written {
		all[i], _ = canonicalDomain(s) // checked when the file was read
	}
	return all
}

func canonicalMXs(written []string) []string {
	all := make([]string, len(written))
	for i, s := range written {
		if all[i] = canonicalMX(s); strings.HasPrefix(all[i], ".") {
			all[i] = "*" + all[i]
		}
	}
	return all
}

func prefixes(networks []netip.Prefix) []string {
	all := make([]string, len(networks))
	for i, p := range networks {
		all[i] = p.String()
	}
	return all
}

// Shapes returns the destinations for package shape.
func (c *Config) Shapes() []shape.Destination {
	var all []shape.Destination
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		d := c.Destinations[name]
		all = append(all, shape.Destination{
			Name: name, Domains: canonicalDomains(d.Domains), MX: canonicalMXs(d.MX), Networks: d.Networks, Limits: d.Limits,
		})
	}
	return all
}
