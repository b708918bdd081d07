package credential

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// Whatever a client says in MAIL, a credential that is for one sender goes with mail of that sender and no other, and the
// case of letters does not matter.
func FuzzSenderOfCredential(f *testing.F) {
	of := func(name string, senders ...string) Credential {
		c := password(name, "*")
		c.Senders = senders
		return c
	}
	table, err := NewTable([]Credential{of("all"), of("mia", "mia@shop.example"), of("shop", "@shop.example"), of("none", "<>")}, "+")
	if err != nil {
		f.Fatal(err)
	}
	for _, sender := range []string{"", "<>", "mia@shop.example", "Mia+x@SHOP.example.", "@shop.example", "a@b@shop.example", "\"mia@shop.example\"@x.example", "mia@[192.0.2.1]", "mia@bücher.example", "+@shop.example", "@", "mia@"} {
		f.Add(sender)
	}
	f.Fuzz(func(t *testing.T, sender string) {
		got := table.For("[relay.example]:587", true, mail.Address(sender))
		if other := table.For("[relay.example]:587", true, mail.Address(strings.Map(lower, sender))); other != got {
			t.Errorf("%q has %q, and in lower case %q", sender, got, other)
		}
		local, _, _ := strings.Cut(strings.Map(lower, sender), "@")
		shop := strings.HasSuffix(strings.TrimSuffix(strings.ToLower(sender), "."), "@shop.example")
		switch got {
		case "mia":
			if local != "mia" && !strings.HasPrefix(local, "mia+") {
				t.Errorf("%q is mia", sender)
			}
		case "none":
			if sender != "<>" {
				t.Errorf("%q is the null sender", sender)
			}
		case "all":
			if shop {
				t.Errorf("%q is of no domain", sender)
			}
		}
	})
}

// Whatever a server says, nothing of it is lost but secrets, and no secret is left.
func FuzzRedact(f *testing.F) {
	h := &Held{Credential: password("office", "*")}
	for _, text := range []string{"250 fine", "no " + pass, "Y29ycmVjdCBob3JzZQ==AG1pYQBjb3JyZWN0IGhvcnNl", strings.Repeat("x", mail.ReplyTextMax) + "correct", "correct hcorrect horseorse\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := h.Redactor(Secret{}).Redact(text)
		for _, form := range []string{pass, "Y29ycmVjdCBob3JzZQ", "AG1pYQBjb3JyZWN0IGhvcnNl"} {
			if strings.Contains(got, form) {
				t.Errorf("%q becomes %q", text, got)
			}
		}
		if !strings.Contains(got, hidden) && got != text {
			t.Errorf("%q becomes %q, without a secret", text, got)
		}
	})
}
