package event

import (
	"context"
	"log/slog"
	"time"

	"github.com/posthaste-mta/posthaste/internal/logline"
)

// Tap returns a handler that passes events on to a hub, whatever the level of the log, and all lines of the log on to another
// handler. Lines of loggers with attributes of their own are no events.
func Tap(to slog.Handler, hub *Hub) slog.Handler { return &tap{to, hub} }

type tap struct {
	slog.Handler
	hub *Hub
}

var _ logline.Writer = (*tap)(nil)

func (t *tap) Enabled(ctx context.Context, level slog.Level) bool {
	return t.Handler.Enabled(ctx, level) || t.hub.Followed()
}

func (t *tap) WriteLine(at time.Time, level slog.Level, message string, attrs []slog.Attr) error {
	if t.hub.Followed() {
		if Declared(message) {
			t.hub.Offer(at, level, message, attrs)
		}
		if !t.Handler.Enabled(context.Background(), level) {
			return nil
		}
	}
	return logline.Write(t.Handler, at, level, message, attrs)
}

func (t *tap) Handle(ctx context.Context, r slog.Record) error {
	if t.hub.Followed() {
		if Declared(r.Message) {
			t.hub.Offer(r.Time, r.Level, r.Message, attrsOf(r))
		}
		if !t.Handler.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return t.Handler.Handle(ctx, r)
}

func (t *tap) WithAttrs(attrs []slog.Attr) slog.Handler { return t.Handler.WithAttrs(attrs) }
func (t *tap) WithGroup(name string) slog.Handler       { return t.Handler.WithGroup(name) }

func attrsOf(r slog.Record) []slog.Attr {
	attrs := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		a.Value = a.Value.Resolve()
		attrs = append(attrs, a)
		return true
	})
	return attrs
}
