package outbound

import (
	"fmt"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

func delivery(transport, nexthop string) mail.Delivery {
	return mail.Delivery{Transport: transport, Nexthop: nexthop, Envelope: mail.Envelope{Sender: "a@example.org"},
		Recipients: []mail.Recipient{
			{Index: 3, Address: "b@example.net"},
			{Index: 7, Address: "c@example.net", Notify: mail.NotifySuccess},
		}}
}

// The agents without a connection give every recipient the same answer, made
// of the nexthop's text.
func TestAgents(t *testing.T) {
	agents := Agents{"discard": Discard{}, "error": Error{}, "retry": Retry{}}
	for _, c := range []struct {
		transport, nexthop string
		result             mail.Result
		reply              string
		report             mail.ReportKind
		crashed            bool
	}{
		{"discard", "", mail.Delivered, "250 2.0.0 mail dropped", mail.ReportDelivered, false},
		{"discard", "by rule", mail.Delivered, "250 2.0.0 mail dropped: by rule", mail.ReportDelivered, false},
		{"error", "user moved", mail.Failed, "550 5.0.0 user moved", mail.ReportNone, false},
		{"error", "5.1.1 no such user", mail.Failed, "550 5.1.1 no such user", mail.ReportNone, false},
		{"error", "4.1.1 no such user", mail.Failed, "550 5.1.1 no such user", mail.ReportNone, false},
		{"error", "5.1.1", mail.Failed, "550 5.1.1 mail is not delivered here", mail.ReportNone, false},
		{"retry", "4.4.1 host is down", mail.Deferred, "450 4.4.1 host is down", mail.ReportNone, false},
		{"retry", "host is down\x00", mail.Deferred, "450 4.0.0 host is down?", mail.ReportNone, false},
		{"gone", "x", mail.Deferred, "451 4.3.5 mail transport gone is not configured", mail.ReportNone, true},
	} {
		d := delivery(c.transport, c.nexthop)
		r := agents.Deliver(t.Context(), d)
		for i, o := range r.Outcomes {
			report := c.report
			if i == 0 {
				report = mail.ReportNone
			}
			if o.Index != d.Recipients[i].Index || o.Result != c.result || o.Reply.String() != c.reply || o.Report != report || o.At == 0 {
				t.Errorf("%s %q: outcome %+v", c.transport, c.nexthop, o)
			}
		}
		if len(r.Outcomes) != 2 || r.Crashed != c.crashed || !r.Site.IsZero() || r.Unavailable.IsZero() == c.crashed {
			t.Errorf("%s %q: result %+v", c.transport, c.nexthop, r)
		}
	}
}

// All that is wrong with a configuration is said at once.
func TestConfigValidate(t *testing.T) {
	err := Config{
		Hello: "my host",
		Transports: map[string]TransportConfig{
			"smtp":  {MailTimeout: -1, FallbackRelays: []string{""}},
			"relay": {DataDoneTimeout: 10},
		},
	}.Validate()
	want := `hello: "my host" is not a host name
transport relay: data_done_timeout: 10ns is less than a second
transport smtp: mail_timeout: -1ns is less than a second
fallback_relay: empty nexthop`
	if fmt.Sprint(err) != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	if err := (Config{Hello: "me.example"}).Validate(); fmt.Sprint(err) != "transports: none is configured" {
		t.Errorf("got %v", err)
	}
	if err := (Config{Hello: "me.example", Transports: map[string]TransportConfig{"smtp": {}}}).Validate(); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{}, nil, nil, nil); err == nil {
		t.Error("New took a configuration that is not valid")
	}
}
