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

// ways is where mail goes.
type ways struct {
	all      *route.Table // nil if the configuration is wrong, which checkPackages tells
	rules    *route.Table // without what holds for the mail that has no route
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

// misled looks for domains of a destination whose mail goes elsewhere: patterns are
// compared with where mail goes, not with whom it is for, so that such a one never
// matches, and the receiver gets what the limits were to spare it.
func (w *warner) misled(key string, d *Destination) {
	if w.ways.all == nil {
		return
	}
	for _, pattern := range canonicalDomains(d.Domains) {
		matching, err := shape.NewTable([]shape.Destination{{Name: key, Domains: []string{pattern}}})
		if err != nil {
			continue // wrong patterns are complained of elsewhere
		}
		recipient, whom := probe(pattern)
		to := w.ways.all.Route(recipient)
		if to.Reply.Code != 0 || matching.Names(to.Nexthop) || slices.ContainsFunc(w.ways.nexthops, matching.Names) {
			continue
		}
		w.about(key, "mail for %s goes to %s by %s, so this never matches; %s", whom, to.Nexthop, w.sender(recipient), instead(to.Nexthop, d))
	}
}

// probe returns a recipient that a domain pattern is about, and a name for all of
// these. Of domains below another it is one that has no route of its own.
func probe(pattern string) (recipient mail.Address, whom string) {
	if strings.HasPrefix(pattern, ".") {
		return mail.Address("anybody@any-name-without-a-route" + pattern), "domains below " + pattern[1:]
	}
	return mail.Address("anybody@" + pattern), pattern
}

// sender returns which part of the configuration sends a recipient's mail to a host
// that is not its domain's.
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

// instead says what names the receiver that mail goes to in fact.
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
