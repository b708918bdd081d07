package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// settles reports whether an order applies to single recipients. A bounce and an expiry do,
// since each recipient is reported on; so do a drop and a hold with conditions on
// recipients, since they must not affect the other recipients of the same message.
func (v verb) settles(sel *selector) bool {
	return v == verbBounce || v == verbExpire || v == verbReroute || v == verbRequeue || (v == verbDrop || v == verbHold) && sel.aboutRecipients()
}

// aboutRecipients reports whether there are conditions that can differ between the
// recipients of one message.
func (s *selector) aboutRecipients() bool {
	return len(s.recipient)+len(s.domain)+len(s.sites)+len(s.text)+len(s.said)+len(s.host) > 0 || s.aboutWay()
}

// A concern describes the recipients that an order applies to. It keeps only some of
// their addresses: a message may have a million recipients.
type concern struct {
	recipients int            // waiting recipients that meet the conditions
	first      []mail.Address // the first of them, at most loggedMax
	others     bool           // other recipients wait, too
}

func (c *concern) add(a mail.Address) {
	if c.recipients++; len(c.first) < loggedMax {
		c.first = append(c.first, a)
	}
}

// eachWaiting calls visit with the recipients of a message that wait, page by page, until
// it returns false.
func (s *Server) eachWaiting(ctx context.Context, id mail.QueueID, visit func(*mail.RecipientOutcome) bool) error {
	return s.eachRecipient(ctx, id, true, visit)
}

// eachRecipient is eachWaiting, or calls visit with all recipients.
func (s *Server) eachRecipient(ctx context.Context, id mail.QueueID, waiting bool, visit func(*mail.RecipientOutcome) bool) error {
	for from := uint32(0); ; {
		list, err := s.store.Recipients(ctx, id, RecipientQuery{From: from, Max: recipientMax, Waiting: waiting})
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

// concerned returns the recipients of a message that an order applies to.
func (s *Server) concerned(ctx context.Context, sel *selector, m *Message) (concern, error) {
	var c concern
	if len(m.to) > 0 && !sel.aboutRecipients() && sel.elsewhere == nil {
		for _, a := range m.to {
			c.add(a)
		}
		return c, nil
	}
	err := s.eachWaiting(ctx, m.Envelope.ID, func(r *mail.RecipientOutcome) bool {
		if sel.affects(m, r) {
			c.add(r.Recipient.Address)
		} else {
			c.others = true
		}
		return true
	})
	return c, err
}

// orderOne gives an order for a message and logs the recipients that it applies to. It
// reports whether the order applies to the message. The recipients are read twice: first
// to find those that match, so that nothing is ordered if they cannot all be read, then
// to give the order page by page.
func (s *Server) orderOne(ctx context.Context, v verb, o *Order, sel *selector, m *Message, done *Ordered) (bool, error) {
	settles := v.settles(sel)
	if o.DryRun && !settles {
		done.Recipients += int(m.waiting())
		return true, nil
	}
	if !v.harmful() && !settles {
		if v != verbRetry { // attempts are logged anyway
			s.logOrder(ctx, v, o, m, nil, "")
		}
		return true, nil
	}
	c, err := s.concerned(ctx, sel, m)
	if err != nil && (settles || errors.Is(err, ErrGone) || ctx.Err() != nil) {
		return false, err // a drop of the whole message does not depend on its recipients
	}
	if settles && c.recipients == 0 {
		done.Unchanged++
		return false, nil
	}
	if v == verbRequeue {
		return s.requeueOne(ctx, o, sel, m, &c, done)
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
	if v == verbReroute {
		s.logReroute(ctx, o, sel.elsewhere, m, &c)
		return true, s.setRoutes(ctx, sel, m)
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

// logOrder logs an order with the recipients that it applies to, nil for a whole
// message; into is the message that they are moved to.
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

// partMax is the maximum number of recipients moved to one new message, which bounds
// the size of that change. More recipients go to more new messages.
const partMax = 10_000

// namedMax is the maximum number of a part's recipients named in an answer.
const namedMax = 20

// holdSome holds only the recipients of a message that meet the conditions. It
// reports whether there are any.
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
			s.control.Split(m.Envelope.ID, mail.Split{Into: into, Recipients: indexes, Reason: o.Reason}, false)
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

// made returns the parts that exist: without those whose recipients all got the message
// before the order was carried out.
func (s *Server) made(ctx context.Context, parts []Part, pending []ordered) []Part {
	return slices.DeleteFunc(parts, func(p Part) bool {
		from, _ := mail.ParseQueueID(p.From)
		into, _ := mail.ParseQueueID(p.Into)
		_, err := s.store.Show(ctx, into)
		return errors.Is(err, ErrGone) && !slices.ContainsFunc(pending, func(o ordered) bool { return o.id == from })
	})
}

// loggedMax is the maximum number of a message's recipients named in one log line.
const loggedMax = 100

// addresses lists them as text.
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

// giveUpMax is the maximum number of recipients settled by one step of the core.
const giveUpMax = 1000

// giveUp settles the recipients that meet the conditions as failed; others says that
// the message has other waiting recipients.
func (s *Server) giveUp(ctx context.Context, v verb, reason string, sel *selector, m *Message, others bool) error {
	var outcomes []mail.Outcome
	err := s.eachWaiting(ctx, m.Envelope.ID, func(r *mail.RecipientOutcome) bool {
		if !sel.match(m, r) {
			return true
		}
		if len(outcomes) == giveUpMax {
			s.control.Settle(m.Envelope.ID, outcomes, false)
			outcomes = nil // the core owns the slice now
		}
		outcomes = append(outcomes, v.failure(m.Envelope.Sender, r, reason))
		return true
	})
	if len(outcomes) > 0 {
		s.control.Settle(m.Envelope.ID, outcomes, !others && err == nil)
	}
	return err
}

// failure is the outcome of a recipient that is given up by an order. A bounce quotes the
// operator, and mail from the null sender is never reported on. An expiry is what the end of
// the message's lifetime would be: the last reply is quoted, and the failure of mail from the
// null sender is a double bounce.
func (v verb) failure(sender mail.Address, r *mail.RecipientOutcome, reason string) mail.Outcome {
	one := mail.Outcome{Index: r.Recipient.Index, Result: mail.Failed}
	if v == verbExpire {
		one.Expired, one.Reply, one.At = true, r.Outcome.Reply, r.Outcome.At
		if one.Reply.IsZero() { // RFC 3463 3.5
			one.Reply = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 4, Detail: 7}, Text: "delivery time expired"}
		}
	} else {
		text := map[verb]string{verbDrop: "dropped by an operator", verbBounce: "returned by an operator"}[v]
		if reason != "" {
			text += ": " + reason
		}
		one.Reply = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 7, Detail: 1}, Text: mail.CleanText(text)}
	}
	if v == verbExpire && sender == "" || v != verbDrop && sender != "" && r.Recipient.Notify.Failure() {
		one.Report = mail.ReportFailed
	}
	return one
}
