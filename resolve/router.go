package resolve

import (
	"context"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
)

// A RouterConfig says what is looked up while recipients are routed. The zero
// RouterConfig looks nothing up.
type RouterConfig struct {
	// SiteTransports are the transports whose nexthops are replaced by their
	// sites (route.Site), so that domains with the same MX hosts share a queue.
	// Leave out a transport whose destinations are to be counted by domain, as
	// Postfix does.
	SiteTransports []string
	// Patience is how long a batch waits for the DNS; a domain that is not known
	// by then is its own nexthop. 0 means 5 s.
	Patience time.Duration
	// Concurrency is how many domains of a batch are looked up at once; 0 means 20.
	Concurrency int
}

// WithDefaults fills in what is not set.
func (c RouterConfig) WithDefaults() RouterConfig {
	setDefault(&c.Patience, 5*time.Second)
	setDefault(&c.Concurrency, 20)
	return c
}

// A Router routes recipients by a table and then finds their sites. In passing
// it looks up the sites' hosts, so that deliveries find them in memory. Any
// number of goroutines may use it.
type Router struct {
	table    *route.Table
	resolver *Resolver
	cfg      RouterConfig
	sites    map[string]bool
}

// NewRouter returns a router.
func NewRouter(t *route.Table, r *Resolver, c RouterConfig) *Router {
	router := &Router{table: t, resolver: r, cfg: c.WithDefaults(), sites: make(map[string]bool)}
	for _, name := range c.SiteTransports {
		router.sites[name] = true
	}
	return router
}

// Route returns one route for each recipient.
func (r *Router) Route(ctx context.Context, recipients []mail.Recipient) []mail.Route {
	routes := make([]mail.Route, len(recipients))
	domains := make(map[string]string) // to their sites
	for i, rcpt := range recipients {
		routes[i] = r.table.Route(rcpt.Address)
		if routes[i].Reply.IsZero() && r.sites[routes[i].Transport] {
			domains[routes[i].Nexthop] = routes[i].Nexthop
		}
	}
	if len(domains) == 0 {
		return routes
	}
	r.findSites(ctx, domains)
	for i := range routes {
		if site, ok := domains[routes[i].Nexthop]; ok && r.sites[routes[i].Transport] {
			routes[i].Nexthop = site
		}
	}
	return routes
}

// findSites sets the value of every key to its site.
func (r *Router) findSites(ctx context.Context, domains map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Patience)
	defer cancel()
	var mu sync.Mutex // guards domains
	var all sync.WaitGroup
	todo := make(chan string, len(domains))
	for domain := range domains {
		todo <- domain
	}
	close(todo)
	for range min(r.cfg.Concurrency, len(domains)) {
		all.Go(func() {
			for domain := range todo {
				site := r.resolver.Site(ctx, domain)
				r.resolver.Hosts(ctx, site)
				mu.Lock()
				domains[domain] = site
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// Site returns the nexthop of the site that serves a nexthop: the nexthop
// itself if it is not a domain, has no MX records, or is the operator's own.
func (r *Resolver) Site(ctx context.Context, nexthop string) string {
	n, err := route.ParseNexthop(nexthop)
	if err != nil || n.Form != route.FormDomain || r.isTrusted(n) {
		return nexthop
	}
	rec, _ := r.lookup(ctx, question{n.Name, dns.TypeMX})
	site, ok := route.Site(rec.mx)
	if !ok {
		return nexthop
	}
	site.Port = n.Port
	return site.String()
}
