package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Reporter makes reports. It is safe for concurrent use for different messages.
type Reporter struct {
	cfg      Config
	spool    Spool
	composer dsn.Composer
}

// New returns a Reporter. The error is that of Config.Validate.
func New(cfg Config, spool Spool) (*Reporter, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("report: configuration: %w", err)
	}
	return &Reporter{cfg: cfg, spool: spool, composer: dsn.Composer{Contact: cfg.Postmaster, Footer: cfg.Footer}}, nil
}

// debtsPage is the number of debts read at a time.
const debtsPage = 1000

// Report composes the reports owed about a message, commits them to the spool and
// clears the debts; see the package comment. arrived gets each message that it made,
// also when it fails halfway: they are durable, and what they reported will not be
// reported again. After an error nothing is lost, and Report must be called again.
func (r *Reporter) Report(ctx context.Context, id mail.QueueID, arrived func(mail.Arrival)) error {
	err := r.report(ctx, id, arrived)
	if err == nil || errors.Is(err, ErrGone) { // a message dropped meanwhile owes nothing
		return nil
	}
	return fmt.Errorf("report on %s: %w", id, err)
}

func (r *Reporter) report(ctx context.Context, id mail.QueueID, arrived func(mail.Arrival)) error {
	env, _, _, err := r.spool.Open(ctx, id, 1)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if env.Sender == "" {
		b := &bounce{Reporter: r, env: env, arrived: arrived}
		return r.eachPage(ctx, id, b.page)
	}
	p := &payment{Reporter: r, env: env, how: r.cfg.VERP(), arrived: arrived}
	return p.pay(ctx)
}

// A visitor receives a page of debts, and whether it is the last one. The last page
// may be empty.
type visitor func(ctx context.Context, page []mail.RecipientOutcome, last bool) error

// eachPage calls visit with all debts of a message, page by page.
func (r *Reporter) eachPage(ctx context.Context, id mail.QueueID, visit visitor) error {
	from := uint32(0)
	for {
		page, more, err := r.spool.Debts(ctx, id, from, debtsPage)
		if err != nil {
			return fmt.Errorf("read what is owed: %w", err)
		}
		more = more && len(page) > 0
		if err := visit(ctx, page, !more); err != nil || !more {
			return err
		}
		from = page[len(page)-1].Recipient.Index + 1
	}
}

// begin opens a draft for a message from the null sender to one recipient,
// with a trace field as written by local submission (RFC 5321 4.4).
func (r *Reporter) begin(ctx context.Context, open func(context.Context) (Draft, error), to mail.Address, now mail.Instant) (Draft, error) {
	d, err := open(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin a draft: %w", err)
	}
	err = d.AddRecipient(mail.Recipient{Address: to, Notify: mail.NotifyNever})
	if err == nil {
		_, err = io.WriteString(d, "Received: by "+r.cfg.Hostname+" (Posthaste) with LOCAL id "+d.ID().String()+
			";\r\n\t"+dsn.FormatDate(now)+"\r\n")
	}
	if err != nil {
		d.Abort()
		return nil, fmt.Errorf("begin a draft: %w", err)
	}
	return d, nil
}

// localEnvelope returns the envelope of a report about a message: null sender, and
// neither RET nor ENVID (RFC 3461 6.1).
//
// It has the message's class and tenant, so that sixty thousand bounces of a mailing
// take the turns of those who caused them, and not those of other mail; within these,
// all reports are one flow. It asks for REQUIRETLS if the message did, because it says as much about
// it (RFC 8689 5), and has the null sender, so that it is not lost where that cannot be had.
func localEnvelope(about *mail.Envelope, now mail.Instant, body mail.BodyType, utf8 bool) mail.Envelope {
	flow := about.Flow
	if flow != (mail.Flow{}) {
		flow.Flow = "<>"
	}
	tls := mail.TLSUnset
	if about.TLS == mail.TLSRequired {
		tls = mail.TLSRequired
	}
	return mail.Envelope{TLS: tls, Arrived: now, Body: body, SMTPUTF8: utf8, Client: mail.Client{Proto: mail.ProtoLocal}, Flow: flow}
}

// clearing returns the change that clears debts. Only the indexes of the outcomes
// count.
func clearing(id mail.QueueID, paid []mail.Outcome, now mail.Instant) []mail.Change {
	if len(paid) == 0 {
		return nil
	}
	return []mail.Change{{Op: mail.ChangeReported, ID: id, Outcomes: paid, At: now}}
}

func now() mail.Instant { return mail.Instant(time.Now().UnixNano()) }
