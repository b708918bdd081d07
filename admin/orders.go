package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A verb is an order that can be given for messages.
type verb uint8

const (
	verbHold verb = iota
	verbRelease
	verbDrop
	verbBounce
	verbExpire
	verbRetry
	verbReroute
	verbRequeue
)

func (v verb) String() string {
	return [...]string{"hold", "release", "drop", "bounce", "expire", "retry", "reroute", "requeue"}[v]
}

// harmful reports whether an order cannot be taken back.
func (v verb) harmful() bool { return v == verbDrop || v == verbBounce || v == verbExpire }

// areas returns the areas whose messages an order can change.
func (v verb) areas() []mail.Area {
	switch v {
	case verbHold: // a message held until an instant is then kept
		return []mail.Area{mail.AreaIncoming, mail.AreaDeferred, mail.AreaHold}
	case verbRetry: // a message of the corrupt area is released if it is named by ID
		return []mail.Area{mail.AreaIncoming, mail.AreaDeferred, mail.AreaCorrupt}
	case verbRelease: // the corrupt area, and what waits for its date (awaitsDate), only if named by ID
		return []mail.Area{mail.AreaHold, mail.AreaCorrupt}
	case verbBounce, verbExpire, verbReroute, verbRequeue:
		return listed()
	}
	return append(listed(), mail.AreaCorrupt)
}

// applies reports whether an order changes a message at a place.
func (v verb) applies(to mail.Place) bool {
	return slices.Contains(v.areas(), to.Area) && !(v == verbHold && to.Area == mail.AreaHold && to.Due == 0)
}

type orderInput struct{ Body Order }

type orderOutput struct{ Body Ordered }

// order handles one page of an order.
func (s *Server) order(v verb) func(context.Context, *orderInput) (*orderOutput, error) {
	return func(ctx context.Context, in *orderInput) (*orderOutput, error) {
		return s.obey(ctx, v, &in.Body, means{})
	}
}

// The means of an order are what it has beside its verb.
type means struct {
	elsewhere *rerouting // of a reroute: where recipients go
	again     *requeuing // of a requeue: what is decided anew
}

// obey handles one page of an order.
func (s *Server) obey(ctx context.Context, v verb, o *Order, by means) (*orderOutput, error) {
	if err := s.refuse(); err != nil {
		return nil, err
	}
	if o.Filter == nil {
		o.Filter = &Filter{}
	}
	if err := o.check(v, v.harmful() || by.elsewhere.harmful()); err != nil {
		return nil, err
	}
	sel, from, err := s.parseQuery(o.Filter, o.Cursor, "body.filter")
	if err != nil {
		return nil, err
	}
	if sel.areas = narrow(sel.areas, v); len(sel.areas) == 0 {
		return nil, unprocessable("body.filter.areas", o.Filter.Areas, "there is nothing to "+v.String()+" in these areas")
	}
	sel.lapsing, sel.core, sel.elsewhere, sel.again = v == verbHold, s.locator(ctx), by.elsewhere, by.again
	release, err := s.admit()
	if err != nil {
		return nil, err
	}
	defer release()
	done, err := s.carryOut(ctx, v, o, sel, from)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return &orderOutput{*done}, nil
}

// check refuses underspecified orders: an empty filter is more often a mistake than
// it means everything, and what is harmful, such as a drop, cannot be taken back.
func (o *Order) check(v verb, harmful bool) error {
	conditional := o.Filter.conditional()
	switch {
	case !conditional && !o.All:
		return unprocessable("body.filter", nil, "give a filter with conditions, or set all")
	case conditional && o.All:
		return unprocessable("body.all", true, "all cannot be combined with a filter that has conditions")
	case harmful && !o.DryRun && len(o.Filter.IDs) == 0 && o.Confirm == 0:
		return unprocessable("body.confirm", 0, "to "+v.String()+" messages that are not named by ID, set confirm to their number, which a dry run returns")
	}
	return nil
}

// narrow returns those areas in which an order can change messages.
func narrow(areas []mail.Area, v verb) []mail.Area {
	var left []mail.Area
	for _, a := range areas {
		if slices.Contains(v.areas(), a) {
			left = append(left, a)
		}
	}
	return left
}

// heldByOperator is the hold reason if the order gives none: otherwise the last reply
// would look like the reason.
const heldByOperator = "held by an operator"

// orderMax is the maximum number of messages that a request without a limit gives an order for.
const orderMax = 20 * MessagesMax

// An assignment is one request's order, carried out page by page: while the changes of one page are made durable, the next one is read.
type assignment struct {
	verb  verb
	order *Order
	scan  *scan
	done  *Ordered
	left  []ordered // those that it was given for
}

// carryOut gives the order to as many messages as one request handles.
func (s *Server) carryOut(ctx context.Context, v verb, o *Order, sel selector, from position) (*Ordered, error) {
	most := o.Limit
	if most == 0 {
		most = orderMax
	}
	if (v.harmful() || sel.elsewhere.harmful()) && !o.DryRun && len(o.Filter.IDs) == 0 {
		most = min(most, o.Confirm)
	}
	if v == verbHold && o.Reason == "" {
		o.Reason = heldByOperator
	}
	a := assignment{verb: v, order: o, scan: s.newScan(sel), done: &Ordered{}}
	if !from.set {
		start := a.scan.sweptStart()
		start.since, from = from.since, start
	}
	for first := true; first || a.more(from, most); first = false {
		next, err := s.givePage(ctx, &a, from, min(most-a.done.Matched, MessagesMax))
		if err != nil && first {
			return nil, err
		}
		if err != nil { // the next request fails
			break
		}
		from = next
	}
	done := a.done
	done.Scanned, done.Next = a.scan.scanned, from.String()
	done.Unread = append(a.scan.unread, done.Unread...)
	for _, id := range a.scan.gone {
		done.Missing = append(done.Missing, id.String())
	}
	s.logUnread(v.String(), done.Unread)
	if o.DryRun || len(a.left) == 0 {
		return done, nil
	}
	s.log.Info("order", "verb", v.String(), "messages", len(a.left), "first", a.left[0].id.String(), "reason", o.Reason, "by", orderedBy(ctx))
	pending, err := s.settle(ctx, v, &a.scan.sel, a.left)
	done.Pending = len(pending)
	done.Splits = s.made(ctx, done.Splits, pending)
	done.Done = done.Matched - done.Pending
	return done, err
}

// more reports whether the request goes on with another page.
func (a *assignment) more(from position, most int) bool {
	const listed = MessagesMax / 2 // of what an answer lists, so that the next page has room
	switch c := a.scan; {
	case !from.set, a.done.Matched >= most, len(a.done.Splits)+len(a.done.Refused) >= listed, len(c.unread)+len(a.done.Unread) >= listed:
		return false
	case from.swept:
		return c.swept > 0 && time.Now().Before(c.deadline)
	default:
		return !c.spent()
	}
}

// givePage gives the order to at most max messages, from a position on, and returns where to continue.
func (s *Server) givePage(ctx context.Context, a *assignment, from position, max int) (next position, err error) {
	v, o, c, done := a.verb, a.order, a.scan, a.done
	switch v {
	case verbRetry:
		c.sel.untried = from.since
	case verbRequeue:
		if err := s.beginRequeue(o, c, &from); err != nil {
			return from, err
		}
	}
	found, next, err := c.run(ctx, from, max)
	if v == verbRequeue && next.set {
		next.since = from.since
	}
	if err == nil && v == verbRetry && next.set {
		next.since, err = s.begun(ctx, from)
	}
	if err != nil {
		return from, err
	}
	var ids, aside []mail.QueueID // aside are those of ids that are in the corrupt area
	now := instant(time.Now())
	for i := range found {
		m := &found[i]
		switch {
		case !v.applies(m.Place):
			done.Unchanged++
			continue
		case v == verbRelease && m.awaitsDate() && len(o.Filter.IDs) == 0:
			done.Dated++ // otherwise a release of all held mail would also send mail that only its sender's date holds
			continue
		case v == verbRelease && m.Place.Due == 0 && m.Envelope.Release > now:
			done.Dated++
		}
		applies, err := s.orderOne(ctx, v, o, &c.sel, m, done)
		if err != nil && ctx.Err() != nil {
			break // the client is gone; orders logged so far are still carried out
		}
		if err != nil && !errors.Is(err, ErrGone) {
			done.Unread = append(done.Unread, unreadOf(m.Envelope.ID, err))
		}
		if applies {
			ids, a.left = append(ids, m.Envelope.ID), append(a.left, ordered{m.Envelope.ID, m.Place})
			if m.Place.Area == mail.AreaCorrupt {
				aside = append(aside, m.Envelope.ID)
			}
		}
	}
	done.Matched += len(ids)
	if !o.DryRun && len(ids) > 0 && !v.settles(&c.sel) {
		s.give(v, ids, aside, o.Reason)
	}
	return next, nil
}

// begun returns the core's last step before an order to try messages, as seen by its first request. The requests that follow
// pass by what was deferred since then: otherwise an order for a domain whose server is down could
// meet the same messages again and again at their new places in the index. The clock of this machine would
// not do, since the core's runs on where that is set back.
func (s *Server) begun(ctx context.Context, from position) (mail.Instant, error) {
	if from.since != 0 {
		return from.since, nil
	}
	v, err := s.view(ctx, 0)
	return v.Now, err
}

func (s *Server) give(v verb, ids, aside []mail.QueueID, reason string) {
	switch v {
	case verbHold:
		s.control.Hold(ids, reason)
	case verbRelease:
		s.control.Release(ids)
	case verbDrop:
		s.control.Drop(ids)
	case verbRetry:
		if len(aside) > 0 {
			s.control.Release(aside) // rereads it, and makes it due at once if it is readable
		}
		if len(aside) < len(ids) {
			s.control.Retry(slices.DeleteFunc(slices.Clone(ids), func(id mail.QueueID) bool { return slices.Contains(aside, id) }))
		}
	}
}

// An ordered message is one that an order was given for.
type ordered struct {
	id mail.QueueID
	at mail.Place // before the order
}

// settle waits until an order has taken effect for all messages, or for
// Config.Settle, and returns those for which it has not.
func (s *Server) settle(ctx context.Context, v verb, sel *selector, left []ordered) (pending []ordered, err error) {
	if _, err := s.view(ctx, 0); err != nil {
		return left, err // the core has not received the order
	}
	if v == verbRetry {
		return nil, nil
	}
	deadline := time.Now().Add(s.cfg.Settle)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		last := time.Now().Add(pause).After(deadline)
		if left, err = s.unsettled(ctx, v, sel, left, last); err != nil || len(left) == 0 || last {
			return left, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}

// unsettled keeps the messages for which an order has not taken effect, as far as
// they can be read. A message that is gone no longer needs the order. Most are not in core, and it is enough to ask that whether
// their changes are durable. Unless all shall be looked at, it keeps those that
// follow some that wait: most orders take effect in the order in which they were given.
func (s *Server) unsettled(ctx context.Context, v verb, sel *selector, given []ordered, all bool) ([]ordered, error) {
	const some = 16
	busy, err := s.busy(ctx, given)
	if err != nil {
		return given, err
	}
	left := given[:0]
	for i, one := range given {
		if !busy[i] && one.at.Area != mail.AreaCorrupt { // what it is in that area for may not have ended
			continue
		}
		if !all && len(left) >= some {
			left = append(left, one)
			continue
		}
		waits, err := s.waits(ctx, v, sel, one)
		if ctx.Err() != nil {
			return given, ctx.Err()
		}
		if waits || err != nil && !errors.Is(err, ErrGone) {
			left = append(left, one)
		}
	}
	return left, nil
}

// busy reports which of the messages the core has to do with.
func (s *Server) busy(ctx context.Context, given []ordered) ([]bool, error) {
	ids := make([]mail.QueueID, len(given))
	for i := range given {
		ids[i] = given[i].id
	}
	return ask(ctx, func(ctx context.Context) ([]bool, error) { return s.control.Busy(ctx, ids) })
}

// waits reports whether a message is as an order must change it.
func (s *Server) waits(ctx context.Context, v verb, sel *selector, one ordered) (bool, error) {
	m, err := s.store.Show(ctx, one.id)
	waits := err == nil && v.applies(m.Place)
	if waits && v == verbRelease { // what it released may wait for a date, in the hold area as before
		waits = m.Place.Due == one.at.Due
	}
	if waits && v.settles(sel) {
		waits = false
		err = s.eachWaiting(ctx, one.id, func(r *mail.RecipientOutcome) bool {
			waits = sel.affects(&m, r)
			return !waits
		})
	}
	return waits, err
}

type flushOutput struct{ Body Flushed }

// flush tries all deferred mail now.
func (s *Server) flush(ctx context.Context, _ *struct{}) (*flushOutput, error) {
	if err := s.refuse(); err != nil {
		return nil, err
	}
	counts, err := s.counts.get(ctx, s.store)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	s.control.RetryAll()
	if _, err := s.view(ctx, 0); err != nil {
		return nil, s.problem(ctx, err)
	}
	s.log.Info("order", "verb", "flush", "deferred", counts.Deferred, "by", orderedBy(ctx))
	return &flushOutput{Flushed{Deferred: counts.Deferred}}, nil
}

func unprocessable(location string, value any, message string) error {
	return huma.Error422UnprocessableEntity("validation failed",
		&huma.ErrorDetail{Location: location, Message: message, Value: value})
}
