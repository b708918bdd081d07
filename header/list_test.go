package header

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-mta/posthaste/mail"
)

func parseList(text string) ([]mail.Address, error) {
	var all []mail.Address
	err := ParseList(text, "here.example", func(a mail.Address) error { all = append(all, a); return nil })
	return all, err
}

// What people and programs write into To, as RFC 5322 allows it and as it is
// found in the wild. A recipient lost here is mail that is never sent.
func TestParseList(t *testing.T) {
	for text, want := range map[string][]mail.Address{
		"":                                                  nil,
		" \r\n\t":                                           nil,
		"jane@example.net":                                  {"jane@example.net"},
		"jane@example.net,joe@example.org":                  {"jane@example.net", "joe@example.org"},
		"jane@example.net,\r\n\tjoe@example.org":            {"jane@example.net", "joe@example.org"},
		", ,jane@example.net,, ":                            {"jane@example.net"},
		"jane":                                              {"jane@here.example"},
		"Postmaster":                                        {"Postmaster@here.example"},
		"Jane Doe <jane@example.net>":                       {"jane@example.net"},
		`"Doe, Jane" <jane@example.net>`:                    {"jane@example.net"},
		`"Jane \"J\" Doe" <jane@example.net>`:               {"jane@example.net"},
		"J. Doe <jane@example.net>":                         {"jane@example.net"},
		"<jane@example.net>":                                {"jane@example.net"},
		"< jane @ example . net >":                          {"jane@example.net"},
		"jane@example.net (Jane, \\) (the) Doe)":            {"jane@example.net"},
		"(x)jane(y)@(z)example.net(,)":                      {"jane@example.net"},
		`"jane doe"@example.net`:                            {`"jane doe"@example.net`},
		`"jane"@example.net`:                                {"jane@example.net"},
		`"a@b,c;d:e<f>(g)"@example.net`:                     {`"a@b,c;d:e<f>(g)"@example.net`},
		"jane@[192.0.2.1]":                                  {"jane@[192.0.2.1]"},
		"jane@[IPv6:2001:db8::1], joe@x.example":            {"jane@[IPv6:2001:db8::1]", "joe@x.example"},
		"<@a.example,@b.example:jane@example.net>":          {"jane@example.net"},
		"undisclosed-recipients:;":                          nil,
		"Friends: jane@example.net, Joe <joe@example.org>;": {"jane@example.net", "joe@example.org"},
		"Friends: jane@example.net; joe@example.org":        {"jane@example.net", "joe@example.org"},
		"A: a@x.example;, B: b@x.example;":                  {"a@x.example", "b@x.example"},
		"Friends: jane@example.net":                         {"jane@example.net"},
		`"Old: Friends": jane@example.net;`:                 {"jane@example.net"},
		"=?utf-8?q?J=C3=A4ne?= <jane@example.net>":          {"jane@example.net"},
		"Jäne <jäne@exämple.net>":                           {"jäne@exämple.net"},
		"o'brien+x=y@example.net":                           {"o'brien+x=y@example.net"},
	} {
		got, err := parseList(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// What is not a list must be refused as a whole, with words that help: guessing
// sends mail to strangers.
func TestParseListRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"jane doe":                                 "white space",
		"jane@example.net joe@example.org":         "comma missing",
		"<jane@example.net> <joe@example.org>":     "no comma",
		"<jane@example.net> joe@example.org":       "behind the >",
		"jane@":                                    "not a domain",
		"@example.net":                             "precedes the @",
		"jane@exa mple.net":                        "white space",
		"jane@-example.net":                        "not a domain",
		"ja..ne@example.net":                       "precedes the @",
		"jane@[example]":                           "not a domain",
		"<jane@example.net":                        "not closed",
		"jane@example.net>":                        "without a <",
		"<<jane@example.net>>":                     "inside of <>",
		"Jane <>":                                  "nothing in the <>",
		`"jane@example.net`:                        "quote is not closed",
		"(jane@example.net":                        "comment is not closed",
		"jane@[192.0.2.1":                          "bracket is not closed",
		"jane@example.net;":                        "semicolon",
		"a: b: jane@example.net;":                  "colon",
		"jane@example.net\x00":                     "",
		"jane\x7f@example.net":                     "",
		"jane@example.net\xff":                     "",
		strings.Repeat("x", 5000) + "@example.net": "too long",
		strings.Repeat("(", 5000):                  "comment is not closed",
	} {
		got, err := parseList(text)
		var bad *AddressError
		if !errors.As(err, &bad) || !strings.Contains(bad.Why, why) || len(bad.Text) > 100 {
			t.Errorf("%.40q: %v, %v; want %q", text, got, err, why)
		}
	}
}

// Wherever the list is cut into portions the result is the same, every address
// is one that a server can take, and nothing can smuggle in a command.
func FuzzParseList(f *testing.F) {
	for _, text := range []string{
		"Jane <jane@example.net>, (c) joe@x", `g: "a b"@c, <@d:e@f>;`, "a@[1.2.3.4],b\r\n c", "\\", "(()", "ä@ö", "a@b\r\nDATA",
	} {
		f.Add(text, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, step uint8) {
		whole, err := parseList(text)
		for _, a := range whole {
			if strings.ContainsAny(string(a), "\r\n\x00") || a == "" {
				t.Errorf("%q gives %q", text, a)
			}
		}
		var pieces []mail.Address
		s := List{Emit: func(m Mailbox) error {
			a, err := ParsePath(m.Address, "here.example")
			if err == nil {
				pieces = append(pieces, a)
			}
			return err
		}}
		rest, pieceErr := []byte(text), error(nil)
		for len(rest) > 0 && pieceErr == nil {
			n := min(len(rest), 1+int(step))
			pieceErr = s.Feed(rest[:n])
			rest = rest[n:]
		}
		if pieceErr == nil {
			pieceErr = s.End()
		}
		if (err == nil) != (pieceErr == nil) || cmp.Diff(whole, pieces) != "" {
			t.Errorf("%q: whole %v %v, in pieces of %d %v %v", text, whole, err, 1+int(step), pieces, pieceErr)
		}
	})
}

// Delimiters where none may be: what they would mean to others is not known.
func TestParseListDelimiters(t *testing.T) {
	for _, text := range []string{"a@b.example <c@d.example>: e@f.example;", "g: <a@b.example;c@d.example>", "g: h: a@b.example;", "a@b.example;"} {
		if err := ParseList(text, "x.example", func(mail.Address) error { return nil }); err == nil {
			t.Errorf("%q is a list", text)
		}
	}
}
