package admin

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Filters decide what is dropped irreversibly: each must match what it says, and no
// more.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		parse            func(string) (pattern, error)
		pattern, address string
		want             bool
	}{
		{parseSender, "<>", "", true}, {parseSender, "<>", "a@b", false},
		{parseSender, "a@b", "a@b", true}, {parseSender, "A@B", "a@b", true}, {parseSender, "a@b", "aa@b", false}, {parseSender, "a@b", "a@bb", false},
		{parseSender, "@b.example", "x@b.example", true}, {parseSender, "@B.example", "x@b.EXAMPLE", true}, {parseSender, "@b.example", "x@c.b.example", false},
		{parseSender, "@b.example", "", false},
		{parseSender, "*", "", true}, {parseSender, "*@b", "x@b", true}, {parseSender, "*@b", "@b", true}, {parseSender, "*@b", "x@c", false},
		{parseSender, "x*x", "x", false}, {parseSender, "x*x", "xx", true}, {parseSender, "ab*ba", "aba", false}, {parseSender, "a*b*b", "ab", false}, {parseSender, "*a*a*", "a", false}, {parseSender, "*a*a*", "aa", true},
		{parseGlob, "a.b", "axb", false}, {parseSender, "*(", "x(", true}, {parseSender, "*.*@*.c", "a.b@d.c", true},
		{parseGlob, "-", "", true}, {parseGlob, "-", "-", false},
		{parsePart, "Full", "mailbox full", true}, {parsePart, "full*", "mailbox full", false}, {parsePart, "box", "", false},
		{parseSender, "/^news-[0-9]+@/", "News-12@example.com", true}, {parseSender, "/^news-[0-9]+@/", "xnews-1@b", false}, {parseSender, "/b$/", "a@bb", true},
		{parseDomain, "/^(a|b)[.]c$/", "B.C", true}, {parseDomain, "/^(a|b)[.]c$/", "b.c.d", false}, {parsePart, "/4[.]7[.]/", "450 4.7.1 later", true},
		{parseGlob, "/", "/", true}, {parseGlob, "/x", "/X", true},
	} {
		p, err := parsePattern(c.pattern, c.parse)
		if err != nil || p.match(c.address) != c.want {
			t.Errorf("%q matches %q: %v, %v", c.pattern, c.address, !c.want, err)
		}
	}
}

// One of several patterns is enough; none is no condition.
func TestPatternsOfOneCondition(t *testing.T) {
	all, err := parsePatterns("sender", []string{"a@b", "@c", "<>"}, parseSender)
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{"a@b": true, "x@c": true, "": true, "x@b": false} {
		if all.match(address) != want {
			t.Errorf("%q: %v", address, !want)
		}
	}
	if none := patterns(nil); !none.match("a@b") || !none.match("") {
		t.Error("a condition without patterns is not met")
	}
	if _, err := parsePattern("/(/", parseSender); err == nil || !strings.Contains(err.Error(), "`(`") {
		t.Errorf("an error must quote the expression as written: %v", err)
	}
	_, err = parsePatterns("sender", []string{"a@b", "<c@d>", "/(/"}, parseSender)
	if got := details(err, "query"); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// The matcher against the same pattern as a regular expression.
func FuzzPattern(f *testing.F) {
	f.Add("*@example.com", "a@example.com")
	f.Add("a*b*c", "aXbbYc")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, text, address string) {
		p := newGlob(text)
		parts := strings.Split(strings.ToLower(text), "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re, err := regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		if err != nil || strings.ToValidUTF8(address, "") != address {
			return
		}
		if want := re.MatchString(strings.ToLower(address)); p.match(address) != want {
			t.Errorf("%q matches %q: %v", text, address, !want)
		}
	})
}

// A condition that no message can ever meet is refused as a mistake, with the
// correct form.
func TestConditionsThatCannotBeMet(t *testing.T) {
	for _, f := range []Filter{
		{Sender: []string{"example.com"}}, {Sender: []string{"<a@b>"}}, {Sender: []string{"a@b,c@d"}}, {Sender: []string{"a@b c@d"}}, {Sender: []string{"@.b"}}, {Sender: []string{"@"}}, {Sender: []string{"@a,b"}}, {Sender: []string{" "}},
		{Recipient: []string{"<>"}}, {Recipient: []string{"b.example"}}, {Recipient: []string{"@b..c"}},
		{Domain: []string{"a,b"}}, {Domain: []string{".*b"}}, {Domain: []string{"*..b"}}, {Domain: []string{"b", "a,b"}}, {Domain: []string{"/(/"}}, {Error: []string{"//"}}, {Flow: []string{""}}, {Tenant: []string{strings.Repeat("x", 513)}}, {Domain: []string{"a@b"}}, {Domain: []string{"."}}, {Domain: []string{".."}}, {Domain: []string{"b."}}, {Domain: []string{"a b"}}, {Domain: []string{"a;b"}}, {Domain: []string{"<b>"}},
		{Older: "2d", Younger: "1d"}, {Older: "1d", Younger: "1d"}, {Larger: "1k", Smaller: "1k"}, {Larger: "1k", Smaller: "1025"}, {Larger: "x"}, {Smaller: "1kk"},
	} {
		if _, err := f.parse(1e18); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
	for _, f := range []Filter{
		{Sender: []string{"<>"}}, {Sender: []string{"*@b"}}, {Sender: []string{"@b.example"}}, {Sender: []string{"@*.b"}}, {Sender: []string{"postmaster"}}, {Sender: []string{`"a, b"@c`}}, {Recipient: []string{"*"}}, {Recipient: []string{"*x*"}},
		{Domain: []string{"b"}}, {Domain: []string{".b.example"}}, {Domain: []string{"xn--b.example"}}, {Domain: []string{"ü.example"}}, {Domain: []string{"[192.0.2.1]"}}, {Domain: []string{"a_b.example"}},
		{Older: "1d", Younger: "2d"}, {Larger: "1k", Smaller: "1026"}, {Domain: []string{"*.b", "mx*.b.example", "/b$/"}},
	} {
		if _, err := f.parse(1e18); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// Conditions on a flow: all three must be met, and what was not classified meets none
// but "-".
func TestFlowConditions(t *testing.T) {
	bulk := Message{Envelope: mail.Envelope{ID: 1, Arrived: 5, Flow: mail.Flow{Class: "bulk", Tenant: "192.0.2.0/24", Flow: "News@shop.example"}}}
	report := Message{Envelope: mail.Envelope{ID: 2, Arrived: 5, Flow: mail.Flow{Class: "normal", Tenant: "uid:33", Flow: "<>"}}}
	old := Message{Envelope: mail.Envelope{ID: 3, Arrived: 5}}
	lost := Message{Envelope: mail.Envelope{ID: 4}, Damage: "no envelope"}
	all := []*Message{&bulk, &report, &old, &lost}
	for _, c := range []struct {
		filter Filter
		want   [4]bool
	}{
		{Filter{}, [4]bool{true, true, true, true}},
		{Filter{Class: []string{"bulk"}}, [4]bool{true}}, {Filter{Class: []string{"BULK"}}, [4]bool{true}}, {Filter{Class: []string{"*"}}, [4]bool{true, true, true}},
		{Filter{Class: []string{"-"}}, [4]bool{2: true}}, {Filter{Tenant: []string{"-"}, Flow: []string{"-"}}, [4]bool{2: true}},
		{Filter{Tenant: []string{"192.0.2.*"}}, [4]bool{true}}, {Filter{Tenant: []string{"uid:33"}, Class: []string{"bulk"}}, [4]bool{}},
		{Filter{Flow: []string{"news@*"}}, [4]bool{true}}, {Filter{Flow: []string{"<>"}}, [4]bool{1: true}}, {Filter{Flow: []string{"@shop.example"}}, [4]bool{}},
	} {
		s, err := c.filter.parse(1e18)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range all {
			if got := s.envelope(m); got != c.want[i] {
				t.Errorf("%+v selects message %d: %v", c.filter, i+1, got)
			}
		}
		if c.filter.conditional() != (len(c.filter.Class)+len(c.filter.Tenant)+len(c.filter.Flow) > 0) {
			t.Errorf("%+v is not seen to have conditions", c.filter)
		}
	}
}

// A domain with a leading dot stands for a whole organization.
func TestMatchDomain(t *testing.T) {
	for _, c := range []struct {
		want, domain string
		ok           bool
	}{
		{"example.com", "EXAMPLE.com", true}, {"example.com", "a.example.com", false},
		{".example.com", "a.example.com", true}, {".example.com", "example.com", true}, {".example.com", "notexample.com", false},
		{"example.com", "", false}, {"*.example.com", "a.b.example.com", true}, {"*.example.com", "example.com", false},
		{".Example.com", "a.example.COM", true}, {"[192.0.2.1]", "[192.0.2.1]", true},
	} {
		p, err := parseDomain(c.want)
		if err != nil || p.match(c.domain) != c.ok {
			t.Errorf("%q matches %q: %v, %v", c.want, c.domain, !c.ok, err)
		}
		if set := newDomainSet(c.want); !strings.Contains(c.want, "*") && set.match(c.domain) != c.ok {
			t.Errorf("the set of %q has %q: %v", c.want, c.domain, !c.ok)
		}
	}
	set := newDomainSet("a.example", ".B.example", "[192.0.2.1]")
	for domain, ok := range map[string]bool{"A.example": true, "x.a.example": false, "b.example": true, "x.y.B.example": true, "xb.example": false, "example": false, "[192.0.2.1]": true, "": false, ".": false} {
		if set.match(domain) != ok {
			t.Errorf("%q is in the set: %t", domain, !ok)
		}
	}
	if !(domainSet{}).match("a.example") {
		t.Error("an empty set has no domain")
	}
}

// A domain in another script is one domain, in whichever way it is asked for and written in an address.
func TestDomainsInOtherScripts(t *testing.T) {
	for _, c := range []struct {
		parse     func(string) (pattern, error)
		pattern   string
		addresses string
		want      bool
	}{
		{parseDomain, "bücher.test", "a@Bücher.test a@xn--bcher-kva.test ä@BU\u0308CHER.test", true}, {parseDomain, "XN--bcher-kva.test", "ä@bücher.test a@xn--bcher-kva.test", true},
		{parseDomain, "bücher.test", "a@bucher.test a@x.bücher.test a@xn--bcher-kva.test.test", false},
		{parseDomain, ".bücher.test", "a@x.xn--bcher-kva.test a@x.bücher.test a@xn--bcher-kva.test", true}, {parseDomain, ".xn--bcher-kva.test", "a@ä.bücher.test", true},
		{parseDomain, "bü*.test", "a@xn--bcher-kva.test a@bücher.test", true}, {parseDomain, "xn--*.test", "a@bücher.test", true},
		{parseDomain, "/^bü/", "a@xn--bcher-kva.test a@bücher.test", true}, {parseDomain, "/^xn--/", "a@bücher.test", true}, {parseDomain, "/^x/", "a@bucher.test", false},
		{parseRecipient, "@bücher.test", "ä@xn--bcher-kva.test b@bücher.test", true}, {parseRecipient, "@xn--bcher-kva.test", "b@bücher.test", true},
		{parseRecipient, "ä@bücher.test", "ä@xn--bcher-kva.test Ä@BÜCHER.test", true}, {parseRecipient, "ä@bücher.test", "a@xn--bcher-kva.test", false}, {parseRecipient, "a@xn--bcher-kva.test", "a@bücher.test", true},
		{parseRecipient, "*@*bücher.test", "b@x.xn--bcher-kva.test", true}, {parseRecipient, "xn--bcher-kva@a.test", "bücher@a.test", false},
	} {
		one, err := parsePatterns("x", []string{c.pattern}, c.parse)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range strings.Fields(c.addresses) {
			got := one.matchDomain(mail.Address(a).Domain())
			if strings.Contains(c.pattern, "@") {
				got = one.matchAddress(mail.Address(a))
			}
			if got != c.want {
				t.Errorf("%q matches %q: %v", c.pattern, a, !c.want)
			}
			if set := newDomainSet(c.pattern); !strings.ContainsAny(c.pattern, "@*/") && set.match(mail.Address(a).Domain()) != c.want {
				t.Errorf("the set of %q has %q: %v", c.pattern, a, !c.want)
			}
		}
	}
}

// A size at the limit is neither larger nor smaller, and a message whose size is unknown
// meets no condition on it.
func TestSizeConditions(t *testing.T) {
	for _, c := range []struct {
		filter Filter
		sizes  string // of those that meet it
	}{
		{Filter{Larger: "1k"}, "1025 4096"}, {Filter{Smaller: "1k"}, "1023"}, {Filter{Larger: "1023", Smaller: "4k"}, "1024 1025"}, {Filter{Larger: "0.5k"}, "1023 1024 1025 4096"},
	} {
		s, err := c.filter.parse(1e18)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, size := range []int64{1023, 1024, 1025, 4096} {
			if s.envelope(&Message{Envelope: mail.Envelope{ID: 1, Arrived: 5, Size: size}}) {
				got = append(got, strconv.FormatInt(size, 10))
			}
		}
		if strings.Join(got, " ") != c.sizes || !c.filter.conditional() {
			t.Errorf("%+v is met by %v", c.filter, got)
		}
		if s.envelope(&Message{Envelope: mail.Envelope{ID: 1}, Damage: "no envelope"}) {
			t.Errorf("%+v is met by a message without an envelope", c.filter)
		}
	}
	for text, want := range map[string]int64{"500": 500, "10k": 10240, "1.5M": 3 << 19, "2G": 2 << 30, "0.5k": 512} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "k", "-1", "1e3", "1kk", "k1", "1x", "NaN", "Inf", "0x10", "1_0", "9999999999G", "+1"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is taken to be %d", text, got)
		}
	}
}

// People write times in many ways; a typing mistake must not become a time.
func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "90s": 90 * time.Second, "2h": 2 * time.Hour, "1h30m": 90 * time.Minute, "1.5d": 36 * time.Hour,
		"2w": 14 * 24 * time.Hour, "0": 0, "0s": 0,
	} {
		if got, err := ParseAge(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "h", "2x", "2hh", "-2h", "1e3s", "2h3", ".h", "1..2h", "99999999999999999999w", "2 h", "NaNs", "+1s"} {
		if got, err := ParseAge(text); err == nil {
			t.Errorf("%q is taken to be %v", text, got)
		}
	}
}

// A cursor that a client has changed must be refused, not read as another.
func FuzzPosition(f *testing.F) {
	p := position{area: mail.AreaDeferred, at: mail.Cursor{Due: 1 << 60, ID: 1 << 50}, recipient: 7, set: true}
	f.Add(p.String())
	f.Add("incoming-0-0000000000000-0")
	f.Add("deferred--1-0000000000000-0")
	f.Add("deferred-0-0000000000000-0-1b")
	f.Add("deferred-0-0000000000000-0-0")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePosition(text)
		if err == nil && p.String() != text {
			t.Errorf("%q is read as %q", text, p)
		}
	})
	for _, since := range []mail.Instant{0, 1 << 60} {
		p.since = since
		if got, err := parsePosition(p.String()); err != nil || got != p {
			f.Errorf("%v, %v", got, err)
		}
	}
}

// An order to expire mail does what the end of its lifetime would do: the last reply is quoted
// with its time, and a failure of mail from the null sender is a double bounce. Other orders
// report nothing to the null sender.
func TestExpiryOfARecipient(t *testing.T) {
	reply := mail.Reply{Code: 450, Text: "later"}
	r := &mail.RecipientOutcome{Recipient: mail.Recipient{Index: 3}, Outcome: mail.Outcome{Result: mail.Deferred, Reply: reply, At: 7}}
	for _, sender := range []mail.Address{"", "a@b"} {
		o := verbExpire.failure(sender, r, "ignored")
		if o.Index != 3 || o.Result != mail.Failed || !o.Expired || o.Report != mail.ReportFailed || o.At != 7 || o.Reply.Text != reply.Text || o.Reply.Code != reply.Code {
			t.Errorf("from %q: %+v", sender, o)
		}
	}
	if o := verbBounce.failure("", r, "gone"); o.Report == mail.ReportFailed || o.Expired || o.Reply.Text != "returned by an operator: gone" {
		t.Errorf("%+v", o)
	}
	r.Recipient.Notify = mail.NotifyNever
	if o := verbExpire.failure("a@b", r, ""); o.Report == mail.ReportFailed {
		t.Errorf("a report that the sender has not asked for: %+v", o)
	}
}
