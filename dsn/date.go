package dsn

import (
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

const (
	secondsPerDay = 24 * 60 * 60
	nanoseconds   = 1_000_000_000
	monthNames    = "JanFebMarAprMayJunJulAugSepOctNovDec"
	dayNames      = "ThuFriSatSunMonTueWed" // 1970-01-01 was a Thursday
)

// FormatDate writes an instant as a header field does (RFC 5322 3.3), in
// universal time: this package has no time zones, and a sender elsewhere
// would gain nothing from ours.
func FormatDate(i mail.Instant) string {
	year, month, date, s := mail.Date(i.Seconds())
	day := mail.DayOf(year, month, date)
	w := ((day % 7) + 7) % 7
	b := make([]byte, 0, len("Thu, 31 Dec 1970 00:00:00 +0000"))
	b = append(append(b, dayNames[3*w:3*w+3]...), ", "...)
	b = append(strconv.AppendInt(b, date, 10), ' ')
	b = append(append(b, monthNames[3*month-3:3*month]...), ' ')
	b = append(strconv.AppendInt(b, year, 10), ' ') // 1677 to 2262: an Instant has no others
	b = append(twoDigits(b, s/3600), ':')
	b = append(twoDigits(b, s/60%60), ':')
	return string(append(twoDigits(b, s%60), " +0000"...))
}

func twoDigits(b []byte, n int64) []byte {
	return append(b, byte('0'+n/10), byte('0'+n%10))
}

// parseDate parses a header field's date. The day's name and the seconds may be
// missing, and a comment may follow. It returns 0 for anything else.
func parseDate(text string) mail.Instant {
	if before, after, ok := strings.Cut(text, ","); ok && len(strings.TrimSpace(before)) == 3 {
		text = after
	}
	w := strings.Fields(text)
	if len(w) < 5 || len(w[1]) != 3 {
		return 0
	}
	date, err1 := strconv.ParseInt(w[0], 10, 8)
	year, err2 := strconv.ParseInt(w[2], 10, 16)
	month := strings.Index(strings.ToLower(monthNames), strings.ToLower(w[1]))
	clock, ok1 := parseClock(w[3])
	zone, ok2 := parseZone(w[4])
	switch {
	case err1 != nil || err2 != nil || !ok1 || !ok2 || month < 0 || month%3 != 0:
		return 0
	case date < 1 || date > 31 || year < 1970 || year > 2261:
		return 0 // an Instant ends in the year 2262
	}
	days := mail.DayOf(year, int64(month/3+1), date)
	return mail.Instant((days*secondsPerDay + clock - zone) * nanoseconds)
}

// parseClock converts "15:04:05" or "15:04" to seconds; a leap second is taken
// for the second before it.
func parseClock(text string) (int64, bool) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, false
	}
	limits := [...]uint64{23, 59, 60}
	seconds := int64(0)
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 8)
		if err != nil || v > limits[i] {
			return 0, false
		}
		seconds = seconds*60 + int64(min(v, 59))
	}
	if len(parts) == 2 {
		seconds *= 60
	}
	return seconds, true
}

// parseZone converts "+0100" to seconds. Names of zones other than the universal
// one have no reliable meaning and count as universal time (RFC 5322 4.3).
func parseZone(text string) (int64, bool) {
	if len(text) != 5 || text[0] != '+' && text[0] != '-' {
		return 0, text != ""
	}
	v, err := strconv.ParseUint(text[1:], 10, 16)
	if err != nil || v%100 > 59 {
		return 0, false
	}
	seconds := int64(v/100*3600 + v%100*60)
	if text[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}
