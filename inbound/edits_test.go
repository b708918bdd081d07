package inbound

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/posthaste-mta/posthaste/header"
)

// startEditing runs a server whose listener has a name, with edits for it.
func startEditing(t *testing.T, name string, cfg header.Config) *testServer {
	t.Helper()
	edits, err := header.Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ts := start(t, Config{Edits: &Edits{Listeners: map[string]*header.Edits{"tested": edits}}}, nil, EarlyLog)
	ts.SetListeners(Listener{Listener: ts.listener, Name: name, Domain: cfg.Domain})
	return ts
}

// A mail program leaves out what a server may add, and writes what nobody may see. What is
// stored has it right, and its size; our own Received field stays first.
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

// What cannot be mended is refused at the end of the content, and the next message of the
// connection is not affected. Mail of other listeners stays as it is.
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
		ts.SetEdits(&Edits{Listeners: map[string]*header.Edits{}})
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
