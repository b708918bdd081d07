package route

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/net/idna"
)

// Domains reach us from clients, configuration and the DNS in every spelling;
// all spellings of one domain must become one queue, and nothing that is not a
// domain may become a query.
func TestParseDomain(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct{ in, want, problem string }{
		{"example.com", "example.com", ""},
		{"EXAMPLE.Com", "example.com", ""},
		{"example.com.", "example.com", ""},
		{"localhost", "localhost", ""},
		{"_dmarc.example.com", "_dmarc.example.com", ""},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", ""},
		{"BÜCHER.example", "xn--bcher-kva.example", ""},
		{"bücher。example", "xn--bcher-kva.example", ""},
		{"1.2.3.example", "1.2.3.example", ""},
		{"3com", "3com", ""},
		{long + ".example", long + ".example", ""},
		{strings.Repeat("abcdefg.", 31) + "abcde", strings.Repeat("abcdefg.", 31) + "abcde", ""},
		{"", "", "empty"},
		{".", "", "empty"},
		{"..", "", "a label is empty"},
		{"a..b", "", "a label is empty"},
		{".example.com", "", "a label is empty"},
		{"example.com..", "", "a label is empty"},
		{"-a.example", "", "begins with a hyphen"},
		{"a-.example", "", "ends with a hyphen"},
		{"a.example-", "", "ends with a hyphen"},
		{"a b.example", "", "' ' cannot be part"},
		{"a\x00b.example", "", `'\x00' cannot be part`},
		{`a\000b.example`, "", `'\\' cannot be part`},
		{"a,b", "", "',' cannot be part"},
		{"[192.0.2.1]", "", "'[' cannot be part"},
		{"192.0.2.1", "", "it is an address"},
		{"１９２.0.2.1", "", "it is an address"},
		{long + "a.example", "", "too long for a domain name"},
		{strings.Repeat("abcdefg.", 31) + "abcdef", "", "too long for a domain name"},
		{strings.Repeat("ü", 60) + ".example", "", "too long for a domain name"},
		{"\xff.example", "", "not a valid internationalized"},
		{"a\u200db.example", "", "not a valid internationalized"},
	} {
		got, err := ParseDomain(c.in)
		if got != c.want {
			t.Errorf("ParseDomain(%q) = %q, want %q", c.in, got, c.want)
		}
		var e *SyntaxError
		switch {
		case c.problem == "" && err != nil:
			t.Errorf("ParseDomain(%q): %v", c.in, err)
		case c.problem != "" && (!errors.As(err, &e) || !strings.Contains(e.Problem, c.problem)):
			t.Errorf("ParseDomain(%q): %v, want a problem with %q", c.in, err, c.problem)
		}
	}
}

// The canonical form of a canonical domain is itself: otherwise one domain
// could have two queues.
func FuzzParseDomain(f *testing.F) {
	for _, s := range []string{"example.com", "EXAMPLE.com.", "bücher.example", "1.2.3.4", "a-b_c.d", "xn--a.b", ".", "ß.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDomain(s)
		if err != nil {
			return
		}
		again, err := ParseDomain(d)
		if err != nil || again != d {
			t.Fatalf("%q → %q → %q, %v", s, d, again, err)
		}
		if len(d) > domainLengthMax || strings.ToLower(d) != d || strings.ContainsAny(d, " ,;[]{}:@\\\x00") {
			t.Fatalf("%q → %q", s, d)
		}
		if a, err := idna.Lookup.ToASCII(s); err == nil && strings.TrimSuffix(a, ".") != d {
			t.Fatalf("%q → %q, by package idna %q", s, d, a)
		}
	})
}
