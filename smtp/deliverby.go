package smtp

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A By is the value of BY (RFC 2852 4). The zero By is that of mail without a deadline.
type By struct {
	// Time is how long after MAIL the deadline is, in whole seconds. With mail.ByNotify it may be
	// zero or negative: then the deadline has passed on an earlier server.
	Time  time.Duration
	Mode  mail.ByMode
	Trace bool
}

// byDigits is the maximum number of digits of a by-time, and of a min-by-time.
const byDigits = 9

// ByMax is the longest By.Time.
const ByMax = 999_999_999 * time.Second

// ParseBy parses the value of BY: seconds with or without a sign, a semicolon, N or R, and
// perhaps T. A time of zero or less is a syntax error with R.
func ParseBy(value []byte) (by By, ok bool) {
	digits, mode, ok := bytes.Cut(value, []byte(";"))
	if !ok {
		return By{}, false
	}
	negative := bytes.HasPrefix(digits, []byte("-"))
	if negative || bytes.HasPrefix(digits, []byte("+")) {
		digits = digits[1:]
	}
	if by.Time, ok = parseSeconds(digits); !ok {
		return By{}, false
	}
	if negative {
		by.Time = -by.Time
	}
	switch {
	case len(mode) == 2 && mode[1]|0x20 == 't':
		by.Trace = true
	case len(mode) != 1:
		return By{}, false
	}
	switch mode[0] | 0x20 {
	case 'n':
		by.Mode = mail.ByNotify
	case 'r':
		by.Mode = mail.ByReturn
	default:
		return By{}, false
	}
	if by.Mode == mail.ByReturn && by.Time <= 0 {
		return By{}, false
	}
	return by, true
}

// parseSeconds parses a number of seconds of at most nine digits.
func parseSeconds(digits []byte) (time.Duration, bool) {
	if len(digits) > byDigits {
		return 0, false
	}
	n, ok := parseDecimal(digits)
	return time.Duration(n) * time.Second, ok
}

// parseByMin parses the parameter of the keyword DELIVERBY, a list of which only the first
// element has a meaning: the shortest time with R. It returns 0 if the server names none, or
// something else.
func parseByMin(params string) time.Duration {
	first, _, _ := strings.Cut(params, ",")
	least, ok := parseSeconds([]byte(first))
	if !ok {
		return 0
	}
	return least
}

// Deadline returns the deadline of a message whose MAIL comes now.
func (b By) Deadline(now mail.Instant) mail.DeliverBy {
	if b.Mode == mail.ByNone {
		return mail.DeliverBy{}
	}
	return mail.DeliverBy{At: now.Add(b.Time), Mode: b.Mode, Trace: b.Trace}
}

// Remaining returns the BY with which a message is passed on now. Seconds are rounded up: rounded
// down, a message would lose one at each server on its way, however fast they are, and one whose
// time is a server's minimum would be too late for it from the beginning. That extends the time by less
// than a second, as the time that MAIL takes on its way does (RFC 2852 4). It is never zero or less with
// mail.ByReturn; a caller must not pass such mail on when DeliverBy.Returns.
func Remaining(b mail.DeliverBy, now mail.Instant) By {
	left := b.At.Sub(now)
	seconds := left / time.Second
	if left > 0 && left%time.Second > 0 {
		seconds++
	}
	by := By{Time: min(max(seconds*time.Second, -ByMax), ByMax), Mode: b.Mode, Trace: b.Trace}
	if b.Mode == mail.ByReturn {
		by.Time = max(by.Time, time.Second)
	}
	return by
}

// String returns the value as it is written, as in "120;R"; "" if there is no deadline.
func (b By) String() string {
	if b.Mode == mail.ByNone {
		return ""
	}
	return strconv.FormatInt(int64(b.Time/time.Second), 10) + ";" + ByModeText(b.Mode, b.Trace)
}

// ByModeText returns mode and trace as BY has them: N, R, NT or RT.
func ByModeText(mode mail.ByMode, trace bool) string {
	text := "N"
	if mode == mail.ByReturn {
		text = "R"
	}
	if trace {
		text += "T"
	}
	return text
}
