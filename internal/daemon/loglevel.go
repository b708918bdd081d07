package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
)

// A logLevel is the level of the log: that of the configuration, or for some time what an operator has ordered. Its methods may be called
// concurrently.
type logLevel struct {
	level *slog.LevelVar
	log   *slog.Logger
	where func() string // where log.level is set

	mu         sync.Mutex
	configured slog.Level
	by         string // the operator who has set another level; "" if there is none
	until      time.Time
	timer      *time.Timer // ends it; nil without an end
	orders     int         // that were given, or have ended
}

// LogLevel implements admin.LogLeveler.
func (l *logLevel) LogLevel() admin.LogLevel {
	from := l.where()
	l.mu.Lock()
	defer l.mu.Unlock()
	view := admin.LogLevel{Level: admin.LogLevelName(l.level.Level()), Configured: admin.LogLevelName(l.configured), From: from}
	if l.by != "" {
		view.Ordered, view.From = true, l.by
	}
	if l.timer != nil {
		until := l.until
		view.Until = &until
	}
	return view
}

// SetLogLevel implements admin.LogLeveler.
func (l *logLevel) SetLogLevel(level slog.Level, by string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
	l.by = by
	attrs := []any{"by", by}
	if d > 0 {
		l.until = time.Now().Add(d)
		order := l.orders
		l.timer = time.AfterFunc(d, func() { l.expire(order) })
		attrs = append(attrs, "for", d)
	}
	l.change(level, attrs...)
}

// ResetLogLevel implements admin.LogLeveler.
func (l *logLevel) ResetLogLevel(by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
	l.change(l.configured, "by", by)
}

// configure sets the level of a new configuration, whatever was ordered.
func (l *logLevel) configure(level slog.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
	l.configured = level
	l.change(level, "by", "the configuration")
}

// expire ends an order at its time, unless there has been another one.
func (l *logLevel) expire(order int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.orders != order {
		return
	}
	l.forget()
	l.change(l.configured, "by", "the end of the time")
}

// close ends the timer.
func (l *logLevel) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
}

func (l *logLevel) forget() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.by, l.timer = "", nil
	l.orders++
}

// change changes the level and logs that, so that the line is written by the lower one of the two levels: whoever reads the log later must see why lines
// begin or end.
func (l *logLevel) change(to slog.Level, attrs ...any) {
	was := l.level.Level()
	if was == to {
		return
	}
	line := max(slog.LevelInfo, min(was, to))
	l.level.Set(min(was, to))
	l.log.Log(context.Background(), line, "log level changed", append([]any{"to", admin.LogLevelName(to), "was", admin.LogLevelName(was)}, attrs...)...)
	l.level.Set(to)
}
