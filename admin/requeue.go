package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A requeuing is by which rules a requeue decides anew, and whether routes that operators have ordered stay.
type requeuing struct {
	rules     Readmission
	keepRoute bool
}

type requeueInput struct{ Body RequeueOrder }

// errNoRequeue means that the program that runs the API does not accept mail by rules.
var errNoRequeue = huma.Error501NotImplemented("mail cannot be requeued here")

// requeue handles one page of a requeue.
func (s *Server) requeue(ctx context.Context, in *requeueInput) (*orderOutput, error) {
	if s.cfg.Readmission == nil {
		return nil, errNoRequeue
	}
	return s.obey(ctx, verbRequeue, &in.Body.Order, means{again: &requeuing{s.cfg.Readmission(), in.Body.KeepRoute}})
}

// beginRequeue has the scan leave out what the order itself makes: new messages meet its conditions, too, and would be
// requeued again and again. Their IDs are higher than one that is assigned before the first of them.
func (s *Server) beginRequeue(o *Order, c *scan, from *position) error {
	if from.since == 0 && !o.DryRun && len(o.Filter.IDs) == 0 {
		first, err := s.control.Reserve(0)
		if err != nil {
			return fmt.Errorf("requeue: %w", err)
		}
		from.since = mail.Instant(first)
	}
	c.sel.unborn = mail.QueueID(from.since)
	return nil
}

// errAddress means that an address cannot be rewritten.
var errAddress = errors.New("an address cannot be rewritten")

// requeueOne requeues the recipients of a message that meet the conditions, c. It reports whether the order applies to the
// message. Everything is decided before the first of them is moved, so that one whose address cannot be rewritten keeps
// all as they are.
func (s *Server) requeueOne(ctx context.Context, o *Order, sel *selector, m *Message, c *concern, done *Ordered) (bool, error) {
	r := requeue{server: s, order: o, sel: sel, message: m, done: done, alone: !c.others}
	err := r.decide(ctx)
	if err == nil && !o.DryRun {
		r.into, err = s.control.Reserve(m.Envelope.Size) // or there would be no room for the first part
	}
	if errors.Is(err, errAddress) || errors.Is(err, ErrFull) {
		done.Refused = append(done.Refused, Refused{m.Envelope.ID.String(), err.Error()})
		return false, nil
	}
	if err != nil {
		return false, err
	}
	done.Recipients += c.recipients
	return true, r.give(ctx)
}

// A requeue is that of one message.
type requeue struct {
	server  *Server
	order   *Order
	sel     *selector
	message *Message
	done    *Ordered
	alone   bool // no recipient waits that does not meet the conditions

	sender mail.Address
	flow   mail.Flow
	into   mail.QueueID // of the next part; 0 if none is reserved
	part   requeuePart
}

// A requeuePart is the recipients of one new message.
type requeuePart struct {
	concern
	indexes []uint32
	to      []mail.Replacement
	shown   []Rewritten
	logged  []string // the first loggedMax of those that are replaced
	changed int
}

// decide finds the new sender and the new flow, and whether each recipient can be rewritten.
func (r *requeue) decide(ctx context.Context) (err error) {
	e, rules := r.message.Envelope, r.sel.again.rules
	if r.sender, err = rules.Sender(e.Sender); err != nil {
		return fmt.Errorf("%w: the sender: %w", errAddress, err)
	}
	if err := r.each(ctx, func(one *mail.Recipient) error {
		_, err := r.replace(one)
		return err
	}); err != nil {
		return err
	}
	content, err := r.server.store.Content(ctx, e.ID)
	if err != nil {
		return fmt.Errorf("read its content: %w", err)
	}
	defer content.Close()
	e.Sender = r.sender
	r.flow, err = rules.Flow(&e, content)
	return err
}

func (r *requeue) replace(one *mail.Recipient) ([]mail.Replacement, error) {
	to, err := r.sel.again.rules.Recipient(one)
	if err != nil {
		err = fmt.Errorf("%w: %w", errAddress, err)
	}
	return to, err
}

// each calls visit with the recipients of the message that wait and meet the conditions, until it returns an error.
func (r *requeue) each(ctx context.Context, visit func(*mail.Recipient) error) (failed error) {
	err := r.server.eachWaiting(ctx, r.message.Envelope.ID, func(one *mail.RecipientOutcome) bool {
		if r.sel.match(r.message, one) {
			failed = visit(&one.Recipient)
		}
		return failed == nil
	})
	return errors.Join(failed, err)
}

// give gives the order, in as many parts as are needed.
func (r *requeue) give(ctx context.Context) error {
	err := r.each(ctx, func(one *mail.Recipient) error {
		to, err := r.replace(one)
		if err != nil {
			return err
		}
		if len(r.part.indexes) > 0 && len(r.part.indexes)+len(r.part.to)+len(to) > partMax {
			if err := r.giveNext(ctx, false); err != nil {
				return err
			}
		}
		r.part.take(one, to)
		return nil
	})
	if err != nil {
		return err
	}
	return r.giveNext(ctx, true)
}

// take adds a recipient, and those in his place.
func (p *requeuePart) take(one *mail.Recipient, to []mail.Replacement) {
	p.add(one.Address)
	p.indexes, p.to = append(p.indexes, one.Index), append(p.to, to...)
	if len(to) == 0 {
		return
	}
	p.changed++
	w := Rewritten{Recipient: string(one.Address), More: max(len(to)-namedMax, 0)}
	for i := range to[:len(to)-w.More] {
		w.By = append(w.By, string(to[i].Address))
	}
	if len(p.shown) < namedMax {
		p.shown = append(p.shown, w)
	}
	if len(p.logged) < loggedMax {
		p.logged = append(p.logged, w.Recipient+">"+strings.Join(w.By, "+"))
	}
}

// giveNext gives the order for the recipients that were taken; last says that no others follow.
func (r *requeue) giveNext(ctx context.Context, last bool) error {
	s, id, p := r.server, r.message.Envelope.ID, r.part
	r.part = requeuePart{}
	if len(p.indexes) == 0 {
		return nil
	}
	part := Part{From: id.String(), More: max(p.recipients-namedMax, 0), Rewritten: p.shown}
	for _, a := range p.first[:min(len(p.first), namedMax)] {
		part.Recipients = append(part.Recipients, string(a))
	}
	if r.sender != r.message.Envelope.Sender {
		part.Sender = (*string)(&r.sender)
	}
	if !r.order.DryRun {
		into := r.into
		r.into = 0
		if into == 0 {
			var err error
			if into, err = s.control.Reserve(r.message.Envelope.Size); err != nil {
				return fmt.Errorf("requeue the rest of its recipients: %w", err)
			}
		}
		part.Into = into.String()
		r.log(ctx, &p, part.Into)
		s.control.Split(id, mail.Split{Into: into, Recipients: p.indexes,
			Requeue: &mail.Requeue{Sender: r.sender, Flow: r.flow, To: p.to, KeepRoute: r.sel.again.keepRoute}}, last && r.alone)
	}
	r.done.Rewritten += p.changed
	r.done.Splits = append(r.done.Splits, part)
	return nil
}

// log logs the order for a part.
func (r *requeue) log(ctx context.Context, p *requeuePart, into string) {
	e := &r.message.Envelope
	attrs := []any{"verb", verbRequeue.String(), "id", e.ID.String(), "into", into, "from", string(e.Sender), "to", p.addresses()}
	if r.sender != e.Sender {
		attrs = append(attrs, "sender", string(r.sender))
	}
	if p.changed > 0 {
		attrs = append(attrs, "rewritten", strings.Join(p.logged, ","))
	}
	if r.flow != e.Flow {
		attrs = append(attrs, "class", r.flow.Class, "tenant", r.flow.Tenant, "flow", r.flow.Flow)
	}
	r.server.log.Info("order", slices.Concat(attrs, []any{"reason", r.order.Reason, "by", orderedBy(ctx)})...)
}
