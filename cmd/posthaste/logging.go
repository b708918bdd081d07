package main

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/config"
)

// newLog returns the program's log and a function that writes out what is
// still in memory.
func newLog(cfg config.Log, w io.Writer) (*slog.Logger, func()) {
	out := newLogWriter(w)
	options := &slog.HandlerOptions{Level: cfg.Level}
	var handler slog.Handler
	switch cfg.Format {
	case config.LogJSON:
		handler = slog.NewJSONHandler(out, options)
	default:
		handler = slog.NewTextHandler(out, options)
	}
	return slog.New(handler), out.close
}

// A logWriter writes lines from a goroutine of its own: at once when there is
// little to write, and many with one system call when there is much. At 10,000
// deliveries a second a call for each line takes 3 % of a core.
//
// Whoever logs waits when logBufferMax octets are in memory.
type logWriter struct {
	w    io.Writer
	mu   sync.Mutex
	cond sync.Cond // of mu: buf or closed has changed
	buf  []byte
	done chan struct{}

	closed bool
}

const logBufferMax = 1 << 20

func newLogWriter(w io.Writer) *logWriter {
	l := &logWriter{w: w, done: make(chan struct{})}
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
	l.buf = append(l.buf, p...)
	l.cond.Broadcast()
	return len(p), nil
}

func (l *logWriter) run() {
	defer close(l.done)
	var spare []byte
	for {
		l.mu.Lock()
		for len(l.buf) == 0 && !l.closed {
			l.cond.Wait()
		}
		text := l.buf
		l.buf = spare[:0]
		l.cond.Broadcast()
		l.mu.Unlock()
		if len(text) == 0 {
			return
		}
		l.w.Write(text) // nobody is left to tell if this fails
		spare = text
	}
}

// logPatience is how long the end of the program waits for whoever reads its log.
const logPatience = 2 * time.Second

// close writes out what is there, unless nobody takes it for logPatience. Later
// lines are written directly.
func (l *logWriter) close() {
	l.mu.Lock()
	l.closed = true
	l.cond.Broadcast()
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(logPatience):
	}
}
