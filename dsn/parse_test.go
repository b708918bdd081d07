package dsn

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// foreign is a report as other programs write them: LF line ends, types left
// out or in capitals, comments, a fold before the reply, an address in angle
// brackets of a comment, an action that we do not have, a group without a
// recipient, and a part of another kind.
const foreign = `From: <postmaster@other.example>
To: alice@example.org
Date: 2 Feb 2026 03:04 -0230 (NST)
Subject: Undeliverable
content-type: Multipart/Report; Report-Type="Delivery-Status"; boundary=b

--b
Content-Type: text/html

<p>Sorry
--b
Content-Type: message/delivery-status

Reporting-MTA: DNS; other.example
Received-From-MTA: dns;relay.example ([192.0.2.9])
arrival-date: Mon, 02 Feb 2026 03:00:00 GMT
not a field
 and its fold

Final-Recipient: RFC822;bob@other.example
Action: FAILED (unknown user)
Status: 5.1.1 (Bad destination)
Remote-MTA: dns; mx (mx.other.example [198.51.100.1])
Diagnostic-Code: smtp;
	550-5.1.1 The address that you tried
	550-5.1.1 does not
    exist
	550 5.1.1 Learn more

X-Nothing: to say

Final-Recipient: carol@other.example
Action: expanded
Status: 2.0.0

Final-Recipient: rfc822; dave@other.example
Action: failed
Diagnostic-Code: X-Unix; quota is =?iso-8859-1?q?=FCber?=
--b
Content-Type: message/rfc822
Content-Transfer-Encoding: base64

U3ViamVjdDogeA0KDQp5DQo=
--b--
`

func TestParseForeign(t *testing.T) {
	want := Report{
		Date: mail.Instant(time.Date(2026, 2, 2, 5, 34, 0, 0, time.UTC).UnixNano()),
		From: "postmaster@other.example", Host: "other.example", Received: "relay.example[192.0.2.9]",
		Arrived: mail.Instant(time.Date(2026, 2, 2, 3, 0, 0, 0, time.UTC).UnixNano()),
		Recipients: []Recipient{{
			Final: "bob@other.example", Kind: mail.ReportFailed, Status: mail.Status{Class: 5, Subject: 1, Detail: 1},
			Reply: mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 1, Detail: 1}, By: "mx[198.51.100.1]",
				Text: "The address that you tried\ndoes not    exist\nLearn more"},
		}, {
			Final: "carol@other.example", Kind: mail.ReportRelayed, Status: mail.Status{Class: 2},
		}, {
			Final: "dave@other.example", Kind: mail.ReportFailed, Status: mail.Status{Class: 5}, Reply: mail.Reply{Text: "quota is über"},
		}},
	}
	got, o, err := Parse(strings.NewReader(foreign))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if o.Part != PartMessage || string(o.Content) != "Subject: x\r\n\r\ny\r\n" {
		t.Errorf("original %d %q", o.Part, o.Content)
	}
	checkRoundTrip(t, got, o)
}

// Mail that is not a report is refused with one error that says so.
func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty":            "",
		"a letter":         letter,
		"no content type":  "Subject: x\n\n--b\n",
		"mixed":            strings.Replace(foreign, "Multipart/Report", "multipart/mixed", 1),
		"a read receipt":   strings.Replace(foreign, "Delivery-Status", "disposition-notification", 1),
		"no boundary":      strings.Replace(foreign, "boundary=b", "", 1),
		"other boundary":   strings.Replace(foreign, "boundary=b", "boundary=c", 1),
		"no recipients":    strings.ReplaceAll(foreign, "Final-Recipient", "Final"),
		"no status part":   strings.Replace(foreign, "message/delivery-status", "text/plain", 1),
		"broken base64":    strings.Replace(foreign, "U3Vi", "U3#i", 1),
		"too long":         foreign + strings.Repeat("x", parseMax),
		"many recipients":  strings.Replace(foreign, "X-Nothing: to say\n", strings.Repeat("Final-Recipient: x\n\n", parseRecipientsMax), 1),
		"parts never stop": "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n" + strings.Repeat("--b\n\nx\n", 1000),
	} {
		if r, _, err := Parse(strings.NewReader(text)); !errors.Is(err, ErrNotReport) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	broken := errors.New("disk on fire")
	if _, _, err := Parse(&failing{broken}); !errors.Is(err, broken) || errors.Is(err, ErrNotReport) {
		t.Errorf("I/O error: %v", err)
	}
}

// Reports come from anybody, so reading the worst one has to cost a bounded
// multiple of its length: here short fields, folds and reply lines without
// end, each as long as Parse takes.
func TestParseHostileCost(t *testing.T) {
	start := "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\nContent-Type: message/delivery-status\n\nA:b\n\nFinal-Recipient: x\n"
	fill := func(s string) string { return strings.Repeat(s, (parseMax-len(start)-10)/len(s)) }
	for name, text := range map[string]string{
		"fields":      start + fill("A:b\n"),
		"folds":       start + "Diagnostic-Code: smtp; 550-\n" + fill(" 550-\n"),
		"one field":   start + "Diagnostic-Code: " + fill("x "),
		"groups":      start + fill("A:b\n\n"),
		"junk":        start + fill("x\n"),
		"header only": "Content-Type: multipart/report" + fill(";a*0=b"),
		"parts":       strings.Replace(start, "\n--b", strings.Repeat("\n--b\n\nx", 18)+"\n--b", 1) + fill("y"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, _ = Parse(strings.NewReader(text)) // an error is as good as a report here
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 20*parseMax {
			t.Errorf("%s: %d octets allocated for %d", name, used, len(text))
		}
	}
}

// The package has its own calendar because it may not have a clock; package
// time is the naive twin.
func TestDateAgainstTime(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		at := time.Unix(0, rng.Int64()).UTC().Truncate(time.Second)
		text := FormatDate(mail.Instant(at.UnixNano()))
		if want := at.Format("Mon, 2 Jan 2006 15:04:05 -0700"); text != want {
			t.Fatalf("seed %d: %s, want %s", seed, text, want)
		}
		if at.Year() > 2261 {
			continue
		}
		zone := time.FixedZone("", 60*(rng.IntN(1680)-840))
		for _, layout := range []string{"Mon, 2 Jan 2006 15:04:05 -0700", "02 jan 2006 15:04:05 -0700 (a comment)", "Mon, 2 Jan 2006 15:04 -0700"} {
			text := at.In(zone).Format(layout)
			want, _ := time.Parse(layout, text)
			if got := parseDate(text); got != mail.Instant(want.UnixNano()) && want.UnixNano() > 0 && got != 0 {
				t.Fatalf("seed %d: %q read as %s, want %s", seed, text, FormatDate(got), FormatDate(mail.Instant(want.UnixNano())))
			} else if got == 0 && want.Year() >= 1970 && want.In(zone).Year() >= 1970 && want.In(zone).Year() <= 2261 {
				t.Fatalf("seed %d: %q not read", seed, text)
			}
		}
	}
	if got := FormatDate(-1); got != "Wed, 31 Dec 1969 23:59:59 +0000" {
		t.Errorf("just before 1970: %s", got)
	}
}

func TestParseDateRefuses(t *testing.T) {
	for _, text := range []string{
		"", "now", "Mon, 2 Jan 2006", "Mon, 2 Jan 2006 15 +0000", "Mon, 2 Foo 2006 15:04:05 +0000", "Mon, 2 anF 2006 15:04:05 +0000",
		"Mon, 0 Jan 2006 15:04:05 +0000", "Mon, 32 Jan 2006 15:04:05 +0000", "Mon, 2 Jan 1969 15:04:05 +0000", "Mon, 2 Jan 2262 15:04:05 +0000",
		"Mon, 2 Jan 2006 24:04:05 +0000", "Mon, 2 Jan 2006 15:60:05 +0000", "Mon, 2 Jan 2006 15:04:61 +0000", "Mon, 2 Jan 2006 15:04:05 +0060", "Mon, 2 Jan 2006 15:04:05 +abcd",
		"Mon, 2 Jan 2006 1:2:3:4 +0000",
	} {
		if got := parseDate(text); got != 0 {
			t.Errorf("%q read as %s", text, FormatDate(got))
		}
	}
	if got, want := parseDate("Sat, 31 Dec 2016 23:59:60 +0000"), parseDate("Sat, 31 Dec 2016 23:59:59 +0000"); got != want || got == 0 {
		t.Errorf("leap second: %v, want %v", got, want)
	}
}

// What Parse takes from anybody must never panic, must be clean, and must
// survive being composed and parsed again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(foreign))
	files, err := filepath.Glob("testdata/*.eml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, o, err := Parse(strings.NewReader(string(data)))
		if err == nil {
			checkRoundTrip(t, r, o)
		}
	})
}

// The three texts that strangers choose, as they arrive.
func FuzzHostileTexts(f *testing.F) {
	f.Add("550-5.1.1 a\r\n550 5.1.1 b", "rfc822;a+2Bb@c", "QQ+2B1", "a@b", "Subject: x\r\n\r\ny")
	f.Add("=?utf-8?q?x?= \xff 550 x", `utf-8;\x{FC}@\x{`, "+0D+0A", "ü@ü", "\xff\x00")
	f.Fuzz(func(t *testing.T, reply, orcpt, envid, address, content string) {
		ro := outcome(mail.Address(address), mail.ReportFailed, mail.Reply{Code: 550, Text: reply, By: address})
		ro.Recipient.ORcpt = orcpt
		r := reportOn(RecipientOf(ro, 0))
		r.EnvID, r.To, r.Received = DecodeEnvID(envid), mail.Address(address), address
		o, err := ReadOriginal(strings.NewReader(content), true, 50<<10)
		if err != nil {
			t.Fatal(err)
		}
		checkRoundTrip(t, r, o)
	})
}
