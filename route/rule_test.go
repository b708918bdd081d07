package route

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Rules come from the transport tables of Postfix installations: every form of
// transport(5) must mean what it means there.
func TestParseRule(t *testing.T) {
	refuse := func(code, class, subject, detail uint16, text string) mail.Reply {
		return mail.Reply{Code: code, Status: mail.Status{Class: class, Subject: subject, Detail: detail}, Text: text}
	}
	for _, c := range []struct {
		line string
		want Rule
	}{
		{"example.com smtp:[Relay.example]:587", Rule{PatternDomain, "example.com", mail.Route{Transport: "smtp", Nexthop: "[relay.example]:587"}}},
		{"  Example.COM.\t slow: ", Rule{PatternDomain, "example.com", mail.Route{Transport: "slow"}}},
		{"example.com slow", Rule{PatternDomain, "example.com", mail.Route{Transport: "slow"}}},
		{"example.com :", Rule{PatternDomain, "example.com", mail.Route{}}},
		{"example.com :[a], [b]", Rule{PatternDomain, "example.com", mail.Route{Nexthop: "[a],[b]"}}},
		{".Example.com smtp:", Rule{PatternSuffix, ".example.com", mail.Route{Transport: "smtp"}}},
		{"* :[relay]", Rule{PatternAny, "*", mail.Route{Nexthop: "[relay]"}}},
		{"Jo.Doe@Example.com slow:", Rule{PatternAddress, "jo.doe@example.com", mail.Route{Transport: "slow"}}},
		{`"a b"@example.com slow:`, Rule{}}, // white space ends a pattern, as in Postfix
		{"Jörg@bücher.example slow:", Rule{PatternAddress, "jörg@xn--bcher-kva.example", mail.Route{Transport: "slow"}}},
		{"[IPv6:2001:DB8::1] smtp:", Rule{PatternDomain, "[2001:db8::1]", mail.Route{Transport: "smtp"}}},
		{"example.com lmtp:unix:/run/lmtp.sock", Rule{PatternDomain, "example.com", mail.Route{Transport: "lmtp", Nexthop: "unix:/run/lmtp.sock"}}},
		{"example.com lmtp:inet:[::1]:24", Rule{PatternDomain, "example.com", mail.Route{Transport: "lmtp", Nexthop: "[::1]:24"}}},
		{"a.example error:5.1.6 has moved", Rule{PatternDomain, "a.example", mail.Route{Transport: "error", Reply: refuse(550, 5, 1, 6, "has moved")}}},
		{"a.example error:no  mail here", Rule{PatternDomain, "a.example", mail.Route{Transport: "error", Reply: refuse(550, 5, 0, 0, "no  mail here")}}},
		{"a.example error:", Rule{PatternDomain, "a.example", mail.Route{Transport: "error", Reply: refuse(550, 5, 0, 0, "mail to this address is refused")}}},
		{"a.example retry:4.4.1 later", Rule{PatternDomain, "a.example", mail.Route{Transport: "retry", Reply: refuse(450, 4, 4, 1, "later")}}},
		{"a.example discard:test mail", Rule{PatternDomain, "a.example", mail.Route{Transport: "discard", Nexthop: "test mail"}}},
	} {
		got, err := ParseRule(c.line)
		if c.want == (Rule{}) {
			if err == nil {
				t.Errorf("ParseRule(%q) = %+v, want an error", c.line, got)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("ParseRule(%q) = %+v, %v\nwant %+v", c.line, got, err, c.want)
		}
	}
}

// A complaint names the line and the mistake, and proposes what was meant.
func TestParseRuleComplaints(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "a pattern and a target are needed",
		"example.com":                "a pattern and a target are needed",
		"*.example.com smtp:":        "write .example.com for all subdomains",
		"@example.com smtp:":         "write example.com for a whole domain",
		"exa mple.com smtp:":         "name of a transport",
		"192.0.2.1 smtp:":            "write [192.0.2.1]",
		"[relay] smtp:":              "not an address literal",
		"example.com [relay]:25":     "write :[relay]:25 for the default transport",
		"example.com smtp:[relay":    "the closing ']' is missing",
		"example.com smtp:192.0.2.1": "write [192.0.2.1]",
		"example.com error:4.1.1 x":  "4.x.x after retry:",
		"example.com retry:5.1.1 x":  "write 5.x.x after error:",
		"example.com relay.example":  "write :relay.example for the default transport",
		".example..com smtp:":        "a label is empty",
		"user@ smtp:":                "it is empty",
	} {
		_, err := ParseRule(line)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "transport rule") {
			t.Errorf("ParseRule(%q): %v, want %q", line, err, want)
		}
	}
}
