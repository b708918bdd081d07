package dsn

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/emersion/go-message"
	"github.com/posthaste-mta/posthaste/mail"
)

const (
	second  = mail.Instant(nanoseconds)
	minute  = 60 * second
	hour    = 60 * minute
	arrived = 1795255200 * second // Sat, 21 Nov 2026 10:00:00 +0000
)

const letter = "Received: from client.example by mx.example.org; Sat, 21 Nov 2026 10:00:00 +0000\r\n" +
	"From: Alice <alice@example.org>\r\n" +
	"To: Bob <bob@example.net>\r\n" +
	"Subject: Tomorrow\r\n" +
	"Message-ID: <1@client.example>\r\n" +
	"\r\n" +
	"Shall we meet at ten?\r\n"

// reportOn is a report to Alice; the tests add recipients to it.
func reportOn(recipients ...Recipient) Report {
	return Report{
		MessageID:  "06C6N0Q2R8000@mx.example.org",
		Date:       arrived + 5*minute,
		To:         "alice@example.org",
		Host:       "mx.example.org",
		QueueID:    mail.NewQueueID(arrived, 7),
		Received:   "client.example[192.0.2.33]",
		Arrived:    arrived,
		Recipients: recipients,
	}
}

// outcome is one debt as the spool hands it over.
func outcome(to mail.Address, kind mail.ReportKind, reply mail.Reply) mail.RecipientOutcome {
	result := mail.Delivered
	switch kind {
	case mail.ReportFailed:
		result = mail.Failed
	case mail.ReportDelayed:
		result = mail.Deferred
	}
	return mail.RecipientOutcome{
		Recipient: mail.Recipient{Address: to},
		Outcome:   mail.Outcome{Result: result, Report: kind, Reply: reply, At: arrived + 4*minute},
	}
}

var (
	unknownUser = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, By: "mx.example.net[198.51.100.7]",
		Text: "<bob@example.net>: Recipient address rejected\nUser unknown in virtual mailbox table"}
	greylisted = mail.Reply{Code: 450, Status: mail.Status{Class: 4, Subject: 2}, By: "mx.example.net[198.51.100.7]",
		Text: "<bob@example.net>: Recipient address rejected: Greylisted, see http://postgrey.example/help/example.net.html"}
	accepted = mail.Reply{Code: 250, Status: mail.Status{Class: 2}, By: "mx.example.net[198.51.100.7]", Text: "Ok: queued as 4Dx1"}
	noMail   = mail.Reply{Code: 556, Status: mail.Status{Class: 5, Subject: 1, Detail: 10}, Text: "the domain example.com publishes that it takes no mail"}
)

type golden struct {
	name     string
	report   Report
	original Original
	needs8   bool
	needsU8  bool
	types    []string
}

func goldens(t *testing.T) []golden {
	read := func(content string, full bool) Original {
		o, err := ReadOriginal(strings.NewReader(content), full, 50<<10)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	header := read(letter, false)
	plain := []string{"text/plain", "message/delivery-status", "text/rfc822-headers"}

	failed := outcome("bob@example.net", mail.ReportFailed, unknownUser)
	failed.Recipient.ORcpt = "rfc822;Bob+2BWork@example.com"
	envid := reportOn(RecipientOf(failed, 0))
	envid.EnvID = DecodeEnvID("QQ+2B314159")

	expired := outcome("bob@example.net", mail.ReportFailed, greylisted)
	expired.Outcome.Reply.Code = 550
	expired.Outcome.Reply.Status = mail.Status{Class: 5, Subject: 4, Detail: 7}

	many := reportOn()
	full := mail.Reply{Code: 552, Status: mail.Status{Class: 5, Subject: 2, Detail: 2}, By: "mx.example.net[2001:db8::7]", Text: "quota exceeded"}
	for _, to := range []mail.Address{"ann@example.net", "ben@example.net", "cem@example.net"} {
		many.Recipients = append(many.Recipients, RecipientOf(outcome(to, mail.ReportFailed, full), 0))
	}
	many.Recipients = append(many.Recipients, RecipientOf(outcome("dot@example.com", mail.ReportFailed, noMail), 0))

	international := reportOn(RecipientOf(outcome("用户@例え.example", mail.ReportFailed,
		mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, By: "mx.example.net[198.51.100.7]", Text: "このアドレスは存在しません"}), 0))
	toward := international
	toward.To = "jürgen@bücher.example"
	u8letter := strings.Replace(letter, "Tomorrow", "Übermorgen", 1)

	return []golden{
		{"failed", envid, header, false, false, plain},
		{"failed-lost", reportOn(RecipientOf(failed, 0)), Original{Part: PartLost}, false, false, plain[:2]},
		{"failed-expired", reportOn(RecipientOf(expired, 0)), header, false, false, plain},
		{"failed-several", many, header, false, false, plain},
		{"failed-full", reportOn(RecipientOf(failed, 0)), read(letter, true), false, false,
			[]string{"text/plain", "message/delivery-status", "message/rfc822"}},
		{"failed-full-8bit", reportOn(RecipientOf(failed, 0)), read(letter+"In the Café.\r\n", true), true, false,
			[]string{"text/plain", "message/delivery-status", "message/rfc822"}},
		{"failed-international", toward, read(u8letter, true), true, true,
			[]string{"text/plain", "message/global-delivery-status", "message/global"}},
		{"failed-international-ascii-path", international, read(u8letter, false), false, false,
			[]string{"text/plain", "message/delivery-status", "message/global-headers"}},
		{"delayed", reportOn(RecipientOf(outcome("bob@example.net", mail.ReportDelayed, greylisted), arrived+120*hour)), header, false, false, plain},
		{"delivered", reportOn(RecipientOf(outcome("bob@mx.example.org", mail.ReportDelivered,
			mail.Reply{Code: 250, Status: mail.Status{Class: 2, Subject: 1, Detail: 5}, By: "store.example.org[/run/lmtp]", Text: "Saved"}), 0)), header, false, false, plain},
		{"relayed", reportOn(RecipientOf(outcome("bob@example.net", mail.ReportRelayed, accepted), 0)), header, false, false, plain},
		{"delivered-and-relayed", reportOn(
			RecipientOf(outcome("bob@example.net", mail.ReportRelayed, accepted), 0),
			RecipientOf(outcome("eve@mx.example.org", mail.ReportDelivered, mail.Reply{Code: 250, Text: "ok"}), 0)), header, false, false, plain},
	}
}

// Each kind of report as its reader gets it. UPDATE=1 rewrites the files.
func TestGolden(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			c := Composer{Contact: "postmaster@example.org", Footer: "Example Organisation, telephone 555 0123"}
			var b bytes.Buffer
			if err := c.Compose(&b, g.report, g.original); err != nil {
				t.Fatal(err)
			}
			checkWire(t, b.Bytes(), g.report, g.original)
			checkRoundTrip(t, g.report, g.original)
			checkWidth(t, g.original, b.String())
			body, u8 := Needs(g.report, g.original)
			if (body == mail.Body8BitMIME) != g.needs8 || u8 != g.needsU8 {
				t.Errorf("needs %v and SMTPUTF8 %v, want 8BITMIME %v and SMTPUTF8 %v", body, u8, g.needs8, g.needsU8)
			}
			if got := mediaTypes(t, b.Bytes()); !reflect.DeepEqual(got, g.types) {
				t.Errorf("another program sees the parts %q, want %q", got, g.types)
			}
			compareGolden(t, filepath.Join("testdata", g.name+".eml"), b.String())
		})
	}
}

// compareGolden keeps files in lines that end in LF, so that they can be read
// and compared with ordinary tools; checkWire has seen to the CRs.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, "\r\n", "\n")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (UPDATE=1 rewrites it); got:\n%s", file, got)
	}
}

// checkWidth checks that what we write ourselves keeps to 78 columns.
func checkWidth(t *testing.T, o Original, report string) {
	t.Helper()
	ours, _, _ := strings.Cut(report, string(o.Content))
	for line := range strings.SplitSeq(ours, "\r\n") {
		if len(line) > lineWanted {
			t.Errorf("line of %d octets: %s", len(line), line)
		}
	}
}

// mediaTypes reads a report with a library that is not ours, to the end of
// each part.
func mediaTypes(t *testing.T, data []byte) []string {
	t.Helper()
	e, err := message.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	kind, parameters, err := e.Header.ContentType()
	if err != nil || kind != "multipart/report" || parameters["report-type"] != "delivery-status" {
		t.Fatalf("container %s %v: %v", kind, parameters, err)
	}
	var types []string
	parts := e.MultipartReader()
	for {
		p, err := parts.NextPart()
		if err == io.EOF {
			return types
		}
		if err != nil && !message.IsUnknownCharset(err) {
			t.Fatal(err)
		}
		kind, _, err := p.Header.ContentType()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, p.Body); err != nil {
			t.Fatal(err)
		}
		types = append(types, kind)
	}
}
