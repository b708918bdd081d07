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

// A concern is whom an order is for. However many they are, only some are kept: a message
// may have a million recipients.
type concern struct {
	recipients int            // that wait and meet the conditions
	first      []mail.Address // the first of them, at most loggedMax
	others     bool           // others wait, too
}

func (c *concern) add(a mail.Address) {
	if c.recipients++; len(c.first) < loggedMax {
		c.first = append(c.first, a)
	}
}

// eachWaiting calls visit with the recipients of a message that wait, page by page, until
// it returns false.
func (s *Server) eachWaiting(ctx context.Context, id mail.QueueID, visit func(*mail.RecipientOutcome) bool) error {
	for from := uint32(0); ; {
		list, err := s.store.Recipients(ctx, id, RecipientQuery{From: from, Max: recipientMax, Waiting: true})
		if err != nil {
			return fmt.Errorf("read its recipients: %w", err)
		}
		for i := range list.Recipients {
			if !visit(&list.Recipients[i]) {
				return nil
			}
		}
		if !list.More {
			return nil
		}
		from = list.Next
	}
}

// concerned finds out which of a message's recipients an order is for.
func (s *Server) concerned(ctx context.Context, sel *selector, m *Message) (concern, error) {
	var c concern
	err := s.eachWaiting(ctx, m.Envelope.ID, func(r *mail.RecipientOutcome) bool {
		if sel.match(m, r) {
			c.add(r.Recipient.Address)
		} else {
			c.others = true
		}
		return true
	})
	return c, err
}

// orderOne gives an order to a message's recipients, if it is for them, and logs for whom
// it is. It reports whether the order is for the message. They are read twice: first to
// know who they are, so that nothing is ordered if they cannot all be read, then to
// order it page by page.
func (s *Server) orderOne(ctx context.Context, v verb, o *Order, sel *selector, m *Message, done *Ordered) (bool, error) {
	settles := v.settles(sel)
	if !v.harmful() && !settles {
		if v != verbRetry && !o.DryRun { // what is tried is logged when it is
			s.logOrder(ctx, v, o, m, nil, "")
		}
		return true, nil
	}
	c, err := s.concerned(ctx, sel, m)
	if err != nil && (settles || errors.Is(err, ErrGone) || ctx.Err() != nil) {
		return false, err // a drop of all of it does not need to know whom it was for
	}
	if settles && c.recipients == 0 {
		done.Unchanged++
		return false, nil
	}
	if v == verbHold && c.others {
		return s.holdSome(ctx, o, sel, m, done)
	}
	if settles {
		done.Recipients += c.recipients
	}
	if o.DryRun {
		return true, nil
	}
	s.logOrder(ctx, v, o, m, &c, "")
	switch {
	case v == verbHold:
		s.control.Hold([]mail.QueueID{m.Envelope.ID}, o.Reason)
	case settles:
		return true, s.giveUp(ctx, v, o.Reason, sel, m, c.others)
	}
	return true, nil
}

// logOrder logs whom an order is for, nil if it is for all of a message; into is the
// message that they are put into.
func (s *Server) logOrder(ctx context.Context, v verb, o *Order, m *Message, c *concern, into string) {
	attrs := []any{"verb", v.String(), "id", m.Envelope.ID.String()}
	if into != "" {
		attrs = append(attrs, "into", into)
	}
	attrs = append(attrs, "from", string(m.Envelope.Sender))
	if c != nil {
		attrs = append(attrs, "to", c.addresses())
	}
	s.log.Info("order", append(attrs, "reason", o.Reason, "by", orderedBy(ctx))...)
}

// partMax is how many recipients are put into one message, which bounds the change that
// does so. If there are more, there are more such messages.
const partMax = 10_000

// namedMax is how many recipients of a part an answer names.
const namedMax = 20

// holdSome has the recipients of a message held that meet the conditions, and not the
// others. It reports whether any are.
func (s *Server) holdSome(ctx context.Context, o *Order, sel *selector, m *Message, done *Ordered) (bool, error) {
	var (
		some    concern // the next part
		indexes []uint32
		held    int
		failed  error
	)
	split := func() error {
		part := Part{From: m.Envelope.ID.String(), More: max(some.recipients-namedMax, 0)}
		for _, a := range some.first[:min(len(some.first), namedMax)] {
			part.Recipients = append(part.Recipients, string(a))
		}
		if !o.DryRun {
			into, err := s.control.Reserve(m.Envelope.Size)
			if err != nil {
				return fmt.Errorf("hold some of its recipients: %w", err)
			}
			part.Into = into.String()
			s.logOrder(ctx, verbHold, o, m, &some, part.Into)
			s.control.Split(m.Envelope.ID, mail.Split{Into: into, Recipients: indexes, Reason: o.Reason})
		}
		held += some.recipients
		some, indexes = concern{}, nil
		done.Splits = append(done.Splits, part)
		return nil
	}
	err := s.eachWaiting(ctx, m.Envelope.ID, func(r *mail.RecipientOutcome) bool {
		if !sel.match(m, r) {
			return true
		}
		some.add(r.Recipient.Address)
		if indexes = append(indexes, r.Recipient.Index); len(indexes) == partMax {
			failed = split()
		}
		return failed == nil
	})
	if err = errors.Join(failed, err); err == nil && some.recipients > 0 {
		err = split()
	}
	done.Recipients += held
	return held > 0, err
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

// addresses lists them.
func (c *concern) addresses() string {
	var b strings.Builder
	for i, a := range c.first {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(a))
	}
	if more := c.recipients - len(c.first); more > 0 {
		fmt.Fprintf(&b, ",and %d more", more)
	}
	return b.String()
}

// giveUpMax is how many recipients are given up by one step of the core.
const giveUpMax = 1000

// giveUp settles recipients for good, those that meet the conditions; others tells that
// others of the message wait, too. Of mail from the null sender nobody is told.
func (s *Server) giveUp(ctx context.Context, v verb, reason string, sel *selector, m *Message, others bool) error {
	text := map[verb]string{verbDrop: "dropped by an operator", verbBounce: "returned by an operator"}[v]
	if reason != "" {
		text += ": " + reason
	}
	reply := mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: mail.CleanText(text)}
	var outcomes []mail.Outcome
	err := s.eachWaiting(ctx, m.Envelope.ID, func(r *mail.RecipientOutcome) bool {
		if !sel.match(m, r) {
			return true
		}
		if len(outcomes) == giveUpMax {
			s.control.Settle(m.Envelope.ID, outcomes, false)
			outcomes = nil // the core has these
		}
		one := mail.Outcome{Index: r.Recipient.Index, Result: mail.Failed, Reply: reply}
		if v == verbBounce && m.Envelope.Sender != "" && r.Recipient.Notify.Failure() {
			one.Report = mail.ReportFailed
		}
		outcomes = append(outcomes, one)
		return true
	})
	if len(outcomes) > 0 {
		s.control.Settle(m.Envelope.ID, outcomes, !others && err == nil)
	}
	return err
}
