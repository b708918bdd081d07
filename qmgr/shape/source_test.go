package shape

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// A limit comes from the most specific destination that sets it.
func TestSource(t *testing.T) {
	near, far := named("near", 1, "a.example.com"), named("far", 2, ".example.com")
	near.Limits = Limits{HostConcurrencyLimit: Some(3)}
	table, err := NewTable([]Destination{near, far, named("host", 4, "mx mx-1_a.example.net")})
	if err != nil {
		t.Fatal(err)
	}
	total := func(l *Limits) bool { return l.ConcurrencyLimit.Set }
	each := func(l *Limits) bool { return l.HostConcurrencyLimit.Set }
	for _, c := range []struct {
		table         *Table
		nexthop, host string
		set           func(*Limits) bool
		want          string
	}{
		{table, "a.example.com", "", each, "near"},
		{table, "a.example.com", "", total, "far"},
		{table, "b.example.com", "", total, "far"},
		{table, "b.example.com", "", each, ""},
		{table, "other.test", "", total, ""},
		{table, "other.test", "mx-1_a.example.net", total, "host"},
		{&Table{}, "a.example.com", "", total, ""},
		{nil, "a.example.com", "", total, ""},
	} {
		var hosts []mail.Host
		if c.host != "" {
			hosts = []mail.Host{host(c.host)}
		}
		if got := c.table.Source(c.nexthop, hosts, c.set); got != c.want {
			t.Errorf("%s by %q: the source is %q, want %q", c.nexthop, c.host, got, c.want)
		}
	}
}

// Names have letters, digits, hyphens and underscores, all of them.
func TestCharactersOfNames(t *testing.T) {
	for c := range rune(128) {
		label := "a" + string(c) + "b"
		want := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
		if got := CheckDomain(label) == nil; got != want {
			t.Errorf("domain %q is right: %v", label, got)
		}
		if got := CheckMX(label+".test") == nil; got != (want || c == '*') {
			t.Errorf("MX %q is right: %v", label, got)
		}
	}
}
