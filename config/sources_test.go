package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/outbound"
	"github.com/posthaste-mta/posthaste/qmgr/source"
)

const sourceSample = `
[source.a]
address = ["192.0.2.1", "2001:db8::1"]
ehlo = "a.example.com"
[source.b]
address = "127.0.0.3"
[pool.bulk]
class = ["bulk"]
route = ["smtp:", "*:.example.net"]
sources = ["a:3", "b"]
`

// What the file says is what the core and the client get.
func TestSources(t *testing.T) {
	c := mustParse(t, sourceSample)
	want := outbound.SourceConfig{IPv4: netip.MustParseAddr("192.0.2.1"), IPv6: netip.MustParseAddr("2001:db8::1"), Hello: "a.example.com"}
	if got := c.Outbound().Sources; len(got) != 2 || got["a"] != want || got["b"].IPv6.IsValid() {
		t.Errorf("%+v", got)
	}
	core := c.Driver().Qmgr.Sources
	if len(core.Sources) != 2 || len(core.Pools) != 1 || core.Pools[0].Members[0] != (source.Member{Source: "a", Weight: 3}) || core.Pools[0].Members[1].Weight != 1 {
		t.Errorf("%+v", core)
	}
}

// Mistakes that show only when several parameters are looked at together.
func TestMistakesInPools(t *testing.T) {
	const two = "[source.a]\naddress = \"192.0.2.1\"\n[source.main]\naddress = \"192.0.2.2\"\n"
	for _, c := range []struct{ text, want string }{
		{"[pool.x]\nsources = [\"a\", \"mian\"]", `pool.x.sources: there is no source "mian" (did you mean main?)`},
		{"[pool.x]\nsources = [\"zzzz\"]", `there is no source "zzzz" (add a table [source.zzzz])`},
		{"[pool.x]\nsources = [\"a\", \"a\"]", `source a is in the list twice (write "a:2" for a double weight)`},
		{"[pool.x]\nsources = [\"a\"]\nclass = [\"blk\"]", `pool.x.class: there is no class "blk"`},
		{"[pool.x]\nsources = [\"a\"]\nroute = [\"smpt:\"]", `pool.x.route: there is no transport "smpt" of type smtp (did you mean smtp?)`},
		{"[pool.x]\nsources = [\"a\"]\nroute = [\"discard:\"]", `there is no transport "discard" of type smtp`},
		{"[pool.x]\nsources = [\"a\"]\n[pool.y]\nclass = [\"bulk\"]\nsources = [\"a\"]", "pool.y.sources: this pool gets no mail: [pool.x] before it has no conditions"},
		{"[source.c]\naddress = \"192.0.2.1\"", "source.c.address: 192.0.2.1 is an address of [source.a] too"},
	} {
		_, err := Parse("test.toml", []byte(two+c.text+"\n"), testEnvironment)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngives %v, want %s", c.text, err, c.want)
		}
	}
}

// A pool that gets no mail, and a plan that no source has, are allowed, but hardly meant.
func TestWarningsOfPoolsAndPlans(t *testing.T) {
	const source, shop = "[source.a]\naddress = \"127.0.0.2\"\n", "[pool.x]\ntenant = [\"shop\", \"x\"]\nsources = \"a\"\n[pool.y]\nsources = \"a\"\n"
	const noMail = "pool.y: it gets no mail: [pool.x] before it takes all that meets its conditions"
	for _, c := range []struct{ text, want string }{
		{shop, ""},
		{shop + "tenant = \"shop\"", noMail},
		{shop + "tenant = \"SHOP\"", noMail},
		{shop + "tenant = \"shop\"\nclass = \"bulk\"", noMail},
		{shop + "tenant = [\"shop\", \"z\"]", `pool.y.tenant: "shop" has no effect: [pool.x] before it takes that mail`},
		{shop + "tenant = [\"shop\", \"z\"]\nclass = \"bulk\"", `pool.y.tenant: "shop" has no effect: [pool.x] before it takes that mail`},
		{"[pool.x]\nclass = \"bulk\"\nsources = \"a\"\n[pool.y]\nsources = \"a\"\nclass = [\"normal\", \"bulk\"]", `pool.y.class: "bulk" has no effect: [pool.x] before it takes that mail`},
		{shop + "class = \"bulk\"", ""},
		{strings.Replace(shop, "\"shop\"", "\"*\"", 1) + "class = \"bulk\"", noMail},
		{"[pool.x]\nsources = \"a\"\n[warmup.tiny]\nstart = 2", `warmup.tiny: no source has this plan; set warmup = "tiny" under [source.NAME]`},
		{"warmup = \"tiny\"\n[pool.x]\nsources = \"a\"\n[warmup.tiny]\nstart = 2", ""},
	} {
		cfg, err := Parse("test.toml", []byte(source+c.text+"\n[tenant.shop]\nuser = \"s\"\n[tenant.x]\nuser = \"x\"\n[tenant.z]\nuser = \"z\"\n"), testEnvironment)
		if err != nil {
			t.Errorf("%s\n%v", c.text, err)
			continue
		}
		var got []string
		for _, w := range cfg.Warnings() {
			got = append(got, w.String())
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s\ngives %q, want %q", c.text, got, c.want)
		}
	}
}

func TestWarningsOfSources(t *testing.T) {
	env := Environment{Hostname: "mta.example.com", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")}}
	c, err := Parse("test.toml", []byte(sourceSample+"[source.spare]\naddress = \"127.0.0.9\"\n"), env)
	if err != nil {
		t.Fatal(err)
	}
	want := []Warning{
		{"source.a.address", 3, "2001:db8::1 is not an address of this machine, and the program does not start without it"},
		{"source.spare", 11, "it is in no pool, and sends nothing"},
	}
	got := c.Warnings()
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
}
