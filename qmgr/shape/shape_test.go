package shape

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// named returns a destination with a distinctive concurrency limit.
func named(name string, limit int, patterns ...string) Destination {
	d := Destination{Name: name, Limits: Limits{ConcurrencyLimit: Some(limit)}}
	for _, p := range patterns {
		switch kind, text, _ := strings.Cut(p, " "); kind {
		case "mx":
			d.MX = append(d.MX, text)
		case "net":
			d.Networks = append(d.Networks, netip.MustParsePrefix(text))
		default:
			d.Domains = append(d.Domains, p)
		}
	}
	return d
}

// host reads "name address".
func host(text string) mail.Host {
	name, addr, _ := strings.Cut(text, " ")
	h := mail.Host{Name: name}
	if addr != "" {
		h.Addr = netip.AddrPortFrom(netip.MustParseAddr(addr), 25)
	}
	return h
}

// The most specific of several destinations comes first, whatever it is matched by;
// those that do not match are left out.
func TestLookup(t *testing.T) {
	table, err := NewTable([]Destination{
		named("domain", 1, "news.example.com"),
		named("near", 2, ".example.com"),
		named("far", 3, ".com"),
		named("host", 4, "mx mx1.example.net"),
		named("hosts", 5, "mx .example.net"),
		named("star", 6, "mx mx*.example.net"),
		named("deep", 7, "mx *.mail.*.example.org"),
		named("net", 8, "net 192.0.2.0/24", "net 2001:db8::/32"),
		named("address", 9, "net 192.0.2.7/32"),
		named("other", 10, "news.example.net", "mx .example.com"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		nexthop string
		hosts   string // separated by commas
		want    string
	}{
		{"", "", ""},
		{"news.example.com", "", "domain near far"},
		{"a.news.example.com", "", "near far"},
		{"example.com", "", "far"},
		{"com", "", ""},
		{"xexample.com", "", "far"},
		{"news.example.com,other.example", "", "domain near far"},
		{"[news.example.com]:587", "", "domain near far"},
		{"news.example.com:587", "", "domain near far"},
		{"[192.0.2.7]", " 192.0.2.7", "address net"},
		{"{mx.example.com,b.example.com}", "", ""},
		{"a.example", "mx1.example.net", "host star hosts"},
		{"a.example", "mx2.example.net.", "star hosts"},
		{"a.example", "a.b.example.net", "hosts"},
		{"a.example", "example.net", ""},
		{"a.example", "mx.evil.example.net", "star hosts"},
		{"a.example", "x.mail.y.example.org", "deep"},
		{"a.example", "x.mail.y.mail.z.example.org", "deep"},
		{"a.example", "x.mail.example.org", ""},
		{"a.example", "a 198.51.100.1,b 192.0.2.9", "net"},
		{"a.example", "a ::ffff:192.0.2.9", "net"},
		{"a.example", "a 2001:db8::1%eth0", "net"},
		{"news.example.net", "a 192.0.2.7,mx1.example.net", "other host star hosts address net"},
		{"news.example.com", "mx.example.com", "domain near far other"},
	} {
		var hosts []mail.Host
		for text := range strings.SplitSeq(c.hosts, ",") {
			if text != "" {
				hosts = append(hosts, host(text))
			}
		}
		m := table.Lookup(c.nexthop, hosts)
		if got := strings.Join(m.Names, " "); got != c.want {
			t.Errorf("%s by %s: %s, want %s", c.nexthop, c.hosts, got, c.want)
		}
		if (len(m.Names) > 0) != m.Limits.ConcurrencyLimit.Set {
			t.Errorf("%s: limits %+v", c.nexthop, m.Limits)
		}
		if want := slices.ContainsFunc(m.Names, func(n string) bool { return slices.Contains([]string{"domain", "near", "far"}, n) }); hosts == nil && table.Names(c.nexthop) != want {
			t.Errorf("%s is named: %v", c.nexthop, !want)
		}
	}
}

// Without a table nothing is found, which is the usual case.
func TestNoTable(t *testing.T) {
	var none *Table
	empty, err := NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []*Table{none, empty} {
		if m := table.Lookup("example.com", []mail.Host{host("mx.example.com 192.0.2.1")}); !reflect.DeepEqual(m, Match{}) || table.Names("example.com") {
			t.Errorf("%+v", m)
		}
	}
}

// Each limit comes from the most specific destination that has it, so that one may
// refine another without repeating it. Zero counts as set.
func TestMerge(t *testing.T) {
	second, err := rate.Of(rate.Limit{N: 1, Per: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	wide := named("wide", 20, "mx .example.net")
	wide.Limits.RateDelay = Some(time.Second)
	wide.Limits.Level = Some(mail.LevelStream)
	wide.Limits.Rate = Some(second)
	narrow := Destination{Name: "narrow", Domains: []string{"example.com"}}
	narrow.Limits.Rate = Some(rate.Limits{})
	narrow.Limits.Level = Some(mail.LevelLockStep)
	narrow.Limits.HostConcurrencyLimit = Some(0)
	table, err := NewTable([]Destination{wide, narrow})
	if err != nil {
		t.Fatal(err)
	}
	got := table.Lookup("example.com", []mail.Host{host("mx.example.net")}).Limits
	want := Limits{
		ConcurrencyLimit: Some(20), RateDelay: Some(time.Second), Rate: Some(rate.Limits{}), Level: Some(mail.LevelLockStep), HostConcurrencyLimit: Some(0),
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got.ConcurrencyLimit.Or(5) != 20 || got.InitialConcurrency.Or(5) != 5 || got.HostConcurrencyLimit.Or(5) != 0 {
		t.Error("Or does not prefer what is set")
	}
}

// Over must not forget a field: each, set in one only, is there afterwards.
func TestOverKnowsAllFields(t *testing.T) {
	fields := reflect.TypeFor[Limits]().NumField()
	for i := range fields {
		var l Limits
		reflect.ValueOf(&l).Elem().Field(i).FieldByName("Set").SetBool(true)
		name := reflect.TypeFor[Limits]().Field(i).Name
		if got := l.Over(Limits{}); !reflect.DeepEqual(got, l) {
			t.Errorf("%s is lost over nothing", name)
		}
		if got := (Limits{}).Over(l); !reflect.DeepEqual(got, l) {
			t.Errorf("%s is lost under nothing", name)
		}
	}
}

// All errors are returned at once.
func TestNewTableRefuses(t *testing.T) {
	_, err := NewTable([]Destination{
		{Name: "empty"},
		named("a", 1, "example.com", "example.com", "mx .example.net", "mx *.example.net", "net 192.0.2.0/24"),
		named("b", 1, "example.com", "mx *.example.net", "net 192.0.2.0/24"),
		named("c", 1, "Example.com", "mx *", "mx mx.exa*", "*.example.com", ".", "mx a..b", strings.Repeat("a", 254)),
		named("d", 1, "net 192.0.2.1/24", "net ::ffff:192.0.2.0/120"),
		named("d", 1, "d.example"),
		{Name: "e", Networks: []netip.Prefix{{}}},
	})
	want := []string{
		"destination empty: it matches nothing",
		"destination a: domain example.com is there twice",
		"destination a: MX *.example.net is there twice",
		"destination b: domain example.com also belongs to destination a",
		"destination b: MX *.example.net also belongs to destination a",
		"destination b: network 192.0.2.0/24 also belongs to destination a",
		`destination c: domain "Example.com": the character 'E' cannot be part of it`,
		`destination c: MX "*": behind the last star there is no whole label`,
		`destination c: MX "mx.exa*": behind the last star there is no whole label`,
		`destination c: domain "*.example.com": the character '*' cannot be part of it`,
		`destination c: domain ".": want a name of 1 to 253 characters`,
		`destination c: MX "a..b": a label is empty`,
		`": want a name of 1 to 253 characters`,
		`destination d: network "192.0.2.1/24": it has bits set behind the prefix`,
		`destination d: network "::ffff:192.0.2.0/120": it is a network of IPv4, in the form of IPv6`,
		"destination d: there are two of this name",
		`destination e: network "invalid Prefix": it is not a network`,
	}
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, w := range want {
		if !strings.Contains(err.Error()+"\n", w+"\n") {
			t.Errorf("%s is not among\n%v", w, err)
		}
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != len(want) {
		t.Errorf("%d complaints, want %d:\n%v", got, len(want), err)
	}
}

// naive returns why a destination matches, by definition.
func naive(d *Destination, nexthop string, hosts []mail.Host) (best hit, ok bool) {
	take := func(why reason, weight int) {
		h := hit{0, why, weight}
		if !ok || compareHits(h, best) < 0 {
			best, ok = h, true
		}
	}
	for _, p := range d.Domains {
		switch {
		case p == nexthop:
			take(byDomain, 0)
		case strings.HasPrefix(p, ".") && strings.HasSuffix(nexthop, p):
			take(bySuffix, len(p)-1)
		}
	}
	for _, h := range hosts {
		for _, p := range d.MX {
			starred := p
			if strings.HasPrefix(p, ".") {
				starred = "*" + p
			}
			// A star of path.Match does not match a slash, but names have none.
			matched, err := path.Match(starred, h.Name)
			switch {
			case err != nil:
				panic(err)
			case matched && starred == h.Name:
				take(byHost, 0)
			case matched:
				take(byPattern, len(strings.ReplaceAll(starred, "*", "")))
			}
		}
		for _, p := range d.Networks {
			if p.Contains(h.Addr.Addr()) {
				take(byNetwork, p.Bits())
			}
		}
	}
	return best, ok
}

// A compiled table must find what checking all patterns one by one finds. Names
// consist of few letters, so that they collide.
func TestTwin(t *testing.T) {
	compared, runs := 0, 300*golden.Runs(1)
	for range runs {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		all := anyDestinations(rng)
		table, err := NewTable(all)
		if err != nil {
			continue // two have the same pattern
		}
		compared++
		for range 40 {
			nexthop := anyName(rng, "")
			var hosts []mail.Host
			for range rng.IntN(3) {
				hosts = append(hosts, mail.Host{Name: anyName(rng, ""), Addr: netip.AddrPortFrom(anyAddr(rng), 25)})
			}
			var hits []hit
			for i := range all {
				if h, ok := naive(&all[i], nexthop, hosts); ok {
					h.entry = i
					hits = append(hits, h)
				}
			}
			slices.SortFunc(hits, compareHits)
			var want []string
			for _, h := range hits {
				want = append(want, all[h.entry].Name)
			}
			if got := table.Lookup(nexthop, hosts).Names; !slices.Equal(got, want) {
				t.Fatalf("seed %d: %s by %v: %v, want %v\n%+v", seed, nexthop, hosts, got, want, all)
			}
		}
	}
	if compared < runs/3 {
		t.Errorf("only %d tables were compared", compared)
	}
}

func anyDestinations(rng *rand.Rand) (all []Destination) {
	for i := range 1 + rng.IntN(5) {
		d := Destination{Name: fmt.Sprint(i)}
		dot := func() string { return []string{"", "."}[rng.IntN(2)] }
		for range rng.IntN(3) {
			d.Domains = append(d.Domains, dot()+anyName(rng, ""))
		}
		for range rng.IntN(3) {
			if p := dot() + anyName(rng, "*") + ".a"; CheckMX(p) == nil {
				d.MX = append(d.MX, p)
			}
		}
		for range 1 + rng.IntN(2) {
			a := anyAddr(rng)
			p, _ := a.Prefix(a.BitLen() - rng.IntN(9))
			d.Networks = append(d.Networks, p)
		}
		all = append(all, d)
	}
	return all
}

// anyName returns a name of one to four labels of the letters a and b and those
// given.
func anyName(rng *rand.Rand, more string) string {
	letters := "ab" + more
	var b strings.Builder
	for i := range 1 + rng.IntN(4) {
		if i > 0 {
			b.WriteByte('.')
		}
		for range 1 + rng.IntN(2) {
			b.WriteByte(letters[rng.IntN(len(letters))])
		}
	}
	return b.String()
}

func anyAddr(rng *rand.Rand) netip.Addr {
	if rng.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{192, 0, 2, byte(rng.IntN(256))})
	}
	return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(rng.IntN(256))})
}

// A lookup in a table of thousands costs what one in a small table does.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			all := []Destination{named("google", 1, "mx .google.com", "net 192.0.2.0/24")}
			for i := range n {
				all = append(all, named(fmt.Sprint(i), 1, fmt.Sprintf("d%d.example.com", i), fmt.Sprintf("mx mx*.d%d.example.net", i), fmt.Sprintf("net 10.%d.%d.0/24", i>>8&255, i&255)))
			}
			table, err := NewTable(all)
			if err != nil {
				b.Fatal(err)
			}
			hosts := []mail.Host{host("aspmx.l.google.com 192.0.2.1"), host("alt1.aspmx.l.google.com 192.0.2.2")}
			b.ReportAllocs()
			for b.Loop() {
				table.Lookup("d5.example.com", hosts)
			}
		})
	}
}
