package smtp

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// RFC 2852 4: a sign, nine digits, the mode, and perhaps the trace. With R the time is positive.
func TestParseBy(t *testing.T) {
	for text, want := range map[string]By{
		"120;R":         {120 * time.Second, mail.ByReturn, false},
		"120;r":         {120 * time.Second, mail.ByReturn, false},
		"+000000001;RT": {time.Second, mail.ByReturn, true},
		"999999999;Nt":  {ByMax, mail.ByNotify, true},
		"0;N":           {0, mail.ByNotify, false},
		"-0;n":          {0, mail.ByNotify, false},
		"-999999999;NT": {-ByMax, mail.ByNotify, true},
	} {
		if got, ok := ParseBy([]byte(text)); !ok || got != want {
			t.Errorf("BY=%s: %+v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", ";", "120", "120;", ";R", "-;N", "+;N", "0;R", "-0;R", "-1;R", "0000000001;R", "1000000000;N", "--1;N", "+-1;N", "1;T", "1;X", "1;NR", "1;NTT",
		"1;TN", "1;N;T", "1.5;N", "1 ;N", "1;N ", "0x1;N", "1,N", "1;.", "1;N4"} {
		if got, ok := ParseBy([]byte(text)); ok {
			t.Errorf("BY=%s: %+v", text, got)
		}
	}
}

// The deadline is counted from MAIL, and what is left of the time goes on: seconds are begun, not
// complete, and never less than one if the message must not be late.
func TestRemaining(t *testing.T) {
	const now = mail.Instant(1_900_000_000 * time.Second)
	by := By{2 * time.Minute, mail.ByReturn, true}.Deadline(now)
	if by != (mail.DeliverBy{At: now.Add(2 * time.Minute), Mode: mail.ByReturn, Trace: true}) {
		t.Fatalf("%+v", by)
	}
	notify := By{-5 * time.Second, mail.ByNotify, false}.Deadline(now)
	for _, c := range []struct {
		by    mail.DeliverBy
		after time.Duration
		want  string
	}{
		{by, 0, "120;RT"}, {by, 1, "120;RT"}, {by, time.Second, "119;RT"}, {by, 22*time.Second + 1, "98;RT"}, {by, 2*time.Minute - 1, "1;RT"},
		{by, 3 * time.Minute, "1;RT"}, // never, but not to be written as it is
		{notify, 0, "-5;N"}, {notify, 1, "-5;N"}, {notify, time.Second, "-6;N"}, {notify, 40 * 366 * 24 * time.Hour, "-999999999;N"},
		{mail.DeliverBy{At: mail.Never, Mode: mail.ByNotify}, 0, "999999999;N"},
	} {
		if got := Remaining(c.by, now.Add(c.after)).String(); got != c.want {
			t.Errorf("%v after MAIL %+v is %s, want %s", c.after, c.by, got, c.want)
		}
	}
	if got := (By{}).Deadline(now); got != (mail.DeliverBy{}) || (By{}).String() != "" {
		t.Errorf("%+v without BY", got)
	}
}

// Of the keyword's parameter, a list, the first element is the shortest time.
func TestByMin(t *testing.T) {
	for params, want := range map[string]time.Duration{
		"": 0, " 30": 30 * time.Second, " 240,x=1": 4 * time.Minute, " ,x": 0, " 000000030": 30 * time.Second, " 999999999": ByMax,
		" 1000000000": 0, " -1": 0, " x": 0, " 30 x": 0,
	} {
		c := ParseCaps("mx.example\nDeliverBy" + params)
		if !c.DeliverBy || c.DeliverByMin != want {
			t.Errorf("DELIVERBY%s: %t, %v", params, c.DeliverBy, c.DeliverByMin)
		}
	}
	if c := ParseCaps("mx.example\nDELIVERBYX 30"); c.DeliverBy {
		t.Error("DELIVERBYX is another keyword")
	}
}

// Whatever a client sends is a deadline that can be written and read again, or none.
func FuzzBy(f *testing.F) {
	for _, s := range []string{"120;R", "-1;NT", "+999999999;n", "0;R", "1;", ";;", "240,x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if least := parseByMin(text); least < 0 || least > ByMax {
			t.Errorf("DELIVERBY %q is %v", text, least)
		}
		by, ok := ParseBy([]byte(text))
		if !ok {
			if by != (By{}) {
				t.Errorf("BY=%q is none, and %+v", text, by)
			}
			return
		}
		if by.Time < -ByMax || by.Time > ByMax || by.Mode == mail.ByNone || by.Mode == mail.ByReturn && by.Time <= 0 {
			t.Fatalf("BY=%q is %+v", text, by)
		}
		if again, ok := ParseBy([]byte(by.String())); !ok || again != by {
			t.Errorf("BY=%q is %+v, written and read %+v", text, by, again)
		}
		now := mail.Instant(1_900_000_000 * time.Second)
		if got := Remaining(by.Deadline(now), now); got != by {
			t.Errorf("BY=%q goes on as %v at once", text, got)
		}
		if len("BY=")+len(by.String()) > 17 || strings.ContainsAny(by.String(), " \r\n") {
			t.Errorf("BY=%q is written %q", text, by.String())
		}
	})
}
