package config

import (
	"strings"
	"testing"
)

// An operator routes a domain to a host and sets limits for the domain: the limits
// match nothing, and the receiver is overrun. Only patterns that never match may
// cause a warning.
func TestMisledDomains(t *testing.T) {
	const limits = "destination_rate = \"1/70s\"\n"
	own := func(domains string) string { return "[destination.own]\ndomains = [" + domains + "]\n" + limits }
	for _, c := range []struct{ name, text, want string }{
		{"no route", own(`"own.example", ".own.example"`), ""},
		{"a route to an address", "[routes]\n\"own.example\" = \"smtp:[127.0.0.3]:27001\"\n" + own(`"own.example"`),
			`mail for own.example goes to [127.0.0.3]:27001 by [routes], so this never matches; write networks = ["127.0.0.3"]`},
		{"a route to a host", "[routes]\n\"own.example\" = \"smtp:[mail.example.net]\"\n" + own(`"OWN.example"`),
			`mail for own.example goes to [mail.example.net] by [routes], so this never matches; write domains = ["mail.example.net"]`},
		{"the host is named, too", "[routes]\n\"own.example\" = \"smtp:[127.0.0.3]\"\n" + own(`"own.example"`) + "networks = [\"127.0.0.0/8\"]\n",
			`mail for own.example goes to [127.0.0.3] by [routes], so this never matches; remove it: networks has that address`},
		{"another transport, the same domain", "[transport.bulk]\n[routes]\n\"own.example\" = \"bulk:\"\n" + own(`"own.example"`), ""},
		{"another port of the same domain", "[routes]\n\"own.example\" = \"smtp:own.example:587\"\n" + own(`"own.example"`), ""},
		{"one address of the domain", "[routes]\n\"a@own.example\" = \"smtp:[127.0.0.3]\"\n" + own(`"own.example"`), ""},
		{"mail of others goes there", "[routes]\n\"own.example\" = \"smtp:[127.0.0.3]\"\n\"other.example\" = \"smtp:own.example\"\n" + own(`"own.example"`), ""},
		{"one of many below", "[routes]\n\"a.own.example\" = \"smtp:[127.0.0.3]\"\n" + own(`".own.example"`), ""},
		{"all below", "[routes]\n\".own.example\" = \"smtp:[127.0.0.3]\"\n" + own(`".own.example"`),
			`mail for domains below own.example goes to [127.0.0.3] by [routes], so this never matches; write networks = ["127.0.0.3"]`},
		{"refused", "[routes]\n\"own.example\" = \"error:5.1.6 moved\"\n" + own(`"own.example"`), ""},
		{"relayhost", "relayhost = \"[relay.example.net]:587\"\n" + own(`"own.example"`),
			`mail for own.example goes to [relay.example.net]:587 by relayhost, so this never matches; write domains = ["relay.example.net"]`},
		{"an exception from relayhost", "relayhost = \"[relay.example.net]\"\n[routes]\n\"own.example\" = \"smtp:own.example\"\n" + own(`"own.example"`), ""},
		{"default_transport", "default_transport = \"smtp:[relay.example.net]\"\n" + own(`"own.example"`),
			`mail for own.example goes to [relay.example.net] by default_transport, so this never matches; write domains = ["relay.example.net"]`},
		{"the transport's nexthop", "[transport.smtp]\nnexthop = \"[relay.example.net]\"\n" + own(`"own.example"`),
			`mail for own.example goes to [relay.example.net] by transport.smtp.nexthop, so this never matches; write domains = ["relay.example.net"]`},
	} {
		cfg, err := Parse("test.toml", []byte(c.text), Environment{Hostname: "mta.example.com"})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := c.want
		if want != "" {
			want = "destination.own.domains: " + want
		}
		var got []string
		for _, w := range cfg.Warnings() {
			got = append(got, w.String())
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, text, want)
		}
	}
}
