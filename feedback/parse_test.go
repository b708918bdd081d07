package feedback

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/mail"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// summary says on one line what tests compare.
func summary(r *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v id=%s by=%q", r.Kind, r.MessageID, r.Reporter)
	for _, e := range r.Entries {
		fmt.Fprintf(&b, " [%s > %s", e.Original, e.Final)
		if r.Kind == KindStatus {
			fmt.Fprintf(&b, " %v %v: %d %v %s", e.Action, e.Status, e.Reply.Code, e.Reply.Status, strings.ReplaceAll(e.Reply.Text, "\n", " / "))
		}
		if e.Redacted {
			b.WriteString(" redacted")
		}
		b.WriteString("]")
	}
	if c := r.Complaint; c.Type != "" {
		fmt.Fprintf(&b, " %s %s from=%s domain=%s x%d %s", c.Type, c.Sender, c.SourceIP, c.Domain, c.Incidents, c.AuthFailure)
	}
	o := r.Original
	fmt.Fprintf(&b, " about %s of %s, %s", o.MessageID, o.From, o.ReturnPath)
	if o.QueueID != 0 {
		fmt.Fprintf(&b, " %v", o.QueueID)
	}
	return b.String()
}

// Reports in the forms of those who send most of them. The sentences in them are our own.
func TestSamples(t *testing.T) {
	const about = " about order-17@shop.example of news@shop.example, "
	const bounces = "bounces+jane=example.net@shop.example"
	for name, want := range map[string]string{
		"dsn-postfix.eml":         "status id=20261124090003.4Xabc2@mx.example.net by=\"mx.example.net\" [jane@example.net > jane.doe@store.example.net failed 5.1.1: 550 5.1.1 <jane.doe@store.example.net>: no mailbox of    this name here]" + about + bounces + " 1N5RWJ0Q8G00A",
		"dsn-exim.eml":            "status id=E1tExim-0001AB-2c@relay.example.net by=\"relay.example.net\" [ > jane@example.net failed 5.0.0: 552 5.2.2 Mailbox full, quota of the user exceeded]" + about + "news@shop.example 1N5RWJ0Q8G00A",
		"dsn-gmail.eml":           "status id=6743.050a0220.1@mx.google.com by=\"googlemail.com\" [ > jane@example.net failed 5.1.1: 550 5.1.1 The email account that you tried to reach does not exist. Please try / another spelling of the address. / For more go to a page of help ab12cd - gsmtp]" + about + " 1N5RWJ0Q8G00A",
		"dsn-exchange.eml":        "status id=7d1a5a7c@DB7PR01MB0001.eurprd01.prod.example by=\"DB7PR01MB0001.eurprd01.prod.example\" [jane@example.net > jane@example.net failed 5.7.129: 550 5.7.129 RESOLVER.RST.RestrictedToRecipientsPermission; not authorized to send to recipient because the sender isn't on the recipient's allowed senders list]" + about + " 1N5RWJ0Q8G00A",
		"dsn-delayed-wrapped.eml": "status id=gw-1@scanner.example.net by=\"relay.example.net\" [ > jane@example.net delayed 4.4.1: 450 4.4.1 connect to mx.example.net: Connection timed out]" + about + " 1N5RWJ0Q8G00A",
		"dsn-international.eml":   "status id=i18n-1@mx.example by=\"mx.example\" [jörg@bücher.example > jörg@bücher.example failed 5.2.1: 550 5.2.1 mailbox disabled] about order-18@shop.example of news@shop.example, ",
		"arf-yahoo.eml":           "complaint id=arf-1@isp.example by=\"Feedback-Generator/2.1\" [ > jane@example.net] abuse " + bounces + " from=192.0.2.25 domain=shop.example x3 " + about + bounces + " 1N5RWJ0Q8G00A",
		"arf-redacted.eml":        "complaint id=arf-2@isp.example by=\"Feedback-Generator/1.0\" [ >  redacted] abuse  from=2001:db8::25 domain= x1 " + about + bounces + " 1N5RWJ0Q8G00A",
		"arf-auth-failure.eml":    "complaint id=arf-3@isp.example by=\"Auth-Reporter/1\" [ > jane@example.net] auth-failure news@shop.example from=203.0.113.9 domain= x1 dmarc about forged@elsewhere.example of news@shop.example, ",
		"complaint-outlook.eml":   "complaint id=jmrp-1@hotmail.example by=\"\" [ > jane@example.net] abuse  from= domain= x1 " + about + " 1N5RWJ0Q8G00A",
		"vacation.eml":            "auto-reply id=vac-1@example.net by=\"\" about  of , ",
	} {
		data := sample(t, name)
		for _, form := range [][]byte{data, bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))} {
			r, err := Parse(form, "mta.shop.example")
			if got := summary(&r); err != nil || got != want {
				t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want)
			}
		}
	}
}

// What is not understood says what it is, and who it is from.
func TestUnknown(t *testing.T) {
	container := func(kind, body string) string {
		return "From: a@b.example\r\nMessage-ID: <m@b.example>\r\nContent-Type: " + kind + "\r\n\r\n" + body
	}
	deep := container("multipart/mixed; boundary=b0", "")
	for i := range 6 {
		deep += fmt.Sprintf("--b%d\r\nContent-Type: multipart/mixed; boundary=b%d\r\n\r\n", i, i+1)
	}
	many := container("multipart/mixed; boundary=b", strings.Repeat("--b\r\n\r\nx\r\n", 100))
	for _, c := range []struct{ text, why string }{
		{string(sample(t, "unknown-qmail.eml")), "it is text/plain and not a report"},
		{string(sample(t, "unknown-receipt.eml")), "a report of another kind: disposition-notification"},
		{container("multipart/report; report-type=delivery-status", ""), "no boundary"},
		{container("multipart/report; boundary=b; report-type=delivery-status", "--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x\r\n\r\n--b--\r\n"), "no status part with recipients"},
		{container("multipart/report; boundary=b", "--b\r\nContent-Type: message/feedback-report\r\n\r\nVersion: 1\r\n\r\n--b--\r\n"), "without a Feedback-Type"},
		{container("multipart/mixed; boundary=b", "--b\r\n\r\nHello\r\n--b--\r\n"), "none of its parts"},
		{deep, "deep"},
		{many, "more than 60 parts"},
		{strings.Repeat("x", SizeMax+1), "longer than 16 MiB"},
		{"", "text/plain"},
	} {
		r, err := Parse([]byte(c.text), "")
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), c.why) || r.Kind != KindUnknown || len(r.Entries) != 0 {
			t.Errorf("%.60q: %v, %v, want %q", c.text, err, r.Kind, c.why)
		}
	}
	if r, _ := Parse(sample(t, "unknown-receipt.eml"), ""); r.From != "jane@example.net" || r.MessageID != "mdn-1@example.net" {
		t.Errorf("%+v", r)
	}
}

// A bounce that is not understood may say, as answers of people's programs do, that it is automatic. It is for people all
// the same.
//
// Seen failing: bounces of Exim without a status, and damaged ones, were counted as vacation notices and not kept.
func TestBounceIsNoAutoReply(t *testing.T) {
	for _, c := range []struct {
		header string
		want   Kind
	}{
		{"Auto-Submitted: Auto-Replied (vacation)\nContent-Type: text/plain", KindAutoReply},
		{"X-Autorespond: away\nContent-Type: multipart/mixed; boundary=b", KindAutoReply},
		{"X-Autoreply: yes", KindAutoReply},
		{"Auto-Submitted: auto-generated", KindUnknown},
		{"Auto-Submitted: auto-replied\nX-Failed-Recipients: jane@example.net", KindUnknown},
		{"Auto-Submitted: auto-replied\nContent-Type: multipart/report; boundary=b; report-type=delivery-status", KindUnknown},
	} {
		r, err := Parse([]byte(c.header+"\n\nHello.\n"), "")
		if r.Kind != c.want || (err == nil) != (c.want == KindAutoReply) {
			t.Errorf("%q: %v, %v, want %v", c.header, r.Kind, err, c.want)
		}
	}
}

// What strangers write is cut at bounds, and not in the middle of a character.
func TestHeaderBounds(t *testing.T) {
	long := strings.Repeat("n", 3*nameMax) + ": " + strings.Repeat("v", 3*valueMax) + "\r\n" + strings.Repeat(" folded\r\n", valueMax) + "Next: x\r\n"
	f, body := cutHeader([]byte(long + strings.Repeat("More: y\r\n", 2*fieldsMax) + "\r\nbody"))
	if len(f) != fieldsMax || len(f[0].name) != nameMax || len(f[0].value) > 2*valueMax || f.get("next") != "x" || string(body) != "body" {
		t.Errorf("%d fields, the first is %d and %d octets long, body %q", len(f), len(f[0].name), len(f[0].value), body)
	}
	f, _ = cutHeader([]byte("A: b\r\n" + strings.Repeat(" "+strings.Repeat("w", 100)+"\r\n", valueMax)))
	if n := len(f.get("a")); n < valueMax || n > 2*valueMax {
		t.Errorf("a folded value is %d octets long", n)
	}
	if got := id("<" + strings.Repeat("ä", 200) + ">"); len(got) != 250 || !utf8.ValidString(got) {
		t.Errorf("an ID of %d octets: %q", len(got), got)
	}
	if got := clean("x"+strings.Repeat("ä", 200), 250); len(got) != 249 || !utf8.ValidString(got) {
		t.Errorf("a text of %d octets: %q", len(got), got)
	}
}

// A complaint in odd forms: encoded, behind empty lines, with the recipient in a field of one provider, and with a
// number of incidents that is none.
func TestOddComplaints(t *testing.T) {
	const fields = "\r\n\r\nFeedback-Type: opt-out-list\r\nRemoval-Recipient: <jane@example.net>\r\nIncidents: 99999999999999999999999\r\n"
	for encoding, content := range map[string]string{"7bit": fields, "BASE64": base64.StdEncoding.EncodeToString([]byte(fields)) + "\r\n"} {
		r, err := Parse([]byte("Content-Type: multipart/report; boundary=b\r\n\r\n--b\r\nContent-Type: message/feedback-report\r\nContent-Transfer-Encoding: "+encoding+"\r\n\r\n"+content+"--b--\r\n"), "")
		if err != nil || r.Kind != KindComplaint || r.Complaint.Type != "other" || r.Complaint.Incidents != 1 || len(r.Entries) != 1 || r.Entries[0].Final != "jane@example.net" {
			t.Errorf("%s: %v, %s", encoding, err, summary(&r))
		}
	}
}

// The queue ID is that of the server of the given name or, without a name, of a Posthaste; others number their mail in the same way.
func TestQueueID(t *testing.T) {
	const ours, theirs = "from a by mta.shop.example (Posthaste) with ESMTP id 1N5RWJ0Q8G00A; Tue", "from b by mx.example.net (Other) with ESMTP id 1N5RWJ0Q8G00B; Tue"
	for host, want := range map[string]string{"": "1N5RWJ0Q8G00A", "MTA.shop.example": "1N5RWJ0Q8G00A", "mx.example.net": "1N5RWJ0Q8G00B"} {
		if got := queueID([]string{theirs, ours}, host); got.String() != want {
			t.Errorf("of %q: %v, want %s", host, got, want)
		}
	}
	if got := queueID([]string{theirs}, ""); got != 0 {
		t.Errorf("%v is not of a Posthaste", got)
	}
}

// A large message is returned in whole, and only its beginning is read.
func TestCutOff(t *testing.T) {
	data := sample(t, "dsn-exim.eml")
	at := bytes.Index(data, []byte("Message-ID: <order-17"))
	r, err := Parse(data[:at+40], "")
	if err != nil || len(r.Entries) != 1 || r.Original.MessageID != "order-17@shop.example" {
		t.Errorf("%v, %s", err, summary(&r))
	}
}

// A report lists thousands of recipients.
func TestManyRecipients(t *testing.T) {
	var b strings.Builder
	b.WriteString("Content-Type: multipart/report; boundary=b; report-type=delivery-status\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x\r\n\r\n")
	for i := range EntriesMax + 7 {
		fmt.Fprintf(&b, "Final-Recipient: rfc822; u%d@example.net\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n", i)
	}
	b.WriteString("--b--\r\n")
	r, err := Parse([]byte(b.String()), "")
	if err != nil || len(r.Entries) != EntriesMax || r.Omitted != 7 {
		t.Errorf("%v, %d entries, %d omitted", err, len(r.Entries), r.Omitted)
	}
}

// Nothing that strangers write crashes, or comes out of it as text that hurts a terminal or a log.
func FuzzParse(f *testing.F) {
	names, _ := filepath.Glob("testdata/*.eml")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data, "")
		if err != nil && !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
		if err == nil && (r.Kind == KindStatus || r.Kind == KindComplaint) != (len(r.Entries) > 0) {
			t.Fatalf("%v with %d entries", r.Kind, len(r.Entries))
		}
		texts := []string{r.MessageID, r.Reporter, r.EnvID, r.Complaint.SourceIP, r.Complaint.Domain, r.Complaint.AuthFailure, r.Original.MessageID, fmt.Sprint(err)}
		for _, a := range []mail.Address{r.From, r.Complaint.Sender, r.Original.From, r.Original.ReturnPath} {
			texts = append(texts, string(a))
		}
		for _, e := range r.Entries {
			texts = append(texts, string(e.Original), string(e.Final), strings.ReplaceAll(e.Reply.Text, "\n", " "))
		}
		for _, text := range texts {
			if text != strings.ReplaceAll(mail.CleanText(text), "\n", " ") && len(text) <= mail.ReplyTextMax {
				t.Fatalf("%q is not clean", text)
			}
		}
	})
}
