package patternfile_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/replies"
	"github.com/posthaste-mta/posthaste/replies/patternfile"
)

// What real servers say has the class that a person who reads it would give. Each line of
// the corpus is a class, the host or "-", and the reply, in which "\n" is a line end.
func TestCorpus(t *testing.T) {
	f, err := os.Open("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	book := replies.New(patternfile.Shipped(), nil)
	n := 0
	for in, line := bufio.NewScanner(f), 1; in.Scan(); line++ {
		if in.Text() == "" || in.Text()[0] == '#' {
			continue
		}
		n++
		fields := strings.SplitN(in.Text(), " ", 3)
		if len(fields) != 3 {
			t.Fatalf("line %d: %q", line, in.Text())
		}
		reply, err := replies.ParseReply(strings.ReplaceAll(fields[2], `\n`, "\n"))
		if err != nil {
			t.Fatalf("line %d: %v", line, err)
		}
		if fields[1] != "-" {
			reply.By = fields[1] + "[192.0.2.1]"
		}
		e := book.Explain(&reply, replies.Occasion{Transport: "smtp"})
		if e.Class.String() != fields[0] {
			where := "no pattern"
			if e.Pattern != nil {
				where = e.Pattern.Where
			}
			t.Errorf("line %d: %q is %v by %s, want %s", line, reply.String(), e.Class, where, fields[0])
		}
	}
	if n < 100 {
		t.Errorf("the corpus has only %d replies", n)
	}
}

// Each shipped pattern says where it comes from, has a condition, and is not hidden by one
// before it.
func TestShipped(t *testing.T) {
	patterns := patternfile.Shipped()
	for i := range patterns {
		p := &patterns[i]
		if p.Source == "" || len(p.Words)+len(p.Codes)+len(p.Statuses) == 0 {
			t.Errorf("%s: no source or no condition", p.Where)
		}
		rule := replies.Rule{Match: p.Match}
		for j := range patterns[:i] {
			if before := (&replies.Rule{Match: patterns[j].Match}); before.Covers(&rule) {
				t.Errorf("%s is never reached, because of %s", p.Where, patterns[j].Where)
			}
		}
	}
}

// All mistakes of a file are reported, each with its line and what to do.
func TestMistakes(t *testing.T) {
	_, err := patternfile.Parse("my.toml", []byte(`
[[pattern]]
class = "nosuchuser"
[[pattern]]
words = ["abc", 5]
code = [421, "999", "4xx"]
statsu = "5.1.1"
[[pattern]]
class = "spam"
text = "(unclosed"
status = ["5.1", "x.1.x"]
receiver = []
[pattern2]
a = 1
`))
	if err == nil {
		t.Fatal("nothing is wrong with it")
	}
	got := err.Error()
	for _, want := range []string{
		`my.toml:3:`, `"nosuchuser" is not a class; they are other, no-such-user`,
		`my.toml:4:`, "this pattern gives no class",
		`my.toml:5:`, `"abc" is shorter than 4 characters`, "this is a whole number, not text in quotes",
		`my.toml:6:`, `"999" is not a reply code`,
		`my.toml:7:`, "unknown key", "did you mean status?",
		`my.toml:10:`, "missing closing )",
		`my.toml:11:`, `"5.1" is not an enhanced status code`,
		`my.toml:12:`, "this list is empty",
		`my.toml:13:`, "this is not a [[pattern]]",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A file that people wrote, or damaged, is read or refused, and never more.
func FuzzParse(f *testing.F) {
	f.Add([]byte("[[pattern]]\nclass='spam'\nwords=['abcd']\n"), "550 5.7.1 abcd")
	f.Add([]byte(patternfile.ShippedText()[:3000]), "421 4.7.28 slow")
	f.Fuzz(func(t *testing.T, file []byte, said string) {
		patterns, err := patternfile.Parse("f", file)
		if err != nil {
			return
		}
		r, err := replies.ParseReply(said)
		if err != nil {
			return
		}
		r.By = "mx.example[192.0.2.1]"
		book := replies.New(patterns, nil)
		if c := book.Class(r); c == replies.ClassNone != (r.Code < 400) {
			t.Errorf("%v is %v", r, c)
		}
	})
}

// A reply as long as one may be, with the shipped patterns.
func BenchmarkClass(b *testing.B) {
	book := replies.New(patternfile.Shipped(), nil)
	for name, text := range map[string]string{
		"short": "<a@example.com>: Recipient address rejected: User unknown in virtual mailbox table",
		"4KB":   strings.Repeat("The quick brown fox is at home in the forest. ", 89),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 9, Detail: 9}, Text: text, By: "mx.example.com[192.0.2.1]"}
			for b.Loop() {
				book.Class(r)
			}
		})
	}
}
