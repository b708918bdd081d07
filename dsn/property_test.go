package dsn

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/mail"
	"pgregory.net/rapid"
)

// hostile draws text that is made to break a format: pieces of syntax of
// header fields, containers, encodings and replies between letters.
func hostile() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"\r\n", "\n", "\r", " ", "  ", "\t", ";", ":", "<", ">", "@", "(", ")", "[", "]", `"`, `\`, `\x{41}`, `\x{`, "}",
			"=?", "?=", "=?utf-8?q?=41?=", "--", "--=_", "550 ", "550-", "550", "451 4.0.0 ", "5.1.1 ", "+2B", "+", "=", "\x00", "\x1b[2J",
			"\xff", "ü", "用户", "🦊", " ", "\u202e", "Bcc: x@y\r\n", "\r\n\r\n", "<script>", ".", "..", "a", "example.com", "IPv6:", "::1",
		}),
		rapid.StringN(0, 20, -1),
		rapid.Custom(func(t *rapid.T) string { return strings.Repeat("words ", rapid.IntRange(1, 30).Draw(t, "words")) }),
		rapid.Custom(func(t *rapid.T) string { return strings.Repeat("w", rapid.IntRange(800, 1100).Draw(t, "letters")) }),
	)
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
	})
}

func instants() *rapid.Generator[mail.Instant] {
	return rapid.Custom(func(t *rapid.T) mail.Instant { return mail.Instant(rapid.Int64().Draw(t, "instant")) })
}

func statuses() *rapid.Generator[mail.Status] {
	return rapid.Custom(func(t *rapid.T) mail.Status {
		number := rapid.Uint16Range(0, 1001)
		return mail.Status{Class: rapid.Uint16Range(0, 6).Draw(t, "class"), Subject: number.Draw(t, "subject"), Detail: number.Draw(t, "detail")}
	})
}

func recipients() *rapid.Generator[Recipient] {
	return rapid.Custom(func(t *rapid.T) Recipient {
		return Recipient{
			Original: TypedAddress{
				rapid.SampledFrom([]string{"", "rfc822", "UTF-8", "utf-8", "x400", "bad type"}).Draw(t, "type"),
				hostile().Draw(t, "original"),
			},
			Final:  mail.Address(hostile().Draw(t, "final")),
			Kind:   mail.ReportKind(rapid.IntRange(0, 6).Draw(t, "kind")),
			Status: statuses().Draw(t, "status"),
			Reply: mail.Reply{
				Code:   rapid.Uint16Range(0, 700).Draw(t, "code"),
				Status: statuses().Draw(t, "reply status"),
				Text:   hostile().Draw(t, "text"),
				By:     hostile().Draw(t, "by"),
			},
			LastAttempt: instants().Draw(t, "last"),
			RetryUntil:  instants().Draw(t, "until"),
		}
	})
}

func reports() *rapid.Generator[Report] {
	return rapid.Custom(func(t *rapid.T) Report {
		address := rapid.OneOf(hostile(), rapid.SampledFrom([]string{
			"bob@example.com", `"b > <\"ob"@example.com`, "jürgen@bücher.example", "x@[192.0.2.1]", "postmaster", "",
		}))
		return Report{
			MessageID:  rapid.OneOf(hostile(), rapid.Just("1@mx.example")).Draw(t, "id"),
			Date:       instants().Draw(t, "date"),
			From:       mail.Address(address.Draw(t, "from")),
			To:         mail.Address(address.Draw(t, "to")),
			Host:       rapid.OneOf(hostile(), rapid.Just("mx.example")).Draw(t, "host"),
			QueueID:    mail.QueueID(rapid.Uint64().Draw(t, "queue ID")),
			EnvID:      hostile().Draw(t, "envid"),
			Received:   hostile().Draw(t, "received"),
			Arrived:    instants().Draw(t, "arrived"),
			Deadline:   instants().Draw(t, "deadline"),
			Recipients: rapid.SliceOfN(recipients(), 1, 4).Draw(t, "recipients"),
		}
	})
}

func originals() *rapid.Generator[Original] {
	line := rapid.SampledFrom([]string{
		"Subject: x\r\n", "Subject: grüße\r\n", "X: \xff\r\n", "\r\n", "body\r\n", "--=_\r\n", "bare\n", "bare\r", "\x00", "no end",
		"trailing \r\n", "=41=\r\n", strings.Repeat("x", 999) + "\r\n",
	})
	return rapid.Custom(func(t *rapid.T) Original {
		return Original{
			Part:    Part(rapid.IntRange(0, 2).Draw(t, "part")),
			Content: []byte(strings.Join(rapid.SliceOfN(line, 0, 9).Draw(t, "lines"), "")),
		}
	})
}

// Whatever a report is made of, reading it back gives what Clean promised, and
// nothing that a sender or a remote server chose has become structure. This is
// what rows B-178, B-140 and D-19 of the standards come to.
func TestComposeThenParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkRoundTrip(t, reports().Draw(t, "report"), originals().Draw(t, "original"))
	})
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkRoundTrip composes, checks what every report must be, parses, and
// compares.
func checkRoundTrip(t failer, r Report, o Original) {
	t.Helper()
	wantReport, wantOriginal := r.Clean(), o.Clean()
	if again := wantReport.Clean(); !reflect.DeepEqual(again, wantReport) {
		t.Fatalf("Clean is not idempotent:\n %+v\n %+v", wantReport, again)
	}
	if again := wantOriginal.Clean(); !reflect.DeepEqual(again, wantOriginal) {
		t.Fatalf("Original.Clean is not idempotent:\n %+v\n %+v", wantOriginal, again)
	}
	var b bytes.Buffer
	if err := (Composer{Contact: "postmaster@mx.example", Footer: "Bye\nbye"}).Compose(&b, r, o); err != nil {
		t.Fatalf("Compose: %v", err)
	}
	checkWire(t, b.Bytes(), r, o)
	gotReport, gotOriginal, err := Parse(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, &b)
	}
	if !reflect.DeepEqual(gotReport, wantReport) {
		t.Fatalf("got  %+v\nwant %+v\n%s", gotReport, wantReport, &b)
	}
	if wantOriginal.Part == PartLost {
		wantOriginal = Original{} // only the text for people says why there is none
	}
	if !reflect.DeepEqual(gotOriginal, wantOriginal) {
		t.Fatalf("got  %+v\nwant %+v\n%s", gotOriginal, wantOriginal, &b)
	}
}

// checkWire checks a report as a server on its way would.
func checkWire(t failer, message []byte, r Report, o Original) {
	t.Helper()
	raw, long, high := survey(message)
	if raw || long || !bytes.HasSuffix(message, []byte("\r\n")) {
		t.Fatalf("NUL, CR or LF alone: %v; a line over 998 octets: %v\n%q", raw, long, message)
	}
	body, international := Needs(r, o)
	if high && body != mail.Body8BitMIME {
		t.Fatalf("octets above 127 in a report that does not need 8BITMIME\n%s", message)
	}
	header, _, _ := bytes.Cut(message, []byte("\r\n\r\n"))
	if !international && !ascii(string(header)) || !utf8.Valid(header) {
		t.Fatalf("the header is not what the envelope says\n%s", header)
	}
	want := []string{"date", "from", "to", "subject", "message-id", "auto-submitted", "mime-version", "content-type", "content-transfer-encoding"}
	fields, _ := cutFields(header)
	for _, f := range fields {
		for len(want) > 0 && want[0] != strings.ToLower(string(f.name)) {
			want = want[1:]
		}
		if len(want) == 0 {
			t.Fatalf("field %s is not one of ours, or out of order\n%s", f.name, header)
		}
		want = want[1:]
	}
}
