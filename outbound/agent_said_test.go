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

// Mail that is put off for what this program says keeps its code and status, too, if they are those of a deferral, or of a refusal.
//
// Seen failing: a 451 of the program became 450 in "queue list", while "queue destinations" had 451.
func TestAgentsQuoteThisProgram(t *testing.T) {
	temporary := mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 4, Detail: 1}, Text: mail.SuspendedPrefix + "connection refused"}
	permanent := mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 4, Detail: 6}, Text: "mail loops back to myself"}
	for _, c := range []struct {
		agent interface {
			Deliver(context.Context, mail.Delivery) mail.DeliveryResult
		}
		said, want mail.Reply
	}{
		{Retry{}, temporary, temporary},
		{Retry{}, permanent, mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 4, Detail: 6}, Text: permanent.Text}},
		{Error{}, permanent, permanent},
		{Error{}, temporary, mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 4, Detail: 1}, Text: temporary.Text}},
	} {
		d := mail.Delivery{Nexthop: c.said.Status.String() + " " + c.said.Text, Said: c.said, Recipients: []mail.Recipient{{Index: 3}}}
		if got := c.agent.Deliver(context.Background(), d).Outcomes[0].Reply; got != c.want {
			t.Errorf("%T: %+v became %+v, want %+v", c.agent, c.said, got, c.want)
		}
	}
}
