package resolve

import (
	"context"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
)

// A RouterConfig says what a Router looks up. The zero RouterConfig looks
// nothing up.
type RouterConfig struct {
	// Transports are those whose nexthops are looked up, with how. Leave out one
	// that makes nothing of the DNS.
	Transports map[string]Lookups
	// VerdictPositive and VerdictNegative are for how long it is remembered that
	// mail can be sent to a nexthop, or cannot, for those who only want to know
	// that (Verify); 0 means 1 day and 1 hour. It outlives the records.
	VerdictPositive, VerdictNegative time.Duration
	// VerdictEntries is of how many nexthops; 0 means 20000.
	VerdictEntries int
}

// Lookups is how the nexthops of a transport are looked up.
type Lookups struct {
	// Sites lets domains with the same MX hosts share a site (route.Site). Leave
	// it out where destinations are to be counted by domain, as Postfix does.
	Sites bool
	// Fallback tells that there are relays for what cannot be found; so mail is
	// not refused because of that.
	Fallback bool
}

// WithDefaults fills in what is not set.
func (c RouterConfig) WithDefaults() RouterConfig {
	setDefault(&c.VerdictPositive, 24*time.Hour)
	setDefault(&c.VerdictNegative, time.Hour)
	setDefault(&c.VerdictEntries, 20000)
	return c
}

// A Router routes recipients by a table, and by what the DNS says of the
// nexthops that the table gives. Any number of goroutines may use it.
//
// Nothing is looked up for nexthops that the operator wrote down: if they cannot
// be found the mistake is ours, and mail waits for it to be mended in the queue
// of that nexthop, where it is seen.
type Router struct {
	table    *route.Table
	resolver *Resolver
	cfg      RouterConfig
	verdicts *cache[string, mail.Reply]
}

// NewRouter returns a router. Its look-ups end when the resolver is closed.
func NewRouter(t *route.Table, r *Resolver, c RouterConfig) *Router {
	c = c.WithDefaults()
	return &Router{table: t, resolver: r, cfg: c, verdicts: newStore[string, mail.Reply](c.VerdictEntries)}
}

// Route returns one route for each recipient, from memory: those that are not
// known to the end need a look-up.
func (r *Router) Route(recipients []mail.Recipient) []mail.Route {
	now := time.Now()
	routes := make([]mail.Route, len(recipients))
	for i := range recipients {
		routes[i] = r.route(recipients[i].Address, now)
	}
	return routes
}

func (r *Router) route(a mail.Address, now time.Time) mail.Route {
	to := r.table.Route(a)
	how, looksUp := r.cfg.Transports[to.Transport]
	if !looksUp || !to.Reply.IsZero() || !r.resolver.mayBeDomain(to.Nexthop) {
		return to
	}
	if v, _, ok := r.resolver.sets.get(to.Nexthop, now); ok {
		return how.complete(to, v)
	}
	n, err := route.ParseNexthop(to.Nexthop)
	to.NeedsLookup = err == nil && n.Form == route.FormDomain
	return to
}

// complete adds to a route what has been found out about its nexthop.
func (how Lookups) complete(to mail.Route, v verdict) mail.Route {
	switch {
	case !v.reply.IsZero() && !how.Fallback:
		to.Reply = v.reply
	case how.Sites:
		to.Site = v.site
	}
	return to
}

// Lookup completes a route that needs it. The hosts of the site are in memory
// when it returns, so that deliveries find them there. If ctx ends before, the
// route has a temporary reply.
func (r *Router) Lookup(ctx context.Context, transport, nexthop string) mail.Route {
	v := r.resolver.find(ctx, nexthop)
	r.remember(nexthop, v.reply)
	to := r.cfg.Transports[transport].complete(mail.Route{Transport: transport, Nexthop: nexthop}, v)
	if to.Site != "" {
		r.resolver.find(ctx, to.Site)
	}
	return to
}

// remember keeps a verdict, unless it may soon be another.
func (r *Router) remember(nexthop string, reply mail.Reply) {
	switch {
	case reply.IsZero():
		r.verdicts.enter(nexthop, reply, time.Now().Add(r.cfg.VerdictPositive))
	case reply.Permanent():
		r.verdicts.enter(nexthop, reply, time.Now().Add(r.cfg.VerdictNegative))
	}
}

// Verify is Route for somebody who only wants to know whether mail can be sent
// to an address: if the route needs no look-up, its Reply tells why not. It knows
// more nexthops than Route does, since it does not matter for it which hosts they
// have.
func (r *Router) Verify(a mail.Address) mail.Route {
	now := time.Now()
	to := r.route(a, now)
	if !to.NeedsLookup {
		return to
	}
	if reply, _, ok := r.verdicts.get(to.Nexthop, now); ok {
		to.NeedsLookup = false
		if !r.cfg.Transports[to.Transport].Fallback {
			to.Reply = reply
		}
	}
	return to
}

// mayBeDomain tells, as fast as it can, whether a nexthop may be a domain that
// somebody else than the operator has named.
func (r *Resolver) mayBeDomain(nexthop string) bool {
	return nexthop != "" && nexthop[0] != '[' && nexthop[0] != '{' && strings.IndexByte(nexthop, ',') < 0 && !r.trusted[nexthop]
}
