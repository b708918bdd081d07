package logline

import (
	"bytes"
	"log/slog"
	"math"
	"strconv"
	"time"
)

// All durations in the log are numbers of seconds. Lines as text have two significant digits below ten
// seconds and whole seconds above, as Postfix writes them; lines as JSON have microseconds.

// Replace is for slog.HandlerOptions.ReplaceAttr: it makes a handler write durations as numbers of
// seconds, as text or as JSON.
func Replace(asJSON bool) func([]string, slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			if d := a.Value.Duration(); asJSON {
				a.Value = slog.Float64Value(asSeconds(d))
			} else {
				a.Value = slog.StringValue(string(AppendSeconds(nil, d)))
			}
		}
		return a
	}
}

// asSeconds returns a duration in seconds, in whole microseconds.
func asSeconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1e6
}

// AppendSeconds appends a duration in seconds as lines of text have it. It reckons with whole numbers: a line has four
// durations, and strconv.AppendFloat took a third of its time.
func AppendSeconds(to []byte, d time.Duration) []byte {
	switch {
	case d < 0:
		return strconv.AppendFloat(to, d.Seconds(), 'g', 2, 64)
	case d < 10*time.Millisecond:
		return appendDecimal(to, d, 100*time.Microsecond, 4)
	case d < 10*time.Second:
		unit, digits := 100*time.Millisecond, 1
		for d < 10*unit {
			unit, digits = unit/10, digits+1
		}
		return trimDecimal(appendDecimal(to, d, unit, digits))
	}
	return strconv.AppendInt(to, int64((d+time.Second/2)/time.Second), 10)
}

// appendDecimal appends a duration in seconds, rounded to a unit that has so many digits behind the point.
func appendDecimal(to []byte, d, unit time.Duration, digits int) []byte {
	n, whole := int64((d+unit/2)/unit), int64(time.Second/unit)
	to = append(strconv.AppendInt(to, n/whole, 10), '.')
	for n %= whole; digits > 0; digits-- {
		whole /= 10
		to = append(to, byte('0'+n/whole))
		n %= whole
	}
	return to
}

// trimDecimal removes the zeros at the end of a decimal fraction, and the point if there is nothing behind it.
func trimDecimal(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimRight(text, "0"), []byte{'.'})
}

// Delays are the parts of a delay. In lines of text they have slashes between them, in JSON they are
// an array of numbers.
type Delays [3]time.Duration

// AppendText appends the parts as lines of text have them.
func (d *Delays) AppendText(to []byte) ([]byte, error) {
	for i, part := range d {
		if i > 0 {
			to = append(to, '/')
		}
		to = AppendSeconds(to, part)
	}
	return to, nil
}

// MarshalText implements encoding.TextMarshaler, for slog.TextHandler.
func (d *Delays) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// MarshalJSON implements json.Marshaler, for slog.JSONHandler.
func (d *Delays) MarshalJSON() ([]byte, error) { return d.appendJSON(nil), nil }

func (d *Delays) appendJSON(to []byte) []byte {
	to = append(to, '[')
	for i, part := range d {
		if i > 0 {
			to = append(to, ',')
		}
		to = appendNumber(to, asSeconds(part))
	}
	return append(to, ']')
}
