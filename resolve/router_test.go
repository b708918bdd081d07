package resolve

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

const testSite = "{mx1.example.com;mx2.example.com}"

// router returns a router in a world with a transport that looks sites up, one
// that does so and has relays for what cannot be found, one that goes by domain,
// and one that looks nothing up.
func (w *world) router(t testing.TB, c Config) *Router {
	t.Helper()
	c.Trusted = []string{"sister.example"}
	table, err := route.NewTable(route.Config{Rules: []string{
		"trusted.example smtp:sister.example", "port.example smtp:example.com:26", "relayed.example relayed:gone.example",
		"domain.example single:example.com", "slow.example slow:", "no.example error:5.1.6 moved",
		"list.example smtp:bare.example,[mx1.example.com]", "socket.example smtp:unix:/run/lmtp"}})
	if err != nil {
		t.Fatal(err)
	}
	return NewRouter(table, w.resolver(t, c), RouterConfig{Transports: map[string]Lookups{
		"smtp": {Sites: true}, "relayed": {Sites: true, Fallback: true}, "single": {}}})
}

// routeOf writes a route as "transport nexthop site status".
func routeOf(r mail.Route) string {
	status := r.Reply.Status.String()
	if r.NeedsLookup {
		status = "?"
	}
	return fmt.Sprintf("%s %s %s %s", r.Transport, r.Nexthop, r.Site, status)
}

// Whatever is demanded of other connections, a unix socket needs none of it, since no third party can be between; a
// level that needs a domain does not keep its mail.
func TestSocketsAreNotSecured(t *testing.T) {
	w := newWorld(t, zone)
	table, err := route.NewTable(route.Config{Rules: []string{"boxes.example lmtp:unix:/run/dovecot/lmtp", "comma.example lmtp:unix:/run/a,b"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tlspolicy.Levels() {
		level, _ := tlspolicy.ParseLevel(name)
		security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"lmtp": {Level: level, Implicit: level.Encrypts()}}, []tlspolicy.Rule{{Domains: []string{"boxes.example"}, Policy: tlspolicy.Policy{Level: tlspolicy.Secure}}})
		if err != nil {
			t.Fatal(err)
		}
		router := NewRouter(table, w.resolver(t, Config{}), RouterConfig{Security: security, Transports: map[string]Lookups{"lmtp": {Sites: true}}})
		for _, asked := range []mail.TLSRequest{mail.TLSUnset, mail.TLSRequired, mail.TLSWanted, mail.TLSOptional} {
			for _, to := range router.RouteFrom("", asked, []mail.Recipient{{Address: "a@boxes.example"}, {Address: "a@comma.example"}}) {
				if to.Security != "" || !to.Reply.IsZero() || to.NeedsLookup {
					t.Errorf("%s, %v: %+v", name, asked, to)
				}
			}
		}
	}
}

// The complete course of a route: first from the cache, where only the nexthops and
// addresses that the operator configured are completely known; then by a lookup; and
// then from the cache again, without another question to the DNS.
func TestRouter(t *testing.T) {
	tests := []struct {
		address     mail.Address
		first, last string // last "": first was complete
	}{
		{"a@example.com", "smtp example.com  ?", "smtp example.com " + testSite + " "},
		{"a@Alias.Example", "smtp alias.example  ?", "smtp alias.example " + testSite + " "},
		{"a@port.example", "smtp example.com:26  ", ""},
		{"a@bare.example", "smtp bare.example  ?", "smtp bare.example  "},
		{"a@gone.example", "smtp gone.example  ?", "smtp gone.example  5.1.2"},
		{"a@null.example", "smtp null.example  ?", "smtp null.example  5.1.10"},
		{"a@empty.example", "smtp empty.example  ?", "smtp empty.example  5.4.4"},
		{"a@servfail.example", "smtp servfail.example  ?", "smtp servfail.example  4.4.3"},
		{"a@relayed.example", "relayed gone.example  ?", "relayed gone.example  "},
		{"a@domain.example", "single example.com  ?", "single example.com  "},
		{"a@trusted.example", "smtp sister.example  ", ""},
		{"a@slow.example", "slow slow.example  ", ""},
		{"a@[198.51.100.1]", "smtp [198.51.100.1]  ", ""},
		{"a@no.example", "error no.example  5.1.6", ""},
		{"a@list.example", "smtp bare.example,[mx1.example.com]  ", ""},
		{"a@socket.example", "smtp unix:/run/lmtp  ", ""},
	}
	for _, c := range tests {
		t.Run(string(c.address), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, zone)
				w.rcodes["servfail.example."] = 2
				router := w.router(t, Config{})
				defer router.resolver.Close()
				to := router.Route([]mail.Recipient{{Address: c.address}})[0]
				if got := routeOf(to); got != c.first {
					t.Errorf("from memory %q, want %q", got, c.first)
				}
				if asked := w.questions(); len(asked) > 0 {
					t.Errorf("asked %q before a lookup", asked)
				}
				if !to.NeedsLookup {
					return
				}
				if got := routeOf(router.Lookup(t.Context(), to, mail.TLSUnset)); got != c.last {
					t.Errorf("by a lookup %q, want %q", got, c.last)
				}
				w.questions()
				again := router.Route([]mail.Recipient{{Address: c.address}})[0]
				if got := routeOf(again); got != c.last {
					t.Errorf("from memory again %q, want %q", got, c.last)
				}
				if again.Site != "" {
					if set, reply := router.resolver.Hosts(t.Context(), again.Site); len(set.Tiers) != 2 || len(w.questions()) != 0 {
						t.Errorf("the site's hosts were not in memory: %s", show(set, reply))
					}
				}
			})
		})
	}
}

// A nexthop that an operator has ordered is the operator's: mail waits until it is right, goes to any address, and has the credentials
// of what is configured. Mail that an order leads to its own domain is refused as without it.
func TestOrderedNexthops(t *testing.T) {
	later := mail.Status{Class: 4, Subject: 3, Detail: 5}
	for _, c := range []struct {
		target string
		want   mail.Status // of the reply when it is looked up; zero: it has hosts
	}{
		{"smtp:gone.example:587", later},
		{"smtp:null.example:25", later},
		{"smtp:[gone.example]", later},
		{"smtp:[203.0.113.1]:25", later}, // ourselves
		{"smtp:{gone.example}:25", later},
		{"smtp:gone.example:25,gone2.example:25", later},
		{"smtp:private.example:25", mail.Status{}},
		{"smtp:[10.1.1.1]:25", mail.Status{}},
		{"smtp:", mail.Status{Class: 5, Subject: 1, Detail: 2}},
	} {
		t.Run(c.target, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, zone)
				router := w.router(t, Config{Policy: route.Policy{Self: self}})
				defer router.resolver.Close()
				router.cfg.Credential = func(_ string, configured bool, _ mail.Address) string { return fmt.Sprint(configured) }
				recipient := mail.Recipient{Address: "a@gone.example", Ordered: &mail.OrderedRoute{Target: c.target}}
				to := router.Route([]mail.Recipient{recipient})[0]
				own := c.target == "smtp:"
				if list := strings.Contains(c.target, ","); to.NeedsLookup != own || !to.Reply.IsZero() || !own && !list && !strings.HasSuffix(to.Security, "auth=true") {
					t.Errorf("%+v", to)
				}
				if _, reply := router.resolver.Hosts(t.Context(), to.Nexthop); reply.Status != c.want {
					t.Errorf("%+v: %+v, want %v", to, reply, c.want)
				}
			})
		})
	}
}

// A domain that moves has another site, and the text of the old one still leads to
// the old hosts.
func TestSiteOutlivesItsRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		router := w.router(t, Config{})
		defer router.resolver.Close()
		old := router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: "example.com"}, mail.TLSUnset).Site
		before := show(router.resolver.Hosts(t.Context(), old))
		delete(w.rrs, "example.com.")
		w.add(t, "example.com. 300 IN MX 10 host.alias.example.")
		time.Sleep(time.Hour)
		if now := router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: "example.com"}, mail.TLSUnset).Site; now != "{host.alias.example}" {
			t.Errorf("the domain's site is %q", now)
		}
		if after := show(router.resolver.Hosts(t.Context(), old)); after != before {
			t.Errorf("the old site led to %s, and now to %s", before, after)
		}
	})
}

// When the name servers are gone a lookup ends at the resolver's deadline or at its
// caller's; it returns a temporary reply that does not count against the domain.
func TestLookupEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		w.set("192.0.2.53", silent)
		w.set("192.0.2.54", silent)
		router := w.router(t, Config{Deadline: 7 * time.Second})
		defer router.resolver.Close()
		start := time.Now()
		to := router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: "example.com"}, mail.TLSUnset)
		if took := time.Since(start); routeOf(to) != "smtp example.com  4.4.3" || took != 7*time.Second {
			t.Errorf("%q after %v", routeOf(to), took)
		}
		if v := router.Verify("", "a@example.com"); v.Reply.Status.String() != "4.4.3" {
			t.Errorf("the failure is not known: %q", routeOf(v))
		}
		time.Sleep(time.Minute)
		if v := router.Verify("", "a@example.com"); !v.NeedsLookup {
			t.Errorf("the failure is remembered: %q", routeOf(v))
		}
	})
}

// Verdicts outlive records: a positive one is used for a day, a negative one for an
// hour; after that there is no verdict.
func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		router := w.router(t, Config{})
		defer router.resolver.Close()
		router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: "example.com"}, mail.TLSUnset)
		router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: "gone.example"}, mail.TLSUnset)
		status := func(a mail.Address) string { return routeOf(router.Verify("", a)) }
		start := time.Now()
		for _, c := range []struct {
			at         time.Duration
			good, gone string
		}{
			{59 * time.Minute, "smtp example.com  ", "smtp gone.example  5.1.2"},
			{61 * time.Minute, "smtp example.com  ", "smtp gone.example  ?"},
			{24*time.Hour - time.Minute, "smtp example.com  ", "smtp gone.example  ?"},
			{24*time.Hour + time.Minute, "smtp example.com  ?", "smtp gone.example  ?"},
		} {
			time.Sleep(time.Until(start.Add(c.at)))
			if good, gone := status("a@example.com"), status("a@gone.example"); good != c.good || gone != c.gone {
				t.Errorf("after %v: %q and %q, want %q and %q", c.at, good, gone, c.good, c.gone)
			}
		}
		if got := status("a@no.example"); got != "error no.example  5.1.6" {
			t.Errorf("an address that a rule refuses: %q", got)
		}
	})
}

// A client that names domains in large numbers does not fill the memory.
func TestVerdictsAreBounded(t *testing.T) {
	w := newWorld(t, zone)
	router := w.router(t, Config{CacheEntries: 50})
	router.verdicts.max = 10
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			for i := range 10 {
				router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: fmt.Sprintf("d%d-%d.gone.example", n, i)}, mail.TLSUnset)
			}
		})
	}
	all.Wait()
	if n := router.verdicts.len(); n != 10 {
		t.Errorf("%d verdicts are remembered, want 10", n)
	}
	if s := router.resolver.Stats(); s.Nexthops > 50 || s.Records > 50 {
		t.Errorf("%d nexthops and %d records are remembered, at most 50 each are wanted", s.Nexthops, s.Records)
	}
}

// Routes from memory are part of every message's way: about 0.3 µs each.
func BenchmarkRouteFromMemory(b *testing.B) {
	w := newWorld(b, zone)
	router := w.router(b, Config{})
	router.Lookup(b.Context(), mail.Route{Transport: "smtp", Nexthop: "example.com"}, mail.TLSUnset)
	list := []mail.Recipient{{Address: "someone@example.com"}}
	b.ReportAllocs()
	for b.Loop() {
		if router.Route(list)[0].NeedsLookup {
			b.Fatal("it is not in memory")
		}
	}
}
