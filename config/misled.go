package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/shape"
	"github.com/posthaste-mta/posthaste/route"
)

// ways is the routing table, with and without the default route.
type ways struct {
	all      *route.Table // nil if the configuration is wrong, which checkPackages reports
	rules    *route.Table // without default_transport and relayhost
	nexthops []string     // of all
}

func newWays(c *Config) ways {
	cfg := c.Route()
	all, err := route.NewTable(cfg)
	if err != nil {
		return ways{}
	}
	cfg.DefaultTransport, cfg.Relayhost = "", ""
	rules, err := route.NewTable(cfg)
	if err != nil {
		return ways{}
	}
	return ways{all, rules, all.Nexthops()}
}

// misled warns of domains of a destination whose mail is routed elsewhere. Patterns
// are compared with the nexthop, not with the recipient's domain, so such a pattern
// never matches, and the limits do not protect the receiver.
func (w *warner) misled(key string, d *Destination) {
	if w.ways.all == nil {
		return
	}
	for _, pattern := range canonicalDomains(d.Domains) {
		matching, err := shape.NewTable([]shape.Destination{{Name: key, Domains: []string{pattern}}})
		if err != nil {
			continue // wrong patterns are reported elsewhere
		}
		recipient, whom := probe(pattern)
		to := w.ways.all.Route(recipient)
		if to.Reply.Code != 0 || matching.Names(to.Nexthop) || slices.ContainsFunc(w.ways.nexthops, matching.Names) {
			continue
		}
		w.about(key, "mail for %s goes to %s by %s, so this never matches; %s", whom, to.Nexthop, w.sender(recipient), instead(to.Nexthop, d))
	}
}

// probe returns a recipient that a domain pattern matches, and a description of all
// such recipients. For domains below another, it is one without a route of its own.
func probe(pattern string) (recipient mail.Address, whom string) {
	if strings.HasPrefix(pattern, ".") {
		return mail.Address("anybody@any-name-without-a-route" + pattern), "domains below " + pattern[1:]
	}
	return mail.Address("anybody@" + pattern), pattern
}

// sender returns the part of the configuration that sends a recipient's mail to
// another host than its domain's.
func (w *warner) sender(recipient mail.Address) string {
	if w.ways.rules.Route(recipient).Nexthop != recipient.Domain() {
		return "[" + tableRoutes + "]"
	}
	name, nexthop, _ := strings.Cut(w.c.DefaultTransport, ":")
	switch {
	case nexthop != "":
		return "default_transport"
	case w.c.RelayHost != "":
		return "relayhost"
	}
	return fullName(transportTable(name), "nexthop")
}

// instead returns the pattern that matches the actual receiver, as advice.
func instead(nexthop string, d *Destination) string {
	all, err := route.ParseNexthops(nexthop)
	if err != nil || len(all) == 0 {
		return "remove it"
	}
	first := all[0]
	if first.Form != route.FormAddress {
		return fmt.Sprintf("write domains = [%s]", tomlfile.QuoteText(first.Name))
	}
	if slices.ContainsFunc(d.Networks, func(p netip.Prefix) bool { return p.Contains(first.Addr) }) {
		return "remove it: networks has that address"
	}
	return fmt.Sprintf("write networks = [%s]", tomlfile.QuoteText(first.Addr.String()))
}
