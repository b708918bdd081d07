package client

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// sizeOffer is what RFC 1870 4 has of a line, with a number that fits into 63 bits.
var sizeOffer = regexp.MustCompile(`^SIZE *(0|[1-9][0-9]{0,17}) *$`)

// byOffer is what RFC 2852 2 has of a line with a shortest time.
var byOffer = regexp.MustCompile(`^[^ ]* *([0-9]{1,9})(,.*)?$`)

// Whatever a server says to EHLO, it is sent the parameters that it offers and no
// others, and refused for good is only what it cannot take.
func FuzzOffers(f *testing.F) {
	for _, text := range []string{
		"", "PIPELINING\nSIZE 1000\n8BITMIME\nSMTPUTF8\nDSN\nENHANCEDSTATUSCODES", "8bitmime\nsmtputf8\nsize", "8BITMIME \nSMTPUTF8 x\nSIZE 0",
		"8BITMIME\nSMTPUTF8\nSIZE 1000 \nSIZE -1", "8BITMIME\nSMTPUTF8\nSIZE 999", "8BITMIME=1\nSMTPUTF8", "8BITMIMEX\nSMTPUTF8", "-8BITMIME\nSMTPUTF8", "SMTPUTF8\n8BITMIME\n\nDSN x\nSIZE 01",
		"8BITMIME\nSMTPUTF8\nLIMITS MAILMAX=0 RCPTMAX=0 RCPTDOMAINMAX=0\nBURL\nCHUNKING\nSTARTTLS", "8BITMIME\nSMTPUTF8\nLIMITS MAILMAX=1 RCPTMAX=1 RCPTDOMAINMAX=1\nPIPELINING", "\x00\xff\n8BITMIME\x00\nSMTPUTF8",
		"8BITMIME\nSMTPUTF8\nSIZE 99999999999999999999", "8BITMIME\nSMTPUTF8\nAUTH PLAIN\nAUTH=PLAIN\nDSN\nDSN", "8BITMIME\nSMTPUTF8\nMT-PRIORITY MIXER",
		"8BITMIME\nSMTPUTF8\nDELIVERBY", "8BITMIME\nSMTPUTF8\nDeliverBy 61,x\nDSN", "8BITMIME\nSMTPUTF8\nDELIVERBY 60", "8BITMIME\nSMTPUTF8\nDELIVERBY ,61\nDELIVERBY 0000000060",
	} {
		f.Add(text, uint16(1000))
	}
	f.Fuzz(func(t *testing.T, text string, octets uint16) {
		lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
		if len(lines) > 100 || len(text) > 10_000 {
			return
		}
		s := New(Config{Hello: "me.example", Peer: "mx[192.0.2.1]"})
		s.Feed([]byte("220 mx\r\n"))
		take(s)
		s.Feed([]byte("250-mx\r\n250-" + strings.Join(lines, "\r\n250-") + "\r\n250 OK\r\n"))
		if !s.Idle() {
			t.Fatalf("%+v", s.Failure())
		}
		tx := Transaction{
			Envelope: mail.Envelope{Sender: "ä@a.example", Size: int64(octets), Body: mail.Body8BitMIME, SMTPUTF8: true, EnvID: "e", Ret: mail.RetFull, Priority: -3,
				By: mail.DeliverBy{At: 60 * mail.Instant(time.Second), Mode: mail.ByReturn}},
			Recipients: []mail.Recipient{{Address: "ö@b.example", ORcpt: "rfc822;o@b.example"}},
		}
		s.Start(&tx)
		offers, most, least := map[string]bool{}, int64(0), 0
		for _, line := range lines {
			keyword, _, _ := strings.Cut(line, " ")
			keyword = strings.ToUpper(keyword)
			if keyword == "DELIVERBY" {
				least = 0
				if m := byOffer.FindStringSubmatch(line); m != nil {
					least, _ = strconv.Atoi(m[1])
				}
			}
			if offers[keyword] = true; keyword != "SIZE" {
				continue
			}
			most = 0
			if m := sizeOffer.FindStringSubmatch(strings.ToUpper(line)); m != nil {
				most, _ = strconv.ParseInt(m[1], 10, 64)
			}
		}
		if !offers["8BITMIME"] || !offers["SMTPUTF8"] || most > 0 && int64(octets) > most {
			if out := take(s); out != "" || tx.Results[0].Verdict != Failed {
				t.Fatalf("%q is written, %+v", out, tx.Results)
			}
			return
		}
		want := "MAIL FROM:<ä@a.example>"
		if offers["SIZE"] {
			want += fmt.Sprintf(" SIZE=%d", octets)
		}
		want += " BODY=8BITMIME SMTPUTF8"
		if offers["DSN"] {
			want += " RET=FULL ENVID=e"
		}
		if offers["MT-PRIORITY"] {
			want += " MT-PRIORITY=-3"
		}
		if offers["DELIVERBY"] && least <= 60 {
			want += " BY=60;R"
		}
		if out := take(s); out != want+"\r\n" {
			t.Fatalf("%q is written, want %q", out, want)
		}
	})
}
