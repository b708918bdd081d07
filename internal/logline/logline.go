// Package logline writes the most frequent lines of the log: one for each message or
// recipient. What log/slog does for a line besides writing it (finding the caller, and
// keeping the attributes so that a handler may use them later) costs as much as a lookup
// in the store, and such lines do not need it.
package logline

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A Writer is a slog.Handler that writes a line before it returns. WriteLine does what
// Handle does for a record without a source, and must not keep attrs. It is safe for
// concurrent use.
type Writer interface {
	slog.Handler
	WriteLine(at time.Time, level slog.Level, message string, attrs []slog.Attr) error
}

var scratches = sync.Pool{New: func() any { return new([]slog.Attr) }}

// Log logs a line as log.LogAttrs would, but without its source. As there, an error of the
// handler is not reported. It is safe for concurrent use.
func Log(log *slog.Logger, level slog.Level, message string, attrs ...slog.Attr) {
	handler := log.Handler()
	if !handler.Enabled(context.Background(), level) {
		return
	}
	if _, ok := handler.(Writer); !ok {
		write(handler, time.Now(), level, message, attrs)
		return
	}
	// A copy, since the compiler would otherwise put the caller's slice on the heap: it does
	// not know what an interface's method does with it.
	scratch := scratches.Get().(*[]slog.Attr)
	*scratch = append((*scratch)[:0], attrs...)
	handler.(Writer).WriteLine(time.Now(), level, message, *scratch)
	clear(*scratch)
	scratches.Put(scratch)
}

// Write has a handler write a line, whether it is a Writer or not. It does not keep attrs.
func Write(handler slog.Handler, at time.Time, level slog.Level, message string, attrs []slog.Attr) error {
	if w, ok := handler.(Writer); ok {
		return w.WriteLine(at, level, message, attrs)
	}
	return write(handler, at, level, message, attrs)
}

func write(handler slog.Handler, at time.Time, level slog.Level, message string, attrs []slog.Attr) error {
	record := slog.NewRecord(at, level, message, 0)
	record.AddAttrs(attrs...)
	return handler.Handle(context.Background(), record)
}
