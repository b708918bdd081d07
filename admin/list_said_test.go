package admin

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// A host's answer is shown as it came, line by line, apart from why the host was not asked again.
func TestAnswersAreShownAsTheyCame(t *testing.T) {
	var o mail.RecipientOutcome
	o.Outcome.Result, o.Outcome.Expired = mail.Failed, true
	o.Outcome.Reply = mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: mail.SuspendedPrefix + "closed to you\nsee a / b", By: "mx.example.net[198.51.100.7]"}
	r := (&Server{cfg: Config{}.WithDefaults()}).recipientOf(&o)
	if r.Reply != "554 5.7.1 closed to you\nsee a / b" || r.PutOff != "delivery temporarily suspended" || !r.Expired || r.By != o.Outcome.Reply.By {
		t.Errorf("%+v", r)
	}
}
