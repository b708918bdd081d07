package flow

import (
	"net/netip"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// Mail that waits comes under the rules of today, as far as what is known of it goes. What is not known decides nothing: a class that
// has a condition on listeners keeps its mail and gets no more, and names that clients may have given stay.
func TestReclassify(t *testing.T) {
	remote, trusted := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("10.0.0.1")
	cfg := Config{
		HeaderClients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Tenants:       []Tenant{{Name: "shop", Weight: 1, Match: Match{Senders: []string{"shop.example"}}}, {Name: "team", Weight: 1, Match: Match{Users: []string{"ann", "bob"}}}},
		Classes: []Class{{Name: "named", Weight: 1}, {Name: "port", Weight: 1, Match: Match{Listeners: []Listener{{Name: "bulk"}}}}, {Name: "user", Weight: 1, Match: Match{Users: []string{"ann"}}},
			{Name: "shop", Weight: 1, Match: Match{Tenants: []string{"shop"}}}, {Name: "many", Weight: 1, Match: Match{MinRecipients: 5}}},
	}
	r, err := NewRules(cfg)
	if err != nil {
		t.Fatal(err)
	}
	list := []smtp.Field{{Watched: r.classes[len(r.classes)-2].match[0].headers[1].watched, Value: []byte("x")}}
	for name, c := range map[string]struct {
		addr       netip.Addr
		login      bool
		sender     mail.Address
		recipients int
		fields     []smtp.Field
		was        mail.Flow
		class      string
		tenant     string
	}{
		"a tenant by its sender, and a class by the tenant": {addr: remote, sender: "news@shop.example", was: mail.Flow{Class: "normal", Tenant: "192.0.2.0/24"}, class: "shop", tenant: "shop"},
		"not its sender any more":                           {addr: remote, sender: "a@x.example", was: mail.Flow{Class: "shop", Tenant: "shop"}, class: "normal", tenant: "192.0.2.0/24"},
		"a class that is gone":                              {addr: remote, sender: "a@x.example", was: mail.Flow{Class: "old", Tenant: "192.0.2.0/24"}, class: "normal", tenant: "192.0.2.0/24"},
		"bulk by its header":                                {addr: remote, sender: "a@x.example", fields: list, was: mail.Flow{Class: "normal", Tenant: "192.0.2.0/24"}, class: "bulk", tenant: "192.0.2.0/24"},
		"by its recipients":                                 {addr: remote, sender: "a@x.example", recipients: 5, was: mail.Flow{Class: "normal", Tenant: "192.0.2.0/24"}, class: "many", tenant: "192.0.2.0/24"},
		"it came on a listener":                             {addr: remote, sender: "a@x.example", was: mail.Flow{Class: "port", Tenant: "192.0.2.0/24"}, class: "port", tenant: "192.0.2.0/24"},
		"a name without a right to it":                      {addr: remote, sender: "a@x.example", was: mail.Flow{Class: "named", Tenant: "192.0.2.0/24"}, class: "normal", tenant: "192.0.2.0/24"},
		"a user gets a tenant and a class":                  {addr: remote, login: true, sender: "a@x.example", was: mail.Flow{Class: "normal", Tenant: "ann"}, class: "user", tenant: "team"},
		"a user of a tenant":                                {addr: remote, login: true, sender: "a@x.example", was: mail.Flow{Class: "user", Tenant: "team"}, class: "user", tenant: "team"},
		"a user without a rule":                             {addr: remote, login: true, sender: "a@x.example", was: mail.Flow{Class: "normal", Tenant: "eve"}, class: "normal", tenant: "eve"},
		"who has not logged in is no user":                  {addr: remote, sender: "a@x.example", was: mail.Flow{Class: "normal", Tenant: "ann"}, class: "normal", tenant: "192.0.2.0/24"},
		"names of a client that may":                        {addr: trusted, sender: "news@shop.example", was: mail.Flow{Class: "named", Tenant: "customer"}, class: "named", tenant: "customer"},
		"defaults of a client that may name":                {addr: trusted, sender: "news@shop.example", was: mail.Flow{Class: "normal", Tenant: "10.0.0.0/24"}, class: "shop", tenant: "shop"},
		"a class of a client that may name is gone":         {addr: trusted, sender: "news@shop.example", was: mail.Flow{Class: "old", Tenant: "10.0.0.0/24"}, class: "shop", tenant: "shop"},
		"a program here":                                    {sender: "news@shop.example", was: mail.Flow{Class: "normal", Tenant: "local"}, class: "shop", tenant: "shop"},
		"a program here with a user":                        {sender: "a@x.example", was: mail.Flow{Class: "normal", Tenant: "uid:33"}, class: "normal", tenant: "uid:33"},
		"it was not classified":                             {addr: remote, login: true, sender: "a@x.example", class: "normal", tenant: "192.0.2.0/24"},
	} {
		m := Message{Client: NewClient(c.addr, Listener{}, ""), Sender: c.sender, Recipients: max(c.recipients, 1), Fields: c.fields}
		if f := r.Reclassify(&m, c.was, c.login); f.Class != c.class || f.Tenant != c.tenant || f.Flow != senderOf(c.sender, false) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
