package replies

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

func TestWithoutAddresses(t *testing.T) {
	for _, c := range []struct {
		text, want string
		of         []mail.Address
	}{
		{"no address here", "no address here", nil},
		{"<client host@p.test>: Recipient address rejected", "<@>: Recipient address rejected", nil},
		{"<me.test>: Helo command rejected by a@b", "<me.test>: Helo command rejected by a@b", nil},
		{"a <x@y> b <z> c <q@r", "a <@> b <z> c <q@r", nil},
		{"a <b <client host@p.test> c", "a <b <@> c", nil},
		{"score 7 < 9: Client host [192.0.2.1] blocked, contact <abuse@x.test>", "score 7 < 9: Client host [192.0.2.1] blocked, contact <@>", nil},
		{"user \"client host\" of a@b rejected", "user @ of a@b rejected", []mail.Address{"\"client host\"@p.test"}},
		{"a@b: policy of p.test", "a@b: policy of p.test", []mail.Address{"policy@p.test"}},
		{"user CLIENT HOST@p.test unknown, Client Host@P.TEST", "user @ unknown, @", []mail.Address{"\"client host\"@p.test"}},
		{"user \"client host\"@p.test unknown", "user @ unknown", []mail.Address{"", "\"client host\"@p.test"}},
		{"your ip@x.test blocked", "@ blocked", []mail.Address{"\"your\\ ip\"@x.test"}},
		{"<a>client hosts@h0.test>: rejected", "<@>: rejected", []mail.Address{"s@h0.test", "\"a>client hosts\"@h0.test"}},
		{"a>client hosts@h0.test rejected", "@ rejected", []mail.Address{"s@h0.test", "\"a>client hosts\"@h0.test"}},
		{"client a@b.test host", "client @ host", []mail.Address{"a@b.test"}},
	} {
		if got := withoutAddresses(c.text, c.of...); got != c.want {
			t.Errorf("%q without %q: %q, want %q", c.text, c.of, got, c.want)
		}
	}
}

// The local part of an address is no reason for a rule.
func TestChosenWords(t *testing.T) {
	words := must(t, NewWords, "client host")
	book := New(nil, []Rule{{Name: "blocked", Match: Match{Words: []string{words}}, Times: 1, Suspend: 1}})
	for text, want := range map[string]bool{
		"554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked":                  true,
		"554 5.7.1 <client host@p.test>: Recipient address rejected: Access denied":       false,
		"554 5.7.1 recipient client host@p.test rejected":                                 false,
		"554 5.7.1 sender your client host@x.test rejected":                               false,
		"554 5.7.1 <client host@p.test>: Client host rejected: cannot find your hostname": false, // only his own mail is returned
	} {
		r := mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: mail.Failed, Reply: *reply(t, "h[1]", text), Stage: mail.StageRcpt}}}
		book.Delivered(&mail.Delivery{Transport: "smtp", Recipients: []mail.Recipient{{Address: "\"client host\"@p.test"}},
			Envelope: mail.Envelope{ID: 7, Sender: "\"your client host\"@x.test"}}, &r)
		if (r.Measure != nil) != want {
			t.Errorf("%q: %+v, want %t", text, r.Measure, want)
		}
	}
}
