package resolve

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// A credential is part of what mail demands, whether or not there are TLS policies; and domains with
// different credentials do not share a site, though they have the same hosts.
func TestCredentialsOfRoutes(t *testing.T) {
	w := newWorld(t, zone)
	w.add(t, `
		one.example.    300 IN MX 10 mx1.example.com.
		two.example.    300 IN MX 10 mx1.example.com.
		three.example.  300 IN MX 10 mx1.example.com.
	`)
	table, err := route.NewTable(route.Config{Rules: []string{"host.test smtp:[mx1.example.com]:587", "two.test smtp:two.example"}})
	if err != nil {
		t.Fatal(err)
	}
	security, err := tlspolicy.NewTable(map[string]tlspolicy.Policy{"smtp": {Level: tlspolicy.Encrypt}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	credential := func(nexthop string, configured bool, sender mail.Address) string {
		switch {
		case sender == "mia@shop.example" && nexthop != "three.example":
			return "mia"
		case nexthop == "one.example" || nexthop == "two.example":
			return nexthop
		case configured:
			return "rest"
		}
		return ""
	}
	trusted := Config{Trusted: []string{"[mx1.example.com]:587", "two.example"}}
	for level, s := range map[string]*tlspolicy.Table{"": nil, "encrypt": security} {
		router := NewRouter(table, w.resolver(t, trusted), RouterConfig{Security: s, Credential: credential, Transports: map[string]Lookups{"smtp": {Sites: true}}})
		for _, c := range []struct {
			sender, address mail.Address
			want            mail.Route
		}{
			{"", "a@one.example", mail.Route{Nexthop: "one.example", Security: level + "+auth=one.example"}},
			{"", "a@two.test", mail.Route{Nexthop: "two.example", Security: level + "+auth=two.example"}},
			{"", "a@host.test", mail.Route{Nexthop: "[mx1.example.com]:587", Security: level + "+auth=rest"}},
			{"", "a@three.example", mail.Route{Nexthop: "three.example", Site: "{mx1.example.com}", Security: level}},
			{"mia@shop.example", "a@one.example", mail.Route{Nexthop: "one.example", Security: level + "+auth=mia"}},
			{"<>", "a@one.example", mail.Route{Nexthop: "one.example", Security: level + "+auth=one.example"}},
			{"mia@shop.example", "a@two.test", mail.Route{Nexthop: "two.example", Security: level + "+auth=mia"}},
			{"mia@shop.example", "a@host.test", mail.Route{Nexthop: "[mx1.example.com]:587", Security: level + "+auth=mia"}},
			{"mia@shop.example", "a@three.example", mail.Route{Nexthop: "three.example", Site: "{mx1.example.com}", Security: level}},
		} {
			c.want.Transport = "smtp"
			for range 2 { // looked up, and from the cache
				to := router.RouteFrom(c.sender, mail.TLSUnset, []mail.Recipient{{Address: c.address}})[0]
				if to.NeedsLookup {
					to = router.Lookup(t.Context(), to, mail.TLSUnset)
				}
				if to != c.want {
					t.Errorf("%s from %q: %+v, want %+v", c.address, c.sender, to, c.want)
				}
			}
		}
	}
}
