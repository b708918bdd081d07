package logging

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/internal/logline"
)

// A lineHandler writes lines in the form of slog.TextHandler or slog.JSONHandler, in a third of their time. Only
// those of logline.Log come this way, from loggers without attributes of their own: there is
// one for each message, and one for each recipient.
type lineHandler struct {
	promptHandler
	// appendLine appends a line; false if it does not know how.
	appendLine func(to []byte, at time.Time, level slog.Level, message string, attrs []slog.Attr) ([]byte, bool)
}

var _ logline.Writer = lineHandler{}

var lines = sync.Pool{New: func() any { return new([]byte) }}

// WriteLine writes what Handle writes for a record without a source.
func (h lineHandler) WriteLine(at time.Time, level slog.Level, message string, attrs []slog.Attr) error {
	scratch := lines.Get().(*[]byte)
	defer lines.Put(scratch)
	line, ok := h.appendLine((*scratch)[:0], at, level, message, attrs)
	*scratch = line
	if !ok || level >= slog.LevelError {
		record := slog.NewRecord(at, level, message, 0)
		record.AddAttrs(attrs...)
		return h.Handle(context.Background(), record)
	}
	_, err := h.out.Write(line)
	return err
}

// appendJSONLine appends a line of JSON; false if an attribute is of a kind that logline does not know.
func appendJSONLine(to []byte, at time.Time, level slog.Level, message string, attrs []slog.Attr) (line []byte, ok bool) {
	line, ok = logline.AppendJSON(to, at, level, message, attrs)
	return append(line, '\n'), ok
}

// appendLine appends a line; false if an attribute is of a kind that it does not know.
func appendLine(to []byte, at time.Time, level slog.Level, message string, attrs []slog.Attr) (line []byte, ok bool) {
	to = appendTime(append(to, "time="...), at)
	to = append(append(to, " level="...), level.String()...)
	to = appendText(append(to, " msg="...), message)
	to, ok = appendAttrs(to, attrs)
	return append(to, '\n'), ok
}

func appendAttrs(to []byte, attrs []slog.Attr) ([]byte, bool) {
	for i := range attrs {
		a := &attrs[i]
		kind := a.Value.Kind()
		if kind == slog.KindGroup && a.Key == "" { // its attributes count as the line's
			var ok bool
			if to, ok = appendAttrs(to, a.Value.Group()); !ok {
				return to, false
			}
			continue
		}
		if kind == slog.KindAny && a.Equal(slog.Attr{}) {
			continue
		}
		to = append(appendText(append(to, ' '), a.Key), '=')
		switch kind {
		case slog.KindString:
			to = appendText(to, a.Value.String())
		case slog.KindInt64:
			to = strconv.AppendInt(to, a.Value.Int64(), 10)
		case slog.KindUint64:
			to = strconv.AppendUint(to, a.Value.Uint64(), 10)
		case slog.KindBool:
			to = strconv.AppendBool(to, a.Value.Bool())
		case slog.KindDuration:
			to = logline.AppendSeconds(to, a.Value.Duration())
		case slog.KindTime:
			to = appendTime(to, a.Value.Time())
		default:
			delays, ok := a.Value.Any().(*logline.Delays)
			if !ok {
				return to, false
			}
			to, _ = delays.AppendText(to) // it has no error
		}
	}
	return to, true
}

// appendTime appends a time with milliseconds. What is added makes all digits appear that
// are kept: those at the end of a fraction are left out if they are zero.
func appendTime(to []byte, at time.Time) []byte {
	const kept = len("2006-01-02T15:04:05.000")
	begin := len(to)
	to = at.Truncate(time.Millisecond).Add(time.Millisecond/10).AppendFormat(to, time.RFC3339Nano)
	return append(to[:begin+kept], to[begin+kept+1:]...)
}

// appendText appends a text, in quotation marks if it could be misread without.
func appendText(to []byte, text string) []byte {
	if text == "" {
		return append(to, '"', '"')
	}
	var need needs
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= utf8.RuneSelf {
			if need |= needEscapes; !plainUnicode(text[i:]) {
				need |= needQuotes
			}
			break
		}
		need |= asciiNeeds[c]
	}
	switch {
	case need&needQuotes == 0:
		return append(to, text...)
	case need&needEscapes == 0: // as of most replies
		return append(append(append(to, '"'), text...), '"')
	}
	return strconv.AppendQuote(to, text)
}

// needs is what characters need, in a set of bits.
type needs uint8

const (
	needQuotes  needs = 1 << iota // the text with one is in quotation marks
	needEscapes                   // in quotation marks, strconv has to look at it
)

// asciiNeeds has the needs of the ASCII characters.
var asciiNeeds = func() (is [utf8.RuneSelf]needs) {
	for c := range is {
		switch {
		case c == ' ' || c == '=':
			is[c] = needQuotes
		case c == '\\' || c == 0x7f:
			is[c] = needEscapes
		case c < ' ' || c == '"':
			is[c] = needQuotes | needEscapes
		}
	}
	return is
}()

func plainUnicode(text string) bool {
	for _, r := range text {
		if r < utf8.RuneSelf {
			if asciiNeeds[r]&needQuotes != 0 {
				return false
			}
		} else if r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
