package conns

import (
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// A message may have several entries on one connection, and has left it when the last of
// them has ended.
func TestCarries(t *testing.T) {
	c := &Conn{}
	c.loads = []Load{{Message: 8}, {Message: 9}}
	if c.carries(7) || !c.carries(8) || !c.carries(9) {
		t.Error("a connection does not carry just what it was given")
	}
}

// Only words of the server show that it does its work, and only the loss of the
// connection that it does not.
func TestEndOf(t *testing.T) {
	said, ours := mail.Reply{Code: 450, By: "mx.example"}, mail.Reply{Code: 451}
	for _, c := range []struct {
		what     string
		site     mail.Reply
		outcomes []mail.Outcome
		want     end
	}{
		{"delivered", mail.Reply{}, []mail.Outcome{{Result: mail.Delivered}}, endJudged},
		{"deferred by the server", mail.Reply{}, []mail.Outcome{{Result: mail.Untried}, {Result: mail.Deferred, Reply: said}}, endJudged},
		{"deferred by us", mail.Reply{}, []mail.Outcome{{Result: mail.Deferred, Reply: ours}, {Result: mail.Untried}}, endOurs},
		{"first by us, then by the server", mail.Reply{}, []mail.Outcome{{Result: mail.Deferred, Reply: ours}, {Result: mail.Failed, Reply: said}}, endJudged},
		{"not begun", mail.Reply{}, []mail.Outcome{{Result: mail.Untried}}, endUntried},
		{"lost", said, []mail.Outcome{{Result: mail.Deferred, Reply: said}}, endBroken},
	} {
		if got := endOf(&mail.DeliveryResult{Site: c.site, Outcomes: c.outcomes}); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
