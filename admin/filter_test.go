package admin

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Filters decide what is dropped irreversibly: each must match what it says, and no
// more.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, address string
		want             bool
	}{
		{"", "a@b", true}, {"", "", true},
		{"<>", "", true}, {"<>", "a@b", false},
		{"a@b", "a@b", true}, {"A@B", "a@b", true}, {"a@b", "aa@b", false}, {"a@b", "a@bb", false},
		{"@b.example", "x@b.example", true}, {"@B.example", "x@b.EXAMPLE", true}, {"@b.example", "x@c.b.example", false},
		{"@b.example", "", false}, {"@", "", true},
		{"*", "", true}, {"*@b", "x@b", true}, {"*@b", "@b", true}, {"*@b", "x@c", false},
		{"x*x", "x", false}, {"x*x", "xx", true}, {"ab*ba", "aba", false}, {"*a*a*", "a", false}, {"*a*a*", "aa", true},
		{"a.b", "axb", false}, {"*(", "x(", true}, {"*.*@*.c", "a.b@d.c", true},
	} {
		p := newPattern(c.pattern)
		if p.match(c.address) != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.address, !c.want)
		}
	}
}

// The matcher against the same pattern as a regular expression.
func FuzzPattern(f *testing.F) {
	f.Add("*@example.com", "a@example.com")
	f.Add("a*b*c", "aXbbYc")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, address string) {
		p := newPattern(pattern)
		if p.kind != matchGlob {
			return
		}
		parts := strings.Split(strings.ToLower(pattern), "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re, err := regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		if err != nil || strings.ToValidUTF8(address, "") != address {
			return
		}
		if want := re.MatchString(strings.ToLower(address)); p.match(address) != want {
			t.Errorf("%q matches %q: %v", pattern, address, !want)
		}
	})
}

// A condition that no message can ever meet is refused as a mistake, with the
// correct form.
func TestConditionsThatCannotBeMet(t *testing.T) {
	for _, f := range []Filter{
		{Sender: "example.com"}, {Sender: "<a@b>"}, {Sender: "a@b,c@d"}, {Sender: "a@b c@d"}, {Sender: "@.b"}, {Sender: "@"}, {Sender: "@a,b"}, {Sender: " "},
		{Recipient: "<>"}, {Recipient: "b.example"}, {Recipient: "@b..c"},
		{Domain: "a,b"}, {Domain: "*.b"}, {Domain: "a@b"}, {Domain: "."}, {Domain: ".."}, {Domain: "b."}, {Domain: "a b"}, {Domain: "a;b"}, {Domain: "<b>"},
		{Older: "2d", Younger: "1d"}, {Older: "1d", Younger: "1d"},
	} {
		if _, err := f.parse(1e18); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
	for _, f := range []Filter{
		{Sender: "<>"}, {Sender: "*@b"}, {Sender: "@b.example"}, {Sender: "@*.b"}, {Sender: "postmaster"}, {Sender: `"a, b"@c`}, {Recipient: "*"}, {Recipient: "*x*"},
		{Domain: "b"}, {Domain: ".b.example"}, {Domain: "xn--b.example"}, {Domain: "ü.example"}, {Domain: "[192.0.2.1]"}, {Domain: "a_b.example"},
		{Older: "1d", Younger: "2d"},
	} {
		if _, err := f.parse(1e18); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// Conditions on a flow: all three must be met, and what was not classified meets none
// but "-".
func TestFlowConditions(t *testing.T) {
	bulk := Message{Envelope: mail.Envelope{ID: 1, Arrived: 5, Flow: mail.Flow{Class: "bulk", Tenant: "192.0.2.0/24", Flow: "News@shop.example"}}}
	report := Message{Envelope: mail.Envelope{ID: 2, Arrived: 5, Flow: mail.Flow{Class: "normal", Tenant: "uid:33", Flow: "<>"}}}
	old := Message{Envelope: mail.Envelope{ID: 3, Arrived: 5}}
	lost := Message{Envelope: mail.Envelope{ID: 4}, Damage: "no envelope"}
	all := []*Message{&bulk, &report, &old, &lost}
	for _, c := range []struct {
		filter Filter
		want   [4]bool
	}{
		{Filter{}, [4]bool{true, true, true, true}},
		{Filter{Class: "bulk"}, [4]bool{true}}, {Filter{Class: "BULK"}, [4]bool{true}}, {Filter{Class: "*"}, [4]bool{true, true, true}},
		{Filter{Class: "-"}, [4]bool{2: true}}, {Filter{Tenant: "-", Flow: "-"}, [4]bool{2: true}},
		{Filter{Tenant: "192.0.2.*"}, [4]bool{true}}, {Filter{Tenant: "uid:33", Class: "bulk"}, [4]bool{}},
		{Filter{Flow: "news@*"}, [4]bool{true}}, {Filter{Flow: "<>"}, [4]bool{1: true}}, {Filter{Flow: "@shop.example"}, [4]bool{}},
	} {
		s, err := c.filter.parse(1e18)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range all {
			if got := s.envelope(m); got != c.want[i] {
				t.Errorf("%+v selects message %d: %v", c.filter, i+1, got)
			}
		}
		if c.filter.conditional() != (c.filter.Class+c.filter.Tenant+c.filter.Flow != "") {
			t.Errorf("%+v is not seen to have conditions", c.filter)
		}
	}
}

// A domain with a leading dot stands for a whole organization.
func TestMatchDomain(t *testing.T) {
	for _, c := range []struct {
		want, domain string
		ok           bool
	}{
		{"", "x", true}, {"example.com", "EXAMPLE.com", true}, {"example.com", "a.example.com", false},
		{".example.com", "a.example.com", true}, {".example.com", "example.com", true}, {".example.com", "notexample.com", false},
		{"example.com", "", false},
	} {
		if matchDomain(c.want, c.domain) != c.ok {
			t.Errorf("%q matches %q: %v", c.want, c.domain, !c.ok)
		}
	}
}

// People write times in many ways; a typing mistake must not become a time.
func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "90s": 90 * time.Second, "2h": 2 * time.Hour, "1h30m": 90 * time.Minute, "1.5d": 36 * time.Hour,
		"2w": 14 * 24 * time.Hour, "0": 0, "0s": 0,
	} {
		if got, err := ParseAge(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "h", "2x", "2hh", "-2h", "1e3s", "2h3", ".h", "1..2h", "99999999999999999999w", "2 h", "NaNs", "+1s"} {
		if got, err := ParseAge(text); err == nil {
			t.Errorf("%q is taken to be %v", text, got)
		}
	}
}

// A cursor that a client has changed must be refused, not read as another.
func FuzzPosition(f *testing.F) {
	p := position{area: mail.AreaDeferred, at: mail.Cursor{Due: 1 << 60, ID: 1 << 50}, recipient: 7, set: true}
	f.Add(p.String())
	f.Add("incoming-0-0000000000000-0")
	f.Add("deferred--1-0000000000000-0")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePosition(text)
		if err == nil && p.String() != text {
			t.Errorf("%q is read as %q", text, p)
		}
	})
	if got, err := parsePosition(p.String()); err != nil || got != p {
		f.Errorf("%v, %v", got, err)
	}
}
