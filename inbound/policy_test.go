package inbound

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Who may send where. The numbers are those of the catalog of bad input.
func TestRelayPolicy(t *testing.T) {
	strict := RelayConfig{RelayDomains: []string{"b.example", ".sub.example", "Bücher.example", "intranet"}}
	loose := strict
	loose.AllowLiterals, loose.AllowRouting, loose.AllowUnqualified = true, true, true
	for _, test := range []struct {
		name, client, recipient string
		cfg                     RelayConfig
		want                    string // "" or status and the start of the text
	}{
		{"S-31 stranger", "192.0.2.1", "x@c.example", strict, "5.7.1 <x@c.example>: Relay access denied"},
		{"relay domain", "192.0.2.1", "x@B.example", strict, ""},
		{"not below it", "192.0.2.1", "x@a.b.example", strict, "5.7.1"},
		{"below", "192.0.2.1", "x@a.b.SUB.example", strict, ""},
		{"not it itself", "192.0.2.1", "x@sub.example", strict, "5.7.1"},
		{"not a suffix", "192.0.2.1", "x@xsub.example", strict, "5.7.1"},
		{"B-61 U-label", "192.0.2.1", "x@bücher.example", strict, ""},
		{"B-61 A-label", "192.0.2.1", "x@xn--bcher-kva.example", strict, ""},
		{"B-61 homograph", "192.0.2.1", "x@b.exаmple", strict, "5.7.1"},
		{"B-61 no name at all", "127.0.0.1", "x@\u2488.example", strict, "5.1.2"},
		{"loopback", "127.0.0.1", "x@c.example", strict, ""},
		{"loopback 6", "::1", "x@c.example", strict, ""},
		{"unix socket", "", "x@c.example", strict, ""},
		{"S-30 postmaster", "192.0.2.1", "postmaster", strict, ""},
		{"B-54 literal", "127.0.0.1", "x@[127.0.0.1]", strict, "5.1.2"},
		{"B-54 literal, stranger", "192.0.2.1", "x@[127.0.0.1]", loose, "5.7.1"},
		{"B-54 literal, allowed", "127.0.0.1", "x@[127.0.0.1]", loose, ""},
		{"B-56 percent", "127.0.0.1", "user%evil@c.example", strict, "5.7.1 <user%evil@c.example>: Routed"},
		{"B-56 bang", "127.0.0.1", "evil!user@c.example", strict, "5.7.1"},
		{"B-56 quoted at", "127.0.0.1", `"user@evil"@c.example`, strict, "5.7.1"},
		{"B-56 to a relay domain", "192.0.2.1", "user%evil@b.example", strict, "5.7.1"},
		{"B-56 never for strangers", "192.0.2.1", "user%evil@b.example", loose, "5.7.1"},
		{"B-56 allowed", "127.0.0.1", "user%evil@c.example", loose, ""},
		{"B-57 single label", "127.0.0.1", "x@localhost", strict, "5.1.2"},
		{"B-57 relay domain", "127.0.0.1", "x@intranet", strict, ""},
		{"B-57 allowed", "127.0.0.1", "x@localhost", loose, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := NewRelayPolicy(test.cfg)
			if err != nil {
				t.Fatal(err)
			}
			var c mail.Client
			if test.client != "" {
				c.Addr = netip.MustParseAddr(test.client)
			}
			c.Helo = "localhost"
			r := p.Recipient(c, "root@b.example", mail.Address(test.recipient))
			got := strings.TrimSpace(r.Status.String() + " " + r.Text)
			if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if !r.IsZero() && r.Code != 550 {
				t.Errorf("code %d", r.Code)
			}
		})
	}
}

func TestRelayPolicyConfig(t *testing.T) {
	_, err := NewRelayPolicy(RelayConfig{RelayDomains: []string{"ok.example", "a..b", "-x"}, Networks: []netip.Prefix{{}}})
	for _, want := range []string{`"a..b"`, `"-x"`, "network"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no complaint about %s: %v", want, err)
		}
	}
}
