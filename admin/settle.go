package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// settles reports whether an order is for recipients, one by one. A bounce is, since
// each has a report of his own; so are a drop and a hold whose conditions are about
// recipients, for the others of the same message are not meant by them.
func (v verb) settles(sel *selector) bool {
	return v == verbBounce || (v == verbDrop || v == verbHold) && sel.aboutRecipients()
}

// aboutRecipients reports whether there are conditions that one recipient of a message
// can meet and another not.
func (s *selector) aboutRecipients() bool {
	return s.recipient.kind != matchAny || s.domain != "" || s.text != ""
}

// A concern is whom an order is for.
type concern struct {
	recipients []mail.RecipientOutcome // that wait and meet the conditions
	others     bool                    // others wait, too
}

// concerned finds out which of a message's recipients an order is for.
func (s *Server) concerned(ctx context.Context, sel *selector, m *Message) (concern, error) {
	var c concern
	for from := uint32(0); ; {
		list, err := s.store.Recipients(ctx, m.Envelope.ID, RecipientQuery{From: from, Max: recipientMax, Waiting: true})
		if err != nil {
			return c, fmt.Errorf("read recipients of %s: %w", m.Envelope.ID, err)
		}
		for i := range list.Recipients {
			if r := &list.Recipients[i]; sel.match(m, r) {
				c.recipients = append(c.recipients, *r)
			} else {
				c.others = true
			}
		}
		if !list.More {
			return c, nil
		}
		from = list.Next
	}
}

// orderOne gives an order to a message's recipients, if it is for them, and logs for whom
// it is. It reports whether the order is for the message.
func (s *Server) orderOne(ctx context.Context, v verb, o *Order, sel *selector, m *Message, done *Ordered) (bool, error) {
	if !v.harmful() && !v.settles(sel) {
		return true, nil
	}
	c, err := s.concerned(ctx, sel, m)
	switch {
	case err == nil:
	case errors.Is(err, ErrGone), ctx.Err() != nil:
		return false, err
	case v == verbDrop && !v.settles(sel):
		// It can be dropped although it is not known whom it was for.
	case errors.Is(err, ErrDamaged):
		done.Unchanged++
		return false, nil
	default: // the others are not to wait for it
		s.log.Error("a message is left out of an order, as it cannot be read now", "verb", v.String(), "id", m.Envelope.ID.String(), "error", err)
		done.Unchanged++
		return false, nil
	}
	if v.settles(sel) {
		if len(c.recipients) == 0 {
			done.Unchanged++
			return false, nil
		}
		done.Recipients += len(c.recipients)
	}
	if v == verbHold && c.others {
		return true, s.holdSome(ctx, o, m, &c, done)
	}
	if o.DryRun {
		return true, nil
	}
	s.logOrder(ctx, v, o, m, &c, "")
	switch {
	case v == verbHold:
		s.control.Hold([]mail.QueueID{m.Envelope.ID}, o.Reason)
	case v.settles(sel):
		s.giveUp(v, o.Reason, m, &c)
	}
	return true, nil
}

// logOrder logs whom an order is for; into is the message that they are put into.
func (s *Server) logOrder(ctx context.Context, v verb, o *Order, m *Message, c *concern, into string) {
	attrs := []any{"verb", v.String(), "id", m.Envelope.ID.String()}
	if into != "" {
		attrs = append(attrs, "into", into)
	}
	s.log.Info("order", append(attrs, "from", string(m.Envelope.Sender), "to", addressesOf(c.recipients), "reason", o.Reason, "by", orderedBy(ctx))...)
}

// partMax is how many recipients are put into one message, which bounds the change that
// does so. If there are more, there are more such messages.
const partMax = 10_000

// holdSome has recipients of a message held, and not the others.
func (s *Server) holdSome(ctx context.Context, o *Order, m *Message, c *concern, done *Ordered) error {
	for from := 0; from < len(c.recipients); from += partMax {
		some := concern{recipients: c.recipients[from:min(from+partMax, len(c.recipients))]}
		part := Part{From: m.Envelope.ID.String()}
		indexes := make([]uint32, len(some.recipients))
		for i := range some.recipients {
			indexes[i] = some.recipients[i].Recipient.Index
			part.Recipients = append(part.Recipients, string(some.recipients[i].Recipient.Address))
		}
		if !o.DryRun {
			into, err := s.control.Reserve(m.Envelope.Size)
			if err != nil {
				return fmt.Errorf("hold recipients of %s: %w", part.From, err)
			}
			part.Into = into.String()
			s.logOrder(ctx, verbHold, o, m, &some, part.Into)
			s.control.Split(m.Envelope.ID, mail.Split{Into: into, Recipients: indexes, Reason: o.Reason})
		}
		done.Splits = append(done.Splits, part)
	}
	return nil
}

// made drops parts from an answer of which nothing came, because all of their recipients
// had the message before the order was carried out.
func (s *Server) made(ctx context.Context, parts []Part, pending []mail.QueueID) []Part {
	return slices.DeleteFunc(parts, func(p Part) bool {
		from, _ := mail.ParseQueueID(p.From)
		into, _ := mail.ParseQueueID(p.Into)
		_, err := s.store.Show(ctx, into)
		return errors.Is(err, ErrGone) && !slices.Contains(pending, from)
	})
}

// loggedMax is how many recipients of a message one line of the log names.
const loggedMax = 100

func addressesOf(list []mail.RecipientOutcome) string {
	var b strings.Builder
	for i := range list[:min(len(list), loggedMax)] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(list[i].Recipient.Address))
	}
	if more := len(list) - loggedMax; more > 0 {
		fmt.Fprintf(&b, ",and %d more", more)
	}
	return b.String()
}

// giveUpMax is how many recipients are given up by one step of the core.
const giveUpMax = 1000

// giveUp settles recipients for good. Of mail from the null sender nobody is told.
func (s *Server) giveUp(v verb, reason string, m *Message, c *concern) {
	text := map[verb]string{verbDrop: "dropped by an operator", verbBounce: "returned by an operator"}[v]
	if reason != "" {
		text += ": " + reason
	}
	reply := mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: mail.CleanText(text)}
	for from := 0; from < len(c.recipients); from += giveUpMax {
		part := c.recipients[from:min(from+giveUpMax, len(c.recipients))]
		outcomes := make([]mail.Outcome, len(part))
		for i := range part {
			outcomes[i] = mail.Outcome{Index: part[i].Recipient.Index, Result: mail.Failed, Reply: reply}
			if v == verbBounce && m.Envelope.Sender != "" && part[i].Recipient.Notify.Failure() {
				outcomes[i].Report = mail.ReportFailed
			}
		}
		s.control.Settle(m.Envelope.ID, outcomes, !c.others && from+giveUpMax >= len(c.recipients))
	}
}
