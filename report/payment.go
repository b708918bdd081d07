package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/posthaste-mta/posthaste/dsn"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/verp"
)

// A payment makes all reports that one message owes.
type payment struct {
	*Reporter
	env       mail.Envelope
	how       *VERP // the same for all of them
	failures  group
	delays    group
	successes group
	unsaid    []mail.Outcome // debts that must not be reported
	originals [2]*dsn.Original
	arrived   func(mail.Arrival)
	outside   bool // the message is not in the spool: there are no debts to clear, and the originals are given
}

// A group is a set of recipients that share the next report, and the debts that it
// pays.
type group struct {
	to         mail.Address // the recipient of the report
	recipients []dsn.Recipient
	paid       []mail.Outcome
	octets     int // approximate memory of their texts
}

// groupOctets ends a group before its recipients' texts take more memory than this,
// so that memory stays bounded even if every reply has the maximum length. 5,000
// recipients with usual replies take 1 MiB.
const groupOctets = 2 << 20

func (p *payment) pay(ctx context.Context) error {
	if err := p.eachPage(ctx, p.env.ID, p.page); err != nil {
		return err
	}
	for _, g := range [...]*group{&p.failures, &p.delays, &p.successes} {
		if err := p.flush(ctx, g); err != nil {
			return err
		}
	}
	return p.forget(ctx)
}

func (p *payment) page(ctx context.Context, page []mail.RecipientOutcome, _ bool) error {
	for i := range page {
		if err := p.add(ctx, page[i]); err != nil {
			return err
		}
	}
	return nil
}

// add puts a debt into its group.
func (p *payment) add(ctx context.Context, ro mail.RecipientOutcome) error {
	paid := mail.Outcome{Index: ro.Recipient.Index}
	g := p.groupOf(ro)
	if g == nil && p.outside {
		return nil
	}
	if g == nil {
		if p.unsaid = append(p.unsaid, paid); len(p.unsaid) >= p.cfg.RecipientsMax {
			return p.forget(ctx)
		}
		return nil
	}
	g.to = p.env.Sender
	alone := g == &p.failures && !p.env.VERP.IsZero() && !p.how.OneReport
	if alone {
		g.to = verp.Sender(p.how.Secrets, &p.env, &ro.Recipient)
	}
	r := dsn.RecipientOf(ro, p.until())
	if p.env.Late && r.Kind == mail.ReportDelayed { // RFC 2852 4.1.3
		r.Status = mail.Status{Class: 4, Subject: 4, Detail: 7}
	}
	g.recipients = append(g.recipients, r)
	g.paid = append(g.paid, paid)
	g.octets += len(ro.Outcome.Reply.Text) + len(ro.Outcome.Reply.By) + len(ro.Recipient.Address) + len(ro.Recipient.ORcpt)
	if alone || len(g.recipients) >= p.cfg.RecipientsMax || g.octets >= groupOctets {
		return p.flush(ctx, g)
	}
	return nil
}

// groupOf returns the group in which a debt is reported; nil if NOTIFY does not
// permit a report (RFC 3461 5.2). The debt should not exist then, but an unwanted
// report is worse than a second check.
func (p *payment) groupOf(ro mail.RecipientOutcome) *group {
	wanted := ro.Recipient.Notify
	switch kind := ro.Outcome.Report; {
	case kind == mail.ReportFailed && wanted.Failure():
		return &p.failures
	case kind == mail.ReportDelayed && wanted.Delay():
		return &p.delays
	case (kind == mail.ReportDelivered || kind == mail.ReportRelayed) && wanted.Success(),
		kind == mail.ReportRelayed && p.env.By.Mode != mail.ByNone && wanted != mail.NotifyNever:
		return &p.successes
	}
	return nil
}

// until is when the message will be given up; 0 if the report must not state it.
func (p *payment) until() mail.Instant {
	if p.cfg.Lifetime == 0 {
		return 0
	}
	return p.env.Since().Add(p.cfg.Lifetime)
}

// forget clears the debts that must not be reported.
func (p *payment) forget(ctx context.Context) error {
	if len(p.unsaid) == 0 {
		return nil
	}
	if _, err := p.spool.Apply(ctx, clearing(p.env.ID, p.unsaid, now())); err != nil {
		return fmt.Errorf("clear debts: %w", err)
	}
	p.unsaid = p.unsaid[:0]
	return nil
}

// flush makes a report of a group and empties it.
func (p *payment) flush(ctx context.Context, g *group) error {
	if len(g.recipients) == 0 {
		return nil
	}
	original, err := p.original(ctx, g)
	if err != nil {
		return err
	}
	at := now()
	d, err := p.begin(ctx, p.spool.Begin, g.to, at)
	if err != nil {
		return err
	}
	report := p.compose(g, d.ID(), at)
	if err := p.composer.Compose(d, report, original); err != nil {
		d.Abort()
		return err
	}
	body, utf8 := dsn.Needs(report, original)
	// An address that no header field can contain is still the recipient of the report.
	utf8 = utf8 || !isASCII(g.to)
	paid := clearing(p.env.ID, g.paid, at)
	if p.outside {
		paid = nil
	}
	if err := d.CommitWith(ctx, localEnvelope(&p.env, at, body, utf8), paid); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	p.arrived(d.Arrival())
	id := p.env.ID.String()
	if p.outside {
		id = ""
	}
	p.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "report",
		slog.String("id", id), slog.String("report", d.ID().String()), slog.String("to", string(g.to)),
		slog.String("kind", report.Kind().String()), slog.Int("recipients", len(g.recipients)))
	clear(g.recipients) // releases the texts
	*g = group{recipients: g.recipients[:0], paid: g.paid[:0]}
	return nil
}

func (p *payment) compose(g *group, id mail.QueueID, at mail.Instant) dsn.Report {
	return dsn.Report{
		MessageID:  id.String() + "@" + p.cfg.Hostname,
		Date:       at,
		To:         g.to,
		Host:       p.cfg.Hostname,
		QueueID:    p.env.ID,
		EnvID:      dsn.DecodeEnvID(p.env.EnvID),
		Received:   clientName(p.env.Client),
		Arrived:    p.env.Arrived,
		Release:    p.env.Release,
		Deadline:   p.env.By.At,
		Recipients: g.recipients,
	}
}

// clientName returns the client in the form in which reports name hosts; "" for mail
// that did not come by TCP.
func clientName(c mail.Client) string {
	if !c.Addr.IsValid() {
		return ""
	}
	return c.Helo + "[" + c.Addr.Unmap().String() + "]"
}

// original reads the content that a report on a group returns. RET=FULL applies only
// to failures (RFC 3461 4.3), and not with REQUIRETLS (RFC 8689 5). It is read once for all reports of a message.
func (p *payment) original(ctx context.Context, g *group) (dsn.Original, error) {
	full := g == &p.failures && p.env.Ret == mail.RetFull && p.env.TLS != mail.TLSRequired && p.env.Size <= int64(p.cfg.ReturnMax)
	slot := &p.originals[0]
	if full {
		slot = &p.originals[1]
	}
	if *slot == nil {
		o, err := p.readOriginal(ctx, full)
		if err != nil {
			return dsn.Original{}, err
		}
		*slot = &o
	}
	return **slot, nil
}

// readOriginal reads a message for its return. Content that is damaged or lost
// must not keep the sender from getting the rest of the report.
func (p *payment) readOriginal(ctx context.Context, full bool) (dsn.Original, error) {
	o, err := p.tryOriginal(ctx, full)
	if errors.Is(err, ErrGone) || errors.Is(err, mail.ErrCorrupt) {
		p.cfg.Logger.Warn("report without the message's header: the content cannot be read", "id", p.env.ID.String(), "error", err)
		return dsn.Original{Part: dsn.PartLost}, nil
	}
	return o, err
}

func (p *payment) tryOriginal(ctx context.Context, full bool) (dsn.Original, error) {
	content, err := p.spool.Content(ctx, p.env.ID)
	if err != nil {
		return dsn.Original{}, fmt.Errorf("open content: %w", err)
	}
	defer content.Close() // it was only read
	return dsn.ReadOriginal(content, full, p.cfg.ReturnMax)
}

func isASCII(a mail.Address) bool {
	for i := 0; i < len(a); i++ {
		if a[i] >= 0x80 {
			return false
		}
	}
	return true
}
