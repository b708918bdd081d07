package header

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

var someFacts = Facts{Date: "Mon, 23 Nov 2026 10:00:00 +0000", MessageID: "1.2@here.example", Sender: "joe@example.com"}

// What is added to a header without anything, in lines.
const (
	addedFrom = "From: joe@example.com\r\n"
	addedDate = "Date: Mon, 23 Nov 2026 10:00:00 +0000\r\n"
	addedID   = "Message-ID: <1.2@here.example>\r\n"
)

// edit passes content through an Editor in pieces of at most n octets.
func edit(e *Editor, edits *Edits, facts Facts, content string, n int) (out string, p Problem) {
	e.Begin(edits, facts)
	var b []byte
	for rest := []byte(content); len(rest) > 0; {
		piece := bytes.Clone(rest[:min(n, len(rest))])
		rest = rest[len(piece):]
		b = append(b, e.Next(piece)...)
	}
	b = append(b, e.End()...)
	return string(b), e.Problem()
}

func compiled(t testing.TB, cfg Config) *Edits {
	t.Helper()
	edits, err := Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return edits
}

// What mail programs submit, from complete to broken. A blind copy must never be shown, and
// no message may become another one by what is added.
func TestSubmission(t *testing.T) {
	const complete = "From: a@b.example\r\nDate: d\r\nMessage-ID: <m>\r\n"
	for _, test := range []struct {
		name, content, want string
		problem             Problem
	}{
		{"complete", complete + "Subject: s\r\n\r\nBcc: x\r\n", complete + "Subject: s\r\n\r\nBcc: x\r\n", 0},
		{"nothing but a body", "\r\nHi\r\n", addedFrom + addedDate + addedID + "\r\nHi\r\n", 0},
		{"no content", "", addedFrom + addedDate + addedID + "\r\n", 0},
		{"header only", "Subject: s\r\n", "Subject: s\r\n" + addedFrom + addedDate + addedID + "\r\n", 0},
		{"header cut off", "Subject: s", "Subject: s\r\n" + addedFrom + addedDate + addedID + "\r\n", 0},
		{"name cut off", "Subject", addedFrom + addedDate + addedID + "\r\nSubject", 0},
		{"From cut off", "From: a@b.example", "From: a@b.example\r\n" + addedDate + addedID + "\r\n", 0},
		{"Bcc", complete + "bcc : x@y.example,\r\n z@y.example\r\nTo: t\r\nResent-BCC: a\r\n\r\nHi\r\n", complete + "To: t\r\n\r\nHi\r\n", 0},
		{"Bcc at the end", complete + "Bcc: x", complete + "\r\n", 0},
		{"Return-Path", "Return-Path: <x>\r\n" + complete + "\r\n", complete + "\r\n", 0},
		{"a line of a mailbox file", "From a@b Mon Nov 23\r\n" + complete + "\r\n", complete + "\r\n", 0},
		{"blanks before the colon", "From : a@b.example\r\ndate\t: d\r\nMESSAGE-id: m\r\n\r\n", "From : a@b.example\r\ndate\t: d\r\nMESSAGE-id: m\r\n\r\n", 0},
		{"no empty line", complete + "Hello there\r\nBye\r\n", complete + "\r\nHello there\r\nBye\r\n", 0},
		{"no header at all", "Hello there\r\n", addedFrom + addedDate + addedID + "\r\nHello there\r\n", 0},
		{"a folded line at first", " Hello: there\r\n", addedFrom + addedDate + addedID + "\r\n Hello: there\r\n", 0},
		{"Bcc after a bad line", complete + "X Y: z\r\nBcc: x\r\n\r\n", complete + "\r\nX Y: z\r\nBcc: x\r\n\r\n", ProblemHiddenBcc},
		{"Bcc after a bad line, at the end", complete + "bad\r\n bcc \t: x", complete + "\r\nbad\r\n bcc \t: x", ProblemHiddenBcc},
		{"a bad line that is Bcc", complete + "\x01bcc: x\r\n\r\nBcc: y\r\n", complete + "\r\n\x01bcc: x\r\n\r\nBcc: y\r\n", 0},
		{"Bcc in the text", complete + "bad\r\n\r\nBcc: y\r\n", complete + "\r\nbad\r\n\r\nBcc: y\r\n", 0},
		{"two From fields", "From: c@d\r\n" + complete + "\r\n", "From: c@d\r\n" + complete + "\r\n", ProblemTwoFroms},
		{"From of a program", "From: root (Cron Daemon)\r\nDate: d\r\nMessage-ID: m\r\n\r\n", "From: root (Cron Daemon)\r\nDate: d\r\nMessage-ID: m\r\n\r\n", 0},
		{"From with several, folded", "From: \"A, B\" <a@b>,\r\n\tc@d (e)\r\nDate: d\r\nMessage-ID: m\r\n\r\n", "From: \"A, B\" <a@b>,\r\n\tc@d (e)\r\nDate: d\r\nMessage-ID: m\r\n\r\n", 0},
		{"From without anybody", "From:\r\nDate: d\r\nMessage-ID: m\r\n\r\n", "From:\r\nDate: d\r\nMessage-ID: m\r\n\r\n", ProblemFrom},
		{"From that is no address", "From: Jane Doe\r\nDate: d\r\nMessage-ID: m\r\n\r\n", "From: Jane Doe\r\nDate: d\r\nMessage-ID: m\r\n\r\n", ProblemFrom},
		{"From as large as can be", "From: " + strings.Repeat("a@b, ", FieldMax/5) + "\r\n\r\n", "From: " + strings.Repeat("a@b, ", FieldMax/5) + "\r\n" + addedDate + addedID + "\r\n", ProblemFrom},
		{"bare line ends", "Bcc: x\nSubject: s\n\nHi\n", "Subject: s\n" + addedFrom + addedDate + addedID + "\nHi\n", 0},
		{"eight bits", complete + "Subject: \xe9\xc3\xa9\r\n\r\n\xff\r\n", complete + "Subject: \xe9\xc3\xa9\r\n\r\n\xff\r\n", 0},
		{"an endless name", complete + strings.Repeat("n", 3*nameMax) + "\r\n", complete + "\r\n" + strings.Repeat("n", 3*nameMax) + "\r\n", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var e Editor
			for _, n := range []int{1, 2, 3, 7, 100, len(test.content) + 1} {
				if len(test.content) > 10000 && n < 100 {
					continue
				}
				if out, p := edit(&e, compiled(t, Config{Submission: true}), someFacts, test.content, n); out != test.want || p != test.problem {
					t.Errorf("in pieces of %d: %v\n%.400q\nwant %v\n%.400q", n, p, out, test.problem, test.want)
				}
				if out, p := edit(&e, compiled(t, Config{}), someFacts, test.content, n); p != 0 || !unchanged(out, test.content) {
					t.Errorf("without edits, in pieces of %d: %v\n%.400q", n, p, out)
				}
			}
		})
	}
}

// unchanged reports whether content has passed as it was, except for the end of the last
// line of a header that was cut off.
func unchanged(out, content string) bool { return out == content || out == content+"\r\n" }

// A report has no sender from whom a From field could be made: the client must write it.
func TestNoSender(t *testing.T) {
	var e Editor
	if _, p := edit(&e, compiled(t, Config{Submission: true}), Facts{Date: "d", MessageID: "m"}, "Subject: s\r\n\r\n", 100); p != ProblemNoFrom {
		t.Errorf("got %v", p)
	}
}

func someRules() []Rule {
	return []Rule{
		{Name: "1", Field: "X-Originating-IP", Action: Remove},
		{Name: "2", Field: "Subject", Match: `^\[SPAM\] *(.*)`, Action: Replace, Value: "$1 ($$${1})"},
		{Name: "3", Field: "Received", Match: `\binside\b`, Action: Remove},
		{Name: "4", Field: "X-Mailer", Action: Replace, Value: "none"},
		{Name: "5", Field: "Organization", Action: AddMissing, Value: "Example"},
		{Name: "6", Field: "X-Seen", Action: Add, Value: "yes"},
	}
}

// Rules for single fields: what matches is removed or replaced, whatever its lines are, and
// the same text anywhere else is not.
func TestRules(t *testing.T) {
	const tail = "Organization: Example\r\nX-Seen: yes\r\n\r\n"
	for _, test := range []struct{ name, content, want string }{
		{"nothing matches", "Subject: s\r\n\r\nX-Mailer: y\r\n", "Subject: s\r\n" + tail + "X-Mailer: y\r\n"},
		{"remove", "x-originating-ip : [10.0.0.1]\r\n (x)\r\nA: b\r\n\r\n", "A: b\r\n" + tail},
		{"remove by value", "Received: from a\r\n\tby inside;\r\nReceived: from b by outside\r\n\r\n", "Received: from b by outside\r\n" + tail},
		{"replace", "X-MAILER: secret\r\n 1\r\n\r\n", "X-MAILER: none\r\n" + tail},
		{"replace by value", "Subject: [SPAM]\r\n hello\r\nSubject: hello [SPAM]\r\n\r\n", "Subject: hello ($hello)\r\nSubject: hello [SPAM]\r\n" + tail},
		{"present", "organization: Mine\r\nx-seen: no\r\n\r\n", "organization: Mine\r\nx-seen: no\r\nX-Seen: yes\r\n\r\n"},
		{"no header", "Hello\r\n", "Organization: Example\r\nX-Seen: yes\r\nHello\r\n"},
		{"too large to replace", "X-Mailer: " + strings.Repeat("x", FieldMax) + "\r\n\r\n", "X-Mailer: " + strings.Repeat("x", FieldMax) + "\r\n" + tail},
		{"but not to remove", "X-Originating-IP: " + strings.Repeat("x", FieldMax) + "\r\n\r\n", tail},
	} {
		t.Run(test.name, func(t *testing.T) {
			var e Editor
			for _, n := range []int{1, 3, 100, len(test.content) + 1} {
				if len(test.content) > 10000 && n < 100 {
					continue
				}
				if out, p := edit(&e, compiled(t, Config{Rules: someRules()}), someFacts, test.content, n); out != test.want || p != 0 {
					t.Errorf("in pieces of %d: %v\n%.400q\nwant\n%.400q", n, p, out, test.want)
				}
			}
		})
	}
}

// A From field that a rule removes is missing, and made from the sender.
func TestRemovedFrom(t *testing.T) {
	edits := compiled(t, Config{Submission: true, Rules: []Rule{{Field: "From", Action: Remove}}})
	var e Editor
	if out, p := edit(&e, edits, someFacts, "From: x@y.example\r\n\r\n", 100); !strings.Contains(out, "From: "+someFacts.Sender+"\r\n") || p != 0 {
		t.Errorf("%v: %q", p, out)
	}
	if got := Qualify("a@[IPv6:::1]", "x.example"); got != "a@[IPv6:::1]" {
		t.Errorf("a literal becomes %s", got)
	}
}

// Digits end where letters begin: "$1x" was group "1x", which there is none of, and so nothing.
func TestRuleGroups(t *testing.T) {
	edits := compiled(t, Config{Rules: []Rule{{Field: "A", Action: Replace, Match: "^(.)(.)(z)?", Value: "$1x ${2}2_$$1$0$3"}}})
	var e Editor
	if out, _ := edit(&e, edits, someFacts, "A: bc\r\n\r\n", 100); out != "A: bx c2_$1bc\r\n\r\n" {
		t.Errorf("%q", out)
	}
}

// A long value is folded at its spaces, so that no server has to break its lines.
func TestFold(t *testing.T) {
	value := strings.Repeat("word ", 40) + strings.Repeat("y", 200) + "  z"
	edits := compiled(t, Config{Rules: []Rule{{Field: "A", Action: Replace, Value: value}}})
	var e Editor
	out, _ := edit(&e, edits, someFacts, "A: b\r\n\r\n", 100)
	_, got, _ := strings.Cut(strings.ReplaceAll(out, "\r\n", ""), ": ")
	if got != value {
		t.Errorf("unfolded: %q", got)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\r\n\r\n"), "\r\n") {
		if strings.TrimSpace(line) == "" || len(line) > lineMax && strings.Contains(strings.TrimSpace(line), " ") && !strings.HasSuffix(line, "z") {
			t.Errorf("a line of %d: %q", len(line), line)
		}
	}
}

// Mistakes in rules are found all at once, with the rule that has them.
func TestCompileRefuses(t *testing.T) {
	_, err := Compile(Config{Rules: []Rule{
		{Name: "one", Field: "a b", Action: Remove, Match: "(", Value: "x"},
		{Name: "two", Field: "A", Action: Add, Match: "x"},
		{Name: "three", Field: "A", Action: Replace, Value: "x\r\nBcc: y"},
		{Name: "four", Field: "A", Action: 9, Value: strings.Repeat("x", 5000)},
		{Name: "five", Field: "A", Action: Replace, Match: "(a)", Value: "$2"},
		{Name: "six", Field: "A", Action: Replace, Match: "(?P<a>a)", Value: "${a} $1"},
		{Name: "seven", Field: "A", Action: Add, Value: "$1"},
		{Name: "eight", Field: "A", Action: Replace, Match: "a", Value: "5 $"},
		{Name: "nine", Field: "A", Action: Replace, Match: "(a)", Value: "${1"},
	}})
	for _, want := range []string{
		`header rule one: "a b" is not the name`, "header rule one: error parsing regexp", "header rule one: a field that is removed",
		"header rule two: a field that is added matches", "header rule two: the value is missing", "header rule three: the value has characters",
		"header rule four: no such action", "header rule four: the value is longer",
		`header rule five: "$2" names group 2, and match has 1`, `header rule six: the $ in "${a} $1" names no group`, `header rule seven: "$1" names group 1, and match has 0`,
		`header rule eight: the $ in "$" names no group`, `header rule nine: the $ in "${1" names no group`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// rewriter hides what is below example.com, as masquerading does.
func rewriter(_ Kind, a mail.Address) mail.Address {
	if strings.HasSuffix(a.Domain(), ".example.com") {
		return mail.Address(a.Local() + "@example.com")
	}
	return a
}

// Addresses are rewritten where they are: names, comments and folding around them stay.
func TestRewriteAddresses(t *testing.T) {
	edits := compiled(t, Config{Domain: "example.com", Rewrite: rewriter})
	for before, want := range map[string]string{
		"From: joe\r\n":                                   "From: joe@example.com\r\n",
		"From: joe@www\r\n":                               "From: joe@example.com\r\n",
		"From: Joe <joe@www.example.com>\r\n":             "From: Joe <joe@example.com>\r\n",
		"To: \"a, b\"\r\n\t<x@www> (c), y@z.org\r\n":      "To: \"a, b\"\r\n\t<x@example.com> (c), y@z.org\r\n",
		"Cc: g: a@www, b (c@www);,\r\n <d@[1.2.3.4]>\r\n": "Cc: g: a@example.com, b@example.com (c@www);,\r\n <d@[1.2.3.4]>\r\n",
		"To: \"a b\"@www\r\n":                             "To: \"a b\"@example.com\r\n",
		"To: a (x) @ www (y)\r\n":                         "To: a@example.com (y)\r\n",
		"To: <@r.example:a@www>\r\n":                      "To: <a@example.com>\r\n",
		"To: a@www, <b@www\r\n":                           "To: a@www, <b@www\r\n",
		"To: a b c, d@www\r\n":                            "To: a b c, d@example.com\r\n",
		"To: undisclosed-recipients:;\r\n":                "To: undisclosed-recipients:;\r\n",
		"Subject: joe@www.example.com\r\n":                "Subject: joe@www.example.com\r\n",
		"Reply-To: joe@www.example.com":                   "Reply-To: joe@example.com\r\n",
	} {
		var e Editor
		for _, n := range []int{1, 100} {
			if got, _ := edit(&e, edits, someFacts, before, n); got != want {
				t.Errorf("%q: %q, want %q", before, got, want)
			}
		}
	}
}

// plainEdit is the Editor written for a content that is there as a whole and whose fields
// are short.
func plainEdit(cfg Config, facts Facts, content string) (out string, problem Problem) {
	lines := strings.SplitAfter(content, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	isField := regexp.MustCompile(`^([!-9;-~]+)[ \t]*:`)
	isMailbox := regexp.MustCompile(`^>?From [ \t]*[^ \t:]`)
	fail := func(p Problem) {
		if problem == 0 {
			problem = p
		}
	}
	var fields []string
	i := 0
	for ; i < len(lines); i++ {
		line := lines[i]
		if (line[0] == ' ' || line[0] == '\t') && len(fields) > 0 {
			fields[len(fields)-1] += line
		} else if isField.MatchString(line) || len(fields) == 0 && isMailbox.MatchString(line) {
			fields = append(fields, line)
		} else {
			break
		}
	}
	if i == len(lines) && i > 0 && !strings.HasSuffix(content, "\n") {
		fields[len(fields)-1] += "\r\n"
	}
	has := map[string]int{}
	add := func(name, value string) { out += fold2(name, value) }
	present := map[string]bool{}
	for n, f := range fields {
		m := isField.FindStringSubmatch(f)
		if m == nil || n == 0 && isMailbox.MatchString(f) {
			if !cfg.Submission {
				out += f
			}
			continue
		}
		name := strings.ToLower(m[1])
		present[name] = true
		if cfg.Submission && slices.Contains([]string{"bcc", "resent-bcc", "return-path"}, name) {
			continue
		}
		value := strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(f[len(m[0]):]))
		removed, before := false, value
		for _, r := range cfg.Rules {
			if removed || !strings.EqualFold(r.Field, name) || r.Action > Replace || !regexp.MustCompile(r.Match).MatchString(value) {
				continue
			}
			removed = r.Action == Remove
			if !removed {
				value = strings.TrimSpace(string(regexp.MustCompile(r.Match).Expand(nil, []byte(r.Value), []byte(value), regexp.MustCompile(r.Match).FindStringSubmatchIndex(value))))
			}
		}
		if removed {
			continue
		}
		if value != before {
			f = fold2(m[1], value)
		}
		has[name]++
		if name == "from" && cfg.Submission {
			if has[name] > 1 {
				fail(ProblemTwoFroms)
			}
			people := 0
			if ParseList(f[strings.Index(f, ":")+1:], "localhost", func(mail.Address) error { people++; return nil }) != nil || people == 0 {
				fail(ProblemFrom)
			}
		}
		out += f
	}
	if cfg.Submission {
		switch {
		case has["from"] == 0 && facts.Sender == "":
			fail(ProblemNoFrom)
		case has["from"] == 0:
			out += "From: " + facts.Sender + "\r\n"
		}
		if has["date"] == 0 {
			out += "Date: " + facts.Date + "\r\n"
		}
		if has["message-id"] == 0 {
			out += "Message-ID: <" + facts.MessageID + ">\r\n"
		}
	}
	for _, r := range cfg.Rules {
		if r.Action == Add || r.Action == AddMissing && !present[strings.ToLower(r.Field)] {
			add(r.Field, r.Value)
		}
	}
	rest := lines[i:]
	if cfg.Submission && (len(rest) == 0 || !isEmpty([]byte(rest[0]))) {
		out += "\r\n"
		for _, line := range rest {
			if isEmpty([]byte(line)) {
				break
			}
			name, _, found := strings.Cut(line, ":")
			name = strings.ToLower(strings.Trim(name, " \t\r\n\x00"))
			if found && (name == "bcc" || name == "resent-bcc") && strings.Index(line, ":") < looseMax {
				fail(ProblemHiddenBcc)
			}
		}
	}
	return out + strings.Join(rest, ""), problem
}

func fold2(name, value string) string { return string(fold([]byte(name), []byte(value))) }

// compareEdits checks an Editor against the plain version.
func compareEdits(t *testing.T, cfg Config, facts Facts, content string, n int) {
	t.Helper()
	var e Editor
	out, p := edit(&e, compiled(t, cfg), facts, content, n)
	if want, problem := plainEdit(cfg, facts, content); out != want || p != problem {
		t.Fatalf("%q in pieces of %d, submission %v:\n%q %v\nwant\n%q %v", content, n, cfg.Submission, out, p, want, problem)
	}
}

// The Editor agrees with the plain version on random headers, whatever the pieces are.
func TestEditorAgainstPlain(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	words := []string{"From", "from", ":", " ", "\t", "\r\n", "\r\n", "\r\n", "\r\n ", "Bcc: x\r\n", "Date: y\r\n", "a@b", ",", "Subject: [SPAM] s", "X-Mailer:", "Received: inside",
		"x-originating-ip: 1\r\n", "Organization", "From a", "<", ">", "é", "Resent-Bcc", "\n", "Message-ID: m\r\n", "\r", "From: a@b\r\n", "x y"}
	for range 1000 {
		var content strings.Builder
		for range random.IntN(14) {
			content.WriteString(words[random.IntN(len(words))])
		}
		cfg := Config{Submission: random.IntN(3) > 0}
		if random.IntN(2) == 0 {
			cfg.Rules = someRules()
		}
		facts := someFacts
		if random.IntN(4) == 0 {
			facts.Sender = ""
		}
		compareEdits(t, cfg, facts, content.String(), 1+random.IntN(12))
	}
}

// Content of strangers neither breaks an Editor nor makes it differ from the plain version.
func FuzzEditor(f *testing.F) {
	f.Add("Bcc: a\r\n b\r\nFrom: c@d\r\n\r\nx", uint8(3), true)
	f.Add("From x y\r\nX-Mailer : a\nBcc\r\n", uint8(1), false)
	f.Add("Subject: [SPAM] \r\n x\r\nBad line\r\nBcc: y\r\n", uint8(9), true)
	f.Fuzz(func(t *testing.T, content string, n uint8, submission bool) {
		if len(content) > nameMax || n == 0 {
			return
		}
		compareEdits(t, Config{Submission: submission, Rules: someRules()}, someFacts, content, int(n))
	})
}

// What an Editor costs a message whose header is complete.
func BenchmarkEditor(b *testing.B) {
	edits := compiled(b, Config{Submission: true})
	content := []byte("Received: from x by y\r\n\twith z\r\nFrom: Joe <joe@example.com>\r\nTo: a@b.example\r\nSubject: " + strings.Repeat("x", 60) + "\r\nDate: d\r\nMessage-ID: <m>\r\nMIME-Version: 1.0\r\n\r\n" + fmt.Sprintf("%4000s", "") + "\r\n")
	var e Editor
	b.ReportAllocs()
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		e.Begin(edits, someFacts)
		e.Next(content)
		e.End()
	}
}

// checkRewritten edits a To field with a list, and checks that those who are named after it are
// those named before, each rewritten, and that a list that cannot be read stays as it is.
func checkRewritten(t *testing.T, list string, n int) {
	t.Helper()
	field := "To: " + list + "\r\n"
	var e Editor
	out, _ := edit(&e, compiled(t, Config{Domain: "example.com", Rewrite: rewriter}), someFacts, field, n)
	read := func(text string) (all []string, err error) {
		l := List{Emit: func(m Mailbox) error {
			a, err := ParsePath(m.Address, "example.com")
			if err != nil {
				all = append(all, string(m.Address)) // not an address, which stays
				return nil
			}
			all = append(all, string(rewriter(KindTo, Qualify(a, "example.com"))))
			return nil
		}}
		if err := l.Feed([]byte(text)); err != nil {
			return nil, err
		}
		return all, l.End()
	}
	value, ok := strings.CutPrefix(out, "To:")
	if !ok {
		t.Fatalf("%q: %q", field, out)
	}
	before, err := read(" " + list)
	if err != nil {
		if out != field {
			t.Fatalf("%q: %v, and yet %q", field, err, out)
		}
		return
	}
	after, err := read(strings.TrimSuffix(value, "\r\n"))
	if err != nil || !slices.Equal(before, after) {
		t.Fatalf("%q has %q; %q has %q, %v", field, before, out, after, err)
	}
}

// Rewriting changes addresses and nothing else of a list, however it is written.
func TestRewriteRandomLists(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 3))
	t.Logf("seed %d", seed)
	words := []string{"a", "joe", "@", "www", ".example.com", "b.org", ",", ", ", "<", ">", "\"x, y\"", "(c)", "(c (d))", ":", ";", " ", "\r\n\t", ".", "[1.2.3.4]", "\\", "\"", "é", "<@r.org:a@www>", "Jane <jane@www>", "g: a@www;"}
	for range 2000 {
		var list strings.Builder
		for range 1 + random.IntN(10) {
			list.WriteString(words[random.IntN(len(words))])
		}
		checkRewritten(t, list.String()+"x", 1+random.IntN(20))
	}
}

// Whatever an address list contains, rewriting does not turn one address into another.
func FuzzRewrite(f *testing.F) {
	f.Add("Jane <jane@www>, (c) joe, g: a@b;", uint8(3))
	f.Fuzz(func(t *testing.T, list string, n uint8) {
		if n == 0 || len(list) > FieldMax/2 || strings.ContainsAny(list, "\r\n") {
			return
		}
		checkRewritten(t, list, int(n))
	})
}
