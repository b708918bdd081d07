package daemon

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/internal/feed"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// reportTo reads the one message that a sender got.
func reportTo(t *testing.T, origin *mailbox) (sink.Delivery, dsn.Report, dsn.Original) {
	t.Helper()
	taken := origin.deliveries()
	if len(taken) != 1 {
		t.Fatalf("the sender got %d messages, want 1 report", len(taken))
	}
	rep, original, err := dsn.Parse(bytes.NewReader(taken[0].Content))
	if err != nil {
		t.Fatalf("%v\n%s", err, taken[0].Content)
	}
	return taken[0], rep, original
}

// A next hop refuses for good, at any point where it can: the sender gets one
// report by the null sender, with the server's words, about those recipients
// only.
func TestRefusalIsReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		stage  sink.Stage
		status mail.Status
		words  string
	}{
		{sink.AtMail, mail.Status{Class: 5, Subject: 7, Detail: 1}, "Refused for good"},
		{sink.AtRecipient, mail.Status{Class: 5, Subject: 1, Detail: 1}, "No such user here"},
		{sink.AtCommit, mail.Status{Class: 5, Subject: 7, Detail: 1}, "Refused for good"},
	} {
		t.Run(test.stage.String(), func(t *testing.T) {
			t.Parallel()
			bad, good, origin := receive(t, sink.Config{}), receive(t, sink.Config{}), receive(t, sink.Config{})
			bad.refuse(test.stage, sink.RefuseForGood)
			r := start(t, t.TempDir(), routes("bad.test", bad.address, "good.test", good.address, "origin.test", origin.address))
			m := letter("<1>", "a@bad.test", "b@good.test", "c@bad.test")
			m.EnvID = "envelope+2B1"
			r.feed(m)
			r.settled()

			d, rep, original := reportTo(t, origin)
			if d.Sender != "" || len(d.Recipients) != 1 || d.Recipients[0] != "sender@origin.test" {
				t.Errorf("the report goes from %q to %v", d.Sender, d.Recipients)
			}
			if rep.Kind() != mail.ReportFailed || rep.Host != "mta.test" || rep.EnvID != "envelope+1" || len(rep.Recipients) != 2 {
				t.Fatalf("the report says %+v", rep)
			}
			for i, to := range []mail.Address{"a@bad.test", "c@bad.test"} {
				got := rep.Recipients[i]
				if got.Final != to || got.Status != test.status || !strings.Contains(got.Reply.Text, test.words) || !strings.Contains(got.Reply.By, "127.0.0.1") {
					t.Errorf("it says of %s: %+v", to, got)
				}
			}
			if !bytes.Contains(original.Content, []byte("Message-ID: <1>")) {
				t.Errorf("it gives back %q", original.Content)
			}
			good.copies().matches(t, copies{"<1> b@good.test": 1})
			bad.copies().matches(t, nil)
		})
	}
}

// RFC 3461 asks for a report of success only if the sender does, and only by
// the last server on the way that knows how.
func TestSuccessIsReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		withheld []string
		notify   string
		kind     mail.ReportKind
	}{
		{"next hop reports itself", nil, " NOTIFY=SUCCESS", mail.ReportNone},
		{"next hop knows no reports", []string{"DSN"}, " NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;first@alias.test", mail.ReportRelayed},
		{"not asked for", []string{"DSN"}, "", mail.ReportNone},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			box, origin := receive(t, sink.Config{Withheld: test.withheld}), receive(t, sink.Config{})
			r := start(t, t.TempDir(), routes("d.test", box.address, "origin.test", origin.address))
			m := letter("<1>", "a@d.test")
			m.RecipientParameters, m.EnvID, m.Parameters = test.notify, "e1", " RET=HDRS"
			r.feed(m)
			r.settled()
			box.copies().matches(t, copies{"<1> a@d.test": 1})
			passed := box.deliveries()[0].EnvID
			if test.kind == mail.ReportNone {
				if n := len(origin.deliveries()); n != 0 {
					t.Errorf("the sender got %d reports", n)
				}
			}
			if want := map[bool]string{true: "e1"}[test.withheld == nil]; passed != want {
				t.Errorf("ENVID %q was passed on, want %q", passed, want)
			}
			if test.kind == mail.ReportNone {
				return
			}
			_, rep, _ := reportTo(t, origin)
			if rep.Kind() != test.kind || rep.EnvID != "e1" || rep.Recipients[0].Original.Text != "first@alias.test" || rep.Recipients[0].Status.Class != 2 {
				t.Errorf("the report says %+v", rep)
			}
		})
	}
}

// Mail that never gets through comes back: with a lifetime of nothing, after
// the first attempt.
func TestExpiredMailIsReported(t *testing.T) {
	t.Parallel()
	box, origin := receive(t, sink.Config{}), receive(t, sink.Config{})
	box.refuse(sink.AtRecipient, sink.RefuseForNow)
	r := start(t, t.TempDir(), "maximal_queue_lifetime = \"0s\"\nbounce_queue_lifetime = \"0s\"\n"+routes("d.test", box.address, "origin.test", origin.address))
	r.feed(letter("<1>", "a@d.test"))
	r.settled()
	_, rep, _ := reportTo(t, origin)
	if got := rep.Recipients[0]; rep.Kind() != mail.ReportFailed || got.Status.Class != 5 || !strings.Contains(got.Reply.Text, "Try again later") {
		t.Errorf("the report says %+v", rep)
	}
}

// A report that cannot be delivered must not be answered by another one, or
// two servers would write to each other for ever. It is set aside.
func TestUndeliverableReportIsHeld(t *testing.T) {
	t.Parallel()
	box := receive(t, sink.Config{})
	box.refuse(sink.AtRecipient, sink.RefuseForGood)
	r := start(t, t.TempDir(), routes("d.test", box.address, "origin.test", box.address))
	r.feed(letter("<1>", "a@d.test"))
	r.waiting("a held report", census{mail.AreaHold: 1})
	r.d.driver.Drop(r.ids(mail.AreaHold))
	r.settled()
	box.copies().matches(t, nil)
}

// Two hosts that send each other the mail of a domain end the loop by the Received fields of one of them
// (own_hopcount_limit). The report goes round in the same loop, ends in the same way, and is held: there is
// no report about a report (B-160, RFC 5321 4.5.4 and 6.3).
func TestLoopOfTwoHosts(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // it stands in for the second host, whose port is not known yet
	if err != nil {
		t.Fatal(err)
	}
	const limit = "own_hopcount_limit = 5\n"
	first := start(t, t.TempDir(), "myhostname = \"first.test\"\n"+limit+routes("*", ln.Addr().String()))
	second := start(t, t.TempDir(), "myhostname = \"second.test\"\n"+limit+routes("*", first.address()))
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			on, err := net.Dial("tcp", second.address())
			if err != nil {
				from.Close()
				continue
			}
			go func() { io.Copy(on, from); on.Close() }()
			go func() { io.Copy(from, on); from.Close() }()
		}
	}()
	first.feed(letter("<1>", "a@loop.test"))
	rest := func() (all census) {
		one, other := first.census(), second.census()
		for i := range all {
			all[i] = one[i] + other[i]
		}
		return all
	}
	first.until("a held report, and nothing else", func() bool { return rest() == census{mail.AreaHold: 1} })
	if n := strings.Count(first.log.tail(1<<20)+second.log.tail(1<<20), "msg=delivery"); n < 10 || n > 30 {
		t.Errorf("%d deliveries", n)
	}
}

// A report that no server accepts until it is too old is a double bounce like one
// that is refused: an operator who wants to know of these hears of it too.
func TestExpiredReportIsCopied(t *testing.T) {
	t.Parallel()
	busy, boss := receive(t, sink.Config{}), receive(t, sink.Config{})
	busy.refuse(sink.AtRecipient, sink.RefuseForNow)
	r := start(t, t.TempDir(), "maximal_queue_lifetime = \"0s\"\nbounce_queue_lifetime = \"0s\"\n"+
		"double_bounce = \"report\"\n2bounce_notice_recipient = \"boss@boss.test\"\n"+
		routes("d.test", busy.address, "origin.test", busy.address, "boss.test", boss.address))
	r.feed(letter("<1>", "a@d.test"))
	r.settled()
	d, rep, _ := reportTo(t, boss)
	if d.Sender != "" || rep.Kind() != mail.ReportFailed || rep.Recipients[0].Final != "a@d.test" {
		t.Errorf("the operator got a message from %q that says %+v", d.Sender, rep)
	}
}

// What a next hop cannot carry is converted if it can be, or else comes back with a
// status that says what is missing; it goes through if only the declaration was
// exaggerated.
func TestIncapableNextHop(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		withheld   string
		parameters string
		to         mail.Address
		subject    string // of the message
		body       string
		status     mail.Status // zero: it is delivered
	}{
		{"8-bit content", "8BITMIME", " BODY=8BITMIME", "a@d.test", "plain", "Gr\xc3\xbc\xc3\x9fe\r\n", mail.Status{}},
		{"8-bit content, undeclared", "8BITMIME", "", "a@d.test", "plain", "Gr\xc3\xbc\xc3\x9fe\r\n", mail.Status{}},
		{"7-bit content declared as 8-bit", "8BITMIME", " BODY=8BITMIME", "a@d.test", "plain", "Gruesse\r\n", mail.Status{}},
		{"address beyond ASCII", "SMTPUTF8", " SMTPUTF8", "j\u00fcrgen@d.test", "plain", "x\r\n", mail.Status{Class: 5, Subject: 6, Detail: 7}},
		{"header beyond ASCII", "SMTPUTF8", " BODY=8BITMIME SMTPUTF8", "a@d.test", "Gr\u00fc\u00dfe", "x\r\n", mail.Status{Class: 5, Subject: 6, Detail: 9}},
		{"all ASCII declared as more", "SMTPUTF8", " SMTPUTF8", "a@d.test", "plain", "x\r\n", mail.Status{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			box, origin := receive(t, sink.Config{Withheld: []string{test.withheld}}), receive(t, sink.Config{})
			r := start(t, t.TempDir(), routes("d.test", box.address, "origin.test", origin.address))
			r.feed(feed.Message{Sender: "sender@origin.test", Recipients: []mail.Address{test.to}, Parameters: test.parameters,
				Content: []byte("Subject: " + test.subject + "\r\nMessage-ID: <1>\r\n\r\n" + test.body)})
			r.settled()
			if test.status == (mail.Status{}) {
				box.copies().matches(t, copies{"<1> " + string(test.to): 1})
				if got := box.deliveries()[0].Content; test.withheld == "8BITMIME" && smtp.EightBit(got) {
					t.Errorf("bytes above 127 went to a server without 8BITMIME:\n%s", got)
				}
				return
			}
			box.copies().matches(t, nil)
			_, rep, _ := reportTo(t, origin)
			if got := rep.Recipients[0]; got.Status != test.status || got.Final != test.to {
				t.Errorf("the report says %+v, want status %v", got, test.status)
			}
		})
	}
}

// A report that returns a message with bytes above 127 reaches a sender whose
// host does not take them: the message in it is converted.
func TestFullReportOnSevenBitPath(t *testing.T) {
	t.Parallel()
	bad, origin := receive(t, sink.Config{}), receive(t, sink.Config{Withheld: []string{"8BITMIME"}})
	bad.refuse(sink.AtRecipient, sink.RefuseForGood)
	r := start(t, t.TempDir(), routes("bad.test", bad.address, "origin.test", origin.address))
	r.feed(feed.Message{Sender: "sender@origin.test", Recipients: []mail.Address{"a@bad.test"}, Parameters: " RET=FULL",
		Content: []byte("Subject: x\r\nMessage-ID: <1>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nCaf\xc3\xa9\r\n")})
	r.settled()
	d, rep, original := reportTo(t, origin)
	if smtp.EightBit(d.Content) {
		t.Errorf("bytes above 127 went to a server without 8BITMIME:\n%s", d.Content)
	}
	if rep.Kind() != mail.ReportFailed || original.Part != dsn.PartMessage || !bytes.Contains(original.Content, []byte("\r\nCaf=C3=A9\r\n")) {
		t.Errorf("the report says %+v and returns %d, %q", rep, original.Part, original.Content)
	}
}
