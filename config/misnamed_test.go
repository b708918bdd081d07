package config

import (
	"strings"
	"testing"
)

// A misspelled tenant in a rule or a pool takes no mail, and nothing else shows that. Neither
// does a name that is there twice.
func TestWarningsOfNames(t *testing.T) {
	const rest = "[source.a]\naddress = \"127.0.0.2\"\n[tenant.shop]\nuser = \"www\"\n[tenant.Bakery]\nclient = \"192.0.2.0/24\"\n"
	nobody := func(table, name, hint string) string {
		return table + ": there is no [tenant." + name + "]: \"" + name + "\" means only mail of a user of that name, and mail that names it in the field X-Posthaste-Tenant" + hint
	}
	for _, c := range []struct{ text, want string }{
		{"[pool.x]\nsources = \"a\"\ntenant = [\"shop\", \"bakery\"]", ""},
		{"[pool.x]\nsources = \"a\"\ntenant = [\"shp\"]", nobody("pool.x.tenant", "shp", "; did you mean shop?")},
		{"[pool.x]\nsources = \"a\"\ntenant = [\"zoological\"]", nobody("pool.x.tenant", "zoological", "")},
		{"[pool.x]\nsources = \"a\"\n[class.own]\ntenant = [\"Bakry\"]", nobody("class.own.tenant", "Bakry", "; did you mean Bakery?")},
		// Those of mail that no table is for.
		{"[pool.x]\nsources = \"a\"\ntenant = [\"uid:33\", \"198.51.100.0/24\", \"local\", \"agency-*\", \"*\"]", ""},
		{"[pool.x]\nsources = \"a\"\ntenant = [\"shop\", \"Shop\"]\nsender = [\"a@*\", \"b@*\", \"a@*\"]\nroute = [\"smtp:\", \"smtp:\"]\nclass = [\"bulk\", \"bulk\"]",
			"pool.x.tenant: \"Shop\" is in the list twice\npool.x.class: \"bulk\" is in the list twice\npool.x.sender: \"a@*\" is in the list twice\npool.x.route: \"smtp:\" is in the list twice"},
		{"[pool.x]\nsources = \"a\"\n[class.own]\ntenant = [\"shop\", \"shop\"]\nuser = [\"u\", \"u\"]\nclient = [\"192.0.2.1\", \"192.0.2.1\"]\nheader = [\"X-A\", \"X-A\"]\nsender = [\"x@*\", \"x@*\"]",
			"class.own.tenant: \"shop\" is in the list twice\nclass.own.sender: \"x@*\" is in the list twice\nclass.own.header: \"X-A\" is in the list twice\nclass.own.user: \"u\" is in the list twice\nclass.own.client: \"192.0.2.1/32\" is in the list twice"},
		{"[pool.x]\nsources = \"a\"\n[tenant.SHOP]\nuser = \"other\"",
			"tenant.SHOP: it is another tenant than [tenant.shop], and conditions for one of them are met by both; give one of them another name"},
		{"[pool.x]\nsources = \"a\"\n[tenant.second]\nuser = \"www\"\nsender = \"s@*\"", "tenant.second: it gets no mail by its conditions: [tenant.shop] before it takes all that meets them"},
		{"[pool.x]\nsources = \"a\"\n[tenant.second]\nuser = [\"www\", \"other\"]", ""},
		{"[pool.x]\nsources = \"a\"\n[tenant.second]\nuser = [\"u\", \"u\"]\nsender = [\"x@*\", \"x@*\"]\nclient = [\"192.0.2.0/24\", \"192.0.2.0/24\"]",
			"tenant.second.sender: \"x@*\" is in the list twice\ntenant.second.user: \"u\" is in the list twice\ntenant.second.client: \"192.0.2.0/24\" is in the list twice\ntenant.second: it gets no mail by its conditions: [tenant.Bakery] before it takes all that meets them"},
	} {
		cfg, err := Parse("test.toml", []byte(rest+c.text+"\n"), testEnvironment)
		if err != nil {
			t.Errorf("%s\n%v", c.text, err)
			continue
		}
		var got []string
		for _, w := range cfg.Warnings() {
			if got = append(got, w.String()); w.Line < 7 {
				t.Errorf("%s\nline %d: %v", c.text, w.Line, w)
			}
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s\ngives\n%s\nwant\n%s", c.text, text, c.want)
		}
	}
}
