package main

import (
	"hash/crc32"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// A judge that finds nothing may be blind: each of these has one thing wrong
// with it, or nothing.
func TestVerify(t *testing.T) {
	sent := letters("x", "d.test", 2, 2)
	take := func(a *account, i int, recipients ...int) {
		d := sink.Delivery{Key: sent[i].key, Sender: sent[i].sender, BodySum: sent[i].bodySum()}
		for _, r := range recipients {
			d.Recipients = append(d.Recipients, sent[i].recipients[r])
		}
		a.taken(d)
	}
	for _, test := range []struct {
		name  string
		story func(a *account)
		want  string
	}{
		{"good", func(a *account) { take(a, 0, 0, 1); take(a, 1, 0); take(a, 1, 1) }, ""},
		{"missing", func(a *account) { take(a, 0, 0, 1); take(a, 1, 0) }, "1 missing: <x-1@interop.test> for user1.1@d.test"},
		{"twice", func(a *account) { take(a, 0, 0, 1); take(a, 1, 0, 1); take(a, 1, 1) }, "1 delivered again: <x-1@interop.test> for user1.1@d.test: 2 times"},
		{"damaged", func(a *account) {
			take(a, 0, 0, 1)
			a.note(sent[1].key, sent[1].recipients, 1)
		}, "1 damaged: <x-1@interop.test>"},
		{"damaged for one", func(a *account) {
			take(a, 0, 0, 1)
			a.note(sent[1].key, sent[1].recipients[:1], 1)
			take(a, 1, 1)
		}, "1 damaged: <x-1@interop.test>"},
		{"strange", func(a *account) {
			take(a, 0, 0, 1)
			take(a, 1, 0, 1)
			a.note(sent[0].key, []mail.Address{"y@d.test"}, sent[0].bodySum())
		}, "1 not expected: <x-0@interop.test> for y@d.test"},
		{"another's sender", func(a *account) {
			a.taken(sink.Delivery{Key: sent[0].key, Sender: "x@origin.test", Recipients: sent[0].recipients, BodySum: sent[0].bodySum(), Content: []byte(sent[0].content())})
			take(a, 1, 0, 1)
		}, "1 under a wrong envelope: <x-0@interop.test>, from sender@origin.test for [user0.0@d.test user0.1@d.test], came from x@origin.test for [user0.0@d.test user0.1@d.test]"},
		{"another's recipient", func(a *account) {
			a.taken(sink.Delivery{Key: sent[0].key, Sender: sent[0].sender, Recipients: []mail.Address{"user0.0@d.test", "user1.0@d.test"}, BodySum: sent[0].bodySum(), Content: []byte(sent[0].content())})
			take(a, 0, 1)
			take(a, 1, 0, 1)
		}, "1 not expected: <x-0@interop.test> for user1.0@d.test\n" +
			"1 under a wrong envelope: <x-0@interop.test>, from sender@origin.test for [user0.0@d.test user0.1@d.test], came from sender@origin.test for [user0.0@d.test user1.0@d.test]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAccount("")
			test.story(a)
			got := ""
			if err := a.verify(sent); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("complaint %q, want %q", got, test.want)
			}
		})
	}
}

// What smtp-sink writes is read back as it was sent.
func TestReadDump(t *testing.T) {
	text := "X-Client-Addr: 127.0.0.1\nX-Mail-Args: <a@a.test>\nX-Rcpt-Args: <b@b.test> NOTIFY=NEVER\nX-Rcpt-Args: <c@b.test>\n" +
		"Received: by smtp-sink\nMessage-ID: <1@x.test>\n\nline\n\n.\n\n"
	key, recipients, sum := readDump([]byte(text))
	want := crc32.Checksum([]byte("line\r\n\r\n.\r\n"), crc32.MakeTable(crc32.Castagnoli))
	if key != "<1@x.test>" || len(recipients) != 2 || recipients[0] != "b@b.test" || recipients[1] != "c@b.test" || sum != want {
		t.Errorf("key %q, recipients %q, sum %x, want %x", key, recipients, sum, want)
	}
}

// Each thing that programs look for in a report is demanded.
func TestVerifyReports(t *testing.T) {
	l := letters("x", "d.test", 1, 1)[0]
	good := func() readReport {
		return readReport{
			Type: "multipart/report", ReportType: "delivery-status", Parts: []string{"text/plain", "message/delivery-status", "text/rfc822-headers"},
			To: string(l.sender), Text: "to user0.0@d.test",
			Message: map[string]string{"reporting-mta": "dns; posthaste.test", "original-envelope-id": "x-0@interop.test"},
			Recipients: []map[string]string{{"final-recipient": "rfc822; user0.0@d.test", "action": "failed", "status": "5.1.1",
				"remote-mta": "dns; mx.test", "diagnostic-code": "smtp; 550 5.1.1 unknown"}},
			Original: map[string]string{"message-id": l.key},
		}
	}
	if err := verifyReports([]readReport{good()}, []letter{l}, "mx.test", "unknown"); err != nil {
		t.Errorf("complaint about a good report: %v", err)
	}
	for _, test := range []struct {
		want  string
		spoil func(r *readReport)
	}{
		{"type is", func(r *readReport) { r.Type = "text/plain" }},
		{"report-type is", func(r *readReport) { r.ReportType = "" }},
		{"parts is", func(r *readReport) { r.Parts = r.Parts[:1] }},
		{"defects is", func(r *readReport) { r.Defects = []string{"StartBoundaryNotFound"} }},
		{"To is", func(r *readReport) { r.To = "" }},
		{"Reporting-MTA is", func(r *readReport) { delete(r.Message, "reporting-mta") }},
		{"Original-Envelope-ID is", func(r *readReport) { delete(r.Message, "original-envelope-id") }},
		{"number of recipients", func(r *readReport) { r.Recipients = nil }},
		{"is none", func(r *readReport) { r.Recipients[0]["final-recipient"] = "rfc822; y@d.test" }},
		{"Action is", func(r *readReport) { r.Recipients[0]["action"] = "delayed" }},
		{"Status class is", func(r *readReport) { r.Recipients[0]["status"] = "4.1.1" }},
		{"Remote-MTA is", func(r *readReport) { r.Recipients[0]["remote-mta"] = "" }},
		{"Diagnostic-Code is", func(r *readReport) { r.Recipients[0]["diagnostic-code"] = "smtp; 450 unknown" }},
		{"the text is", func(r *readReport) { r.Text = "" }},
		{"did not fail", func(r *readReport) { r.Original["message-id"] = "<y>" }},
	} {
		r := good()
		test.spoil(&r)
		err := verifyReports([]readReport{r}, []letter{l}, "mx.test", "unknown")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("complaint %v, want %q in it", err, test.want)
		}
	}
	if err := verifyReports(nil, []letter{l}, "", ""); err == nil {
		t.Error("no complaint about a missing report")
	}
}
