package config

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/inbound"
)

// ETRN is offered where other servers connect, once there is a domain for it, unless the listener says otherwise.
func TestETRN(t *testing.T) {
	const listeners = `listen = ":25"
[[listener]]
address = ":587"
purpose = "submission"
tls = "none"
[[listener]]
address = ":26"
etrn = "trusted"
[[listener]]
address = ":27"
etrn = "off"
[[listener]]
address = ":588"
purpose = "submission"
tls = "none"
etrn = "off"
`
	for text, want := range map[string]string{
		listeners:                               "off off off off off",
		"fast_flush_domains = []\n" + listeners: "off off off off off",
		"fast_flush_domains = [\"A.example\", \".b.example\"]\n" + listeners: "all off trusted off off",
	} {
		c := mustParse(t, text)
		checkMapped(t, c)
		var got []string
		for _, l := range terms(c) {
			got = append(got, l.ETRN.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
	if c := mustParse(t, "fast_flush_domains = \"a.example\"\nfast_flush_interval = \"5m\"\n"); c.FastFlush.Interval != 5*time.Minute || len(c.FastFlush.Domains) != 1 || terms(c)[0].ETRN != inbound.ETRNAll {
		t.Errorf("%+v", c.FastFlush)
	}
}

// What cannot be meant is said.
func TestETRNMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"fast_flush_domains = \"*.example\"\n":            `"*.example" is not a domain (write ".example" for all names below example)`,
		"fast_flush_domains = [\"a.example\", \"a b\"]\n": `"a b" is not a domain`,
		"fast_flush_interval = 0\n":                       "fast_flush_interval",
		"[[listener]]\naddress = \":587\"\npurpose = \"submission\"\ntls = \"none\"\netrn = \"all\"\n": `5:8: listener."[::]:587".etrn: ETRN is for mail servers, not for submission (RFC 6409 7) (remove it, or set it for a listener of purpose relay)`,
		"[[listener]]\naddress = \":25\"\netrn = \"yes\"\n":                                            `"yes" is not one of the allowed words`,
	} {
		if _, err := Parse("f", []byte(text), testEnvironment); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}
