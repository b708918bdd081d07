package smtp

import (
	"reflect"
	"strings"
	"testing"
)

// EHLO replies, good and bad (B-132: malformed limits are ignored, not taken
// for "nothing is allowed").
func TestParseCaps(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Caps
	}{
		{"helo", "mx.example at your service", Caps{Name: "mx.example"}},
		{"nothing", "", Caps{}},
		{"all", "mx.example hi\nPIPELINING\n8BITMIME\nSMTPUTF8\nDSN\nENHANCEDSTATUSCODES\nCHUNKING\nBURL imap\n" +
			"STARTTLS\nREQUIRETLS\nSIZE 1000\nAUTH plain LOGIN\nLIMITS MAILMAX=1 RCPTMAX=2 RCPTDOMAINMAX=3",
			Caps{Name: "mx.example", Pipelining: true, EightBit: true, UTF8: true, DSN: true, Status: true, Chunking: true,
				Burl: true, StartTLS: true, RequireTLS: true, Size: true, SizeMax: 1000, Auth: "PLAIN LOGIN",
				Limits: Limits{Mails: 1, Recipients: 2, RecipientDomains: 3}}},
		{"any case", "x\npipelining\nsize 5", Caps{Name: "x", Pipelining: true, Size: true, SizeMax: 5}},
		{"size without number", "x\nSIZE", Caps{Name: "x", Size: true}},
		{"size 0", "x\nSIZE 0", Caps{Name: "x", Size: true}},
		{"size -1", "x\nSIZE -1", Caps{Name: "x", Size: true}},
		{"size too long", "x\nSIZE 99999999999999999999999", Caps{Name: "x", Size: true}},
		{"limits malformed", "x\nLIMITS MAILMAX=0 RCPTMAX=99999999 RCPTDOMAINMAX=01", Caps{Name: "x"}},
		{"limits half", "x\nLIMITS FOO RCPTMAX=-3 mailmax=7 =5", Caps{Name: "x", Limits: Limits{Mails: 7}}},
		{"keyword in the first line", "PIPELINING", Caps{Name: "PIPELINING"}},
		{"unknown", "x\nXFOO\n\n PIPELINING\nPIPELININGS", Caps{Name: "x"}},
	} {
		if got := ParseCaps(c.text); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A million keywords cannot get here, for the reply is cut off before; what
// can, costs little.
func TestParseCapsLong(t *testing.T) {
	text := "x" + strings.Repeat("\nSIZE 1", ReplyLinesMax)
	if got := ParseCaps(text); got.SizeMax != 1 {
		t.Errorf("got %+v", got)
	}
}
