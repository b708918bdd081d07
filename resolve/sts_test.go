package resolve

import (
	"context"
	"slices"
	"strings"
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
	slow     map[string]time.Time // a search takes until then, whoever waits for it
	asked    []string
}

func (f *finder) Enforced(ctx context.Context, domain string) ([]string, bool, error) {
	f.asked = append(f.asked, domain)
	select {
	case <-time.After(time.Until(f.slow[domain])):
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	mx, ok := f.enforced[domain]
	return mx, ok, nil
}

// What routes demand of connections, at first from the cache, and after a lookup. Hosts that an
// enforced policy does not name are left out of the site, and the demand names the others: mail may
// also go by the domain, where its limits are those of a destination, or to a fallback relay. Where
// there is no site, the patterns are in the demand.
func TestSecurityOfRoutes(t *testing.T) {
	w := newWorld(t, zone)
	w.add(t, `
		one.example.    300 IN MX 10 mx1.example.com.
		one.example.    300 IN MX 20 mx2.example.com.
		other.example.  300 IN MX 10 mx2.example.com.
	`)
	f := &finder{enforced: map[string][]string{"one.example": {"mx1.example.com"}, "example.com": {"*.example.com"}, "other.example": {"*.example.net"},
		"sister.example": {"*.example.org"}}}
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
		{"a@one.example", true, mail.Route{Site: "{mx1.example.com}", Security: "sts=mx1.example.com"}, ""},
		{"a@example.com", true, mail.Route{Site: testSite, Security: "sts=mx1.example.com,mx2.example.com"}, ""},
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
			to = router.Lookup(t.Context(), to, mail.TLSUnset)
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

// A policy that is slow to come keeps mail waiting for ten seconds, once. Then mail goes without it
// until the search is over, and no longer than two seconds after that. What the search has found, or
// not, counts for five minutes.
func TestSlowPolicy(t *testing.T) {
	security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: tlspolicy.STS}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		at, took time.Duration
		enforced bool
		asked    int // in all
	}
	const forever = 1000 * time.Hour
	for _, c := range []struct {
		name  string
		slow  time.Duration // the search
		steps []step
	}{
		{"quick", time.Second, []step{{0, time.Second, true, 1}, {2 * time.Second, 0, true, 1}, {302 * time.Second, 0, true, 2}}},
		{"at once after the wait", stsWait + time.Millisecond, []step{{0, stsWait, false, 1}, {11 * time.Second, 0, false, 1}, {12 * time.Second, 0, true, 2}, {300 * time.Second, 0, true, 2}}},
		{"slow", 20 * time.Second, []step{{0, stsWait, false, 1}, {12 * time.Second, stsGlance, false, 2}, {13 * time.Second, 0, false, 2},
			{19950 * time.Millisecond, 50 * time.Millisecond, true, 3}, {21 * time.Second, 0, true, 3}}},
		{"endless", forever, []step{{0, stsWait, false, 1}, {12 * time.Second, stsGlance, false, 2}, {time.Hour, stsWait, false, 3}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				f := &finder{slow: map[string]time.Time{"a.example": began.Add(c.slow)}, enforced: map[string][]string{"a.example": {"mx"}}}
				router := &Router{cfg: RouterConfig{Security: security, STS: f}, policies: newStore[string, stsPolicy](10)}
				for _, s := range c.steps {
					time.Sleep(time.Until(began.Add(s.at)))
					asked := time.Now()
					p := policyOf(t.Context(), router, "a.example")
					if took := time.Since(asked); took != s.took || p.enforced != s.enforced || len(f.asked) != s.asked {
						t.Errorf("at %v: %+v after %v, asked %d times; want %+v", s.at, p, took, len(f.asked), s)
					}
				}
			})
		})
	}
}

func policyOf(ctx context.Context, r *Router, nexthop string) stsPolicy {
	return r.policy(ctx, nexthop, r.receiver(&mail.Route{Transport: "smtp", Nexthop: nexthop}, mail.TLSUnset, ""))
}

// A caller that gives up before the ten seconds are over does not end the wait of the others.
func TestPolicyIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &finder{slow: map[string]time.Time{"a.example": time.Now().Add(3 * time.Second)}, enforced: map[string][]string{"a.example": {"mx"}}}
		security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: tlspolicy.STS}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		router := &Router{cfg: RouterConfig{Security: security, STS: f}, policies: newStore[string, stsPolicy](10)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if p := policyOf(ctx, router, "a.example"); p.enforced {
			t.Errorf("%+v", p)
		}
		if p := policyOf(t.Context(), router, "a.example"); !p.enforced {
			t.Error("a search that was broken off is taken for an answer")
		}
	})
}

// A domain is the same however it is written: the rule for it counts, its policy is found, and the
// names in the demand are those that certificates have.
func TestSpellingOfDomains(t *testing.T) {
	w := newWorld(t, zone)
	for _, name := range []string{"xn--bcher-kva.example", "sub.xn--bcher-kva.example"} {
		w.add(t, name+". 300 IN MX 10 mx1.example.com.")
	}
	f := &finder{enforced: map[string][]string{"example.com": {"mx1.example.com", "mx2.example.com"}}}
	security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: tlspolicy.STS}}, []tlspolicy.Rule{
		{Domains: []string{"XN--Bcher-kva.Example.", ".xn--bcher-kva.example"}, Policy: tlspolicy.Policy{Level: tlspolicy.Secure}}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := route.NewTable(route.Config{Rules: []string{"to.test smtp:[MX.BÜcher.example]:26", "to2.test smtp:Bücher.Example.:26"}})
	if err != nil {
		t.Fatal(err)
	}
	router := NewRouter(table, w.resolver(t, Config{}), RouterConfig{Security: security, STS: f, Transports: map[string]Lookups{"smtp": {Sites: true}}})
	const secure = "secure=.xn--bcher-kva.example,xn--bcher-kva.example"
	for address, want := range map[mail.Address]string{
		"a@bücher.example": secure, "a@BÜCHER.EXAMPLE": secure, "a@xn--bcher-kva.example": secure, "a@XN--BCHER-KVA.Example.": secure,
		"a@sub.bücher.example": "secure=.sub.xn--bcher-kva.example,sub.xn--bcher-kva.example", "a@EXAMPLE.Com": "sts=mx1.example.com,mx2.example.com", "a@example.com.": "sts=mx1.example.com,mx2.example.com",
		"a@to.test": "secure=.mx.xn--bcher-kva.example,mx.xn--bcher-kva.example", "a@to2.test": secure,
	} {
		to := router.Route([]mail.Recipient{{Address: address}})[0]
		if to.NeedsLookup {
			to = router.Lookup(t.Context(), to, mail.TLSUnset)
		}
		if to.Security != want {
			t.Errorf("%s: %+v, want %s", address, to, want)
		}
	}
	for _, nexthop := range []string{"Example.com", "example.com.", "Bücher.example", "XN--BCHER-KVA.example"} { // none of which a table yields
		if to := router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: nexthop}, mail.TLSUnset); to.Reply.IsZero() && !strings.HasPrefix(to.Security, "sts=") && to.Security != secure {
			t.Errorf("%s: %+v", nexthop, to)
		}
	}
}

// What Verify remembers of a domain outlives its records, and is not a route for mail: to send mail, the
// domain must be looked up again, and that lookup says how the connection must be secured.
func TestVerdictIsNoWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: tlspolicy.STS}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		table, err := route.NewTable(route.Config{})
		if err != nil {
			t.Fatal(err)
		}
		router := NewRouter(table, w.resolver(t, Config{}), RouterConfig{Security: security, STS: &finder{enforced: map[string][]string{"example.com": {"mx1.example.com"}}},
			Transports: map[string]Lookups{"smtp": {Sites: true}}})
		defer router.resolver.Close()
		router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: "example.com"}, mail.TLSUnset)
		time.Sleep(2 * time.Hour)
		if to := router.Verify("", "a@example.com"); to.NeedsLookup || !to.Reply.IsZero() {
			t.Errorf("%+v", to)
		}
		to := router.Route([]mail.Recipient{{Address: "a@example.com"}})[0]
		if !to.NeedsLookup {
			t.Errorf("%+v", to)
		}
		if to = router.Lookup(t.Context(), to, mail.TLSUnset); to.Security != "sts=mx1.example.com" || to.Site != "{mx1.example.com}" {
			t.Errorf("%+v", to)
		}
	})
}

// The patterns of a policy are part of the name of a queue. Of very many, only those are that name
// the domain's hosts; with none of those, mail waits.
func TestManyPatterns(t *testing.T) {
	w := newWorld(t, zone)
	var many []string
	for range 5000 {
		many = append(many, "mx.elsewhere.example")
	}
	f := &finder{enforced: map[string][]string{"example.com": append(slices.Clone(many), "*.example.com"), "alias.example": many}}
	security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: tlspolicy.STS}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := route.NewTable(route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	router := NewRouter(table, w.resolver(t, Config{}), RouterConfig{Security: security, STS: f, Transports: map[string]Lookups{"smtp": {}}})
	if to := router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: "example.com"}, mail.TLSUnset); to.Security != "sts=*.example.com" || !to.Reply.IsZero() {
		t.Errorf("%+v", to)
	}
	if to := router.Lookup(t.Context(), mail.Route{Transport: "smtp", Nexthop: "alias.example"}, mail.TLSUnset); to.Reply.Status.String() != "4.7.5" {
		t.Errorf("%+v", to)
	}
}

// At level dane-only the MX records count, also of a domain that the operator has written: without a
// signature anybody could have named the hosts.
func TestUnsignedRecordsAtDANEOnly(t *testing.T) {
	w := newWorld(t, zone)
	security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: tlspolicy.DANEOnly}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := route.NewTable(route.Config{Rules: []string{"sister.test smtp:sister.example", "host.test smtp:[mx1.example.com]"}})
	if err != nil {
		t.Fatal(err)
	}
	router := NewRouter(table, w.resolver(t, Config{Trusted: []string{"sister.example"}}), RouterConfig{Security: security, Transports: map[string]Lookups{"smtp": {}}})
	for address, status := range map[mail.Address]string{"a@example.com": "4.7.5", "a@sister.test": "4.7.5", "a@host.test": ""} {
		to := router.Route([]mail.Recipient{{Address: address}})[0]
		if to.NeedsLookup {
			to = router.Lookup(t.Context(), to, mail.TLSUnset)
		}
		if to.Reply.Status.String() != status || status == "" && to.Security != "dane-only" {
			t.Errorf("%s: %+v", address, to)
		}
	}
}

// Mail that asks for REQUIRETLS has a demand that can be met only where the MX records, or a policy, say
// which hosts are the receiver's, whatever the level; mail with the null sender asks for no more than can be
// had; and TLS-Required: No takes back what the domain demands, but not what the operator does.
func TestAskedOfRoutes(t *testing.T) {
	w := newWorld(t, zone)
	w.add(t, `
		named.example.    300 IN MX 10 mx1.example.com.
		policy.example.   300 IN MX 10 mx1.example.com.
	`)
	f := &finder{enforced: map[string][]string{"example.com": {"*.example.com"}, "policy.example": {"*.example.com"}}}
	const relay = "[mx.example.org]"
	table, err := route.NewTable(route.Config{Rules: []string{"relayed.test smtp:" + relay, "own.test own:" + relay, "box.test boxes:" + relay,
		"named.test smtp:named.example", "policy.test smtp:policy.example", "gone.test back:gone.example"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		level     tlspolicy.Level
		recipient mail.Address
		demands   [4]string // unset, required, optional, wanted; a status if it cannot be sent
	}{
		{tlspolicy.May, "a@example.com", [4]string{"", "sts=mx1.example.com,mx2.example.com+requiretls", "", ""}},
		{tlspolicy.May, "a@sister.example", [4]string{"", "5.7.10", "", ""}},
		{tlspolicy.STS, "a@example.com", [4]string{"sts=mx1.example.com,mx2.example.com", "sts=mx1.example.com,mx2.example.com+requiretls", "", "sts=mx1.example.com,mx2.example.com+wants-requiretls"}},
		{tlspolicy.Secure, "a@sister.example", [4]string{"secure=.sister.example,sister.example", "secure=.sister.example,sister.example+requiretls", "secure=.sister.example,sister.example", "secure=.sister.example,sister.example+wants-requiretls"}},
		{tlspolicy.May, "a@relayed.test", [4]string{"", "mta-sts+requiretls", "", "+wants-requiretls"}},
		{tlspolicy.May, "a@own.test", [4]string{"", "", "", ""}},
		{tlspolicy.STS, "a@own.test", [4]string{"mta-sts", "mta-sts", "", "mta-sts"}},
		{tlspolicy.Verify, "a@example.com", [4]string{"verify", "sts=mx1.example.com,mx2.example.com+requiretls", "verify", "verify"}},
		{tlspolicy.Verify, "a@sister.example", [4]string{"verify", "5.7.10", "verify", "verify"}},
		{tlspolicy.Verify, "a@named.test", [4]string{"verify", "5.7.10", "verify", "verify+wants-requiretls"}},
		{tlspolicy.Verify, "a@policy.test", [4]string{"verify", "sts=*.example.com+requiretls", "verify", "verify+wants-requiretls"}},
		{tlspolicy.Secure, "a@example.com", [4]string{"secure=.example.com,example.com", "secure=.example.com,example.com+requiretls", "secure=.example.com,example.com", "secure=.example.com,example.com+wants-requiretls"}},
		{tlspolicy.May, "a@gone.test", [4]string{"", "mta-sts+requiretls", "", ""}},
		{tlspolicy.May, "a@gone.example", [4]string{"5.1.2", "5.1.2", "5.1.2", "5.1.2"}},
	} {
		security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: c.level}, "own": {Level: c.level}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.asked = nil
		if c.level == tlspolicy.May {
			security = nil
		}
		router := NewRouter(table, w.resolver(t, Config{Trusted: []string{relay, "named.example", "policy.example"}}), RouterConfig{Security: security, STS: f,
			Transports: map[string]Lookups{"smtp": {Sites: true}, "own": {Unrequired: true}, "back": {Sites: true, Fallback: true}}})
		for asked, want := range c.demands {
			asked := mail.TLSRequest(asked)
			to := router.RouteFrom("", asked, []mail.Recipient{{Address: c.recipient}})[0]
			if to.NeedsLookup {
				to = router.Lookup(t.Context(), to, asked)
			}
			got := to.Security
			if !to.Reply.IsZero() {
				got = to.Reply.Status.String()
			}
			if got != want {
				t.Errorf("%v %s, asked %v: %q, want %q (%v)", c.level, c.recipient, asked, got, want, to.Reply)
			}
			if again := router.RouteFrom("", asked, []mail.Recipient{{Address: c.recipient}})[0]; again != to {
				t.Errorf("%v %s, asked %v again: %+v, was %+v", c.level, c.recipient, asked, again, to)
			}
		}
		if c.level == tlspolicy.Secure && len(f.asked) > 0 { // the operator has said who the hosts are
			t.Errorf("%s: policies were asked for of %q", c.recipient, f.asked)
		}
	}
}

// Whether there is a policy is not known yet: mail with REQUIRETLS waits, and is not returned.
func TestRequiredBeforePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Router{cfg: RouterConfig{STS: never{}}.WithDefaults(), resolver: &Resolver{}, policies: newStore[string, stsPolicy](10)}
		whom := receiver{domain: "example.com", policy: tlspolicy.Policy{Level: tlspolicy.STS}, asked: mail.TLSRequired}
		p := r.policy(t.Context(), "example.com", whom)
		to := r.complete(Lookups{}, mail.Route{Transport: "smtp", Nexthop: "example.com"}, whom, verdict{}, p)
		if to.Reply.Code != 451 || to.Reply.Status.String() != "4.7.10" {
			t.Errorf("%+v", to)
		}
	})
}

// never finds no answer.
type never struct{}

func (never) Enforced(ctx context.Context, _ string) ([]string, bool, error) {
	<-ctx.Done()
	return nil, false, ctx.Err()
}
