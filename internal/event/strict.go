package event

import (
	"context"
	"io"
	"log/slog"

	"github.com/posthaste-mta/posthaste/internal/logline"
)

// NewStrict returns a log for tests, as text of the daemon's form: it calls complain with what is wrong with
// an event (Check). nil panics.
func NewStrict(w io.Writer, level slog.Leveler, complain func(error)) *slog.Logger {
	if complain == nil {
		complain = func(err error) { panic(err) }
	}
	return slog.New(strict{slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: logline.Replace(false)}), complain})
}

type strict struct {
	slog.Handler
	complain func(error)
}

func (s strict) Handle(ctx context.Context, r slog.Record) error {
	if err := Check(r.Message, attrsOf(r)); err != nil {
		s.complain(err)
	}
	return s.Handler.Handle(ctx, r)
}
