package resolve

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/route"
)

func recipients(addresses ...mail.Address) []mail.Recipient {
	all := make([]mail.Recipient, len(addresses))
	for i, a := range addresses {
		all[i] = mail.Recipient{Index: uint32(i), Address: a}
	}
	return all
}

// Domains with the same MX hosts share a queue, by way of a nexthop that is
// resolved to the same hosts, which are known by the time of the delivery.
func TestRouterSites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		resolver := w.resolver(t, Config{Trusted: []string{"sister.example"}})
		defer resolver.Close()
		table, err := route.NewTable(route.Config{Rules: []string{"trusted.example smtp:sister.example", "port.example smtp:example.com:26", "slow.example slow:", "no.example error:", "list.example smtp:bare.example,[mx1.example.com]"}})
		if err != nil {
			t.Fatal(err)
		}
		router := NewRouter(table, resolver, RouterConfig{SiteTransports: []string{"smtp"}})
		const site = "{mx1.example.com;mx2.example.com}"
		want := []string{site, site, site, "bare.example", "gone.example", "null.example", "sister.example", site + ":26", "slow.example", "no.example", "[198.51.100.1]", "bare.example,[mx1.example.com]"}
		got := router.Route(t.Context(), recipients("a@example.com", "b@Example.COM", "c@alias.example", "d@bare.example", "e@gone.example",
			"f@null.example", "g@trusted.example", "h@port.example", "i@slow.example", "j@no.example", "k@[198.51.100.1]", "l@list.example"))
		for i := range want {
			if got[i].Nexthop != want[i] {
				t.Errorf("%d: %q, want %q", i, got[i].Nexthop, want[i])
			}
		}
		w.questions()
		if set, reply := resolver.Hosts(t.Context(), site); len(set.Tiers) != 2 || len(w.questions()) != 0 {
			t.Errorf("the site's hosts were not in memory: %s", show(set, reply))
		}
		// Without site transports nothing is looked up at all.
		plain := NewRouter(table, resolver, RouterConfig{})
		if got := plain.Route(t.Context(), recipients("a@new.example")); got[0].Nexthop != "new.example" || len(w.questions()) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A dead name server delays routing by the configured patience at most.
func TestRouterPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zone)
		w.set("192.0.2.53", silent)
		w.set("192.0.2.54", silent)
		resolver := w.resolver(t, Config{})
		defer resolver.Close()
		table, err := route.NewTable(route.Config{})
		if err != nil {
			t.Fatal(err)
		}
		router := NewRouter(table, resolver, RouterConfig{SiteTransports: []string{"smtp"}, Patience: 3 * time.Second, Concurrency: 1})
		start := time.Now()
		got := router.Route(t.Context(), recipients("a@example.com", "b@sister.example", "c@bare.example"))
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		for i, want := range []string{"example.com", "sister.example", "bare.example"} {
			if got[i].Nexthop != want {
				t.Errorf("%d: %q, want %q", i, got[i].Nexthop, want)
			}
		}
	})
}
