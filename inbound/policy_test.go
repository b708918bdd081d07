package inbound

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// The relay policy: which client may send where. The numbers are those of the catalog of bad input.
func TestRelayPolicy(t *testing.T) {
	strict := RelayConfig{RelayDomains: []string{"b.example", ".sub.example", "Bücher.example", "intranet"}}
	loose := strict
	loose.AllowLiterals, loose.AllowRouting, loose.AllowUnqualified = true, true, true
	for _, test := range []struct {
		name, client, recipient string
		cfg                     RelayConfig
		want                    string // "" or status and the start of the text
		purpose                 Purpose
	}{
		{"S-31 stranger", "192.0.2.1", "x@c.example", strict, "5.7.1 <x@c.example>: Relay access denied", PurposeRelay},
		{"relay domain", "192.0.2.1", "x@B.example", strict, "", PurposeRelay},
		{"not below it", "192.0.2.1", "x@a.b.example", strict, "5.7.1", PurposeRelay},
		{"below", "192.0.2.1", "x@a.b.SUB.example", strict, "", PurposeRelay},
		{"not it itself", "192.0.2.1", "x@sub.example", strict, "5.7.1", PurposeRelay},
		{"not a suffix", "192.0.2.1", "x@xsub.example", strict, "5.7.1", PurposeRelay},
		{"B-61 U-label", "192.0.2.1", "x@bücher.example", strict, "", PurposeRelay},
		{"B-61 A-label", "192.0.2.1", "x@xn--bcher-kva.example", strict, "", PurposeRelay},
		{"B-61 homograph", "192.0.2.1", "x@b.exаmple", strict, "5.7.1", PurposeRelay},
		{"B-61 no name at all", "127.0.0.1", "x@\u2488.example", strict, "5.1.2", PurposeRelay},
		{"loopback", "127.0.0.1", "x@c.example", strict, "", PurposeRelay},
		{"loopback 6", "::1", "x@c.example", strict, "", PurposeRelay},
		{"unix socket", "", "x@c.example", strict, "", PurposeRelay},
		{"S-30 postmaster", "192.0.2.1", "postmaster", strict, "", PurposeRelay},
		{"B-54 literal", "127.0.0.1", "x@[127.0.0.1]", strict, "5.1.2", PurposeRelay},
		{"B-54 literal, stranger", "192.0.2.1", "x@[127.0.0.1]", loose, "5.7.1", PurposeRelay},
		{"B-54 literal, allowed", "127.0.0.1", "x@[127.0.0.1]", loose, "", PurposeRelay},
		{"B-56 percent", "127.0.0.1", "user%evil@c.example", strict, "5.7.1 <user%evil@c.example>: Routed", PurposeRelay},
		{"B-56 bang", "127.0.0.1", "evil!user@c.example", strict, "5.7.1", PurposeRelay},
		{"B-56 quoted at", "127.0.0.1", `"user@evil"@c.example`, strict, "5.7.1", PurposeRelay},
		{"B-56 to a relay domain", "192.0.2.1", "user%evil@b.example", strict, "5.7.1", PurposeRelay},
		{"B-56 never for strangers", "192.0.2.1", "user%evil@b.example", loose, "5.7.1", PurposeRelay},
		{"B-56 allowed", "127.0.0.1", "user%evil@c.example", loose, "", PurposeRelay},
		{"B-57 single label", "127.0.0.1", "x@localhost", strict, "5.1.2", PurposeRelay},
		{"B-57 relay domain", "127.0.0.1", "x@intranet", strict, "", PurposeRelay},
		{"B-57 allowed", "127.0.0.1", "x@localhost", loose, "", PurposeRelay},
		{"S-31 submission by a stranger", "192.0.2.1", "x@b.example", strict, "5.7.0 <x@b.example>: Only permitted clients", PurposeSubmission},
		{"submission to postmaster by a stranger", "192.0.2.1", "postmaster", strict, "5.7.0", PurposeSubmission},
		{"submission", "127.0.0.1", "x@c.example", strict, "", PurposeSubmission},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := NewRelayPolicy(test.cfg)
			if err != nil {
				t.Fatal(err)
			}
			c := Client{Purpose: test.purpose}
			if test.client != "" {
				c.Addr = netip.MustParseAddr(test.client)
			}
			r := p.Recipient(&c, "root@b.example", mail.Address(test.recipient))
			got := strings.TrimSpace(r.Status.String() + " " + r.Text)
			if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if want := map[bool]uint16{true: 530, false: 550}[r.Status.Detail == 0]; !r.IsZero() && r.Code != want {
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
