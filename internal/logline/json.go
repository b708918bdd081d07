package logline

import (
	"encoding/json"
	"log/slog"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends a line as slog.JSONHandler writes it, without its line end, with durations as
// numbers of seconds. It reports whether it could: false if an attribute is of a kind that it does not know, of which the
// handler makes something by reflection.
func AppendJSON(to []byte, at time.Time, level slog.Level, message string, attrs []slog.Attr) (line []byte, ok bool) {
	to = at.AppendFormat(append(to, `{"time":"`...), time.RFC3339Nano)
	to = append(append(to, `","level":"`...), level.String()...)
	to = appendJSONText(append(to, `","msg":`...), message)
	if to, ok = appendJSONAttrs(to, attrs); !ok {
		return to, false
	}
	return append(to, '}'), true
}

func appendJSONAttrs(to []byte, attrs []slog.Attr) (line []byte, ok bool) {
	for i := range attrs {
		a := &attrs[i]
		kind := a.Value.Kind()
		if kind == slog.KindGroup && a.Key == "" { // its attributes count as the line's
			if to, ok = appendJSONAttrs(to, a.Value.Group()); !ok {
				return to, false
			}
			continue
		}
		if kind == slog.KindAny && a.Equal(slog.Attr{}) {
			continue
		}
		to = append(appendJSONText(append(to, ','), a.Key), ':')
		switch kind {
		case slog.KindString:
			to = appendJSONText(to, a.Value.String())
		case slog.KindInt64:
			to = strconv.AppendInt(to, a.Value.Int64(), 10)
		case slog.KindUint64:
			to = strconv.AppendUint(to, a.Value.Uint64(), 10)
		case slog.KindBool:
			to = strconv.AppendBool(to, a.Value.Bool())
		case slog.KindDuration:
			to = appendNumber(to, asSeconds(a.Value.Duration()))
		case slog.KindFloat64:
			f := a.Value.Float64()
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return to, false
			}
			to = appendNumber(to, f)
		case slog.KindTime:
			to = append(a.Value.Time().AppendFormat(append(to, '"'), time.RFC3339Nano), '"')
		default:
			switch v := a.Value.Any().(type) {
			case *Delays:
				to = v.appendJSON(to)
			case error:
				to = appendJSONText(to, v.Error())
			default:
				return to, false
			}
		}
	}
	return to, true
}

// appendNumber appends a number as encoding/json does.
func appendNumber(to []byte, f float64) []byte {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		if text, err := json.Marshal(f); err == nil {
			return append(to, text...)
		}
	}
	return strconv.AppendFloat(to, f, 'f', -1, 64)
}

const hexDigits = "0123456789abcdef"

// appendJSONText appends a text in quotation marks. Octets that are not UTF-8 become the replacement
// character, as everywhere in JSON.
func appendJSONText(to []byte, text string) []byte {
	to = append(to, '"')
	begin := 0 // of what is appended as it is
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			to = append(to, text[begin:i]...)
			switch c {
			case '"', '\\':
				to = append(to, '\\', c)
			case '\n':
				to = append(to, `\n`...)
			case '\r':
				to = append(to, `\r`...)
			case '\t':
				to = append(to, `\t`...)
			default:
				to = append(to, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
			}
			i++
			begin = i
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			to = append(append(to, text[begin:i]...), `\ufffd`...)
			begin = i + size
		} else if r == '\u2028' || r == '\u2029' { // which end lines in JavaScript
			to = append(append(to, text[begin:i]...), '\\', 'u', '2', '0', '2', hexDigits[r&0xf])
			begin = i + size
		}
		i += size
	}
	return append(append(to, text[begin:]...), '"')
}
