package dsn

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// The tests of this file are named after the rows of the project's list of
// requirements for reports (D) and hostile input (B) that this package answers
// for; the others are in package report and in the core.

func compose(t testing.TB, r Report, o Original) string {
	t.Helper()
	var b strings.Builder
	if err := (Composer{Contact: "postmaster@example.org"}).Compose(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// toBob is the ordinary failure.
func toBob() Recipient {
	return RecipientOf(outcome("bob@example.net", mail.ReportFailed, unknownUser), 0)
}

// has and hasNot look for whole lines or starts of lines.
func has(t *testing.T, report string, starts ...string) {
	t.Helper()
	for _, s := range starts {
		if !strings.Contains("\n"+report, "\n"+s) {
			t.Errorf("no line starts with %q in:\n%s", s, report)
		}
	}
}

func hasNot(t *testing.T, report string, starts ...string) {
	t.Helper()
	for _, s := range starts {
		if strings.Contains("\n"+report, "\n"+s) {
			t.Errorf("a line starts with %q in:\n%s", s, report)
		}
	}
}

// RFC 6522 3: three parts of fixed kinds in fixed order. mediaTypes reads
// them with another library.
func TestD06Container(t *testing.T) {
	o := Original{PartHeaders, []byte("Subject: x\r\n")}
	report := compose(t, reportOn(toBob()), o)
	if got := strings.Join(mediaTypes(t, []byte(report)), " "); got != "text/plain message/delivery-status text/rfc822-headers" {
		t.Errorf("parts %s", got)
	}
	if got := strings.Join(mediaTypes(t, []byte(compose(t, reportOn(toBob()), Original{}))), " "); got != "text/plain message/delivery-status" {
		t.Errorf("parts without an original: %s", got)
	}
}

// RFC 3464 2.2: the envelope identifier appears only if the sender gave one,
// decoded and in its own case; the other fields when they are known.
func TestD07MessageFields(t *testing.T) {
	r := reportOn(toBob())
	report := compose(t, r, Original{})
	has(t, report, "Reporting-MTA: dns; mx.example.org\r\n", "Arrival-Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n",
		"Received-From-MTA: dns; client.example (192.0.2.33)\r\n")
	hasNot(t, report, "Original-Envelope-Id")

	r.EnvID = DecodeEnvID("Ab+2B+3Dc")
	r.Arrived, r.Received = 0, ""
	report = compose(t, r, Original{})
	has(t, report, "Original-Envelope-Id: Ab+=c\r\n")
	hasNot(t, report, "Arrival-Date", "Received-From-MTA", "Future-Release-Request", "Deliver-By-Date")
}

// RFC 2852 5: a report on a message with a deadline has it, after the date of its arrival. One that says that the message
// was passed on is not the last word (4.1.4).
func TestD12Deadline(t *testing.T) {
	r := reportOn(RecipientOf(outcome("bob@example.net", mail.ReportRelayed, mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: "ok", By: "mx"}), 0))
	r.Deadline = r.Arrived.Add(2 * time.Minute)
	report := compose(t, r, Original{})
	has(t, report, "Arrival-Date: Sat, 21 Nov 2026 10:00:00 +0000\r\nDeliver-By-Date: Sat, 21 Nov 2026 10:02:00 +0000\r\n",
		"It was passed on for this recipient to another mail server")
	if strings.Contains(report, "no further report") {
		t.Errorf("it is the last one:\n%s", report)
	}
	got, _, err := Parse(strings.NewReader(report))
	if err != nil || got.Deadline != r.Deadline {
		t.Errorf("read again: %v, %v", got.Deadline, err)
	}
}

// RFC 4865 5.1.2: a report says until when the sender had the message kept.
func TestD13FutureRelease(t *testing.T) {
	r := reportOn(toBob())
	r.Release = r.Arrived.Add(time.Hour)
	has(t, compose(t, r, Original{}), "Future-Release-Request: until;2026-11-21T11:00:00Z\r\n")
}

// RFC 3464 2.3: Original-Recipient comes from ORCPT and from nowhere else,
// Remote-MTA and smtp diagnostics only from a remote host, Will-Retry-Until
// only with a delay.
func TestD08RecipientFields(t *testing.T) {
	ro := outcome("Bob@Example.NET", mail.ReportFailed, unknownUser)
	report := compose(t, reportOn(RecipientOf(ro, arrived+hour)), Original{})
	has(t, report, "Final-Recipient: rfc822; Bob@Example.NET\r\n", "Action: failed\r\n", "Status: 5.1.1\r\n",
		"Remote-MTA: dns; mx.example.net (198.51.100.7)\r\n", "Diagnostic-Code: smtp; 550-5.1.1 ", "Last-Attempt-Date: ")
	hasNot(t, report, "Original-Recipient", "Will-Retry-Until")

	ro = outcome("bob@example.net", mail.ReportDelayed, noMail)
	ro.Recipient.ORcpt = "RFC822;robert+40example.com@x"
	ro.Outcome.At = 0
	report = compose(t, reportOn(RecipientOf(ro, arrived+hour)), Original{})
	has(t, report, "Original-Recipient: rfc822; robert@example.com@x\r\n", "Action: delayed\r\n", "Status: 4.1.10\r\n",
		"Diagnostic-Code: x-posthaste; 556 5.1.10 ", "Will-Retry-Until: Sat, 21 Nov 2026 11:00:00 +0000\r\n")
	hasNot(t, report, "Remote-MTA", "Last-Attempt-Date")
}

// RFC 3461 4.3, B-179: RET=FULL gives the message if it is small enough and
// can travel unchanged; all else gives the header.
func TestD09Return(t *testing.T) {
	head := "Subject: x\r\nX-Folded: a\r\n b\r\n"
	tests := []struct {
		name, content string
		full          bool
		max           int
		want          Original
	}{
		{"headers wanted", head + "\r\nbody\r\n", false, 1000, Original{PartHeaders, []byte(head)}},
		{"full wanted", head + "\r\nbody\r\n", true, 1000, Original{PartMessage, []byte(head + "\r\nbody\r\n")}},
		{"full, exactly as long as allowed", head + "\r\nbody\r\n", true, len(head) + 8, Original{PartMessage, []byte(head + "\r\nbody\r\n")}},
		{"full, one octet too long", head + "\r\nbody\r\n", true, len(head) + 7, Original{PartHeaders, []byte(head)}},
		{"no end of line", head + "\r\nbody", true, 1000, Original{PartMessage, []byte(head + "\r\nbody\r\n")}},
		{"NUL", head + "\r\nbo\x00dy\r\n", true, 1000, Original{PartHeaders, []byte(head)}},
		{"LF alone", head + "\r\nbo\ndy\r\n", true, 1000, Original{PartHeaders, []byte(head)}},
		{"a line of 999", head + "\r\n" + strings.Repeat("x", 999), true, 1000000, Original{PartHeaders, []byte(head)}},
		{"a line of 998", head + "\r\n" + strings.Repeat("x", 998) + "\r\n", true, 1000000,
			Original{PartMessage, []byte(head + "\r\n" + strings.Repeat("x", 998) + "\r\n")}},
		{"a header too long ends with a whole field", head + head + "\r\n", false, len(head) + 20, Original{PartHeaders, []byte(head + "Subject: x\r\n")}},
		{"a field too long", strings.Repeat("x", 100), false, 50, Original{}},
		{"no header", "\r\nbody\r\n", false, 1000, Original{}},
		{"header only", head, false, 1000, Original{PartHeaders, []byte(head)}},
		{"nothing", "", true, 1000, Original{}},
	}
	for _, test := range tests {
		got, err := ReadOriginal(strings.NewReader(test.content), test.full, test.max)
		if err != nil || got.Part != test.want.Part || !bytes.Equal(got.Content, test.want.Content) {
			t.Errorf("%s: %d %q, %v; want %d %q", test.name, got.Part, got.Content, err, test.want.Part, test.want.Content)
		}
	}
}

// endless is a message of any length, and counts what was read of it.
type endless struct {
	start string
	read  int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	if e.read < len(e.start) {
		copy(p, e.start[e.read:])
	}
	e.read += len(p)
	return len(p), nil
}

// A message of any size costs no more than the limit, and one whose header is
// wanted costs little more than the header.
func TestB179LargeMessage(t *testing.T) {
	const limit = 50 << 10
	e := &endless{start: "Subject: x\r\n\r\n"}
	o, err := ReadOriginal(e, true, limit)
	if err != nil || o.Part != PartHeaders || string(o.Content) != "Subject: x\r\n" || e.read > limit+1 {
		t.Errorf("full: %d %q after %d octets, %v", o.Part, o.Content, e.read, err)
	}
	e = &endless{start: "Subject: x\r\n\r\n"}
	if o, err = ReadOriginal(e, false, limit); err != nil || o.Part != PartHeaders || e.read > 4<<10 {
		t.Errorf("header: %d %q after %d octets, %v", o.Part, o.Content, e.read, err)
	}
}

// An I/O error is not the end of the message.
func TestReadOriginalError(t *testing.T) {
	broken := errors.New("disk on fire")
	rd := io.MultiReader(strings.NewReader("Subject: x\r\n"), &failing{broken})
	if o, err := ReadOriginal(rd, true, 1000); !errors.Is(err, broken) {
		t.Errorf("%v, %v", o, err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error)  { return 0, f.err }
func (f *failing) Write([]byte) (int, error) { return 0, f.err }

// What the writer says is passed on, so that half a report is never committed.
func TestComposeError(t *testing.T) {
	broken := errors.New("disk on fire")
	if err := (Composer{}).Compose(&failing{broken}, reportOn(toBob()), Original{}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if err := (Composer{}).Compose(io.Discard, reportOn(), Original{}); err == nil {
		t.Error("a report without recipients")
	}
}

// RFC 3834 5.2: a report answers a message, so it is "auto-replied".
func TestD11AutoSubmitted(t *testing.T) {
	has(t, compose(t, reportOn(toBob()), Original{}), "Auto-Submitted: auto-replied\r\n")
}

// B-142: mail that was given up because of its age fails with 5.4.7, and the last
// temporary reply is still quoted as it was (RFC 3464 2.3.4).
func TestD12Expiry(t *testing.T) {
	ro := outcome("bob@example.net", mail.ReportFailed, greylisted)
	ro.Outcome.Reply.Status = mail.Status{Class: 5, Subject: 4, Detail: 7}
	has(t, compose(t, reportOn(RecipientOf(ro, 0)), Original{}), "Status: 5.4.7\r\n", "Diagnostic-Code: smtp; 450 <bob@example.net>")

	ro.Outcome.Reply, ro.Outcome.Expired = greylisted, true // as it came
	has(t, compose(t, reportOn(RecipientOf(ro, 0)), Original{}), "Status: 5.4.7\r\n", "Diagnostic-Code: smtp; 450 4.2.0 <bob@example.net>",
		"    > 450 4.2.0 <bob@example.net>")

	ro.Outcome.Expired = false
	ro.Outcome.Reply.Status = mail.Status{Class: 5, Subject: 4, Detail: 7}
	ro.Outcome.Reply.Code = 521 // that of a host that accepts no mail
	has(t, compose(t, reportOn(RecipientOf(ro, 0)), Original{}), "Status: 5.4.7\r\n", "Diagnostic-Code: smtp; 521 <bob@example.net>")

	ro.Outcome.Reply.Code = 550 // the spool keeps the text alone
	has(t, compose(t, reportOn(RecipientOf(ro, 0)), Original{}), "Status: 5.4.7\r\n", "Diagnostic-Code: smtp; <bob@example.net>")

	ro.Outcome.Reply.Status = mail.Status{Class: 5, Subject: 7, Detail: 1}
	ro.Outcome.Expired = true // and the answer is as it came, whatever it is
	for _, said := range []struct {
		status mail.Status
		want   string
	}{
		{mail.Status{Class: 5, Subject: 7, Detail: 1}, "550 5.7.1 <bob@example.net>"},
		{mail.Status{Class: 5, Subject: 4, Detail: 7}, "550 5.4.7 <bob@example.net>"},
		{mail.Status{}, "550 <bob@example.net>"},
	} {
		ro.Outcome.Reply.Status = said.status
		has(t, compose(t, reportOn(RecipientOf(ro, 0)), Original{}), "Status: 5.4.7\r\n", "Diagnostic-Code: smtp; "+said.want, "    > "+said.want)
	}

	ro.Outcome.Reply = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 4, Detail: 7}, Text: "delivery time expired"}
	has(t, compose(t, reportOn(RecipientOf(ro, 0)), Original{}), "Diagnostic-Code: x-posthaste; 550 5.4.7 delivery time expired\r\n")
}

// What a host has said before its destination was put off is quoted as it came,
// without our reason for not asking it again.
func TestWordsOfDeadHost(t *testing.T) {
	for _, prefix := range []string{mail.SuspendedPrefix, mail.StuckPrefix} {
		said := mail.Reply{Code: 421, Status: mail.Status{Class: 4, Subject: 3, Detail: 2}, By: "mx.example.net[198.51.100.7]", Text: "closed for today"}
		put := said
		put.Text = prefix + said.Text
		for _, kind := range []mail.ReportKind{mail.ReportFailed, mail.ReportDelayed} {
			report := compose(t, reportOn(RecipientOf(outcome("bob@example.net", kind, put), 0)), Original{})
			has(t, report, "    > 421 4.3.2 closed for today\r\n", "Diagnostic-Code: smtp; 421 4.3.2 closed for today\r\n")
		}
	}
}

// Every report's status has the class of its action, whatever the last reply
// was.
func TestD12StatusClass(t *testing.T) {
	tests := []struct {
		kind   mail.ReportKind
		status mail.Status
		want   string
	}{
		{mail.ReportFailed, mail.Status{Class: 5, Subject: 1, Detail: 1}, "5.1.1"},
		{mail.ReportFailed, mail.Status{Class: 4, Subject: 4, Detail: 1}, "5.4.1"},
		{mail.ReportFailed, mail.Status{}, "5.0.0"},
		{mail.ReportDelayed, mail.Status{}, "4.0.0"},
		{mail.ReportDelayed, mail.Status{Class: 5, Subject: 7, Detail: 1}, "4.7.1"},
		{mail.ReportDelivered, mail.Status{Class: 2, Subject: 1, Detail: 5}, "2.1.5"},
		{mail.ReportRelayed, mail.Status{}, "2.0.0"},
	}
	for _, test := range tests {
		r := RecipientOf(outcome("x@example.net", test.kind, mail.Reply{Code: 500, Status: test.status, Text: "x"}), 0)
		if got := r.Status.String(); got != test.want {
			t.Errorf("%v with %v: %s, want %s", test.kind, test.status, got, test.want)
		}
	}
}

// RFC 6533: toward an international address the report is international;
// toward an ASCII address nothing of it is, whatever it is about.
func TestD14International(t *testing.T) {
	ro := outcome(`jürgen\o@bücher.example`, mail.ReportFailed, unknownUser)
	ro.Recipient.ORcpt = `utf-8;j\x{FC}rgen\x{5C}o@b\x{FC}cher.example`
	r := reportOn(RecipientOf(ro, 0))
	if got, want := r.Recipients[0].Original, (TypedAddress{"utf-8", `jürgen\o@bücher.example`}); got != want {
		t.Errorf("ORCPT gives %q, want %q", got, want)
	}
	o := Original{PartMessage, []byte("Subject: Grüße\r\n\r\nHallo Jürgen\r\n")}

	report := compose(t, r, o)
	if !ascii(report) {
		t.Errorf("not ASCII:\n%s", report)
	}
	has(t, report, `Original-Recipient: utf-8; j\x{FC}rgen\x{5C}o@b\x{FC}cher.example`, `Final-Recipient: utf-8; j\x{FC}rgen\x{5C}o@b\x{FC}cher.example`,
		"Content-Type: message/delivery-status\r\n", "Content-Type: message/global\r\n", "Content-Transfer-Encoding: quoted-printable\r\n")

	r.To = "müller@example.org"
	if body, u8 := Needs(r, o); body != mail.Body8BitMIME || !u8 {
		t.Errorf("needs %v, SMTPUTF8 %v", body, u8)
	}
	has(t, compose(t, r, o), "To: <müller@example.org>\r\n", `Final-Recipient: utf-8; jürgen\x{5C}o@bücher.example`,
		"Content-Type: message/global-delivery-status\r\n", "Content-Type: message/global\r\n", "Subject: Grüße\r\n")
}

// What a remote host says is quoted as text and marked, and is nothing else.
// This reply tries to be a header field, the end of a part, a terminal
// sequence and markup.
func TestD19B140HostileReply(t *testing.T) {
	text := "no\r\nBcc: everyone@example.com\r\n\r\n--=_x--\r\n\x1b[2J<script>alert(1)</script>\xff" + strings.Repeat("x", 100<<10)
	ro := outcome("bob@example.net", mail.ReportFailed, mail.Reply{Code: 550, Text: text, By: "evil (\r\nCc: x@y.z)[1.2.3.4]"})
	r := reportOn(RecipientOf(ro, 0))
	checkRoundTrip(t, r, Original{})
	report := compose(t, r, Original{})
	hasNot(t, report, "Bcc:", "Cc:", "--=_x")
	header, _, _ := strings.Cut(report, "\r\n\r\n")
	if strings.Contains(header, "550") || strings.Contains(header, "evil") {
		t.Errorf("the reply is in the header:\n%s", header)
	}
	if strings.Contains(report, "\x1b") || len(report) > 3*mail.ReplyTextMax {
		t.Errorf("%d octets:\n%q", len(report), report[:1000])
	}
}

// A sender's address goes into the header only if it is an address.
func TestB178HostileSender(t *testing.T) {
	for _, sender := range []mail.Address{
		"a@b\r\nBcc: everyone@example.com", "a\x00@example.com", "a>b@example.com", "a@b, c@d", "a@b>, <c@d", "a@exa mple.com", "\xff@example.com",
		mail.Address(strings.Repeat("x", 500) + "@example.com"), "postmaster", "@example.com", "a@", `"a@example.com`, `"a"b"@example.com`, `"a\"@example.com`, ".a@example.com",
	} {
		r := reportOn(toBob())
		r.To = sender
		checkRoundTrip(t, r, Original{})
		has(t, compose(t, r, Original{}), "To: undisclosed-recipients:;\r\n")
	}
	for _, sender := range []mail.Address{"a@b.example", `"a > b"@example.com`, `"\""@example.com`, "a@[192.0.2.1]", "a@[IPv6:2001:db8::1]", "用户@例え.example"} {
		r := reportOn(toBob())
		r.To = sender
		checkRoundTrip(t, r, Original{})
		has(t, compose(t, r, Original{}), "To: <"+string(sender)+">\r\n")
	}
}

// ORCPT and ENVID are chosen by a client and pass through xtext, which can
// carry any octet.
func TestB178HostileParameters(t *testing.T) {
	for _, orcpt := range []string{
		"rfc822;a+0D+0ABcc:+20x@y", "rfc822;a+00b", "rfc822;a+FFb", "rfc822;+", "rfc822;+4", "rfc822;+zz", "rfc822;", ";a@b", "a b;c", "noaddress", "",
		"rfc822;" + strings.Repeat("x", 501), "utf-8;" + strings.Repeat("ü", 240), `utf-8;\x{D}\x{A}x`, "rf\r\nc822;x", "rfc822;bücher",
	} {
		if got := ParseORCPT(orcpt); got != (TypedAddress{}) {
			t.Errorf("ORCPT %q gives %q", orcpt, got)
		}
	}
	for _, envid := range []string{"a+0D+0Ab", "+", "+1", "a+00", "ü", strings.Repeat("x", 101), "+20"} {
		if got := DecodeEnvID(envid); got != "" {
			t.Errorf("ENVID %q gives %q", envid, got)
		}
	}
}

// The boundary is looked for in the message that is returned, which may be an
// earlier report with the same boundary, or a guess at the next one.
func TestBoundaryOccurs(t *testing.T) {
	r := reportOn(toBob())
	o := Original{PartMessage, []byte("Subject: x\r\n\r\n")}
	seen := map[string]bool{}
	for range 5 {
		b := boundary(r, o)
		if seen[b] {
			t.Fatalf("%s again", b)
		}
		seen[b] = true
		o.Content = append(o.Content, "--"+b+"--\r\n"...)
		checkRoundTrip(t, r, o)
	}
}
