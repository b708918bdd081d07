package smtp

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// RFC 4865 4: nine digits, or a date with a zone.
func TestHold(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "1": time.Second, "000000060": time.Minute, "999999999": 999999999 * time.Second} {
		if got, ok := ParseHoldFor([]byte(text)); !ok || got != want {
			t.Errorf("HOLDFOR=%s: %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.5", "1h", "0000000001", "1000000000"} {
		if got, ok := ParseHoldFor([]byte(text)); ok {
			t.Errorf("HOLDFOR=%s: %v", text, got)
		}
	}
	at := mail.Instant(1_900_000_000 * time.Second)
	for _, text := range []string{"2030-03-17T17:46:40Z", "2030-03-17t17:46:40z", "2030-03-17T18:46:40+01:00", "2030-03-17T17:46:40.000-00:00", "2030-03-17T12:16:40-05:30"} {
		if got, ok := ParseHoldUntil([]byte(text)); !ok || got != at {
			t.Errorf("HOLDUNTIL=%s: %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "2030-03-17", "2030-03-17T17:46:40", "2030-03-17 17:46:40Z", "2030-02-30T17:46:40Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "2030-03-17T17:46:40.00000000000000Z", "2030-03-17T17:46:40.Z", "2030-03-17T17:46:40+0100", "2030-03-17T24:00:00Z", "2030-13-17T17:46:40Z", "2261-12-31T23:59:61Z"} {
		if got, ok := ParseHoldUntil([]byte(text)); ok {
			t.Errorf("HOLDUNTIL=%s: %v", text, got)
		}
	}
	for text, want := range map[string]mail.Instant{ // the beginning of time, a leap second, and the last date
		"1970-01-01T00:00:00Z": 1, "1970-01-01T00:00:00+23:59": 1, "2016-12-31T23:59:60Z": mail.Instant(1_483_228_799 * time.Second), "2261-12-31T23:59:59.5-23:59": mail.Instant(9_214_732_739*time.Second + time.Second/2),
	} {
		if got, ok := ParseHoldUntil([]byte(text)); !ok || got != want {
			t.Errorf("HOLDUNTIL=%s: %d, %t, want %d", text, got, ok, want)
		}
	}
	if got := FormatHoldUntil(at + 5); got != "2030-03-17T17:46:40Z" {
		t.Errorf("written as %s", got)
	}
}

// What has passed already is sent at once.
func TestHoldAt(t *testing.T) {
	const now = mail.Instant(100 * time.Second)
	for _, c := range []struct {
		hold Hold
		want mail.Instant
	}{
		{Hold{}, 0}, {Hold{For: time.Second}, 101 * mail.Instant(time.Second)}, {Hold{Until: now}, 0}, {Hold{Until: now + 1}, now + 1}, {Hold{Until: 1}, 0},
	} {
		if got := c.hold.At(now); got != c.want {
			t.Errorf("%+v is kept until %v, want %v", c.hold, got, c.want)
		}
	}
}

// Whatever a client sends is a date that can be written and read again, or none.
func FuzzHold(f *testing.F) {
	for _, s := range []string{"1", "999999999", "2030-03-17T17:46:40Z", "2030-03-17t17:46:40.5+01:00", "0000-00-00T00:00:00Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := ParseHoldFor([]byte(text)); ok && (d < 0 || d > 999999999*time.Second) {
			t.Errorf("HOLDFOR=%q is %v", text, d)
		}
		at, ok := ParseHoldUntil([]byte(text))
		if !ok {
			return
		}
		if at <= 0 {
			t.Fatalf("HOLDUNTIL=%q is %v", text, at)
		}
		if again, ok := ParseHoldUntil([]byte(FormatHoldUntil(at))); !ok || again > at || at.Sub(again) >= time.Second {
			t.Errorf("HOLDUNTIL=%q is %v, written and read %v", text, at, again)
		}
	})
}
