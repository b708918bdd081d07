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
	credential := func(nexthop string, configured bool) string {
		switch {
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
		for address, want := range map[mail.Address]mail.Route{
			"a@one.example":   {Nexthop: "one.example", Security: level + "+auth=one.example"},
			"a@two.test":      {Nexthop: "two.example", Security: level + "+auth=two.example"},
			"a@host.test":     {Nexthop: "[mx1.example.com]:587", Security: level + "+auth=rest"},
			"a@three.example": {Nexthop: "three.example", Site: "{mx1.example.com}", Security: level},
		} {
			want.Transport = "smtp"
			for range 2 { // looked up, and from the cache
				to := router.Route([]mail.Recipient{{Address: address}})[0]
				if to.NeedsLookup {
					to = router.Lookup(t.Context(), to.Transport, to.Nexthop, mail.TLSUnset)
				}
				if to != want {
					t.Errorf("%s: %+v, want %+v", address, to, want)
				}
			}
		}
	}
}
