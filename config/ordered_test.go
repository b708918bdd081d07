package config

import (
	"strings"
	"testing"
)

// Operators can order the routes that the configuration could have, and no others.
func TestParseOrderedRoute(t *testing.T) {
	c := mustParse(t, `default_transport = "slow"
[transport.slow]
type = "smtp"
[transport.boxes]
type = "lmtp"
[transport.gateway]
type = "smtp"
nexthop = "[gateway.example]:587"
[transport.moved]
type = "smtp"
nexthop = "moved.example"
[transport.local]
type = "lmtp"
nexthop = "unix:/run/lmtp"
`)
	for text, want := range map[string]string{
		"[relay.example]":          "slow:[relay.example]",
		"smtp:[relay.example]:587": "smtp:[relay.example]:587",
		"gateway:":                 "gateway:[gateway.example]:587",
		"gateway:[other.example]":  "gateway:[other.example]",
		"local:":                   "local:unix:/run/lmtp",
		"boxes:store.example":      "boxes:[store.example]:24",
		"boxes:[192.0.2.1]":        "boxes:[192.0.2.1]:24",
		"relay.example":            "slow:relay.example:25",
		"smtp:relay.example:587":   "smtp:relay.example:587",
		"[192.0.2.1]":              "slow:[192.0.2.1]:25",
		"moved:":                   "moved:moved.example:25",
		"slow":                     "slow:",
		"gateway":                  "gateway:[gateway.example]:587",
		"discard":                  "discard:",
		"discard:to relay.example": "discard:to relay.example",
		"boxes:unix:/run/other":    "boxes:unix:/run/other",
		"discard:":                 "discard:",
		"error:5.1.6 moved":        "error:5.1.6 moved",
		"smtp:":                    "smtp:",
	} {
		got, err := c.ParseOrderedRoute(text)
		if err != nil || got != want {
			t.Errorf("%q became %q, want %q; %v", text, got, want, err)
		}
		if again, err := c.ParseOrderedRoute(got); err != nil || again != got {
			t.Errorf("%q became %q, %v", got, again, err)
		}
	}
	for text, want := range map[string]string{
		"smpt:[relay.example]": `there is no transport "smpt" (did you mean smtp?)`,
		"localhost:2525":       "write [localhost]:2525 for a host of that name",
		"localhost":            "write [localhost] for a host of that name",
		"Slow":                 `there is no transport "Slow" (did you mean slow?)`,
		"nowhere:unix:/run/x":  "it may be one of boxes, ",
		"feedback:":            `there is no transport "feedback"`,
		"boxes:":               "LMTP needs a nexthop",
		"smtp:unix:/run/lmtp":  "cannot use a unix socket",
		"boxes:unix:run/lmtp":  "is not absolute",
		"boxes:unix:/" + strings.Repeat("x", 200): "cannot be longer than",
		"smtp:[relay.example":                     "is missing",
		"":                                        "it is empty",
	} {
		if got, err := c.ParseOrderedRoute(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := c.ParseOrderedRoute("nowhere:x"); err == nil || strings.Contains(err.Error(), "feedback") {
		t.Error(err)
	}
}
