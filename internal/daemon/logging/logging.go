// Package logging is the daemon's log: lines are buffered and written by a goroutine of
// its own, errors before the program goes on.
package logging

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/logline"
)

// New returns the program's log and a function that writes out what is
// still in memory. The level may change at any time, as a slog.LevelVar does. Durations are
// numbers of seconds.
func New(w io.Writer, level slog.Leveler, asJSON bool) (*slog.Logger, func()) {
	appendTo := appendLine
	if asJSON {
		appendTo = appendJSONLine
	}
	out := newLogWriter(w, func(lost int, why error) []byte {
		line, _ := appendTo(nil, time.Now(), slog.LevelWarn, "the log lacks lines that could not be written", []slog.Attr{slog.Int("lines", lost), slog.String("error", why.Error())})
		return line
	})
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: logline.Replace(asJSON)}
	if asJSON {
		return slog.New(lineHandler{promptHandler{slog.NewJSONHandler(out, options), out}, appendTo}), out.close
	}
	return slog.New(lineHandler{promptHandler{slog.NewTextHandler(out, options), out}, appendTo}), out.close
}

// A promptHandler sees to it that errors are written before the program goes on: the
// runtime ends a program without asking, when memory runs out for example, and so does a
// panic on a goroutine of a library. What led there must not be lost with the buffer.
// Warnings are left to it: there is one for each recipient that fails.
type promptHandler struct {
	slog.Handler
	out *logWriter
}

func (h promptHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelError {
		h.out.flush()
	}
	return err
}

func (h promptHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return promptHandler{h.Handler.WithAttrs(attrs), h.out}
}

func (h promptHandler) WithGroup(name string) slog.Handler {
	return promptHandler{h.Handler.WithGroup(name), h.out}
}

// A logWriter writes lines from a goroutine of its own: a line at once if none was
// written for gatherTime, otherwise all lines of that time with one system call, or
// gatherSize bytes. At 10,000 deliveries a second, waking the goroutine and writing for
// each line takes some 4 % of the processor time. A process that is killed loses the
// lines that it has gathered.
//
// A caller that logs waits while more than logBufferMax bytes are in memory.
type logWriter struct {
	w      io.Writer
	to     lossless      // w, for run
	wakeup chan struct{} // buffer of one: there are lines, or they must be written now
	mu     sync.Mutex
	cond   sync.Cond // of mu: there is room in buf again, or closed has changed
	buf    []byte
	done   chan struct{}

	closed  bool
	writing bool            // text that was in buf is being written
	waiting []chan struct{} // to be closed when that and what is in buf is written
	slow    bool            // a flush has timed out since the last write
}

const (
	logBufferMax = 1 << 20
	gatherTime   = 100 * time.Millisecond
	gatherSize   = 64 << 10
)

func newLogWriter(w io.Writer, lost func(int, error) []byte) *logWriter {
	l := &logWriter{w: w, to: lossless{w: w, line: lost}, wakeup: make(chan struct{}, 1), done: make(chan struct{})}
	l.cond.L = &l.mu
	go l.run()
	return l
}

func (l *logWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.buf) > logBufferMax && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return l.w.Write(p)
	}
	before := len(l.buf)
	l.buf = append(l.buf, p...)
	if before == 0 || before < gatherSize && len(l.buf) >= gatherSize {
		l.wake()
	}
	return len(p), nil
}

func (l *logWriter) wake() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

func (l *logWriter) run() {
	defer close(l.done)
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	var spare []byte
	var last time.Time // when lines were written last
	for {
		<-l.wakeup
		if !l.urgent() {
			timer.Reset(time.Until(last.Add(gatherTime)))
			select {
			case <-timer.C:
			case <-l.wakeup:
			}
		}
		l.mu.Lock()
		text, waiting, closed := l.buf, l.waiting, l.closed
		l.buf, l.waiting, l.writing = spare[:0], nil, true
		l.cond.Broadcast()
		l.mu.Unlock()
		if len(text) > 0 {
			l.to.write(text)
			last = time.Now()
		}
		spare = text
		l.mu.Lock()
		l.slow, l.writing = false, false
		if len(l.buf) == 0 { // what came meanwhile was for what has just been written
			waiting, l.waiting = append(waiting, l.waiting...), nil
		}
		l.mu.Unlock()
		for _, done := range waiting {
			close(done)
		}
		if closed {
			return
		}
	}
}

// urgent reports whether what is in memory must be written now.
func (l *logWriter) urgent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed || len(l.waiting) > 0 || len(l.buf) >= gatherSize
}

// flushPatience is the time for which a line waits until it is written. The reader of the log
// may be slow, and mail must not wait for that.
const flushPatience = 100 * time.Millisecond

// flush waits until all that has been logged is written, but not if that has taken too
// long before.
func (l *logWriter) flush() {
	l.mu.Lock()
	if len(l.buf) == 0 && !l.writing || l.closed || l.slow {
		l.mu.Unlock()
		return
	}
	done := make(chan struct{})
	l.waiting = append(l.waiting, done)
	l.mu.Unlock()
	l.wake()
	patience := time.NewTimer(flushPatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		l.mu.Lock()
		l.slow = true
		l.mu.Unlock()
	}
}

// logPatience is the time for which the end of the program waits for the reader of its log.
const logPatience = 2 * time.Second

// close writes out the buffer, unless the reader blocks for logPatience. Later
// lines are written directly.
func (l *logWriter) close() {
	l.mu.Lock()
	l.closed = true
	l.cond.Broadcast()
	l.mu.Unlock()
	l.wake()
	select {
	case <-l.done:
	case <-time.After(logPatience):
	}
}
