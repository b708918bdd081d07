package outbound

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/outbound/credential"
)

// Each refusal has its stage: rules on replies conclude from it whether the host means us, a
// sender, or a recipient.
func TestStages(t *testing.T) {
	for _, row := range []struct {
		at, code string
		opened   mail.Stage // of a session that is refused
		outcome  mail.Stage
		closed   mail.Stage // of a session that is ended with 421
	}{
		{at: "greeting", code: "554", opened: mail.StageGreeting}, {at: "EHLO", code: "450", opened: mail.StageEhlo}, {at: "AUTH", code: "535", opened: mail.StageAuth},
		{at: "MAIL", code: "550", outcome: mail.StageMail}, {at: "MAIL", code: "450", outcome: mail.StageMail}, {at: "MAIL", code: "421", outcome: mail.StageMail, closed: mail.StageMail},
		{at: "RCPT", code: "550", outcome: mail.StageRcpt}, {at: "RCPT", code: "421", outcome: mail.StageRcpt, closed: mail.StageRcpt},
		{at: "DATA", code: "554", outcome: mail.StageData},
		{at: ".", code: "554", outcome: mail.StageContent}, {at: ".", code: "250", outcome: mail.StageContent}, {at: ".", code: "421", outcome: mail.StageContent, closed: mail.StageContent},
	} {
		t.Run(row.at+" "+row.code, func(t *testing.T) {
			t.Parallel()
			p := &parrot{at: row.at, code: row.code}
			p.hear("-") // from the first session on
			d := newDesk(t, newAuthority(t), credential.Credential{Mechanisms: []string{credential.Plain}, Protection: credential.Optional, InClear: true, Password: credential.NewSecret(thePass)})
			d.bodies, d.dialer = store{1: fakeContent{data: "Subject: x\r\n\r\nx\r\n"}}, &tap{serve: p.serve, cut: -1}
			k, opened := d.Dial(t.Context(), mail.Opening{Transport: "smtp", Nexthop: "[office.test]:587", Security: d.demand("+auth=office"), Level: mail.LevelLockStep,
				Host: mail.Host{Name: "office.test", Addr: address("1")}})
			if opened.Stage != row.opened || (k == nil) != (row.opened != mail.StageUnknown) {
				t.Fatalf("the session is %+v", opened)
			}
			if k == nil {
				return
			}
			var got mail.Outcome
			k.Send(1, message(1, "b@example.net"))
			k.Hangup()
			closing := k.Run(t.Context(), func(_ uint64, r mail.DeliveryResult) { got = r.Outcomes[0] })
			if got.Stage != row.outcome || closing.Stage != row.closed {
				t.Errorf("at %v: %+v; the connection ended at %v: %+v", got.Stage, got, closing.Stage, closing)
			}
		})
	}
}
