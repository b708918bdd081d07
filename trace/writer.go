package trace

import (
	"io"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A Writer writes a trace file. It keeps the first error and writes nothing
// after it. It belongs to one goroutine.
type Writer struct {
	to     io.Writer
	lines  *Encoder
	buffer []byte
	err    error
}

// writeAt is the buffer size, in bytes, at which lines are written.
const writeAt = 64 << 10

// NewWriter returns a writer whose file begins with a head. Each comment is a
// line above it.
func NewWriter(to io.Writer, h Head, comments ...string) *Writer {
	w := &Writer{to: to, lines: h.Format().Encoder()}
	for _, c := range comments {
		w.buffer = append(append(append(w.buffer, "# "...), c...), '\n')
	}
	w.buffer = h.Append(w.buffer)
	return w
}

// Event writes an event.
func (w *Writer) Event(now mail.Instant, ev qmgr.Event) {
	w.buffer = append(w.lines.AppendEvent(w.buffer, now, ev), '\n')
	w.flushAt(writeAt)
}

// Actions writes what a Step has returned.
func (w *Writer) Actions(now mail.Instant, actions []qmgr.Action) {
	for _, a := range actions {
		w.buffer = append(w.lines.AppendAction(w.buffer, now, a), '\n')
	}
	w.flushAt(writeAt)
}

// End writes buffered lines and the last line, which marks the trace as complete. It
// returns the first error of the Writer.
func (w *Writer) End() error {
	w.buffer = AppendEnd(w.buffer)
	return w.Flush()
}

// Flush writes buffered lines. It returns the first error of the Writer.
func (w *Writer) Flush() error {
	w.flushAt(0)
	return w.err
}

func (w *Writer) flushAt(size int) {
	if len(w.buffer) < size {
		return
	}
	if w.err == nil {
		_, w.err = w.to.Write(w.buffer)
	}
	w.buffer = w.buffer[:0]
}

// AppendEnd appends the last line of a file.
func AppendEnd(b []byte) []byte { return append(append(b, endWord...), '\n') }
