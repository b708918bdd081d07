package route

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// A sender chooses the way only of mail whose recipients have no rule: a rule for a receiver is
// more than a preference.
func TestRouteFrom(t *testing.T) {
	tab := table(t, Config{
		Hostname: "mail.example.net", Relayhost: "[out]",
		Rules:       []string{"fixed.example smtp:[mx]", "plain.example :", "byhop.example :[hop]"},
		SenderRules: []string{"vip@a.example fast:", "a.example :[relay-a]", ".a.example slow:", "usual.a.example :", "/^list-.*@/ bulk:", "/@z/ never:", "<> smtp:[bounces]", "/^bad@/ error:5.7.1 no"},
	})
	for _, test := range []struct{ sender, recipient, want mail.Address }{
		{"", "x@b.example", "smtp:[out]"},
		{"joe@c.example", "x@b.example", "smtp:[out]"},
		{"VIP@A.example", "x@b.example", "fast:b.example"},
		{"joe@a.example", "x@b.example", "smtp:[relay-a]"},
		{"joe@b.a.example", "x@b.example", "slow:b.example"},
		{"joe@usual.a.example", "x@b.example", "smtp:[out]"},
		{"LIST-1@zz.example", "x@b.example", "bulk:b.example"},
		{"<>", "x@b.example", "smtp:[bounces]"},
		{"<>", "x@fixed.example", "smtp:[mx]"},
		{"vip@a.example", "x@fixed.example", "smtp:[mx]"},
		{"vip@a.example", "x@plain.example", "fast:plain.example"},
		{"vip@a.example", "x@byhop.example", "smtp:[hop]"},
		{"vip@a.example", "postmaster", "fast:mail.example.net"},
		{"bad@x.example", "x@b.example", "error 550 5.7.1 no"},
		{"no-domain", "x@b.example", "smtp:[out]"},
	} {
		if got := show(tab.RouteFrom(test.sender, test.recipient)); got != string(test.want) {
			t.Errorf("from %q to %s: %s, want %s", test.sender, test.recipient, got, test.want)
		}
	}
	if got := strings.Join(tab.Nexthops(), " "); got != "[bounces] [hop] [mx] [out] [relay-a]" {
		t.Errorf("nexthops: %s", got)
	}
}

// Expressions come after patterns that name a domain, in their order.
func TestRouteByExpression(t *testing.T) {
	tab := table(t, Config{Rules: []string{"/^a.*@/ first:", "/@x\\.example$/ second:", "x.example domain:", "/b/ third:", "* any:"}})
	for a, want := range map[mail.Address]string{
		"ab@y.example": "first:y.example", "AB@x.example": "domain:x.example", "b@sub.y.example": "third:sub.y.example", "c@y.example": "any:y.example",
	} {
		if got := show(tab.Route(a)); got != want {
			t.Errorf("%s: %s, want %s", a, got, want)
		}
	}
	for _, rule := range []string{"/(/ x:", "/a x:", "<> x:"} {
		if _, err := ParseRule(rule); err == nil {
			t.Errorf("%s is accepted", rule)
		}
	}
	if _, err := ParseSenderRule("<>x y:"); err == nil {
		t.Error("a pattern that begins as the null sender is accepted")
	}
}
