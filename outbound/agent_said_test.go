package outbound

import (
	"context"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Mail that is put off for what a host has said keeps the host's code, status and name.
//
// Seen failing: the agent used only the text, with 450 and no host name.
func TestRetryQuotes(t *testing.T) {
	said := mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: mail.SuspendedPrefix + "closed to you", By: "mx.example.net[198.51.100.7]"}
	d := mail.Delivery{Nexthop: "5.7.1 " + said.Text, Recipients: []mail.Recipient{{Index: 3}}}
	want := mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 7, Detail: 1}, Text: said.Text}
	for range 2 {
		got := Retry{}.Deliver(context.Background(), d).Outcomes[0]
		if got.Result != mail.Deferred || got.Index != 3 || got.Reply != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		d.Said, want = said, said
	}
}
