package resolve

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A finder has the policies of some domains.
type finder struct {
	enforced map[string][]string
	slow     map[string]bool // does not answer before ctx ends
	asked    []string
}

func (f *finder) Enforced(ctx context.Context, domain string) ([]string, bool) {
	f.asked = append(f.asked, domain)
	if f.slow[domain] {
		<-ctx.Done()
		return nil, false
	}
	mx, ok := f.enforced[domain]
	return mx, ok
}

// What routes demand of connections, at first from the cache, and after a lookup. Hosts that an
// enforced policy does not name are left out of the site; where there is none, the patterns are
// in the demand.
func TestSecurityOfRoutes(t *testing.T) {
	w := newWorld(t, zone)
	w.add(t, `
		one.example.    300 IN MX 10 mx1.example.com.
		one.example.    300 IN MX 20 mx2.example.com.
		other.example.  300 IN MX 10 mx2.example.com.
	`)
	f := &finder{enforced: map[string][]string{"one.example": {"mx1.example.com"}, "example.com": {"*.example.com"}, "other.example": {"*.example.net"},
		"sister.example": {"*.example.org"}}, slow: map[string]bool{"bare.example": true}}
	security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: tlspolicy.STS}, "single": {Level: tlspolicy.STS}, "relay": {Level: tlspolicy.Secure}},
		[]tlspolicy.Rule{{Domains: []string{"alias.example"}, Policy: tlspolicy.Policy{Level: tlspolicy.Encrypt}},
			{Domains: []string{"mx1.example.com"}, Policy: tlspolicy.Policy{Level: tlspolicy.Verify}}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := route.NewTable(route.Config{Rules: []string{"sister.test smtp:sister.example", "host.test relay:[mx1.example.com]", "literal.test relay:[192.0.2.1]",
		"single.test single:example.com", "relayed.test relay:example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	router := NewRouter(table, w.resolver(t, Config{Trusted: []string{"sister.example"}}), RouterConfig{Security: security, STS: f,
		Transports: map[string]Lookups{"smtp": {Sites: true}, "single": {}, "relay": {Sites: true}}})
	for _, c := range []struct {
		address mail.Address
		lookup  bool
		want    mail.Route
		status  string
	}{
		{"a@one.example", true, mail.Route{Site: "{mx1.example.com}", Security: "sts"}, ""},
		{"a@example.com", true, mail.Route{Site: testSite, Security: "sts"}, ""},
		{"a@other.example", true, mail.Route{}, "4.7.5"},
		{"a@alias.example", true, mail.Route{Site: testSite, Security: "encrypt"}, ""},
		{"a@single.test", false, mail.Route{Security: "sts=*.example.com"}, ""},
		{"a@sister.test", true, mail.Route{Security: "sts=*.example.org"}, ""},
		{"a@relayed.test", false, mail.Route{Site: testSite, Security: "secure=.example.com,example.com"}, ""},
		{"a@host.test", false, mail.Route{Security: "verify"}, ""},
		{"a@literal.test", false, mail.Route{}, "4.7.5"},
		{"a@gone.example", true, mail.Route{}, "5.1.2"},
	} {
		to := router.Route([]mail.Recipient{{Address: c.address}})[0]
		if to.NeedsLookup != c.lookup {
			t.Errorf("%s at first: %+v", c.address, to)
		}
		if to.NeedsLookup {
			to = router.Lookup(t.Context(), to.Transport, to.Nexthop)
		}
		if to.Site != c.want.Site || to.Security != c.want.Security || !to.Reply.IsZero() != (c.status != "") || c.status != "" && to.Reply.Status.String() != c.status {
			t.Errorf("%s: %+v, want %+v %s", c.address, to, c.want, c.status)
		}
		if again := router.Route([]mail.Recipient{{Address: c.address}})[0]; again != to {
			t.Errorf("%s again: %+v, was %+v", c.address, again, to)
		}
	}
	slices.Sort(f.asked)
	if want := []string{"example.com", "gone.example", "one.example", "other.example", "sister.example"}; !slices.Equal(f.asked, want) {
		t.Errorf("policies were asked for of %q, want %q", f.asked, want)
	}
}

// A policy that cannot be had keeps mail waiting for ten seconds, once; after five minutes it is
// looked for again.
func TestSlowPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &finder{slow: map[string]bool{"a.example": true, "bare.example": true}}
		security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: tlspolicy.STS}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		router := &Router{cfg: RouterConfig{Security: security, STS: f}, policies: newStore[string, stsPolicy](10)}
		to := &mail.Route{Transport: "smtp", Nexthop: "a.example"}
		for _, c := range []struct {
			after, took time.Duration
			asked       int
		}{{0, stsWait, 1}, {stsTime - time.Second, 0, 1}, {time.Second, stsWait, 2}} {
			time.Sleep(c.after)
			began := time.Now()
			if p := router.policy(t.Context(), to); p.enforced {
				t.Errorf("%+v", p)
			}
			if took := time.Since(began); took != c.took || len(f.asked) != c.asked {
				t.Errorf("after %v: it took %v, want %v, and asked %d times, want %d", c.after, took, c.took, len(f.asked), c.asked)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		router.policy(ctx, &mail.Route{Transport: "smtp", Nexthop: "bare.example"})
		f.slow["bare.example"], f.enforced = false, map[string][]string{"bare.example": {"mx"}}
		if p := router.policy(t.Context(), &mail.Route{Transport: "smtp", Nexthop: "bare.example"}); !p.enforced {
			t.Error("a search that was broken off is taken for an answer")
		}
	})
}
