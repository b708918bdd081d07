package verp

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// The sender of each copy, as the receiver sees it: what the envelope asks for, where that is
// possible.
func TestSender(t *testing.T) {
	plain, tagged := mail.VERP{Before: '+', At: '='}, mail.VERP{Before: '-', At: '=', Tagged: true}
	secrets := [][]byte{[]byte("new"), []byte("old")}
	tag := string(tag(secrets[0], "list@shop.example", "jane@example.net"))
	long := mail.Address(strings.Repeat("a", 64) + "@" + strings.Repeat("b.", 90) + "example")
	for _, c := range []struct {
		verp    mail.VERP
		secrets [][]byte
		sender  mail.Address
		to      mail.Recipient
		want    mail.Address
	}{
		{mail.VERP{}, secrets, "list@shop.example", mail.Recipient{Address: "jane@example.net"}, "list@shop.example"},
		{plain, secrets, "list@shop.example", mail.Recipient{Address: "jane@example.net"}, "list+jane=example.net@shop.example"},
		{tagged, secrets, "list@shop.example", mail.Recipient{Address: "jane@example.net"}, mail.Address("list-" + tag + "-jane=example.net@shop.example")},
		{tagged, nil, "list@shop.example", mail.Recipient{Address: "jane@example.net"}, "list-jane=example.net@shop.example"},
		{plain, nil, "", mail.Recipient{Address: "jane@example.net"}, ""},
		{plain, nil, "list@shop.example", mail.Recipient{Address: "postmaster"}, "list+postmaster@shop.example"},
		{plain, nil, "list@shop.example", mail.Recipient{Address: `"a b"@example.net`}, `"list+a b=example.net"@shop.example`},
		{plain, nil, "list@shop.example", mail.Recipient{Address: "jörg@bücher.example"}, "list+jörg=bücher.example@shop.example"},
		// An alias: the sender knows its name, and not what it stands for.
		{plain, nil, "list@shop.example", mail.Recipient{Address: "x@elsewhere.example", ORcpt: "rfc822;team+2Bx@example.net"}, "list+team+x=example.net@shop.example"},
		// What ORCPT has is a client's word, and need not be an address.
		{plain, nil, "list@shop.example", mail.Recipient{Address: "jane@example.net", ORcpt: "rfc822;jane"}, "list+jane=example.net@shop.example"},
		{plain, nil, "list@shop.example", mail.Recipient{Address: "jane@example.net", ORcpt: "rfc822;a@b@@..c"}, "list+jane=example.net@shop.example"},
		{plain, nil, "list@shop.example", mail.Recipient{Address: "jane@example.net", ORcpt: "rfc822;j+C3+B6@example.net"}, "list+jane=example.net@shop.example"},
		{plain, nil, "list@shop.example", mail.Recipient{Address: "jane@example.net", ORcpt: "rfc822;a+0D+0AMAIL@example.net"}, "list+jane=example.net@shop.example"},
		{plain, nil, "list@shop.example", mail.Recipient{Address: "jane@example.net", ORcpt: "x400;x@y"}, "list+jane=example.net@shop.example"},
		{plain, nil, "list@shop.example", mail.Recipient{Address: "jane@example.net", ORcpt: "rfc822;" + string(long)}, "list+jane=example.net@shop.example"},
		{plain, nil, "list@shop.example", mail.Recipient{Address: long}, "list@shop.example"},
	} {
		e := mail.Envelope{Sender: c.sender, VERP: c.verp}
		if got := Sender(c.secrets, &e, &c.to); got != c.want {
			t.Errorf("%s to %+v, %v: %s, want %s", c.sender, c.to, c.verp, got, c.want)
		}
	}
}

// A transaction with several recipients cannot have one of them in its sender.
func TestSenderOf(t *testing.T) {
	d := mail.Delivery{Envelope: mail.Envelope{Sender: "list@shop.example", VERP: mail.VERP{Before: '+', At: '='}}, Recipients: []mail.Recipient{{Address: "a@x.example"}}}
	if got := SenderOf(nil, &d); got != "list+a=x.example@shop.example" {
		t.Error(got)
	}
	d.Recipients = append(d.Recipients, mail.Recipient{Address: "b@x.example"})
	if got := SenderOf(nil, &d); got != "list@shop.example" {
		t.Error(got)
	}
}

// The first table that all conditions of are met by decides, also that there is no recipient in the
// sender.
func TestRules(t *testing.T) {
	r := NewRules([]Rule{
		{Senders: []string{"otp@*"}},
		{Classes: []string{"bulk"}, Tenants: []string{"shop*"}, Senders: []string{".shop.example"}, VERP: mail.VERP{Before: '-', At: '='}},
		{Flows: []string{"campaign-*"}, VERP: mail.VERP{Before: '+', At: '='}},
		{Classes: []string{"news", "bulk"}, VERP: mail.VERP{Before: '=', At: '=', Tagged: true}},
	})
	for _, c := range []struct {
		class, tenant, flow string
		sender              mail.Address
		want                string
	}{
		{"bulk", "shop-1", "x", "otp@a.shop.example", ""},
		{"bulk", "shop-1", "campaign-7", "news@a.shop.example", "-="},
		{"bulk", "other", "Campaign-7", "news@a.shop.example", "+="},
		{"bulk", "other", "x", "news@shop.example", "==tag"},
		{"normal", "shop", "x", "news@a.shop.example", ""},
		{"bulk", "shop", "x", "", ""},
		{"bulk", "shop", "x", "postmaster", ""},
	} {
		if got := r.Choose(&mail.Flow{Class: c.class, Tenant: c.tenant, Flow: c.flow}, c.sender).String(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := NewRules(nil).Choose(&mail.Flow{}, "a@b.example"); !got.IsZero() {
		t.Error(got)
	}
}

// What envelopes and traces have is read again, and nothing else.
func TestText(t *testing.T) {
	for _, v := range []mail.VERP{{}, {Before: '+', At: '='}, {Before: '=', At: '-', Tagged: true}} {
		if got, err := mail.ParseVERP(v.String()); got != v || err != nil {
			t.Errorf("%q: %+v, %v", v.String(), got, err)
		}
	}
	for _, text := range []string{"+", "+=x", "+=tags"} {
		if v, err := mail.ParseVERP(text); err == nil {
			t.Errorf("%q is %+v", text, v)
		}
	}
}

// A message to very many recipients: the sender of each is computed once for each delivery.
func BenchmarkSender(b *testing.B) {
	for name, v := range map[string]mail.VERP{"plain": {Before: '+', At: '='}, "tagged": {Before: '+', At: '=', Tagged: true}} {
		b.Run(name, func(b *testing.B) {
			e := mail.Envelope{Sender: "bounces@shop.example", VERP: v}
			r := mail.Recipient{Address: "jane.doe@example.net"}
			secrets := [][]byte{[]byte("secret")}
			b.ReportAllocs()
			for b.Loop() {
				Sender(secrets, &e, &r)
			}
		})
	}
}
