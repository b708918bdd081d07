package route

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// What an operator can write as a route, and what it becomes.
func TestParseOrder(t *testing.T) {
	for text, want := range map[string]string{
		"smtp:[Relay.Example]:587":          "smtp:[relay.example]:587",
		"[relay.example]":                   "std:[relay.example]",
		"  [relay.example]:submission ":     "std:[relay.example]:587",
		"relay.example":                     "std:relay.example",
		"relay.example:2525":                "std:relay.example:2525",
		":[a.example],[b.example]":          "std:[a.example],[b.example]",
		"slow:":                             "slow:",
		"slow: [a.example]":                 "slow:[a.example]",
		"slow:[192.0.2.1],[2001:db8::1]:26": "slow:[192.0.2.1],[2001:db8::1]:26",
		"slow":                              "slow:",
		" slow ":                            "slow:",
		"localhost":                         "localhost:",
		"discard":                           "discard:",
		"error":                             "error:5.0.0 mail to this address is refused",
		"discard:":                          "discard:",
		"discard:no more of it":             "discard:no more of it",
		"lmtp:unix:/run/lmtp":               "lmtp:unix:/run/lmtp",
		"error:5.1.6 moved":                 "error:5.1.6 moved",
		"error:":                            "error:5.0.0 mail to this address is refused",
		"retry:":                            "retry:4.0.0 mail to this address is deferred",
	} {
		r, err := ParseOrder(text, "std")
		if err != nil || FormatOrder(r) != want {
			t.Errorf("%q became %q, want %q; %v", text, FormatOrder(r), want, err)
			continue
		}
		again, err := ParseOrder(want, "other")
		if err != nil || again != r {
			t.Errorf("%q is read as %+v, want %+v; %v", want, again, r, err)
		}
	}
	for text, want := range map[string]string{
		"":                                 "it is empty",
		" \t ":                             "it is empty",
		":":                                "names neither",
		" : ":                              "names neither",
		"smtp:[relay.example":              "closing ']' is missing",
		"smtp:[relay.example]:0":           "the port",
		"smtp:[relay.example]:99999":       "the port",
		"192.0.2.1":                        "without brackets",
		"::1":                              "write [::1]",
		"2001:db8::1":                      "write [2001:db8::1]",
		"a\r\nb":                           "control characters",
		"smtp:[a\x00b]":                    "control characters",
		"smtp:" + strings.Repeat("a", 600): "longer than 512 bytes",
		"error:4.1.1 later":                "wrong class",
		"a b:c":                            "not a number",
	} {
		_, err := ParseOrder(text, "std")
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What an operator has written is not what an address leads to: it has a port, or is a host.
func TestWrittenNexthop(t *testing.T) {
	for text, want := range map[string]string{
		"relay.example":                "relay.example:25",
		"relay.example:587":            "relay.example:587",
		"[relay.example]":              "[relay.example]",
		"[192.0.2.1]":                  "[192.0.2.1]:25",
		"{a.example,b.example}":        "{a.example,b.example}:25",
		"a.example [b.example],[::1]":  "a.example:25,[b.example],[::1]:25",
		"[192.0.2.1],[2001:db8::1]:26": "[192.0.2.1]:25,[2001:db8::1]:26",
		"unix:/run/lmtp":               "unix:/run/lmtp",
		"":                             "",
	} {
		got := WrittenNexthop(text)
		if again := WrittenNexthop(got); got != want || again != got {
			t.Errorf("%q became %q and %q, want %q", text, got, again, want)
		}
		list, err := ParseNexthops(got)
		for _, n := range list {
			if !n.Written() {
				t.Errorf("%q: %v is not taken for written", text, n)
			}
		}
		if err != nil && got != "" && got != "unix:/run/lmtp" {
			t.Error(err)
		}
	}
	for _, text := range []string{"a.example", "[192.0.2.1]", "{a.example}"} {
		if n, err := ParseNexthop(text); err != nil || n.Written() {
			t.Errorf("%s: %v, %v", text, n, err)
		}
	}
}

// The route of an order, for addresses of any kind.
func TestOrdered(t *testing.T) {
	table, err := NewTable(Config{Hostname: "mx.example", Rules: []string{"down.example error:", "* smtp:[elsewhere.example]"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target string
		to     mail.Address
		want   string
	}{
		{"smtp:[relay.example]:587", "a@Down.Example", "smtp [relay.example]:587 "},
		{"slow:", "a@Down.Example", "slow down.example "},
		{"slow:", "a@[192.0.2.7]", "slow [192.0.2.7] "},
		{"slow:", "bob", "slow mx.example "},
		{"slow:", "postmaster", "slow mx.example "},
		{"smtp:[relay.example]", "a@b..c", "error  5.1.3"},
		{"error:5.1.6 moved", "a@b.example", "error  5.1.6"},
		{"discard:", "a@b.example", "discard b.example "},
		{"smtp:[", "a@b.example", "retry  4.3.5"},
		{"", "a@b.example", "retry  4.3.5"},
	} {
		r := table.Ordered(c.target, c.to)
		if got := r.Transport + " " + r.Nexthop + " " + r.Reply.Status.String(); got != c.want {
			t.Errorf("%s for %s: %q, want %q", c.target, c.to, got, c.want)
		}
	}
}
