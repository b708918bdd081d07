package verp

import (
	"errors"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

func codec(t testing.TB, delimiters string, secrets ...string) *Codec {
	t.Helper()
	d, err := ParseDelimiters(delimiters)
	if err != nil {
		t.Fatal(err)
	}
	c := &Codec{Delimiters: d}
	for _, s := range secrets {
		c.Secrets = append(c.Secrets, []byte(s))
	}
	return c
}

// These addresses are those that Postfix makes of the same senders and recipients (VERP_README),
// so list software that reads Postfix's reads ours.
func TestEncode(t *testing.T) {
	long := mail.Address(strings.Repeat("a", 64) + "@" + strings.Repeat("b.", 60) + "example")
	for _, c := range []struct {
		delimiters        string
		sender, recipient mail.Address
		want              mail.Address
		err               error
	}{
		{"+=", "list@shop.example", "jane@example.net", "list+jane=example.net@shop.example", nil},
		{"-=", "list-return@shop.example", "jane@example.net", "list-return-jane=example.net@shop.example", nil},
		{"==", "a@b.example", "c@d.example", "a=c=d.example@b.example", nil},
		{"+=", "list@shop.example", "jane+news=x@example.net", "list+jane+news=x=example.net@shop.example", nil},
		{"+=", "list@shop.example", `"jane doe"@example.net`, `"list+jane doe=example.net"@shop.example`, nil},
		{"+=", `"li st"@shop.example`, `"a\"b"@example.net`, `"li st+a\"b=example.net"@shop.example`, nil},
		{"+=", "list@shop.example", "jane@[192.0.2.1]", `"list+jane=[192.0.2.1]"@shop.example`, nil},
		{"+=", "list@shop.example", "postmaster", "list+postmaster@shop.example", nil},
		{"+=", "list@shop.example", "jörg@bücher.example", "list+jörg=bücher.example@shop.example", nil},
		{"+=", "", "jane@example.net", "", ErrNull},
		{"+=", "postmaster", "jane@example.net", "", ErrNull},
		{"+=", "list@shop.example", "", "", ErrForm},
		{"+=", "list@shop.example", long, mail.Address("list+" + long.Local() + "=" + long.Domain() + "@shop.example"), nil},
		{"+=", "list@" + mail.Address(long.Domain()), long, "", ErrLong},
	} {
		got, err := codec(t, c.delimiters).Encode(c.sender, c.recipient)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s to %s with %s: %q, %v; want %q, %v", c.sender, c.recipient, c.delimiters, got, err, c.want, c.err)
		}
	}
}

// A report comes back to an address of ours, or to one that resembles it.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		delimiters      string
		sender, address mail.Address
		want            mail.Address
		err             error
	}{
		{"+=", "list@shop.example", "list+jane=example.net@shop.example", "jane@example.net", nil},
		{"+=", "list@shop.example", "LIST+Jane=Example.net@SHOP.example", "Jane@Example.net", nil},
		{"+=", "list@shop.example", "list+jane+news=x=example.net@shop.example", "jane+news=x@example.net", nil},
		{"+=", "list@shop.example", `"list+jane doe=example.net"@shop.example`, `"jane doe"@example.net`, nil},
		{"+=", "list@shop.example", "list+postmaster@shop.example", "postmaster", nil},
		{"+=", "list@shop.example", "list@shop.example", "", ErrForm},
		{"+=", "list@shop.example", "list+@shop.example", "", ErrForm},
		{"+=", "list@shop.example", "list+jane@shop.example", "", ErrForm},
		{"+=", "list@shop.example", "list+=example.net@shop.example", "", ErrForm},
		{"+=", "list@shop.example", "list+jane=@shop.example", "", ErrForm},
		{"+=", "list@shop.example", "list+jane=ex..ample@shop.example", "", ErrForm},
		{"+=", "list@shop.example", "list+jane=example.net@other.example", "", ErrForm},
		{"+=", "list@shop.example", "lists+jane=example.net@shop.example", "", ErrForm},
		{"+=", "list@shop.example", `"list+jane=example.net@shop.example`, "", ErrForm},
		{"+=", "list", "list+jane=example.net", "", ErrForm},
		{"-=", "list@shop.example", "list+jane=example.net@shop.example", "", ErrForm},
	} {
		got, err := codec(t, c.delimiters).Decode(c.sender, c.address)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s of %s with %s: %q, %v; want %q, %v", c.address, c.sender, c.delimiters, got, err, c.want, c.err)
		}
	}
}

// All mail to one domain is for reports, whoever sent the mail that they are about.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		address, sender, recipient mail.Address
		err                        error
	}{
		{"list+jane=example.net@b.example", "list@b.example", "jane@example.net", nil},
		{"list+jane+x=example.net@b.example", "list@b.example", "jane+x@example.net", nil},
		{"+jane=example.net@b.example", "", "", ErrForm},
		{"list@b.example", "", "", ErrForm},
		{"list", "", "", ErrForm},
	} {
		sender, recipient, err := new(Codec).Split(c.address)
		if sender != c.sender || recipient != c.recipient || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %q, %v", c.address, sender, recipient, err)
		}
	}
	// With tags the sender's own delimiters are no obstacle.
	tagged := codec(t, "-=", "secret")
	address, err := tagged.Encode("shop-news@b.example", "jane-x@example.net")
	if err != nil {
		t.Fatal(err)
	}
	if sender, recipient, err := tagged.Split(address); sender != "shop-news@b.example" || recipient != "jane-x@example.net" || err != nil {
		t.Errorf("%s: %q, %q, %v", address, sender, recipient, err)
	}
}

// An attacker who has received one of our messages tries addresses for other recipients; and a
// secret is replaced while reports on mail with the old one still come.
func TestTag(t *testing.T) {
	const sender = "bounces@shop.example"
	c := codec(t, "+=", "new", "old")
	mine, err := c.Encode(sender, "jane@example.net")
	if err != nil {
		t.Fatal(err)
	}
	if want := mail.Address("bounces+" + string(tag([]byte("new"), sender, "jane@example.net")) + "+jane=example.net@shop.example"); mine != want {
		t.Errorf("%s, want %s", mine, want)
	}
	old, _ := codec(t, "+=", "old").Encode(sender, "jane@example.net")
	for _, good := range []mail.Address{mine, old, mail.Address(strings.ToUpper(string(mine)))} {
		if got, err := c.Decode(sender, good); !strings.EqualFold(string(got), "jane@example.net") || err != nil {
			t.Errorf("%s: %q, %v", good, got, err)
		}
	}
	for _, bad := range []string{
		strings.Replace(string(mine), "jane", "john", 1),
		strings.Replace(string(mine), "example.net", "example.org", 1),
		strings.Replace(string(mine), string(tag([]byte("new"), sender, "jane@example.net")), "aaaaaaaa", 1),
		"bounces+jane=example.net@shop.example",
	} {
		if got, err := c.Decode(sender, mail.Address(bad)); !errors.Is(err, ErrWrong) {
			t.Errorf("%s: %q, %v", bad, got, err)
		}
	}
	if _, err := c.Decode(sender, "bounces@shop.example"); !errors.Is(err, ErrForm) {
		t.Error(err)
	}
}

func TestParseDelimiters(t *testing.T) {
	for text, ambiguous := range map[string]bool{"+=": false, "-=": false, "==": false, "=+": false, "+-": true} {
		d, err := ParseDelimiters(text)
		if err != nil || d.String() != text || d.Ambiguous() != ambiguous {
			t.Errorf("%s: %v, %v, ambiguous %v", text, d, err, d.Ambiguous())
		}
	}
	for _, text := range []string{"", "+", "+=-", "@=", "+%", "ab"} {
		if d, err := ParseDelimiters(text); err == nil {
			t.Errorf("%q is %v", text, d)
		}
	}
	if s := (Delimiters{}).String(); s != Default {
		t.Errorf("default %q", s)
	}
}

// A mailing with a sender for each recipient is one flow, with tags and without.
func TestFlow(t *testing.T) {
	for _, c := range []*Codec{codec(t, "+="), codec(t, "+=", "secret"), codec(t, "-="), codec(t, "-=", "secret")} {
		flows := map[string]bool{}
		for _, to := range []mail.Address{"jane@example.net", "john.doe@example.org", "x-y@sub.example.com", "x-y+z@example.net"} {
			sender, err := c.Encode("bounces@shop.example", to)
			if err != nil {
				t.Fatal(err)
			}
			flows[flow.Sender(sender)] = true
		}
		if !flows["bounces@shop.example"] || len(flows) != 1 {
			t.Errorf("%v", flows)
		}
	}
}

// Whatever is encoded is decoded again, and nothing that strangers write does harm.
func FuzzVERP(f *testing.F) {
	f.Add("+=", "list@shop.example", "jane@example.net", "")
	f.Add("-=", `"a b"@shop.example`, `"x\"y"@[192.0.2.1]`, "secret")
	f.Add("==", "list=1@shop.example", "postmaster", "")
	f.Add("+=", "list+jane=example.net@shop.example", "jörg@bücher.example", "k")
	f.Fuzz(func(t *testing.T, delimiters, sender, recipient, secret string) {
		d, err := ParseDelimiters(delimiters)
		if err != nil {
			return
		}
		c := &Codec{Delimiters: d}
		if secret != "" {
			c.Secrets = [][]byte{[]byte(secret)}
		}
		if s, r, err := c.Split(mail.Address(sender)); err == nil {
			if again, err := c.Decode(s, mail.Address(sender)); err != nil || again != r {
				t.Fatalf("%q: split into %q and %q, decoded to %q, %v", sender, s, r, again, err)
			}
		}
		address, err := c.Encode(mail.Address(sender), mail.Address(recipient))
		if err != nil {
			return
		}
		if len(address) > 254 {
			t.Fatalf("%d octets", len(address))
		}
		got, err := c.Decode(mail.Address(sender), address)
		want, valid := normal(recipient)
		switch {
		case !valid || d.Ambiguous():
			return
		case err != nil || got != want:
			t.Fatalf("%q to %q is %q, read as %q, %v", sender, recipient, address, got, err)
		}
	})
}

// normal returns an address with minimum quoting, as envelopes have it. valid is false if no
// envelope has it, or the recipient's domain cannot be separated from the rest.
func normal(address string) (a mail.Address, valid bool) {
	p, rest, fault := smtp.ParsePath([]byte("<"+address+">"), smtp.PathRules{Postmaster: true, Underscore: true, LocalMax: smtp.PathMax})
	return p.Address, fault == smtp.FaultNone && len(rest) == 0 && p.Address != ""
}

// A tag is for one sender and one recipient, whatever the case of their letters; what one gives to the other makes another tag.
func TestTagOfOnePair(t *testing.T) {
	secret := []byte("secret")
	own := string(tag(secret, "Bounces@Shop.example", "Jane@Example.net"))
	if got := string(tag(secret, "bounces@shop.EXAMPLE", "jane@example.NET")); got != own {
		t.Errorf("%s and %s", own, got)
	}
	if a, b := string(tag(secret, "x@a.com", "mail@b.example")), string(tag(secret, "x@a.comm", "ail@b.example")); a == b {
		t.Errorf("two pairs have the tag %s", a)
	}
}

// Where senders are not known, an address with a recipient and without a tag is told from one that has no recipient at all.
func TestSplitErrors(t *testing.T) {
	c := Codec{Secrets: [][]byte{[]byte("secret")}}
	for a, want := range map[mail.Address]error{
		"news+jane=example.net@shop.example": ErrWrong, "news+jane@shop.example": ErrForm, "news@shop.example": ErrForm, `"a"b+jane=example.net"@shop.example`: ErrForm,
	} {
		if s, r, err := c.Split(a); err != want || s != "" || r != "" {
			t.Errorf("%s: %s, %s, %v, want %v", a, s, r, err, want)
		}
	}
	if text, ok := bare(`"a"b`); ok {
		t.Errorf("%q", text)
	}
}
