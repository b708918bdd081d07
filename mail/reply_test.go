package mail

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Enhanced codes come from servers, where they may be anything; only what
// RFC 3463 2 allows counts, and all else stays part of the text.
func TestParseStatus(t *testing.T) {
	for _, c := range []struct {
		text   string
		status Status
		rest   string
	}{
		{"2.0.0 Ok", Status{2, 0, 0}, "Ok"},
		{"4.7.1 try again", Status{4, 7, 1}, "try again"},
		{"5.1.10 null MX", Status{5, 1, 10}, "null MX"},
		{"5.999.999", Status{5, 999, 999}, ""},
		{"5.1.1 ", Status{5, 1, 1}, ""},
		{"5.1.1  two spaces", Status{5, 1, 1}, " two spaces"},
		{"5.0.0\tx", Status{}, "5.0.0\tx"},
		{"", Status{}, ""},
		{"no code", Status{}, "no code"},
		{" 5.1.1 x", Status{}, " 5.1.1 x"},
		{"5.1 x", Status{}, "5.1 x"},
		{"5.1.1.1 x", Status{}, "5.1.1.1 x"},
		{"5.1.1.", Status{}, "5.1.1."},
		{"5..1 x", Status{}, "5..1 x"},
		{"5.1. x", Status{}, "5.1. x"},
		{"3.1.1 x", Status{}, "3.1.1 x"},
		{"0.0.0 x", Status{}, "0.0.0 x"},
		{"50.1.1 x", Status{}, "50.1.1 x"},
		{"5.01.1 x", Status{}, "5.01.1 x"},
		{"5.1.1000 x", Status{}, "5.1.1000 x"},
		{"5.-1.1 x", Status{}, "5.-1.1 x"},
		{"5.1.1x", Status{}, "5.1.1x"},
		{"5.1.١ x", Status{}, "5.1.١ x"},
		{"192.0.2.1 refused", Status{}, "192.0.2.1 refused"},
	} {
		status, rest, ok := ParseStatus(c.text)
		if status != c.status || rest != c.rest || ok != (c.status != Status{}) {
			t.Errorf("ParseStatus(%q) = %v, %q, %v, want %v, %q", c.text, status, rest, ok, c.status, c.rest)
		}
	}
}

// What String writes ParseStatus reads back.
func FuzzParseStatus(f *testing.F) {
	for _, s := range []string{"2.0.0 ok", "5.7.1", "5.01.1 x", "4.4.1  x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		status, rest, ok := ParseStatus(s)
		switch {
		case !ok && (status != Status{} || rest != s):
			t.Fatalf("%q → %v, %q", s, status, rest)
		case ok && s != status.String()+" "+rest && s != status.String():
			t.Fatalf("%q → %v, %q", s, status, rest)
		}
	})
}

// Replies are logged on one line, and the zero Reply, which stands for none,
// prints nothing.
func TestReplyString(t *testing.T) {
	for want, r := range map[string]Reply{
		"":                       {},
		"250 ok":                 {Code: 250, Text: "ok"},
		"550 5.1.1 no such user": {Code: 550, Status: Status{5, 1, 1}, Text: "no such user"},
		"550 5.7.1 a / b / c":    {Code: 550, Status: Status{5, 7, 1}, Text: "a\nb\nc", By: "mx[192.0.2.1]"},
		"421 4.3.2 ":             {Code: 421, Status: Status{4, 3, 2}},
	} {
		if got := r.String(); got != want {
			t.Errorf("%+v prints %q, want %q", r, got, want)
		}
	}
}

// A reply is exactly one of none, positive, temporary and permanent, whatever
// odd code a server used: by its first digit (RFC 5321 4.2.1).
func TestReplyClasses(t *testing.T) {
	for code := uint16(200); code < 600; code++ {
		r := Reply{Code: code}
		n := 0
		for _, is := range []bool{r.IsZero(), r.Positive(), r.Temporary(), r.Permanent()} {
			if is {
				n++
			}
		}
		if n != 1 || r.Permanent() != (code/100 == 5) || r.Temporary() != (code/100 == 4) {
			t.Errorf("%d is of %d classes", code, n)
		}
	}
	if r := (Reply{}); !r.IsZero() || r.Positive() || r.Temporary() || r.Permanent() {
		t.Error("the zero Reply has a class")
	}
}

// Reply texts are chosen by whoever runs the server, and are shown on terminals
// and web pages and quoted in mail (row B-140).
func TestCleanText(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "",
		"Ok: queued as 4F2A":                  "Ok: queued as 4F2A",
		"two\nlines":                          "two\nlines",
		"a\r\nb":                              "a?\nb",
		"\x1b[31mred\x1b[0m":                  "?[31mred?[0m",
		"tab\there":                           "tab?here",
		"nul\x00del\x7f":                      "nul?del?",
		"c1\u0085\u009bx":                     "c1??x",
		"héllo 世界":                            "héllo 世界",
		"latin1 \xe9t\xe9":                    "latin1 ?t?",
		"cut \xe4\xb8":                        "cut ??",
		"line\u2028para\u2029":                "line?para?",
		"replacement \ufffd":                  "replacement ?",
		strings.Repeat("x", ReplyTextMax):     strings.Repeat("x", ReplyTextMax),
		strings.Repeat("x", ReplyTextMax+1):   strings.Repeat("x", ReplyTextMax-6) + " [...]",
		strings.Repeat("世", ReplyTextMax/3+9): strings.Repeat("世", (ReplyTextMax-6)/3) + " [...]",
	} {
		if got := CleanText(in); got != want {
			t.Errorf("CleanText(%q) = %q, want %q", in, got, want)
		}
	}
}

// Clean text is valid, short, free of control characters and stays as it is when
// cleaned again; harmless text is not touched.
func FuzzCleanText(f *testing.F) {
	for _, s := range []string{"ok", "a\r\nb", "\xff\xfe", strings.Repeat("é", 600), "\u2028", "x\x00y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean := CleanText(s)
		if !utf8.ValidString(clean) || len(clean) > ReplyTextMax {
			t.Fatalf("%q → %q, %d octets", s, clean, len(clean))
		}
		harmless := utf8.ValidString(s) && len(s) <= ReplyTextMax && !strings.ContainsAny(s, "\ufffd\u2028\u2029")
		for _, r := range s {
			harmless = harmless && (r == '\n' || !unicode.IsControl(r))
		}
		if harmless && clean != s {
			t.Fatalf("harmless %q → %q", s, clean)
		}
		if CleanText(clean) != clean {
			t.Fatalf("%q → %q → %q", s, clean, CleanText(clean))
		}
		for _, r := range clean {
			if r != '\n' && unicode.IsControl(r) {
				t.Fatalf("%q → %q", s, clean)
			}
		}
		if len(clean) < ReplyTextMax-3 && utf8.RuneCountInString(s) != utf8.RuneCountInString(clean) {
			t.Fatalf("%q was cut although there was room: %q", s, clean)
		}
	})
}

// A text is cut at a character, never inside one, with a mark for what is missing, and
// not at all if it fits.
func TestCutText(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"}, {"abcdefgh", 7, "a [...]"}, {"a世", 4, "a世"}, {"a世世", 10, "a世世"[:7]},
		{"a世世世世", 10, "a世 [...]"}, {"a世世世世", 9, "a [...]"}, {"世世世", 8, " [...]"}, {"", 0, ""},
	} {
		if got := CutText(c.text, c.most); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

// What we say and what a host has said are apart, and nothing is lost between them.
func TestPutOff(t *testing.T) {
	said := Reply{Code: 421, Status: Status{4, 3, 2}, Text: "delivery temporarily closed", By: "mx"}
	for prefix, why := range map[string]string{"": "", SuspendedPrefix: "delivery temporarily suspended",
		StuckPrefix: "too much mail waits for a destination that does not answer"} {
		r := said
		r.Text = prefix + said.Text
		if r.PutOff() != why || r.Said() != said {
			t.Errorf("%q: %q, said %+v", r.Text, r.PutOff(), r.Said())
		}
	}
}
