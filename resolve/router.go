package resolve

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A RouterConfig determines which lookups a Router makes. With the zero
// RouterConfig it makes none.
type RouterConfig struct {
	// Transports are the transports whose nexthops are looked up, and how. Omit
	// transports that do not use the DNS.
	Transports map[string]Lookups
	// VerdictPositive and VerdictNegative are the times for which Verify remembers
	// that mail can or cannot be sent to a nexthop; 0 means 1 day and 1 hour. Such a
	// verdict outlives the DNS records.
	VerdictPositive, VerdictNegative time.Duration
	// Security says what mail demands of the security of connections (default: TLS if the
	// server offers it).
	Security *tlspolicy.Table
	// STS finds MTA-STS policies, for transports and domains whose level is mta-sts
	// (default: no domain has one).
	STS STSFinder
	// Credential returns the label of the credential by which we authenticate to the servers of a
	// nexthop for mail of a sender, or "" (default: there is none). Configured means that the operator has
	// written the nexthop; the sender is that of RouteFrom.
	Credential func(nexthop string, configured bool, sender mail.Address) string
	// VerdictEntries is the maximum number of remembered verdicts; 0 means 20000.
	VerdictEntries int
}

// An STSFinder finds the MTA-STS policies of domains (RFC 8461). It is called concurrently.
type STSFinder interface {
	// Enforced returns the patterns of the MX hosts that a domain's policy names, if the domain
	// has a policy in mode enforce. It may take long. If ctx ends first, that is an error: it is
	// not known yet whether there is a policy, and the search goes on.
	Enforced(ctx context.Context, domain string) (mx []string, enforced bool, err error)
}

// Lookups determines how the nexthops of a transport are looked up.
type Lookups struct {
	// Sites lets domains with the same MX hosts share a site (route.Site). Leave it
	// false where destinations are counted by domain, as in Postfix.
	Sites bool
	// Fallback means that there are relays for domains that are not found, so that
	// mail is not refused because of that.
	Fallback bool
	// Unrequired means that REQUIRETLS is not demanded of the servers (RFC 8689).
	Unrequired bool
}

// WithDefaults sets the defaults of all fields that are zero.
func (c RouterConfig) WithDefaults() RouterConfig {
	c.VerdictPositive = cmp.Or(c.VerdictPositive, 24*time.Hour)
	c.VerdictNegative = cmp.Or(c.VerdictNegative, time.Hour)
	c.VerdictEntries = cmp.Or(c.VerdictEntries, 20000)
	return c
}

// A Router routes recipients by a table, and by the DNS records of the nexthops
// that the table yields. It is safe for concurrent use.
//
// Nexthops that the operator configured are not looked up: if they are not found
// the error is in the configuration, and mail waits for its correction in the queue
// of that nexthop, where it is visible.
type Router struct {
	table    *route.Table
	resolver *Resolver
	cfg      RouterConfig
	verdicts *cache[string, mail.Reply]
	policies *cache[string, stsPolicy] // of domains that were looked up lately
}

// NewRouter returns a router. Closing the resolver cancels its lookups.
func NewRouter(t *route.Table, r *Resolver, c RouterConfig) *Router {
	c = c.WithDefaults()
	return &Router{table: t, resolver: r, cfg: c, verdicts: newStore[string, mail.Reply](c.VerdictEntries),
		policies: newStore[string, stsPolicy](c.VerdictEntries)}
}

// Route is RouteFrom without regard to the sender.
func (r *Router) Route(recipients []mail.Recipient) []mail.Route {
	return r.RouteFrom("", mail.TLSUnset, recipients)
}

// RouteFrom returns one route for each recipient of mail of a sender from the cache; "<>" is the
// null sender, and "" means that no route depends on it. Asked is what the mail asks of its way.
// Routes that are not completely known need a lookup. A recipient for whom an operator has ordered a route takes that; what
// is demanded of connections there is what is demanded of others that lead there, for the mail's wishes too.
func (r *Router) RouteFrom(sender mail.Address, asked mail.TLSRequest, recipients []mail.Recipient) []mail.Route {
	now := time.Now()
	routes := make([]mail.Route, len(recipients))
	for i := range recipients {
		one := &recipients[i]
		if one.Ordered != nil {
			routes[i] = r.follow(r.table.Ordered(one.Ordered.Target, one.Address), sender, asked, now)
			continue
		}
		routes[i] = r.route(sender, asked, one.Address, now)
	}
	return routes
}

func (r *Router) route(sender mail.Address, asked mail.TLSRequest, a mail.Address, now time.Time) mail.Route {
	return r.follow(r.table.RouteFrom(sender, a), sender, asked, now)
}

// follow adds what is known of the nexthop to a route of the table.
func (r *Router) follow(to mail.Route, sender mail.Address, asked mail.TLSRequest, now time.Time) mail.Route {
	how, looksUp := r.cfg.Transports[to.Transport]
	if !looksUp || !to.Reply.IsZero() {
		return to
	}
	whom := r.receiver(&to, asked, r.credential(to.Nexthop, sender))
	if !r.resolver.mayBeDomain(to.Nexthop) && !r.wantsMX(to.Nexthop, whom) {
		return r.named(to, whom)
	}
	v, _, ok := r.resolver.sets.get(to.Nexthop, now)
	sts, known := r.knownPolicy(to.Nexthop, whom, now)
	if ok && known {
		return r.complete(how, to, whom, v, sts)
	}
	n, err := route.ParseNexthop(to.Nexthop)
	if to.NeedsLookup = err == nil && n.Form == route.FormDomain; !to.NeedsLookup {
		return r.named(to, whom)
	}
	to.Credential = whom.credential
	return to
}

// credential returns the name of the credential for mail of a sender to a nexthop, or "".
func (r *Router) credential(nexthop string, sender mail.Address) string {
	if r.cfg.Credential == nil {
		return ""
	}
	return r.cfg.Credential(nexthop, r.resolver.trusts(nexthop), sender)
}

// complete adds the result of a lookup to a route.
func (r *Router) complete(how Lookups, to mail.Route, whom receiver, v verdict, sts stsPolicy) mail.Route {
	switch {
	case r.resolver.trusts(to.Nexthop):
	case !v.reply.IsZero() && !how.Fallback:
		to.Reply = v.reply
		return to
	case how.Sites && whom.credential == "": // a site's name does not say whom a password is for
		to.Site = v.site
	}
	if sts.enforced && to.Site != "" {
		to.Site = route.KeepHosts(to.Site, sts.names)
		sts.mx = route.HostsOf(to.Site)
	} else {
		sts.mx = sts.few(&v.set)
	}
	if sts.enforced && len(sts.mx) == 0 {
		to.Reply = notNamed(to.Nexthop)
		return to
	}
	secure := v.secure || whom.asked == mail.TLSRequired && !v.reply.IsZero() // then it goes to relays that the operator has named
	to = r.secured(to, whom, tlspolicy.Nexthop{Domain: whom.domain, SecureMX: secure, Enforced: sts.enforced, MX: sts.mx})
	if whom.namesFromDNS() && to.Reply.Permanent() && !sts.again.IsZero() {
		to.Reply.Code, to.Reply.Status.Class = 451, 4 // there may be a policy
	}
	return to
}

// wantsMX reports whether a domain that the operator has written must be looked up because of
// its level: it counts whether its MX records are protected, or which of its hosts a policy names.
func (r *Router) wantsMX(nexthop string, whom receiver) bool {
	level := whom.policy.Level
	return (level == tlspolicy.DANEOnly || level == tlspolicy.STS || whom.namesFromDNS()) && r.resolver.trusts(nexthop)
}

// named completes a route whose nexthop the operator has written. No DNS answer chooses the
// host.
func (r *Router) named(to mail.Route, whom receiver) mail.Route {
	if strings.HasPrefix(to.Nexthop, mail.SocketPrefix) {
		return to // no network is between its ends
	}
	return r.secured(to, whom, tlspolicy.Nexthop{Domain: whom.domain, SecureMX: true})
}

// secured adds what is demanded of connections for a route.
func (r *Router) secured(to mail.Route, whom receiver, nexthop tlspolicy.Nexthop) mail.Route {
	demand, why := whom.demand(nexthop)
	demand.Credential = whom.credential
	to.Security = demand.String()
	if !why.IsZero() {
		to.Reply, to.Site, to.Security = why, "", ""
	}
	return to
}

// demand returns what is demanded for a nexthop.
func (to *receiver) demand(nexthop tlspolicy.Nexthop) (tlspolicy.Demand, mail.Reply) {
	if to.asked == mail.TLSRequired {
		return to.policy.Required(nexthop)
	}
	d, why := to.policy.For(nexthop)
	if to.asked == mail.TLSWanted && why.IsZero() {
		if _, no := to.policy.Asked(mail.TLSRequired).Required(nexthop); no.IsZero() {
			d.Keyword = tlspolicy.KeywordWanted
		}
	}
	return d, why
}

// Lookup completes a route that needs it, for mail that asks something of its way; Transport, Nexthop and
// Credential of the route count. When it returns, the hosts of the site
// are in the cache, so that deliveries find them there. If ctx ends first, the
// route has a temporary reply.
func (r *Router) Lookup(ctx context.Context, to mail.Route, asked mail.TLSRequest) mail.Route {
	v := r.resolver.find(ctx, to.Nexthop)
	r.remember(to.Nexthop, v.reply)
	whom := r.receiver(&to, asked, to.Credential)
	to = mail.Route{Transport: to.Transport, Nexthop: to.Nexthop}
	to = r.complete(r.cfg.Transports[to.Transport], to, whom, v, r.policy(ctx, to.Nexthop, whom))
	if to.Site != "" {
		r.resolver.find(ctx, to.Site)
	}
	return to
}

// remember stores a verdict, unless it may change soon.
func (r *Router) remember(nexthop string, reply mail.Reply) {
	switch {
	case reply.IsZero():
		r.verdicts.enter(nexthop, reply, time.Now().Add(r.cfg.VerdictPositive))
	case reply.Permanent():
		r.verdicts.enter(nexthop, reply, time.Now().Add(r.cfg.VerdictNegative))
	}
}

// Verify is like RouteFrom, for a caller that only needs to know whether mail can be
// sent to an address: if the route needs no lookup, its Reply is the reason why it
// cannot, or zero. Verify remembers more nexthops than Route, because it does not
// need their hosts. For that reason the route is no way for mail or a call-out: it may
// lack Site and Security. Route has them, or asks for a lookup.
func (r *Router) Verify(sender, a mail.Address) mail.Route {
	now := time.Now()
	to := r.route(sender, mail.TLSUnset, a, now)
	if !to.NeedsLookup {
		return to
	}
	if reply, _, ok := r.verdicts.get(to.Nexthop, now); ok {
		to.NeedsLookup, to.Credential = false, ""
		if !r.cfg.Transports[to.Transport].Fallback {
			to.Reply = reply
		}
	}
	return to
}

// mayBeDomain reports, as fast as possible, whether a nexthop may be a domain that
// the operator has not written.
func (r *Resolver) mayBeDomain(nexthop string) bool {
	return nexthop != "" && nexthop[0] != '[' && nexthop[0] != '{' && !strings.ContainsAny(nexthop, ",:") && !r.trusted[nexthop]
}
