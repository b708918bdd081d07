package replies

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/glob"
	"github.com/posthaste-mta/posthaste/mail"
)

// must returns the value of a text that is one.
func must[T any](t testing.TB, parse func(string) (T, error), text string) T {
	t.Helper()
	v, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func reply(t testing.TB, by, text string) *mail.Reply {
	r := must(t, ParseReply, text)
	r.By = by
	return &r
}

// All conditions of a pattern must be met, by any of the values of each, and the first pattern
// that matches gives the class.
func TestFirstPattern(t *testing.T) {
	book := New([]Pattern{
		{Class: ClassPolicy, Match: Match{MX: []glob.Pattern{glob.New("*.a.example"), glob.New("b.example")}, Codes: []CodeRange{must(t, ParseCode, "45x"), must(t, ParseCode, "550")}}},
		{Class: ClassMailboxFull, Match: Match{Words: []string{must(t, NewWords, "Quota  Exceeded"), must(t, NewWords, "full box")}, Statuses: []StatusPattern{must(t, ParseStatus, "x.2.x")}}},
		{Class: ClassSpam, Match: Match{Words: []string{"quota exceeded"}, Text: must(t, NewText, `S\d+ (x|y)\b`)}},
		{Class: ClassServer, Match: Match{Codes: []CodeRange{must(t, ParseCode, "4xx")}}},
	}, nil)
	for _, c := range []struct {
		by, text string
		want     Class
	}{
		{"mx.A.example.[192.0.2.1]", "459 x", ClassPolicy},
		{"b.example[192.0.2.1]", "550 x", ClassPolicy},
		{"b.example[192.0.2.1]", "551 x", ClassOther},
		{"a.example[192.0.2.1]", "550 x", ClassOther},
		{"", "552 5.2.2 the QUOTA \\n exceeded", ClassOther}, // a backslash is no line end
		{"", "552 5.2.2 the QUOTA \n exceeded", ClassMailboxFull},
		{"", "552 5.2.1 a full box", ClassMailboxFull},
		{"", "552 5.3.1 a full box", ClassOther},
		{"", "552 a full box", ClassOther}, // it has no status
		{"", "552 quota exceeded s12\ny", ClassSpam},
		{"", "552 s12 y", ClassOther},
		{"", "452 quota exceeded s12 yz", ClassServer},
		{"", "399 x", ClassNone},
	} {
		if got := book.Explain(reply(t, c.by, c.text), Occasion{Transport: "smtp"}).Class; got != c.want {
			t.Errorf("%s %q: %v, want %v", c.by, c.text, got, c.want)
		}
	}
	if got := book.Class(mail.Reply{Code: 552, Status: mail.Status{Class: 5, Subject: 2, Detail: 2}, Text: mail.SuspendedPrefix + "full box"}); got != ClassMailboxFull {
		t.Errorf("with a prefix of ours: %v", got)
	}
	if e := (*Book)(nil).Explain(reply(t, "", "550 x"), Occasion{}); e != (Explanation{}) {
		t.Errorf("no book: %+v", e)
	}
}

// A rule changes what becomes of a recipient, and demands a measure for the destination, only
// because of what a host has said about a delivery whose result is known.
func TestDelivered(t *testing.T) {
	rules := []Rule{
		{Name: "gone", Classes: []Class{ClassNoSuchUser}, Transports: []string{"smtp"}, Result: ResultPermanent},
		{Name: "soft", Match: Match{Codes: []CodeRange{{550, 550}}}, Result: ResultTemporary, Rest: time.Minute, Times: 2, Within: time.Hour},
		{Name: "slow", Match: Match{Codes: []CodeRange{{421, 421}}}, Concurrency: 1, For: time.Hour},
		{Name: "hidden", Match: Match{Codes: []CodeRange{{421, 421}}}, Rest: time.Hour},
	}
	book := New([]Pattern{{Class: ClassNoSuchUser, Match: Match{Words: []string{"unknown"}}}}, rules)
	outcome := func(result mail.Result, by, text string) mail.Outcome {
		return mail.Outcome{Result: result, Reply: *reply(t, by, text)}
	}
	for _, c := range []struct {
		name    string
		d       mail.Delivery
		o       mail.Outcome
		want    mail.Result
		measure string
	}{
		{"permanent", mail.Delivery{Transport: "smtp"}, outcome(mail.Deferred, "h[1]", "450 unknown"), mail.Failed, ""},
		{"of another transport", mail.Delivery{Transport: "bulk"}, outcome(mail.Deferred, "h[1]", "450 unknown"), mail.Deferred, ""},
		{"temporary", mail.Delivery{Transport: "smtp"}, outcome(mail.Failed, "h[1]", "550 no"), mail.Deferred, "soft"},
		{"the first rule only", mail.Delivery{Transport: "smtp"}, outcome(mail.Deferred, "h[1]", "421 no"), mail.Deferred, "slow"},
		{"our own words", mail.Delivery{Transport: "smtp"}, outcome(mail.Failed, "", "550 no"), mail.Failed, ""},
		{"a call-out", mail.Delivery{Transport: "smtp", Callout: true}, outcome(mail.Failed, "h[1]", "550 no"), mail.Failed, ""},
		{"delivered", mail.Delivery{Transport: "smtp"}, outcome(mail.Delivered, "h[1]", "250 unknown"), mail.Delivered, ""},
	} {
		r := mail.DeliveryResult{Outcomes: []mail.Outcome{c.o}}
		book.Delivered(&c.d, &r)
		measure := ""
		if r.Measure != nil {
			measure = r.Measure.Rule
		}
		if got := r.Outcomes[0]; got.Result != c.want || measure != c.measure || got.Reply != c.o.Reply {
			t.Errorf("%s: %v, measure %q, %v", c.name, got.Result, measure, got.Reply)
		}
	}
	unknown := outcome(mail.Deferred, "h[1]", "450 unknown")
	unknown.Unknown = true
	r := mail.DeliveryResult{Outcomes: []mail.Outcome{unknown, outcome(mail.Failed, "h[1]", "550 no"), outcome(mail.Deferred, "h[1]", "421 no")}}
	book.Delivered(&mail.Delivery{Transport: "smtp"}, &r)
	if r.Outcomes[0].Result != mail.Deferred || r.Measure == nil || r.Measure.Rule != "soft" || r.Measure.Rest != time.Minute || r.Measure.Times != 2 || r.Measure.Reply.Code != 550 {
		t.Errorf("several recipients: %+v, %+v", r.Outcomes, r.Measure)
	}
	opened := mail.OpenedConnection{Reply: *reply(t, "h[1]", "421 no")}
	if book.Opened(&mail.Opening{Transport: "smtp"}, &opened); opened.Measure == nil || opened.Measure.Rule != "slow" {
		t.Errorf("a connection that is refused: %+v", opened.Measure)
	}
	closing := mail.Closing{Reply: *reply(t, "", "421 no")}
	if book.Closed("smtp", &closing); closing.Measure != nil {
		t.Errorf("a connection that we have closed: %+v", closing.Measure)
	}
}

// A rule behind one that covers it has no effect; anything else may have.
func TestCovers(t *testing.T) {
	phrases := func(all ...string) Match { return Match{Words: all} }
	hosts := func(all ...glob.Pattern) Match { return Match{MX: all} }
	codes := func(all ...string) (m Match) {
		for _, c := range all {
			m.Codes = append(m.Codes, must(t, ParseCode, c))
		}
		return m
	}
	statuses := func(all ...string) (m Match) {
		for _, c := range all {
			m.Statuses = append(m.Statuses, must(t, ParseStatus, c))
		}
		return m
	}
	for _, c := range []struct {
		name         string
		first, later Rule
		want         bool
	}{
		{"all", Rule{}, Rule{Match: codes("421")}, true},
		{"some of all", Rule{Match: codes("421")}, Rule{}, false},
		{"a range", Rule{Match: codes("42x", "45x")}, Rule{Match: codes("421", "450")}, true},
		{"one more", Rule{Match: codes("42x")}, Rule{Match: codes("421", "450")}, false},
		{"a wider range", Rule{Match: codes("421")}, Rule{Match: codes("42x")}, false},
		{"statuses", Rule{Match: statuses("x.7.x")}, Rule{Match: statuses("4.7.1", "5.7.1")}, true},
		{"wider statuses", Rule{Match: statuses("4.7.1")}, Rule{Match: statuses("x.7.1")}, false},
		{"a part of the phrase", Rule{Match: phrases("full")}, Rule{Match: phrases("box full")}, true},
		{"a longer phrase", Rule{Match: phrases("box full")}, Rule{Match: phrases("full")}, false},
		{"hosts", Rule{Match: hosts(glob.New("*.a.example"))}, Rule{Match: hosts(glob.New("*.b.a.example"), glob.New("c.a.example"))}, true},
		{"another host", Rule{Match: hosts(glob.New("*.a.example"))}, Rule{Match: hosts(glob.New("a.example"))}, false},
		{"the same expression", Rule{Match: Match{Text: must(t, NewText, "a")}}, Rule{Match: Match{Text: must(t, NewText, "a")}}, true},
		{"an expression", Rule{Match: Match{Text: must(t, NewText, "a")}}, Rule{Match: phrases("aaaa")}, false},
		{"classes", Rule{Classes: []Class{ClassSpam}}, Rule{Classes: []Class{ClassSpam, ClassDNS}}, false},
		{"fewer classes", Rule{Classes: []Class{ClassSpam, ClassDNS}}, Rule{Classes: []Class{ClassSpam}}, true},
		{"a transport", Rule{Transports: []string{"a"}}, Rule{}, false},
	} {
		if got := c.first.Covers(&c.later); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// The search in one pass finds the same phrases as one search for each.
func TestVocabularyTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte("ab "[rng.IntN(3)])
		}
		return b.String()
	}
	for round := range 300 {
		v := newVocabulary()
		var all []string
		for range 1 + rng.IntN(20) {
			phrase := text(WordsMin + rng.IntN(5))
			if n := v.number(phrase); n == len(all) {
				all = append(all, phrase)
			} else if all[n] != phrase {
				t.Fatalf("round %d: %q has the number of %q", round, phrase, all[n])
			}
		}
		in := text(rng.IntN(40))
		found := make(phraseSet, 1) // room for 64
		v.find([]byte(in), found)
		for n, phrase := range all {
			if got, want := found.has(n), strings.Contains(in, phrase); got != want {
				t.Fatalf("round %d: %q in %q: %v", round, phrase, in, got)
			}
		}
	}
}

// Texts that are no codes, statuses, phrases and expressions.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "42", "4211", "3xx", "6xx", "x21", "4x1", "xxx", "+42", "4 1"} {
		if c, err := ParseCode(text); err == nil {
			t.Errorf("code %q: %v", text, c)
		}
	}
	for _, text := range []string{"", "5.1", "5.1.1.1", "2.1.1", "3.x.x", "5.1.1000", "5.01.1", "5..1", "5.-1.1", "y.1.1"} {
		if s, err := ParseStatus(text); err == nil {
			t.Errorf("status %q: %v", text, s)
		}
	}
	for _, text := range []string{"4xx", "45x", "550"} {
		if c := must(t, ParseCode, text); c.String() != text {
			t.Errorf("code %q is %v", text, c)
		}
	}
	for _, text := range []string{"x.x.x", "5.0.0", "4.7.500"} {
		if s := must(t, ParseStatus, text); s.String() != text {
			t.Errorf("status %q is %v", text, s)
		}
	}
	if _, err := NewWords("  a \n b  "); err == nil { // "a b"
		t.Error("a phrase of three characters")
	}
	for _, text := range []string{"(", "a)|(b", `(?=a)`, strings.Repeat("a", TextMax+1)} {
		if _, err := NewText(text); err == nil {
			t.Errorf("expression %.20q", text)
		}
	}
	for _, text := range []string{"", "bla", "199 x", "600 x", "55", "5500 x", "-50 x"} {
		if r, err := ParseReply(text); err == nil {
			t.Errorf("reply %q: %v", text, r)
		}
	}
}

// A reply is read as it is in a log, in a report, or on the wire.
func TestParseReply(t *testing.T) {
	for text, want := range map[string]string{
		"550": "550 ", "550 5.1.1 a": "550 5.1.1 a", "550-5.1.1 a\r\n550 5.1.1 b": "550 5.1.1 a / b", "550 5.1.1 a / 550 5.1.1 b": "550 5.1.1 a / b",
		"421 4.7.0 a\n5.1.1 b": "421 4.7.0 a / 5.1.1 b", "450 5.1.1 a": "450 5.1.1 a", "550-a\n551 b": "550 a / 551 b", " 250-ok\n250 2.0.0 x ": "250 ok / 2.0.0 x",
	} {
		r := must(t, ParseReply, text)
		if got := r.String(); got != want || strings.Contains(r.Text, " / ") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A rule about a stage applies to replies to that command only, and says whose mail was refused if that matters.
func TestStages(t *testing.T) {
	book := New(nil, []Rule{
		{Name: "mail", Match: Match{Codes: []CodeRange{{500, 599}}}, Stages: []mail.Stage{mail.StageMail, mail.StageRcpt}, SenderDomains: 2, InARow: true, Times: 3, Suspend: time.Hour},
		{Name: "early", Match: Match{Codes: []CodeRange{{500, 599}}}, Stages: []mail.Stage{mail.StageGreeting, mail.StageEhlo, mail.StageAuth}, SenderDomains: 2, Suspend: time.Hour},
	})
	for _, c := range []struct {
		stage        mail.Stage
		sender       mail.Address
		rule, domain string
	}{
		{mail.StageMail, "a@B.test", "mail", "b.test"},
		{mail.StageRcpt, "a@b.test", "mail", "b.test"},
		{mail.StageRcpt, "", "mail", "<>"},
		{mail.StageMail, "postmaster", "mail", "<>"},
		{mail.StageGreeting, "a@b.test", "early", ""},
		{mail.StageEhlo, "a@b.test", "early", ""},
		{mail.StageAuth, "a@b.test", "early", ""},
		{mail.StageContent, "a@b.test", "", ""},
		{mail.StageData, "a@b.test", "", ""},
		{mail.StageUnknown, "a@b.test", "", ""},
	} {
		r := mail.DeliveryResult{Outcomes: []mail.Outcome{{Result: mail.Failed, Reply: *reply(t, "h[1]", "550 no"), Stage: c.stage}}}
		book.Delivered(&mail.Delivery{Transport: "smtp", Recipients: []mail.Recipient{{Address: "U+list@bücher.test"}},
			Envelope: mail.Envelope{ID: 7, Sender: c.sender, Flow: mail.Flow{Tenant: "acme"}}}, &r)
		m := r.Measure
		if m == nil {
			m = &mail.Measure{}
		}
		if want := c.stage == mail.StageRcpt; (m.Refused.Recipient == "u@xn--bcher-kva.test") != want || (m.Refused.Domain == "xn--bcher-kva.test") != want || m.Rule == "mail" && (m.Refused.Tenant != "acme" || m.Refused.Message != 7) {
			t.Errorf("%v of %q refused %+v", c.stage, c.sender, m.Refused)
		}
		if m.Rule != c.rule || m.Refused.Sender != c.domain || m.Rule != "" && m.Senders != 2 || m.InARow != (c.rule == "mail") {
			t.Errorf("%v of %q: %+v", c.stage, c.sender, m)
		}
		closing := mail.Closing{Reply: *reply(t, "h[1]", "550 no"), Stage: c.stage}
		if book.Closed("smtp", &closing); (closing.Measure != nil) != (c.rule == "early") {
			t.Errorf("the end of a connection at %v: %+v", c.stage, closing.Measure)
		}
		opened := mail.OpenedConnection{Reply: *reply(t, "h[1]", "550 no"), Stage: c.stage}
		if book.Opened(&mail.Opening{Transport: "smtp"}, &opened); (opened.Measure != nil) != (c.rule != "") {
			t.Errorf("a refused connection at %v: %+v", c.stage, opened.Measure)
		}
	}
	one, other := Rule{Stages: []mail.Stage{mail.StageMail, mail.StageRcpt}}, Rule{Stages: []mail.Stage{mail.StageRcpt}}
	if !one.Covers(&other) || other.Covers(&one) || one.Covers(&Rule{}) {
		t.Error("covered: rules about stages")
	}
}

func FuzzExplain(f *testing.F) {
	f.Add("550-5.1.1 a\n550 5.1.1 mailbox  FULL", "mailbox full", `\bfull$`)
	f.Fuzz(func(t *testing.T, text, words, expression string) {
		r, err := ParseReply(text)
		if err != nil {
			return
		}
		var m Match
		if phrase, err := NewWords(words); err == nil {
			m.Words = append(m.Words, phrase)
		}
		if m.Text, err = NewText(expression); err != nil {
			m.Text = nil
		}
		book := New([]Pattern{{Class: ClassSpam, Match: m}}, []Rule{{Name: "a", Match: m, Rest: time.Second}})
		r.By = "h[1]"
		if e := book.Explain(&r, Occasion{}); (e.Class == ClassSpam) != (e.Rule != nil) {
			t.Fatalf("%+v", e)
		}
	})
}
