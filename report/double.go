package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A bounce is a message that has the null sender and could not be delivered.
// All pages of debts but the last are cleared first, and the last one together
// with the commit of the copy. So there is exactly one copy, whenever the process
// stops.
type bounce struct {
	*Reporter
	env       mail.Envelope
	count     int
	elsewhere bool // it failed at a destination other than that of the copies
	arrived   func(mail.Arrival)
}

func (b *bounce) page(ctx context.Context, page []mail.RecipientOutcome, last bool) error {
	if len(page) == 0 {
		return nil
	}
	paid := make([]mail.Outcome, len(page))
	for i := range page {
		paid[i].Index = page[i].Recipient.Index
		b.elsewhere = b.elsewhere || !strings.EqualFold(string(page[i].Recipient.Address), string(b.cfg.DoubleBounceTo))
	}
	b.count += len(page)
	change := clearing(b.env.ID, paid, now())
	if !last {
		return b.clear(ctx, change)
	}
	copied, err := b.settle(ctx, change)
	if err == nil {
		b.log(ctx, page[0], copied)
	}
	return err
}

// settle makes the copy, if one is configured and there is something to copy,
// and clears the last debts. It returns the copy's ID, "" if there is none.
func (b *bounce) settle(ctx context.Context, change []mail.Change) (string, error) {
	if b.cfg.DoubleBounceTo == "" || !b.elsewhere {
		return "", b.clear(ctx, change)
	}
	content, err := b.spool.Content(ctx, b.env.ID)
	if errors.Is(err, ErrGone) {
		return "", b.clear(ctx, change)
	}
	if err != nil {
		return "", fmt.Errorf("open content: %w", err)
	}
	defer content.Close() // it was only read
	return b.copy(ctx, content, change)
}

func (b *bounce) clear(ctx context.Context, change []mail.Change) error {
	if _, err := b.spool.Apply(ctx, change); err != nil {
		return fmt.Errorf("clear debts: %w", err)
	}
	return nil
}

// copy sends the message to the address that the operator configured. It gets a
// trace field, so that a loop through other hosts ends like any other.
func (b *bounce) copy(ctx context.Context, content io.Reader, change []mail.Change) (string, error) {
	at := now()
	d, err := b.begin(ctx, b.spool.BeginCopy, b.cfg.DoubleBounceTo, at)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(d, content); err != nil {
		d.Abort()
		return "", fmt.Errorf("copy content: %w", err)
	}
	utf8 := b.env.SMTPUTF8 || !isASCII(b.cfg.DoubleBounceTo)
	if err := d.CommitWith(ctx, localEnvelope(&b.env, at, b.env.Body, utf8), change); err != nil {
		return "", fmt.Errorf("commit: %w", err)
	}
	b.arrived(d.Arrival())
	return d.ID().String(), nil
}

// log logs the double bounce, with one recipient as an example.
func (b *bounce) log(ctx context.Context, example mail.RecipientOutcome, copied string) {
	b.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "double bounce",
		slog.String("id", b.env.ID.String()), slog.String("copy", copied), slog.Int("recipients", b.count),
		slog.String("to", string(example.Recipient.Address)), slog.String("reply", example.Outcome.Reply.String()))
}
