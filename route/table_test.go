package route

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

func table(t testing.TB, c Config) *Table {
	t.Helper()
	tab, err := NewTable(c)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// show renders a route for comparison: transport:nexthop, or the reply.
func show(r mail.Route) string {
	if !r.Reply.IsZero() {
		return r.Transport + " " + r.Reply.String()
	}
	return r.Transport + ":" + r.Nexthop
}

// The most specific rule wins: address, domain, longest suffix, star.
func TestRoute(t *testing.T) {
	tab := table(t, Config{
		Hostname:  "Mail.Example.net",
		Relayhost: "[out.example.net]:587, [out2.example.net]",
		Rules: []string{
			"vip@example.com     fast:",
			"example.com         smtp:[mx.example.com]",
			".example.com        slow:",
			".deep.example.com   deep:",
			"plain.example.com   :",
			"byhop.example.com   :[hop]",
			"gone.example        error:5.1.6 moved",
			"later.example       retry:",
			"sink.example        discard:",
			"[192.0.2.7]         fast:",
			"xn--bcher-kva.example books:",
		},
	})
	const relay = "smtp:[out.example.net]:587,[out2.example.net]"
	for in, want := range map[mail.Address]string{
		"a@other.example":                   relay,
		"VIP@Example.COM":                   "fast:example.com",
		"vip+x@example.com":                 "smtp:[mx.example.com]",
		"a@EXAMPLE.com":                     "smtp:[mx.example.com]",
		"a@sub.example.com":                 "slow:sub.example.com",
		"a@deep.example.com":                "slow:deep.example.com",
		"a@x.deep.example.com":              "deep:x.deep.example.com",
		"a@x.y.deep.example.com":            "deep:x.y.deep.example.com",
		"a@plain.example.com":               relay,
		"a@byhop.example.com":               "smtp:[hop]",
		"a@notexample.com":                  relay,
		"a@gone.example":                    "error 550 5.1.6 moved",
		"a@later.example":                   "retry 450 4.0.0 mail to this address is deferred",
		"a@sink.example":                    "discard:sink.example",
		"a@[192.0.2.7]":                     "fast:[192.0.2.7]",
		"a@[192.0.2.8]":                     relay,
		"a@bücher.example":                  "books:xn--bcher-kva.example",
		"\"odd@local\"@sub.example.com":     "slow:sub.example.com",
		"postmaster":                        relay,
		"root":                              relay,
		"a@mail.example.net":                relay,
		"a@":                                "error 501 5.1.3 invalid domain: it is empty",
		"a@-x.example":                      "error 501 5.1.3 invalid domain: a label begins with a hyphen",
		"a@192.0.2.1":                       "error 501 5.1.3 invalid domain: it is an address",
		"a@[localhost]":                     "error 501 5.1.3 invalid domain: it is not an address literal",
		"a@[x-tag:abc]":                     "error 501 5.1.3 invalid domain: it is not an address literal",
		"a@{mx.example}":                    "error 501 5.1.3 invalid domain: the character '{' cannot be part of it",
		mail.Address("a@b\x1b[31m.example"): "error 501 5.1.3 invalid domain: the character '\\x1b' cannot be part of it",
	} {
		if got := show(tab.Route(in)); got != want {
			t.Errorf("Route(%q) = %s, want %s", in, got, want)
		}
	}
}

// Without any configuration mail goes to the MX hosts of its domain.
func TestRouteZeroConfig(t *testing.T) {
	tab := table(t, Config{})
	for in, want := range map[mail.Address]string{
		"a@Example.COM":        "smtp:example.com",
		"a@[IPv6:2001:DB8::1]": "smtp:[2001:db8::1]",
		"a@[192.0.2.1]":        "smtp:[192.0.2.1]",
		"Postmaster":           "error 501 5.1.3 the address has no domain",
		"root":                 "error 501 5.1.3 the address has no domain",
		"":                     "error 501 5.1.3 the address has no domain",
	} {
		if got := show(tab.Route(in)); got != want {
			t.Errorf("Route(%q) = %s, want %s", in, got, want)
		}
	}
}

// RFC 5321 4.5.1 requires that "postmaster" alone is an address.
func TestRoutePostmaster(t *testing.T) {
	tab := table(t, Config{Hostname: "mail.example.net", Postmaster: "ops@example.org", Rules: []string{"postmaster@mail.example.net slow:"}})
	if got := show(tab.Route("PostMaster")); got != "smtp:example.org" {
		t.Errorf("with a postmaster: %s", got)
	}
	tab = table(t, Config{Hostname: "mail.example.net", Rules: []string{"postmaster@mail.example.net slow:"}})
	if got := show(tab.Route("postmaster")); got != "slow:mail.example.net" {
		t.Errorf("without a postmaster: %s", got)
	}
}

// A default transport may bring its nexthop along, which beats relayhost, and
// may refuse everything.
func TestDefaultTransport(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{DefaultTransport: "out"}, "out:example.com"},
		{Config{DefaultTransport: "out:[gate]", Relayhost: "[relay]"}, "out:[gate]"},
		{Config{DefaultTransport: "out:", Relayhost: "[relay]"}, "out:[relay]"},
		{Config{DefaultTransport: "error:closed"}, "error 550 5.0.0 closed"},
		{Config{Relayhost: "[relay]", Rules: []string{"* smtp:"}}, "smtp:example.com"},
	} {
		if got := show(table(t, c.cfg).Route("a@example.com")); got != c.want {
			t.Errorf("%+v: %s, want %s", c.cfg, got, c.want)
		}
	}
}

// All errors are reported at once, so that a file can be corrected in one pass.
func TestNewTableComplains(t *testing.T) {
	err := Config{
		Hostname:         "not a name",
		Postmaster:       "ops",
		DefaultTransport: "[relay]",
		Rules:            []string{"a.example smtp:[", "b.example x:", "B.example. y:"},
	}.Validate()
	for _, want := range []string{
		"hostname: ", `postmaster "ops": a domain is missing`, `default transport "[relay]"`,
		`"a.example smtp:["`, `"B.example. y:": the same pattern already has the rule "b.example x:"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	if err := (Config{Relayhost: "192.0.2.1"}).Validate(); err == nil || !strings.Contains(err.Error(), "write [192.0.2.1]") {
		t.Errorf("relayhost: %v", err)
	}
}

// Configuration needs to know which transports must exist, and the resolver
// which nexthops the operator vouches for.
func TestTableNames(t *testing.T) {
	tab := table(t, Config{Relayhost: "[b]:25,a.example", Rules: []string{
		"a.example slow:[c]", "x@b.example error:no", ".c.example discard:some text", "* lmtp:unix:/s", "d.example :"}})
	if got, want := tab.Nexthops(), []string{"[b]:25", "[c]", "a.example"}; !slices.Equal(got, want) {
		t.Errorf("Nexthops = %q, want %q", got, want)
	}
}

// naiveRoute looks through all rules for the best one: the table's definition.
func naiveRoute(rules []string, domain string) string {
	best, rank := "smtp:"+domain, -1
	for _, line := range rules {
		f := strings.Fields(line)
		r := -1
		switch {
		case f[0] == "*":
			r = 0
		case f[0] == domain:
			r = 1000
		case f[0][0] == '.' && strings.HasSuffix(domain, f[0]):
			r = len(f[0])
		}
		if r > rank {
			best, rank = f[1]+domain, r
		}
	}
	return best
}

// Random tables agree with the definition.
func TestRouteNaiveTwin(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	name := func() string {
		labels := make([]string, 1+rng.IntN(4))
		for i := range labels {
			labels[i] = string(rune('a' + rng.IntN(2)))
		}
		return strings.Join(labels, ".")
	}
	for range 2000 {
		seen := map[string]bool{}
		var rules []string
		for i := range rng.IntN(8) {
			p := name()
			switch rng.IntN(5) {
			case 0, 1:
				p = "." + p
			case 2:
				p = "*"
			}
			if !seen[p] {
				seen[p] = true
				rules = append(rules, fmt.Sprintf("%s t%d:", p, i))
			}
		}
		tab := table(t, Config{Rules: rules})
		domain := name()
		if got, want := show(tab.Route(mail.Address("u@"+domain))), naiveRoute(rules, domain); got != want {
			t.Fatalf("seed %d: %q for %s: %s, want %s", seed, rules, domain, got, want)
		}
	}
}

// The hot path must not feed the garbage collector: it runs once for every
// recipient.
func TestRouteAllocations(t *testing.T) {
	tab := benchTable(t)
	for _, a := range []mail.Address{"someone@example.com", "a@x.y.slow.example", "u1@listed.example", "postmaster"} {
		if n := testing.AllocsPerRun(100, func() { tab.Route(a) }); n != 0 {
			t.Errorf("Route(%q) allocates %v times", a, n)
		}
	}
}

func benchTable(t testing.TB) *Table {
	c := Config{Hostname: "mail.example.net"}
	for i := range 1000 {
		c.Rules = append(c.Rules, fmt.Sprintf("d%d.example smtp:[relay]", i))
	}
	c.Rules = append(c.Rules, ".slow.example slow:", "u1@listed.example fast:")
	return table(t, c)
}

func BenchmarkRoute(b *testing.B) {
	tab := benchTable(b)
	for _, c := range []struct {
		name string
		a    mail.Address
	}{{"lower", "someone@mail.example.com"}, {"upper", "Someone@Mail.Example.COM"}, {"suffix", "a@x.y.slow.example"}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tab.Route(c.a)
			}
		})
	}
}
