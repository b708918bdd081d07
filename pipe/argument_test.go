//go:build unix

package pipe

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		letters string
		command []string
		sender  mail.Address
		want    []string // nil: refused
	}{
		{"", []string{"-f", "${sender}", "--", "${recipient}"}, "a@x", []string{"-f", "a@x", "--", "Joe Q@Y.example", "u+e+f@y.example"}},
		{"q", []string{"${recipient}"}, "a@x", []string{`"Joe Q"@Y.example`, "u+e+f@y.example"}},
		{"hu", []string{"${recipient}", "${nexthop}"}, "a@x", []string{"joe q@y.example", "u+e+f@y.example", "example.com"}},
		{"", []string{"${user}/${extension}", "${mailbox}"}, "a@x", []string{"Joe Q/", "u/e+f", "Joe Q", "u+e+f"}},
		{"", []string{"${domain} ${nexthop}"}, "a@x", []string{"Y.example Example.com", "y.example Example.com"}},
		{"", []string{"${original_recipient}"}, "a@x", []string{"old@z", "u+e+f@y.example"}},
		{"", []string{"${sender}"}, "", []string{"MAILER-DAEMON"}},
		{"", []string{"$$$${sender}${size}"}, "a@x", []string{"$${sender}42"}},
		{"", []string{"${sender}"}, "-C/etc/passwd@x", nil},
		{"", []string{"-f${sender}"}, "-C/etc/passwd@x", []string{"-f-C/etc/passwd@x"}},
		{"q", []string{"${sender}"}, `"-C"@x`, []string{`"-C"@x`}},
		{"", []string{"${sender}"}, `"-C"@x`, nil},
		{"", []string{"-${extension}"}, "a@x", []string{"-", "-e+f"}},
		{"", []string{"${extension}-${user}"}, "a@x", nil}, // the first recipient has no extension
		{"", []string{}, "a@x", nil},
	} {
		flags, err := ParseFlags(c.letters)
		if err != nil {
			t.Fatal(err)
		}
		d := delivery(`"Joe Q"@Y.example`, "u+e+f@y.example")
		d.Recipients[0].ORcpt = "RFC822;old@z"
		d.Recipients[1].ORcpt = "rfc822;a+0Ab@z" // with a line end
		d.Envelope.Sender = c.sender
		config := TransportConfig{Flags: flags, Delimiter: "+"}.WithDefaults()
		var list []Argument
		for _, text := range c.command {
			a, err := ParseArgument(text)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, a)
		}
		got, ok := (&values{&config, &d}).arguments(list)
		if !slices.Equal(got, c.want) || ok != (c.want != nil || len(c.command) == 0) {
			t.Errorf("%q with flags %q: %q, %v, want %q", c.command, c.letters, got, ok, c.want)
		}
	}
	for _, c := range []struct {
		letters, argument string
		to                mail.Address
		orcpt, want       string
	}{
		{"", "${user}/${extension}", "+x@y.example", "", "+x/"}, // nothing is before the delimiter
		{"u", "${user}/${extension}/${mailbox}", "Joe+X@Y.example", "", "joe/x/joe+x"},
		{"", "${recipient}", `"a\"b\\c"@x`, "", `a"b\c@x`},
		{"", "${original_recipient}", "a@x", "x400;b@x", "a@x"},
	} {
		flags, err := ParseFlags(c.letters)
		if err != nil {
			t.Fatal(err)
		}
		d := delivery(c.to)
		d.Recipients[0].ORcpt = c.orcpt
		a, err := ParseArgument(c.argument)
		if err != nil {
			t.Fatal(err)
		}
		config := TransportConfig{Flags: flags, Delimiter: "+"}.WithDefaults()
		if got, ok := a.expand(&values{&config, &d}, &d.Recipients[0]); got != c.want || !ok {
			t.Errorf("%s of %s: %q, %v", c.argument, c.to, got, ok)
		}
	}
	for text, want := range map[string]string{
		"$recipient":    "a macro is written ${name}",
		"${recipients}": "is not one of the macros ${sender}, ${nexthop}",
		"${recipient":   "is not one of the macros",
		"${}":           "is not one of the macros",
		"x$":            "a macro is written ${name}",
		"a\x00":         "NUL",
	} {
		if _, err := ParseArgument(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestFlags(t *testing.T) {
	f, err := ParseFlags("hD>R.")
	if err != nil || f != FlagDeliveredTo|FlagReturnPath|FlagFoldDomain|FlagDot|FlagQuoteFrom || f.String() != "DRh.>" || !f.Single() {
		t.Errorf("%v, %v", f, err)
	}
	if _, err := ParseFlags("DZ"); err == nil || !strings.Contains(err.Error(), `"Z"`) {
		t.Errorf("%v", err)
	}
}

// Any text is an argument or an error, and an argument without macros is its own text, with
// dollars halved.
func FuzzParseArgument(f *testing.F) {
	for _, text := range []string{"", "-f", "${sender}", "a${user}b${domain}$$", "${", "$$${size}", "${nexthop}}", "${extension}-${user}"} {
		f.Add(text, "b@x")
	}
	f.Fuzz(func(t *testing.T, text, recipient string) {
		a, err := ParseArgument(text)
		if err != nil {
			return
		}
		d := delivery(mail.Address(recipient))
		config := TransportConfig{Delimiter: "+-"}.WithDefaults()
		got, ok := a.expand(&values{&config, &d}, &d.Recipients[0])
		if !strings.Contains(text, "${") && (!ok || got != strings.ReplaceAll(text, "$$", "$")) {
			t.Fatalf("%q is %q", text, got)
		}
		if ok && strings.HasPrefix(got, "-") && !strings.HasPrefix(text, "-") {
			t.Fatalf("%q became an option, %q", text, got)
		}
	})
}

// A configuration says all that is wrong with it.
func TestValidate(t *testing.T) {
	bad := Config{Transports: map[string]TransportConfig{"p": {
		Command: []string{"cat", "$x"}, Directory: "a", Environment: []string{"=b", "c"}, TimeLimit: 1,
	}, "q": {}}}
	err := bad.Validate()
	for _, want := range []string{
		"dir: it is not set", `transport p: command: "cat" is not an absolute path`, `command: "$x": a macro`, `directory: "a"`, `environment: "=b"`,
		`environment: "c"`, "time_limit: 1ns", "transport q: command: it is not set",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := (Config{}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
}
