package config

import (
	"slices"
	"testing"

	"github.com/posthaste-mta/posthaste/route"
)

// Mail that goes by LMTP goes to the host that the operator has named, never to the MX
// hosts of a domain, and not to port 25 unless that is written.
func TestLMTPNexthops(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`[routes]
"a.example" = "lmtp:unix:/run/dovecot/lmtp"`, "unix:/run/dovecot/lmtp"},
		{`[routes]
"a.example" = "lmtp:inet:boxes.example.com"`, "[boxes.example.com]:24"},
		{`[routes]
"a.example" = "lmtp:boxes.example.com:2003"`, "[boxes.example.com]:2003"},
		{`[routes]
"a.example" = "lmtp:[192.0.2.1], [::1]:2400"`, "[192.0.2.1]:24,[::1]:2400"},
		{`[routes]
"a.example" = "lmtp:localhost:25"`, "[localhost]:25"},
		{`[routes]
"a.example" = "boxes:"
[transport.boxes]
type = "lmtp"
nexthop = "inet:127.example:24"`, "[127.example]:24"},
		{`default_transport = "lmtp:unix:/x"`, "unix:/x"},
		{`default_transport = "lmtp"
relayhost = "boxes.example"`, "[boxes.example]:24"},
		{`default_transport = "lmtp:other.example"
[routes]
"a.example" = ":boxes.example"`, "[boxes.example]:24"},
		{`[routes]
"a.example" = "smtp:boxes.example"`, "boxes.example"},
		{`[transport.lmtp]
type = "lmtp"
nexthop = "unix:/y"
[routes]
"a.example" = "lmtp:"`, "unix:/y"},
	} {
		table, err := route.NewTable(mustParse(t, c.text).Route())
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Route("b@a.example").Nexthop; got != c.want {
			t.Errorf("%s\nleads to %s, want %s", c.text, got, c.want)
		}
	}
}

// The hosts that LMTP falls back to are hosts, too, and all that the operator has named may
// have private addresses.
func TestLMTPFallback(t *testing.T) {
	c := mustParse(t, `[transport.lmtp]
fallback_relay = "spare.example"
[routes]
"a.example" = "lmtp:boxes.example"`)
	out := c.Outbound()
	if got := out.Transports["lmtp"]; !got.LMTP || !slices.Equal(got.FallbackRelays, []string{"[spare.example]:24"}) {
		t.Errorf("transport %+v", got)
	}
	if want := []string{"[boxes.example]:24", "[spare.example]:24"}; !slices.Equal(out.Trusted, want) {
		t.Errorf("trusted %q, want %q", out.Trusted, want)
	}
}
