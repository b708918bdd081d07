package smtp

import (
	"bytes"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Hold is until when a client has a message kept before it is sent (RFC 4865 4): for a
// time, or until an instant. The zero Hold is that it is sent at once.
type Hold struct {
	For   time.Duration // HOLDFOR; 0 if it was not given, or was 0
	Until mail.Instant  // HOLDUNTIL; 0 if it was not given
}

// IsZero reports whether the message is not to be kept.
func (h Hold) IsZero() bool { return h == Hold{} }

// At returns until when a message is kept whose MAIL comes now; 0 if it is sent at once. An
// instant in the past is no reason to refuse a message: the client's clock may be slow.
func (h Hold) At(now mail.Instant) mail.Instant {
	until := h.Until
	if h.For > 0 {
		until = now.Add(h.For)
	}
	if until <= now {
		return 0
	}
	return until
}

// holdForMax is the maximum number of digits of HOLDFOR (RFC 4865 4).
const holdForMax = 9

// holdUntilMax is the maximum length of HOLDUNTIL, in octets: RFC 4865 3 leaves 34 for the
// keyword, the equals sign, the space and the date.
const holdUntilMax = 34

// ParseHoldFor parses the value of HOLDFOR: seconds.
func ParseHoldFor(value []byte) (time.Duration, bool) {
	if len(value) > holdForMax {
		return 0, false
	}
	n, ok := parseDecimal(value)
	return time.Duration(n) * time.Second, ok
}

// ParseHoldUntil parses the value of HOLDUNTIL: a date in the form of RFC 3339. The years are
// from 1970 to 2261, as an Instant ends in the next one, and the instant is never 0. A leap
// second is taken for the second before it.
func ParseHoldUntil(value []byte) (mail.Instant, bool) {
	if len(value) > holdUntilMax {
		return 0, false
	}
	d := dateReader{rest: value}
	year := d.number(4, 1970, 2261)
	month := d.after("-").number(2, 1, 12)
	day := d.after("-").number(2, 1, 31)
	seconds := d.after("Tt").number(2, 0, 23) * 3600
	seconds += d.after(":").number(2, 0, 59) * 60
	seconds += min(d.after(":").number(2, 0, 60), 59)
	fraction := d.fraction()
	zone := d.zone()
	days := mail.DayOf(year, month, day)
	if _, m, _, _ := mail.Date(days * 24 * 3600); m != month { // there is no such day
		return 0, false
	}
	at := (mail.Instant(days*24*3600+seconds-zone))*mail.Instant(time.Second) + fraction
	return max(at, 1), !d.bad && len(d.rest) == 0
}

// A dateReader reads a date from the front of a text. What is wrong makes all of it bad.
type dateReader struct {
	rest []byte
	bad  bool
}

// after skips one of some octets.
func (d *dateReader) after(octets string) *dateReader {
	if len(d.rest) == 0 || !bytes.ContainsRune([]byte(octets), rune(d.rest[0])) {
		d.bad = true
		return d
	}
	d.rest = d.rest[1:]
	return d
}

// number reads so many digits; where that is bad it returns least.
func (d *dateReader) number(digits int, least, most int64) int64 {
	if len(d.rest) < digits {
		d.bad = true
		return least
	}
	n, ok := parseDecimal(d.rest[:digits])
	if d.rest = d.rest[digits:]; !ok || n < least || n > most {
		d.bad = true
		return least
	}
	return n
}

// fraction reads the fraction of a second, if there is one.
func (d *dateReader) fraction() mail.Instant {
	if len(d.rest) == 0 || d.rest[0] != '.' {
		return 0
	}
	n, unit := mail.Instant(0), mail.Instant(time.Second)
	d.rest = d.rest[1:]
	digits := 0
	for ; len(d.rest) > 0 && d.rest[0] >= '0' && d.rest[0] <= '9'; digits++ {
		unit /= 10
		n += mail.Instant(d.rest[0]-'0') * unit
		d.rest = d.rest[1:]
	}
	d.bad = d.bad || digits == 0
	return n
}

// zone reads the zone, in seconds east of universal time.
func (d *dateReader) zone() int64 {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	sign := int64(1)
	switch d.rest[0] {
	case 'Z', 'z':
		d.rest = d.rest[1:]
		return 0
	case '-':
		sign = -1
	}
	hours := d.after("+-").number(2, 0, 23)
	return sign * (hours*3600 + d.after(":").number(2, 0, 59)*60)
}

// FormatHoldUntil returns a date in the form of HOLDUNTIL, to the second.
func FormatHoldUntil(at mail.Instant) string {
	year, month, day, s := mail.Date(at.Seconds())
	b := append(appendTwo(nil, year/100), appendTwo(nil, year%100)...)
	for _, part := range []struct {
		mark byte
		n    int64
	}{{'-', month}, {'-', day}, {'T', s / 3600}, {':', s / 60 % 60}, {':', s % 60}} {
		b = appendTwo(append(b, part.mark), part.n)
	}
	return string(append(b, 'Z'))
}

func appendTwo(b []byte, n int64) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }
