package logline

import (
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

// AppendSeconds appends a duration in seconds as lines of text have it.
func AppendSeconds(to []byte, d time.Duration) []byte {
	s := d.Seconds()
	switch {
	case s >= 10:
		return strconv.AppendFloat(to, s, 'f', 0, 64)
	case s >= 0.01:
		return strconv.AppendFloat(to, s, 'g', 2, 64)
	}
	return strconv.AppendFloat(to, s, 'f', 4, 64)
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
