package config

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/internal/tomlfile"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

const flowSample = `
flow_key = "header:Feedback-ID"
flow_header_clients = "192.0.2.1"
[tenant.zoo]
sender = "zoo.example"
weight = 3
[class.urgent]
sender = ["otp@*", "<>"]
tenant = "zoo"
header = "Precedence: bulk mail, mostly"
listener = "submission_socket, :587"
client = "10.0.0.0/8"
user = "uid:33"
min_recipients = 2
min_mt_priority = 4
max_mt_priority = -2
weight = 100
priority = "strict"
max_share = 30
[class.bulk]
[tenant.ape]
user = "jane"
client = ["192.0.2.0/24"]
[class.a]
`

// What the file says reaches the rules, in the order of the file, and the standard
// classes that it does not define come after that.
func TestFlows(t *testing.T) {
	want := flow.Config{
		Key:           flow.Key{Kind: flow.KeyHeader, Header: "Feedback-ID"},
		HeaderClients: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")},
		Tenants: []flow.Tenant{
			{Name: "zoo", Weight: 3, Match: flow.Match{Senders: []string{"zoo.example"}}},
			{Name: "ape", Weight: 1, Match: flow.Match{Users: []string{"jane"}, Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}},
		},
		Classes: []flow.Class{
			{Name: "urgent", Weight: 100, Strict: true, MaxShare: 30, Match: flow.Match{
				Senders: []string{"otp@*", "<>"}, Tenants: []string{"zoo"}, Headers: []string{"Precedence: bulk mail, mostly"},
				Listeners: []flow.Listener{{}, {Addr: netip.MustParseAddrPort("[::]:587")}}, Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
				Users: []string{"uid:33"}, MinRecipients: 2, MinPriority: 4, MaxPriority: -2}},
			{Name: "bulk", Weight: 1}, {Name: "a", Weight: 4}, {Name: "normal", Weight: 4},
		},
	}
	if got := mustParse(t, flowSample).Flows(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	weights := fair.Rules{Classes: []fair.Class{{Name: "urgent", Weight: 100, Strict: true, MaxShare: 300}, {Name: "a", Weight: 4}, {Name: "normal", Weight: 4}},
		Tenants: map[string]int{"zoo": 3}}
	if got := mustParse(t, flowSample).Driver().Qmgr.Shares; !reflect.DeepEqual(got, weights) {
		t.Errorf("%+v\nwant\n%+v", got, weights)
	}
	standard := flow.Config{}.WithDefaults()
	if got := Default(testEnvironment).Flows(); !reflect.DeepEqual(got.WithDefaults(), standard) || !reflect.DeepEqual(got.Classes, standard.Classes) {
		t.Errorf("%+v\nwant\n%+v", got, standard)
	}
	// This test must cover every condition.
	for match, name := range map[*flow.Match]string{&want.Classes[0].Match: "class"} {
		for i := range reflect.TypeFor[flow.Match]().NumField() {
			if reflect.ValueOf(*match).Field(i).IsZero() {
				t.Errorf("%s: %s cannot be set", name, reflect.TypeFor[flow.Match]().Field(i).Name)
			}
		}
	}
}

// What is shown is read back to the same, in the same order.
func TestShowFlows(t *testing.T) {
	c := mustParse(t, flowSample)
	for _, onlyChanged := range []bool{false, true} {
		again := mustParse(t, shown(t, c, onlyChanged, false))
		if !reflect.DeepEqual(again.Flows(), c.Flows()) {
			t.Errorf("%+v\nwas\n%+v", again.Flows(), c.Flows())
		}
	}
	const want = `[class.urgent]
weight = 100
priority = "strict"
max_share = 30
sender = ["otp@*", "<>"]
tenant = ["zoo"]
header = ["Precedence: bulk mail, mostly"]
listener = ["submission_socket", "[::]:587"]
client = ["10.0.0.0/8"]
user = ["uid:33"]
min_recipients = 2
min_mt_priority = 4
max_mt_priority = -2

[class.bulk]

[class.a]

[tenant.zoo]
weight = 3
sender = ["zoo.example"]

[tenant.ape]
client = ["192.0.2.0/24"]
user = ["jane"]
`
	if got := shown(t, c, true, false); !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// The order decides, so a reload reports that it changes.
func TestDiffFlows(t *testing.T) {
	before := mustParse(t, "[class.a]\nweight = 2\n[class.b]\n[class.old]\n[tenant.x]\nuser = \"x\"\n")
	after := mustParse(t, "[class.new]\n[class.b]\n[class.a]\nheader = \"X-A\"\n[tenant.x]\nuser = \"x\"\n[tenant.y]\nuser = \"y\"\n")
	want := []Change{
		{Key: "class.a.weight", Old: "2", New: "4"}, {Key: "class.a.header", Old: "[]", New: `["X-A"]`},
		{Key: "class.new", New: present}, {Key: "class.old", Old: present},
		{Key: "class", Old: `["a", "b", "bulk", "normal"]`, New: `["b", "a", "bulk", "normal"]`},
		{Key: "tenant.y", New: present},
	}
	if got := Diff(before, after); !slices.Equal(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

// Mistakes in classes and tenants are found, with the reason and their lines.
func TestFlowMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"[class.a]\npriority = \"strict\"": "1:2: class.a.max_share: a class of priority strict needs a limit, or a flood in it would stop all other mail (add such as max_share = 20)",
		"[class.a]\nmax_share = 20":        `2:13: class.a.max_share: the limit has no effect while priority is weighted (set priority = "strict" too)`,
		"[class.a]\npriority = \"strict\"\nmax_share = 60\n[class.b]\npriority = \"strict\"\nmax_share = 31": "6:13: class.b.max_share: with this class the sum of all max_share is 91, and it must be at most 90",
		"[class.a]\npriority = \"strict\"\nmax_share = 91":                                                   "class.a.max_share: 91 is more than 90",
		"[class.a]\nweight = 0":                        "class.a.weight: 0 is less than 1",
		"[class.a]\nsender = \"<a@b>\"":                `"<a@b>" is not an address`,
		"[class.a]\nsender = \"@b\"":                   `write "b" for the domain`,
		"[class.a]\nheader = [\"X A: b\"]":             `"X A: b" does not begin with the name of a header field`,
		"[class.a]\nlistener = \"submit\"":             `there is no listener "submit" (set name = "submit" under a [[listener]], or write its address and port)`,
		"[class.a]\nlistener = \"587\"":                `"587" has no port`,
		"[class.\"a b\"]\n":                            "invalid name of a class",
		"[class]\nweight = 1":                          "this must be set for a named class (write it under [class.NAME])",
		"[tenant.a]\nweight = 2":                       "tenant.a: this tenant has no mail (add sender, client or user",
		"[tenant.a]\nuser = \"x\"\nmin_recipients = 2": "tenant.a.min_recipients: unknown parameter (min_recipients belongs under [class.NAME])",
		"class = 1":                              "write its keys under [class.NAME]",
		"flow_key = \"senders\"":                 "did you mean sender?",
		"flow_key = \"header\"":                  "\"header\" is not a flow key (name the field, as in \"header:Feedback-ID\")",
		"flow_key = \"header:\"":                 `"" is not the name of a header field`,
		"flow_header_clients = \"192.0.2.1/24\"": "has bits set after the first 24",
		"[class.a]\n[class.a]\n":                 "class.a",
		"[classes.a]\nweight = 2":                "did you mean [class]?",
		"[class.a]\npriorty = \"strict\"":        "did you mean priority?",
		"[tenant.a]\nclients = \"192.0.2.1\"":    "did you mean client?",
	} {
		_, err := Parse("f", []byte(text+"\n"), testEnvironment)
		var problems *tomlfile.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if len(problems.List) != 1 {
			t.Errorf("%q: %d problems: %v", text, len(problems.List), err)
		}
	}
}
