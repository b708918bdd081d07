package human

import (
	"strings"
	"testing"
	"time"
)

// Long texts are broken at spaces, and nothing of them is lost.
func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"one two three", 0, "one two three"}, {"one two three", 13, "one two three"}, {"one two three", 12, "one two|three"}, {"one two three", 7, "one two|three"},
		{"one two three", 6, "one|two|three"}, {"one two three", 1, "one|two|three"}, {"onetwothree", 5, "onetwothree"}, {"onetwothree four", 5, "onetwothree|four"},
		{"ä ö ü", 3, "ä ö|ü"}, {"", 5, ""}, {"a  b", 2, "a|b"}, {" a b", 2, " a|b"},
	} {
		if got := strings.Join(Wrap(c.text, c.columns), "|"); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}

// Numbers are read by people in a hurry: they must be short and never wrong by
// more than what is left out.
func TestTexts(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0k", 9949: "9.9k", 9950: "10k", 99_949: "100k", 999_499: "999k",
		999_500: "1.0M", 1_500_000: "1.5M", 2_000_000_000: "2.0G", 3e15: "3.0P", 5e18: "5000P"} {
		if got := Size(n); got != want {
			t.Errorf("size %d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 4200: "4.2 kB"} {
		if got := Bytes(n); got != want {
			t.Errorf("bytes %d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 12: "12", 123: "123", 1234: "1,234", 123456: "123,456", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := Number(n); got != want {
			t.Errorf("number %d: %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Hour: "0s", 0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 59 * time.Minute: "59m",
		time.Hour: "1h", 200 * time.Minute: "3h20m", 24 * time.Hour: "1d", 50 * time.Hour: "2d2h", 24*time.Hour + 59*time.Minute: "1d"} {
		if got := Span(d); got != want {
			t.Errorf("span %v: %s, want %s", d, got, want)
		}
		if short := Age(d); !strings.HasPrefix(want, short) || short == "" {
			t.Errorf("age %v: %s", d, short)
		}
	}
	if got := Plain("a\x1b[31mb\r\n\u202ec\xff\u0085é"); got != "a?[31mb???c??é" {
		t.Errorf("plain: %q", got)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	for at, want := range map[time.Time]string{now.Add(-90 * time.Minute): "1h30m ago, 2 Jan 01:34:05", now.Add(time.Minute): "in 1m, 2 Jan 03:05:05",
		now.Add(10*time.Minute - time.Millisecond): "in 10m, 2 Jan 03:14:04",
		now.Add(-72 * time.Hour):                   "3d ago, 30 Dec 2025 03:04"} {
		if got := When(at, now); got != want {
			t.Errorf("%v: %s, want %s", at, got, want)
		}
	}
}
