package smtp

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// parse feeds input in portions and returns the first reply.
func parse(t testing.TB, input string, portion func(left int) int) (p *ReplyParser, done bool, err error) {
	t.Helper()
	p = new(ReplyParser)
	for data := []byte(input); len(data) > 0; {
		n := portion(len(data))
		took, done, err := p.Feed(data[:n])
		if done || err != nil {
			return p, done, err
		}
		if took != n {
			t.Fatalf("Feed took %d of %d octets without an end", took, n)
		}
		data = data[n:]
	}
	return p, false, nil
}

func whole(left int) int { return left }
func single(int) int     { return 1 }

// Replies as servers write them, correct and not, whole and octet by octet
// (B-121, B-122).
func TestReplyParser(t *testing.T) {
	for _, c := range []struct {
		name, input string
		want        mail.Reply
		err         error
	}{
		{"one line", "250 2.1.0 Ok\r\n", mail.Reply{Code: 250, Status: mail.Status{Class: 2, Subject: 1}, Text: "Ok"}, nil},
		{"several lines", "250-first\r\n250-\r\n250 last\r\n", mail.Reply{Code: 250, Text: "first\n\nlast"}, nil},
		{"status on every line", "550-5.7.1 no\r\n550-5.7.1\r\n550 5.7.1 way\r\n",
			mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "no\n\nway"}, nil},
		{"another status below", "550-5.7.1 no\r\n550 5.7.2 way\r\n",
			mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: "no\n5.7.2 way"}, nil},
		{"status of another class", "450 5.7.1 no\r\n", mail.Reply{Code: 450, Text: "5.7.1 no"}, nil},
		{"status alone", "250 2.0.0\r\n", mail.Reply{Code: 250, Status: mail.Status{Class: 2}}, nil},
		{"code alone", "250\r\n", mail.Reply{Code: 250}, nil},
		{"code alone, LF", "250\n", mail.Reply{Code: 250}, nil},
		{"LF only", "250-a\n250 b\n", mail.Reply{Code: 250, Text: "a\nb"}, nil},
		{"unknown code", "299 what\r\n", mail.Reply{Code: 299, Text: "what"}, nil},
		{"NUL and escape", "550 a\x00b\x1b[31m\r\n", mail.Reply{Code: 550, Text: `a\x00b\x1b[31m`}, nil},
		{"CR inside", "550 a\rb\r\n", mail.Reply{Code: 550, Text: `a\rb`}, nil},
		{"8-bit", "550 \xff\xc3\xa4\r\n", mail.Reply{Code: 550, Text: `\xffä`}, nil},
		{"tab, C1 and separators", "550 a\tb\u0085\u2028\ufffd\\x41\r\n", mail.Reply{Code: 550, Text: `a\tb\u0085\u2028\ufffd\x41`}, nil},
		{"no code", "hello\r\n", mail.Reply{}, ErrReplySyntax},
		{"short code", "25\r\n", mail.Reply{}, ErrReplySyntax},
		{"first digit 9", "999 x\r\n", mail.Reply{}, ErrReplySyntax},
		{"first digit 1", "100 x\r\n", mail.Reply{}, ErrReplySyntax},
		{"letter behind the code", "250x\r\n", mail.Reply{}, ErrReplySyntax},
		{"CR behind the code", "250\rx\r\n", mail.Reply{}, ErrReplySyntax},
		{"mixed codes", "250-a\r\n550 b\r\n", mail.Reply{Code: 550, Text: "a\nb"}, nil},
		{"mixed codes, the last is good", "550-5.7.1 no\r\n250 2.0.0 yes\r\n",
			mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: "5.7.1 no\nyes"}, nil},
		{"mixed codes of one class", "451-4.3.0 a\r\n421-4.3.2 b\r\n421 4.3.2 c\r\n",
			mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, Text: "4.3.0 a\nb\nc"}, nil},
		{"mixed codes, one of them none", "250-a\r\n150 b\r\n", mail.Reply{}, ErrReplySyntax},
		{"mixed codes, the last without a status", "550-5.7.1 no\r\n450 later\r\n", mail.Reply{Code: 450, Text: "5.7.1 no\nlater"}, nil},
		{"empty line", "\r\n", mail.Reply{}, ErrReplySyntax},
		{"201 lines", strings.Repeat("250-x\r\n", 200) + "250 x\r\n", mail.Reply{}, ErrReplyTooLong},
		{"endless line", "250 " + strings.Repeat("x", ReplyMax), mail.Reply{}, ErrReplyTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, portion := range []func(int) int{whole, single} {
				p, done, err := parse(t, c.input, portion)
				if !errors.Is(err, c.err) || done != (c.err == nil) {
					t.Fatalf("done %v, error %v, want error %v", done, err, c.err)
				}
				if c.err == nil && p.Reply("") != c.want {
					t.Errorf("got %+v, want %+v", p.Reply(""), c.want)
				}
			}
		})
	}
}

// 200 lines and a line longer than is kept are still replies; what is kept is
// bounded.
func TestReplyParserAtItsLimits(t *testing.T) {
	p, done, err := parse(t, strings.Repeat("250-x\r\n", 199)+"250 end\r\n", whole)
	if !done || err != nil || !strings.HasSuffix(p.Text(), "\nend") {
		t.Errorf("200 lines: done %v, error %v", done, err)
	}
	p, done, err = parse(t, "250-"+strings.Repeat("x", 50000)+"\r\n250 end\r\n", whole)
	if !done || err != nil {
		t.Fatalf("long line: done %v, error %v", done, err)
	}
	if want := strings.Repeat("x", ReplyLineMax) + "\nend"; p.Text() != want {
		t.Errorf("long line: kept %d octets, want %d", len(p.Text()), len(want))
	}
	if got := len(p.Reply("").Text); got > mail.ReplyTextMax {
		t.Errorf("reply text has %d octets", got)
	}
	for _, status := range []string{"", "5.7.1 ", "5.999.999 "} {
		for _, more := range []int{0, 1, 50000} {
			p, _, _ := parse(t, "550 "+status+strings.Repeat("x", mail.ReplyTextMax+more)+"\r\n", whole)
			if text := p.Reply("").Text; strings.HasSuffix(text, mail.CutMark) != (more > 0) || len(text) != mail.ReplyTextMax {
				t.Errorf("%sand %d octets too many: %d octets that end in %q", status, more, len(text), text[len(text)-10:])
			}
		}
	}
}

// A line of 1 GiB costs no more memory than a short one.
func TestReplyParserMemory(t *testing.T) {
	var p ReplyParser
	chunk := []byte("250 " + strings.Repeat("y", 4092))
	for fed := 0; fed < 1<<30; fed += len(chunk) {
		_, _, err := p.Feed(chunk)
		if err != nil {
			if fed > 2*ReplyMax {
				t.Errorf("stopped only after %d octets", fed)
			}
			return
		}
		if cap(p.text) > 2*ReplyLineMax {
			t.Fatalf("keeps %d octets", cap(p.text))
		}
	}
	t.Error("never stopped")
}

// Feed returns how much of the input belongs to a reply, and the parser is then
// ready for the next one.
func TestReplyParserSequence(t *testing.T) {
	input := []byte("250 a\r\n550-b\r\n550 c\r\n354")
	var p ReplyParser
	var got []string
	for {
		n, done, err := p.Feed(input)
		if err != nil {
			t.Fatal(err)
		}
		input = input[n:]
		if !done {
			break
		}
		got = append(got, p.Reply("").String())
	}
	if strings.Join(got, "|") != "250 a|550 b / c" || !p.Partial() {
		t.Errorf("got %q, partial %v", got, p.Partial())
	}
}

// naiveReply reads one reply the slow way: line by line, from the whole input.
func naiveReply(input string) (code int, text string, rest string, ok, bad bool) {
	left := input
	for first := true; ; first = false {
		line, after, found := strings.Cut(left, "\n")
		trimmed := strings.TrimSuffix(line, "\r")
		if !found || len(trimmed) < 3 {
			return 0, "", "", false, found
		}
		n := 0
		for _, c := range trimmed[:3] {
			if c < '0' || c > '9' {
				return 0, "", "", false, true
			}
			n = n*10 + int(c-'0')
		}
		if n < 200 || n > 599 || len(trimmed) > 3 && trimmed[3] != ' ' && trimmed[3] != '-' {
			return 0, "", "", false, true
		}
		code = n
		if !first {
			text += "\n"
		}
		if len(trimmed) > 3 {
			text += trimmed[4:]
		}
		left = after
		if len(trimmed) == 3 || trimmed[3] == ' ' {
			return code, text, left, true, false
		}
	}
}

// Whatever comes, in whatever portions, the parser agrees with the slow one.
func FuzzReplyParser(f *testing.F) {
	for _, s := range []string{"250 ok\r\n", "250-a\r\n250 b\r\n", "25", "250", "250\r", "421\r\n", "550 5.1.1 x\n", "354 \r\r\n"} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, input string, seed uint64) {
		if len(input) > 1000 {
			return // the limits have tests of their own
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		p, done, err := parse(t, input, func(left int) int { return 1 + rng.IntN(left) })
		code, text, _, ok, bad := naiveReply(input)
		if err != nil && !bad && ok {
			t.Fatalf("refused %q: %v", input, err)
		}
		if done != ok && !bad {
			t.Fatalf("%q: done %v, want %v (error %v)", input, done, ok, err)
		}
		if done && (int(p.Code()) != code || p.Text() != text) {
			t.Fatalf("%q: got %d %q, want %d %q", input, p.Code(), p.Text(), code, text)
		}
		if done {
			if r := p.Reply("x"); mail.CleanText(r.Text) != r.Text {
				t.Fatalf("%q: text %q is not clean", input, r.Text)
			}
		}
	})
}

func BenchmarkReplyParser(b *testing.B) {
	input := []byte("250 2.0.0 Ok: queued as 4bCdEfGhIj\r\n")
	var p ReplyParser
	b.ReportAllocs()
	for b.Loop() {
		if _, done, err := p.Feed(input); !done || err != nil {
			b.Fatal(err)
		}
	}
}

// What must not be shown is replaced in every reply before anything makes it hard to find: octets that are
// escaped, a status in front of a line, or the end of what is kept.
func TestReplyHides(t *testing.T) {
	p := &ReplyParser{Hide: func(text string) string { return strings.ReplaceAll(text, "se\tcret", "[gone]") }}
	long := strings.Repeat("x", mail.ReplyTextMax-3)
	for _, c := range []struct{ input, want string }{
		{"250 2.0.0 a se\tcret b\r\n", "250 2.0.0 a [gone] b"},
		{"550-5.1.1 se\tcret\r\n550 5.1.1 se\tcret\r\n", "550 5.1.1 [gone] / [gone]"},
		{"250 " + long + "se\tcret\r\n", "250 " + mail.CutText(long+"[gone]", mail.ReplyTextMax)},
		{"250 se cret\r\n", "250 se cret"},
	} {
		if _, done, err := p.Feed([]byte(c.input)); !done || err != nil {
			t.Fatalf("%q: %v %v", c.input, done, err)
		}
		if got := p.Reply("mx").String(); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.input, got, c.want)
		}
	}
}
