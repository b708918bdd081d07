package inbound

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthaste-mta/posthaste/flow"
	"github.com/posthaste-mta/posthaste/header"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/rewrite"
	"github.com/posthaste-mta/posthaste/smtp"
)

// startEditing runs a server whose listener has a name, with edits for it.
func startEditing(t *testing.T, name string, cfg header.Config) *testServer {
	t.Helper()
	edits, err := header.Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ts := start(t, Config{Edits: &Edits{Listeners: map[string]ListenerEdits{"tested": {Header: edits}}}}, nil, EarlyLog)
	ts.SetListeners(Listener{Listener: ts.listener, Name: name, Domain: cfg.Domain})
	return ts
}

// A mail program leaves out fields that a server may add, and sends Bcc, which no recipient may
// see. What is stored is corrected, and so is its size; our own Received field stays first.
func TestEditsOfSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startEditing(t, "tested", header.Config{Submission: true, Domain: "a.example", Rules: []header.Rule{{Field: "Received", Action: header.Remove}}})
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.say("MAIL FROM:<joe>", "RCPT TO:<jane@b>", "DATA")
		c.hear("250")
		c.hear("250")
		c.hear("354")
		c.say("Received: from inside", "To: jane@b", "Bcc: x@c.example,", " y@c.example", "Subject: s", "", "Bcc: text", ".", "QUIT")
		c.hear("250")
		c.hear("221")
		ts.end(t)
		m := ts.sink.taken()[0]
		if m.envelope.Sender != "joe@a.example" || m.recipients[0].Address != "jane@b.a.example" {
			t.Errorf("from %q to %q", m.envelope.Sender, m.recipients[0].Address)
		}
		trace, rest, _ := strings.Cut(string(m.content), "To: ")
		date, id, _ := strings.Cut(rest, "Message-ID: ")
		if !strings.HasPrefix(trace, "Received: from client.example") || strings.Contains(trace, "inside") ||
			!strings.HasPrefix(date, "jane@b.a.example\r\nSubject: s\r\nFrom: joe@a.example\r\nDate: ") || !strings.HasSuffix(id, "."+m.id.String()+"@mx.example>\r\n\r\nBcc: text\r\n") {
			t.Errorf("content:\n%s", m.content)
		}
	})
}

// A header that cannot be corrected is refused at the end of the content, and the next message of
// the connection is not affected. Mail of other listeners stays as it is.
func TestEditsRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startEditing(t, "tested", header.Config{Submission: true})
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.envelope()
		c.say("From: a@b.example", "From: c@d.example", "", ".")
		c.hear("554 5.6.0 Error: more than one From field")
		c.envelope()
		c.say("From: a@b.example", "Date: d", "Message-ID: m", "", ".")
		c.hear("250")
		ts.SetEdits(&Edits{Listeners: map[string]ListenerEdits{}})
		c.envelope()
		c.say("From: a@b.example", "From: c@d.example", "Bcc: e", "", ".", "QUIT")
		c.hear("250")
		c.hear("221")
		ts.end(t)
		all := ts.sink.taken()
		if len(all) != 2 || ts.sink.abortions() != 1 {
			t.Fatalf("%d messages, %d aborted", len(all), ts.sink.abortions())
		}
		for i, want := range []string{"\r\nFrom: a@b.example\r\nDate: d\r\nMessage-ID: m\r\n\r\n", "\r\nFrom: a@b.example\r\nFrom: c@d.example\r\nBcc: e\r\n\r\n"} {
			if !strings.HasSuffix(string(all[i].content), want) {
				t.Errorf("message %d:\n%s", i, all[i].content)
			}
		}
	})
}

// aliases is a map for tests.
type aliases map[string]string

func (a aliases) Find(key string) (string, bool) { v, ok := a[key]; return v, ok }
func (aliases) Whole() bool                      { return false }

// startRewriting runs a server that rewrites addresses of envelopes.
func startRewriting(t *testing.T, cfg Config, rules rewrite.Config) *testServer {
	t.Helper()
	rules.Origin = "b.example"
	r, err := rewrite.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Edits = &Edits{Others: ListenerEdits{Addresses: r}}
	return start(t, cfg, nil, EarlyLog)
}

// A recipient becomes several, each of whom gets the message once, with what the sender has
// said of reports, and under the name by which the sender knows the recipient. Copies are not
// reported on.
func TestRewriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startRewriting(t, Config{}, rewrite.Config{
			CanonicalSenders: []rewrite.Map{aliases{"a@a.example": "c@c.example"}}, Aliases: []rewrite.Map{aliases{"team@b.example": "x@elsewhere.example y@b.example"}},
			AlwaysBcc: "archive@b.example", SenderBcc: []rewrite.Map{aliases{"c@c.example": "boss@b.example"}}, RecipientBcc: []rewrite.Map{aliases{"z@b.example": "x@elsewhere.example z2@b.example"}},
		})
		c := ts.dial(t, "10.0.0.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example>", "RCPT TO:<team@b.example> NOTIFY=FAILURE", "RCPT TO:<y@B.example>", "RCPT TO:<z@b.example> ORCPT=rfc822;old@b.example", "RCPT TO:<x@elsewhere.example>", "DATA")
		c.hear("250")
		c.hear("250")
		c.hear("250")
		c.hear("250")
		c.hear("550 5.7.1") // what an alias may, a client may not
		c.hear("354")
		c.say("Subject: s", "", ".", "QUIT")
		c.hear("250")
		c.hear("221")
		ts.end(t)
		m := ts.sink.taken()[0]
		var got []string
		for _, r := range m.recipients {
			got = append(got, string(r.Address)+" "+r.ORcpt+" "+r.Notify.String())
		}
		want := []string{"x@elsewhere.example rfc822;team@b.example FAILURE", "y@b.example rfc822;team@b.example FAILURE", "z@b.example rfc822;old@b.example ",
			"z2@b.example  NEVER", "archive@b.example  NEVER", "boss@b.example  NEVER"}
		if m.envelope.Sender != "c@c.example" || m.envelope.Recipients != 6 || !slices.Equal(got, want) {
			t.Errorf("from %s to %d:\n%q\nwant\n%q", m.envelope.Sender, m.envelope.Recipients, got, want)
		}
	})
}

// A recipient that gets a copy and is also named by the client gets the NOTIFY that the client has
// asked for, in either order: a report if the mail fails. Before, a recipient that was added as a copy
// first kept "no reports".
func TestCopyIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startRewriting(t, Config{}, rewrite.Config{
			RecipientBcc: []rewrite.Map{aliases{"a@b.example": "boss@b.example other@b.example", "c@b.example": "boss@b.example third@b.example"}},
			Aliases:      []rewrite.Map{aliases{"team@b.example": "third@b.example"}},
		})
		c := ts.dial(t, "10.0.0.1")
		c.hello()
		c.say("MAIL FROM:<s@a.example>", "RCPT TO:<a@b.example> NOTIFY=NEVER", "RCPT TO:<c@b.example>",
			"RCPT TO:<Boss@B.example>", "RCPT TO:<boss@B.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;boss@old.example", "RCPT TO:<team@b.example> NOTIFY=DELAY", "DATA")
		for range 6 {
			c.hear("250")
		}
		c.hear("354")
		c.say("Subject: s", "", ".")
		c.hear("250")
		// The next message knows nothing of it.
		c.say("MAIL FROM:<s@a.example>", "RCPT TO:<a@b.example>", "DATA")
		c.hear("250")
		c.hear("250")
		c.hear("354")
		c.say("Subject: s", "", ".", "QUIT")
		c.hear("250")
		c.hear("221")
		ts.end(t)
		for i, want := range [][]string{
			{"a@b.example  NEVER", "c@b.example  ", "Boss@B.example  ", "boss@B.example rfc822;boss@old.example SUCCESS,FAILURE", "third@b.example rfc822;team@b.example DELAY", "other@b.example  NEVER"},
			{"a@b.example  ", "boss@b.example  NEVER", "other@b.example  NEVER"},
		} {
			m := ts.sink.taken()[i]
			var got []string
			for _, r := range m.recipients {
				got = append(got, string(r.Address)+" "+r.ORcpt+" "+r.Notify.String())
			}
			if int(m.envelope.Recipients) != len(want) || !slices.Equal(got, want) {
				t.Errorf("to %d:\n%q\nwant\n%q", m.envelope.Recipients, got, want)
			}
		}
	})
}

// A loop in the maps is our fault: the client is asked to try again, and the log says what to fix.
func TestRewritingEndless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		circle := aliases{"a@a.example": "d@a.example", "d@a.example": "a@a.example", "r@b.example": "s@b.example", "s@b.example": "r@b.example"}
		ts := startRewriting(t, Config{}, rewrite.Config{Canonical: []rewrite.Map{circle}, CanonicalClasses: rewrite.EnvelopeSender, Aliases: []rewrite.Map{circle}})
		c := ts.dial(t, "10.0.0.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example>", "MAIL FROM:<>", "RCPT TO:<r@b.example>", "RCPT TO:<t@b.example>", "DATA")
		c.hear("451 4.3.5")
		c.hear("250")
		c.hear("451 4.3.5")
		c.hear("250")
		c.hear("354")
		c.say("", ".", "QUIT")
		c.hear("250")
		c.hear("221")
		ts.end(t)
		if m := ts.sink.taken(); len(m) != 1 || len(m[0].recipients) != 1 || !strings.Contains(ts.log.String(), "the rewriting of the address does not end") {
			t.Errorf("%d messages\n%s", len(m), ts.log)
		}
	})
}

// A program asks for a priority, and gets it as far as its listener allows: by the class, in the
// envelope, and in the Received field. Where it is not offered it is not known.
func TestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules, err := flow.NewRules(flow.Config{Classes: []flow.Class{
			{Name: "urgent", Weight: 9, Match: flow.Match{MinPriority: 4}}, {Name: "later", Weight: 1, Match: flow.Match{MaxPriority: -1}}}}.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		ts := start(t, Config{Flows: rules}, nil, EarlyLog)
		for _, test := range []struct {
			max                          int8
			parameter, reply, class, has string
		}{
			{4, " MT-PRIORITY=4", "250 2.1.0", "urgent", "\tpriority 4\r\n\tfor <b@b.example>"},
			{4, " MT-PRIORITY=9", "250 2.3.6 Priority lowered to 4", "urgent", "\tpriority 4\r\n"},
			{4, " MT-PRIORITY=-5", "250 2.1.0", "later", "\tpriority -5\r\n"},
			{4, " MT-PRIORITY=3", "250 2.1.0", "normal", "\tpriority 3\r\n"},
			{4, "", "250 2.1.0", "normal", "Received: "},
			{-2, " MT-PRIORITY=0", "250 2.3.6 Priority lowered to -2", "later", "\tpriority -2\r\n"},
		} {
			ts.SetListeners(Listener{Listener: ts.listener, Priority: true, PriorityMax: test.max})
			c := ts.dial(t, "127.0.0.1")
			c.hello()
			c.say("MAIL FROM:<a@a.example>"+test.parameter, "RCPT TO:<b@b.example>", "DATA")
			c.hear(test.reply)
			c.hear("250")
			c.hear("354")
			c.say("", ".", "QUIT")
			c.hear("250")
			c.hear("221")
			all := ts.sink.taken()
			if m := all[len(all)-1]; m.envelope.Flow.Class != test.class || !strings.Contains(string(m.content), test.has) {
				t.Errorf("%+v: class %s, priority %d\n%s", test, m.envelope.Flow.Class, m.envelope.Priority, m.content)
			}
		}
		ts.SetListeners(Listener{Listener: ts.listener})
		c := ts.dial(t, "127.0.0.1")
		c.hello()
		c.say("MAIL FROM:<a@a.example> MT-PRIORITY=1", "QUIT")
		c.hear("555 5.5.4")
		c.hear("221")
		ts.end(t)
	})
}

// At MAIL, a program sets the deadline of a message. A deadline before the date from which the message may be sent is
// refused, and so is a message in mode R whose content ends after its deadline. The deadline is in the envelope and in the log.
func TestDeliverBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := start(t, Config{}, nil, EarlyLog)
		ts.SetListeners(Listener{Listener: ts.listener, DeliverBy: true, DeliverByMin: 10 * time.Second, FutureRelease: time.Hour})
		began := instant(time.Now()) // of virtual time
		for _, test := range []struct {
			parameters string
			content    time.Duration // for which its content lets wait
			reply      string        // to MAIL, or to the end of the content
			want       mail.DeliverBy
			release    time.Duration
		}{
			{" BY=10;R", 0, "250 2.0.0", mail.DeliverBy{At: began.Add(10 * time.Second), Mode: mail.ByReturn}, 0},
			{" BY=10;RT", 9 * time.Second, "250 2.0.0", mail.DeliverBy{At: began.Add(10 * time.Second), Mode: mail.ByReturn, Trace: true}, 0},
			{" BY=10;R", 10 * time.Second, "554 5.4.7 Error: delivery time expired", mail.DeliverBy{}, 0},
			{" BY=1;N", 10 * time.Second, "250 2.0.0", mail.DeliverBy{At: began.Add(time.Second), Mode: mail.ByNotify}, 0},
			{" BY=-1;N", 0, "250 2.0.0", mail.DeliverBy{At: began.Add(-time.Second), Mode: mail.ByNotify}, 0},
			{" BY=9;R", 0, "555 5.5.4", mail.DeliverBy{}, 0},
			{" BY=60;R HOLDFOR=60", 0, "250 2.0.0", mail.DeliverBy{At: began.Add(time.Minute), Mode: mail.ByReturn}, time.Minute},
			{" BY=60;R HOLDFOR=61", 0, "501 5.5.4 Error: it would be kept until", mail.DeliverBy{}, 0},
			{" HOLDUNTIL=then BY=59;N", 0, "501 5.5.4 Error: it would be kept until", mail.DeliverBy{}, 0},
			{" HOLDUNTIL=then BY=60;N", 0, "250 2.0.0", mail.DeliverBy{At: began.Add(time.Minute), Mode: mail.ByNotify}, time.Minute},
			{" HOLDFOR=60", 0, "250 2.0.0", mail.DeliverBy{}, time.Minute},
			{" BY=60;R HOLDFOR=3601", 0, "501 5.5.4 Error: mail is kept for at most 3600", mail.DeliverBy{}, 0},
			{"", 0, "250 2.0.0", mail.DeliverBy{}, 0},
		} {
			before, now := len(ts.sink.taken()), instant(time.Now())
			c := ts.dial(t, "127.0.0.1")
			c.hello()
			c.say("MAIL FROM:<a@a.example>" + strings.Replace(test.parameters, "then", smtp.FormatHoldUntil(now.Add(time.Minute)), 1))
			if strings.HasPrefix(test.reply, "5") && !strings.HasPrefix(test.reply, "554") {
				c.hear(test.reply)
				c.say("QUIT")
				c.hear("221")
				continue
			}
			c.hear("250")
			c.say("RCPT TO:<b@b.example>", "DATA")
			c.hear("250")
			c.hear("354")
			time.Sleep(test.content)
			c.say("X: y", "", ".")
			c.hear(test.reply)
			c.say("QUIT")
			c.hear("221")
			all := ts.sink.taken()
			if strings.HasPrefix(test.reply, "5") {
				if len(all) != before {
					t.Errorf("%+v is accepted", test)
				}
				continue
			}
			e := all[len(all)-1].envelope
			want := test.want
			if want.Mode != mail.ByNone {
				want.At += now - began
			}
			if e.By != want || (e.Release != 0) != (test.release > 0) || e.Release > 0 && e.Release != now.Add(test.release) {
				t.Errorf("%+v: %+v, kept until %v; want %+v", test, e.By, e.Release, want)
			}
		}
		ts.end(t)
		if log := ts.log.String(); !strings.Contains(log, "deliver_by="+smtp.FormatHoldUntil(began.Add(10*time.Second))+";R\n") || !strings.Contains(log, ";RT\n") {
			t.Errorf("the log is\n%s", log)
		}
	})
}

// TLS-Required: No asks for nothing but what it says, and where listeners heed it.
func TestTLSRequiredField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules, err := flow.NewRules(flow.Config{}.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		ts := start(t, Config{Flows: rules}, nil, EarlyLog)
		for _, test := range []struct {
			heeded bool
			header string
			want   mail.TLSRequest
		}{
			{true, "TLS-Required: No\r\n", mail.TLSOptional}, {true, "tls-required:\r\n no\r\n", mail.TLSOptional}, {false, "TLS-Required: No\r\n", 0},
			{true, "TLS-Required: Yes\r\n", 0}, {true, "TLS-Required: No, please\r\n", 0}, {true, "TLS-Required: No\r\nTLS-Required: No\r\n", 0},
			{true, "X: y\r\n", 0}, {true, "X: y\r\n\r\nTLS-Required: No\r\n", 0},
		} {
			ts.SetListeners(Listener{Listener: ts.listener, TLSOptional: test.heeded})
			c := ts.dial(t, "127.0.0.1")
			c.hello()
			c.say("MAIL FROM:<a@a.example>", "RCPT TO:<b@b.example>", "DATA")
			c.hear("250")
			c.hear("250")
			c.hear("354")
			c.say(test.header, ".", "QUIT")
			c.hear("250")
			c.hear("221")
			all := ts.sink.taken()
			m := all[len(all)-1]
			if m.envelope.TLS != test.want || !strings.Contains(string(m.content), test.header) {
				t.Errorf("%+v: %v\n%s", test, m.envelope.TLS, m.content)
			}
		}
		ts.end(t)
	})
}
