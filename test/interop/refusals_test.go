package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// Where servers refuse, a recipient has a letter or a report, and one of them only;
// what the daemon could not know may come twice.
func TestJudgeRefusals(t *testing.T) {
	sent := letters("x", "d.test", 1, 2)
	first, second := sent[0].recipients[0], sent[0].recipients[1]
	take := func(a *account, to ...mail.Address) {
		a.taken(sink.Delivery{Key: sent[0].key, Sender: sent[0].sender, Recipients: to, BodySum: sent[0].bodySum(), Content: []byte(sent[0].content())})
	}
	report := func(a *account, about mail.Address, action string) {
		a.taken(sink.Delivery{Recipients: []mail.Address{sent[0].sender}, Content: fmt.Appendf(nil,
			"Subject: failed\r\n\r\nReporting-MTA: dns; x\r\n\r\nFinal-Recipient: rfc822; %s\r\nAction: %s\r\nStatus: 5.7.1\r\n", about, action)})
	}
	for _, test := range []struct {
		name  string
		story func(a *account)
		doubt mail.Address
		held  mail.Address
		again int
		want  string
	}{
		{"letter and report", func(a *account) { take(a, first); report(a, second, "failed") }, "", "", 0, ""},
		{"neither", func(a *account) { take(a, first) }, "", "", 0, "1 missing: <x-0@interop.test> for user0.1@d.test"},
		{"both", func(a *account) { take(a, first, second); report(a, second, "failed") }, "", "", 0,
			"1 delivered again: <x-0@interop.test> for user0.1@d.test: 1 times, and 1 reports of failure"},
		{"both, in doubt", func(a *account) { take(a, first, second); report(a, second, "failed") }, second, "", 1, ""},
		{"two reports", func(a *account) { take(a, first); report(a, second, "failed"); report(a, second, "failed") }, "", "", 0,
			"1 delivered again: <x-0@interop.test> for user0.1@d.test: 0 times, and 2 reports of failure"},
		{"a report of delay", func(a *account) { take(a, first); report(a, second, "delayed") }, "", "", 0, "1 missing: <x-0@interop.test> for user0.1@d.test"},
		{"twice", func(a *account) { take(a, first, second); take(a, second) }, "", "", 0, "1 delivered again: <x-0@interop.test> for user0.1@d.test: 2 times"},
		{"twice, in doubt", func(a *account) { take(a, first, second); take(a, second) }, second, "", 1, ""},
		{"three times, once in doubt", func(a *account) { take(a, first, second); take(a, second); take(a, second) }, second, "", 0,
			"1 delivered again: <x-0@interop.test> for user0.1@d.test: 3 times"},
		{"twice, another in doubt", func(a *account) { take(a, first, second); take(a, second) }, first, "", 0, "1 delivered again: <x-0@interop.test> for user0.1@d.test: 2 times"},
		{"held and not taken", func(a *account) { take(a, first) }, second, second, 0, ""},
		{"held and taken", func(a *account) { take(a, first, second) }, second, second, 0, ""},
		{"held and taken twice", func(a *account) { take(a, first, second); take(a, second) }, second, second, 0,
			"1 delivered again: <x-0@interop.test> for user0.1@d.test: 2 times"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAccount("")
			test.story(a)
			got := ""
			again, err := a.judge(sent, &excuses{refused: true, doubts: map[mail.Address]int{test.doubt: 1}, held: map[mail.Address]string{test.held: "ID"}})
			if err != nil {
				got = err.Error()
			}
			if got != test.want || err == nil && again != test.again {
				t.Errorf("%d explained, want %d; complaint %q, want %q", again, test.again, got, test.want)
			}
		})
	}
}

// A failure counts as refused only if the server has said so of this letter: a server
// that fell out of step refuses others.
func TestSayings(t *testing.T) {
	l := &lane{peer: refuser{name: "exim"}, level: "group"}
	s := newSayings([]*lane{l})
	for _, words := range []string{
		`to=a@h1.group.exim.refuse.test status=sent reply="250 ok"`,
		`to=b@h1.group.exim.refuse.test status=deferred reply="450 4.7.1 <b@x>: refused at RCPT"`,
		`to=c@h2.group.exim.refuse.test status=bounced reply="550 5.7.1 refused at END"`,
		`to=d@h1.group.exim.refuse.test status=bounced reply="503 5.5.1 nested MAIL command"`,
		`to=e@h3.group.exim.refuse.test status=deferred reply="451 4.4.2 x: message sent, but it is not known whether it was taken (lost)" unknown=true`,
		`to=f@h1.group.exim.refuse.test status=deferred reply="421 too many messages"`,
		`to=h@h1.group.exim.refuse.test status=deferred reply="450 4.7.0 delivery temporarily suspended: 421 4.7.0 refused at END"`,
		`to=g@elsewhere.test status=bounced reply="550 no"`,
		`to=g@h1.overlap.exim.refuse.test status=bounced reply="550 no"`,
		`time=x level=INFO msg=stopping underway=0 answers=0`,
	} {
		s.note([]byte("level=INFO msg=delivery id=1 " + words + "\n"))
	}
	want := "recipients refused at MAIL 0, RCPT 1, DATA 0, END 1; put off untried 1, for other reasons 1, in doubt 1"
	if got := s.counts["group.exim.refuse.test"].String(); got != want || len(s.counts) != 1 {
		t.Errorf("%s, want %s", got, want)
	}
	if s.doubts["e@h3.group.exim.refuse.test"] != 1 || len(s.doubts) != 1 {
		t.Errorf("in doubt: %v", s.doubts)
	}
	if err := s.unjust.error("unjust"); err == nil || err.Error() != `1 unjust: d@h1.group.exim.refuse.test: "503 5.5.1 nested MAIL command"` {
		t.Errorf("unjust: %v", err)
	}
}

// A letter that is held must be in doubt, and one in doubt must be held where the lane
// says so, and only there.
func TestWronglyHeld(t *testing.T) {
	hold, resend := &lane{peer: refuser{name: "x"}, level: "stream", fate: fateHeld, hosts: 1}, &lane{peer: refuser{name: "x"}, level: "stream", fate: fateCut, hosts: 1}
	lanes := []*lane{hold, resend}
	sent := append(manyLetters(hold, "cut-x", 2), manyLetters(resend, "cut-x", 2)...)
	one, two, other := sent[0].recipients[0], sent[1].recipients[0], sent[2].recipients[0]
	for _, test := range []struct {
		name   string
		doubts map[mail.Address]int
		held   map[mail.Address]string
		want   string
	}{
		{"held and in doubt", map[mail.Address]int{one: 1}, map[mail.Address]string{one: "A"}, ""},
		{"in doubt for one recipient, held for all", map[mail.Address]int{two: 1}, map[mail.Address]string{two: "A", sent[1].recipients[1]: "A"}, ""},
		{"sent again, where that is the rule", map[mail.Address]int{other: 1}, nil, ""},
		{"held for no reason", nil, map[mail.Address]string{one: "A"}, "1 held for no reason: " + sent[0].key},
		{"sent again", map[mail.Address]int{one: 1}, nil, "1 in doubt and not held: " + sent[0].key + " for " + string(one)},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := wronglyHeld(lanes, test.doubts, test.held, sent); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("complaint %q, want %q", got, test.want)
			}
		})
	}
}

// Postfix asks in lines of attributes, OpenSMTPD in lines with bars. Each question gets
// one answer, some of them a refusal that names the stage, and nothing else gets any.
func TestDiceInTheirLanguages(t *testing.T) {
	const questions = 2000
	client, server := net.Pipe()
	go func() {
		answerPolicy(server)
		server.Close()
	}()
	go func() {
		for range questions {
			fmt.Fprint(client, "request=smtpd_access_policy\nprotocol_state=END-OF-MESSAGE\nsender=a@b\n\n")
		}
	}()
	refused := 0
	answer := make([]byte, 100)
	for range questions {
		n, err := client.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		switch text := string(answer[:n]); {
		case strings.HasSuffix(text, " refused at END\n\n") && strings.HasPrefix(text, "action="):
			refused++
		case text != "action=dunno\n\n":
			t.Fatalf("answer %q", text)
		}
	}
	client.Close()
	if refused < questions/oneIn/2 || refused > questions/oneIn*2 {
		t.Errorf("%d of %d refused", refused, questions)
	}

	var out strings.Builder
	in := "config|smtpd-version|6.8.0p2\nconfig|ready\n" + strings.Repeat("filter|0.6|1.0|smtp-in|rcpt-to|SESSION|TOKEN|a@b\n", questions) +
		"report|0.6|1.0|smtp-in|link-disconnect|SESSION\n"
	if err := filter(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5+questions || lines[4] != "register|ready" {
		t.Fatalf("%d lines, the fifth is %q", len(lines), lines[4])
	}
	refused = 0
	for _, line := range lines[5:] {
		verdict, ok := strings.CutPrefix(line, "filter-result|SESSION|TOKEN|")
		switch {
		case !ok:
			t.Fatalf("answer %q", line)
		case strings.HasSuffix(verdict, " refused at RCPT") && (strings.HasPrefix(verdict, "reject|4") || strings.HasPrefix(verdict, "reject|5") || strings.HasPrefix(verdict, "disconnect|421")):
			refused++
		case verdict != "proceed":
			t.Fatalf("answer %q", line)
		}
	}
	if refused < questions/oneIn/2 || refused > questions/oneIn*2 {
		t.Errorf("%d of %d refused", refused, questions)
	}
}
