package route

import (
	"slices"
	"strings"
	"testing"
)

// Nexthops are written by people into configuration files. What they get wrong
// most often — brackets and ports — must be understood or explained.
func TestParseNexthop(t *testing.T) {
	for _, c := range []struct {
		in   string
		form Form
		want string // canonical text, or a part of the error
	}{
		{"example.com", FormDomain, "example.com"},
		{"Example.COM.", FormDomain, "example.com"},
		{"bücher.example:2525", FormDomain, "xn--bcher-kva.example:2525"},
		{"example.com:smtp", FormDomain, "example.com:25"},
		{"[mail.example.com]", FormHost, "[mail.example.com]"},
		{"[localhost]:2525", FormHost, "[localhost]:2525"},
		{"[relay]:Submission", FormHost, "[relay]:587"},
		{"[relay]:submissions", FormHost, "[relay]:465"},
		{"[relay]:smtps", FormHost, "[relay]:465"},
		{"[relay]:lmtp", FormHost, "[relay]:24"},
		{"[192.0.2.1]", FormAddress, "[192.0.2.1]"},
		{"[192.0.2.1]:25", FormAddress, "[192.0.2.1]:25"},
		{"[2001:DB8::1]:25", FormAddress, "[2001:db8::1]:25"},
		{"[IPv6:2001:db8::1]", FormAddress, "[2001:db8::1]"},
		{"[ipv6:::ffff:192.0.2.1]", FormAddress, "[192.0.2.1]"},
		{"{mx1.example,mx2.example;mx3.example}", FormSite, "{mx1.example,mx2.example;mx3.example}"},
		{"{MX.example.}:26", FormSite, "{mx.example}:26"},

		{"", 0, "it is empty"},
		{"192.0.2.1", 0, "without brackets would be taken for a domain (write [192.0.2.1])"},
		{"192.0.2.1:25", 0, "it is an address (write [192.0.2.1]:25)"},
		{"2001:db8::1", 0, "write [2001:db8::1]"},
		{"2001:db8::1:zz", 0, "an IPv6 address goes into brackets"},
		{"example.com:", 0, "the port is missing"},
		{"example.com:0", 0, `the port "0" is not a number from 1 to 65535`},
		{"example.com:65536", 0, "not a number from 1 to 65535"},
		{"example.com:+25", 0, "not a number from 1 to 65535"},
		{"example.com:smpt", 0, "or the name of a mail service"},
		{"[example.com", 0, "the closing ']' is missing"},
		{"[example.com]25", 0, "only a colon and a port may follow ']'"},
		{"[example.com:25]", 0, "a port goes after the brackets"},
		{"[example.com]:", 0, "the port is missing"},
		{"[]", 0, "it is empty"},
		{"[fe80::1%eth0]", 0, "neither a host nor an address"},
		{"[IPv6:192.0.2.1]", 0, "neither a host nor an address"},
		{"{}", 0, `host "": it is empty`},
		{"{a.example;}", 0, `host "": it is empty`},
		{"{a.example", 0, "the closing '}' is missing"},
		{"{192.0.2.1}", 0, "it is an address"},
		{"{" + strings.Repeat("a.example,", 60) + "b}", 0, "too long for a site"},
		{"a b", 0, "' ' cannot be part of it"},
		{"user@example.com", 0, "'@' cannot be part of it"},
	} {
		n, err := ParseNexthop(c.in)
		switch {
		case c.form == 0 && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("ParseNexthop(%q) = %v, %v, want an error with %q", c.in, n, err, c.want)
		case c.form != 0 && (err != nil || n.Form != c.form || n.String() != c.want):
			t.Errorf("ParseNexthop(%q) = %d %q, %v, want %d %q", c.in, n.Form, n, err, c.form, c.want)
		}
	}
}

// relayhost and fallback relays are lists; a site's commas are its own.
func TestParseNexthops(t *testing.T) {
	for in, want := range map[string]string{
		"[a]":                      "[a]",
		" [a] , [b]:587,c.example": "[a],[b]:587,c.example",
		"a.example\tb.example":     "a.example,b.example",
		"{a,b;c} [d]":              "{a,b;c},[d]",
		"{a,b},{c}":                "{a,b},{c}",
	} {
		list, err := ParseNexthops(in)
		if got := FormatNexthops(list); err != nil || got != want {
			t.Errorf("ParseNexthops(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", " , ", "[a],[b", "{a b}"} {
		if list, err := ParseNexthops(in); err == nil {
			t.Errorf("ParseNexthops(%q) = %v, want an error", in, list)
		}
	}
}

// Whatever is accepted reads back as the same nexthop.
func FuzzParseNexthops(f *testing.F) {
	for _, s := range []string{"example.com", "[host]:25", "[2001:db8::1]", "{a,b;c}:25 [d]", "[::ffff:1.2.3.4]", "a:smtp,b", "[IPv6:::1]", "ü.example", "{a{b}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseNexthops(s)
		if err != nil {
			return
		}
		text := FormatNexthops(list)
		again, err := ParseNexthops(text)
		if err != nil || !slices.Equal(again, list) {
			t.Fatalf("%q → %q → %v, %v", s, text, again, err)
		}
		for _, n := range list {
			switch {
			case n.Form == FormAddress != n.Addr.IsValid(), n.Form == FormAddress == (n.Name != ""):
				t.Fatalf("%q → %#v", s, n)
			case n.Form == FormSite && len(n.Records()) == 0:
				t.Fatalf("%q: a site without hosts", s)
			}
		}
	})
}
