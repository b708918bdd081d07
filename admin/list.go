package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// coreTimeout limits how long an answer waits for the core to report which messages
// it holds. After that it is sent without this information.
const coreTimeout = 250 * time.Millisecond

type listInput struct {
	Filter
	Recipients int    `query:"recipients" minimum:"0" maximum:"1000" default:"1" doc:"Maximum number of waiting recipients shown for each message."`
	Limit      int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of messages in the answer."`
	Cursor     string `query:"cursor" maxLength:"128" doc:"Where to go on: next of the answer before."`
}

type listOutput struct{ Body Page }

func (s *Server) list(ctx context.Context, in *listInput) (*listOutput, error) {
	c, found, next, release, err := s.search(ctx, &in.Filter, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	defer release()
	page := Page{Scanned: c.scanned, Next: next.String(), Messages: make([]Summary, 0, len(found)), Unread: c.unread}
	cores := s.explain(ctx, found, 1)
	suspended := s.inForce(ctx)
	now := instant(time.Now())
	for i := range found {
		sum, first, err := s.summary(ctx, &found[i], in.Recipients)
		if errors.Is(err, ErrGone) {
			continue
		}
		if ctx.Err() != nil {
			return nil, s.problem(ctx, err)
		}
		if err != nil {
			page.Unread = append(page.Unread, unreadOf(found[i].Envelope.ID, err))
		}
		sum.locate(&found[i], &cores[i], now)
		sum.suspended(suspended, first)
		page.Messages = append(page.Messages, sum)
	}
	s.logUnread("list", page.Unread)
	return &listOutput{page}, nil
}

func unreadOf(id mail.QueueID, err error) Unread {
	return Unread{ID: id.String(), Error: err.Error()}
}

// logUnread logs in one line that a request left messages out, since a damaged disk has
// many of them.
func (s *Server) logUnread(request string, unread []Unread) {
	if len(unread) > 0 {
		s.log.Error("admin: cannot read messages", "request", request, "messages", len(unread), "first", unread[0].ID, "error", unread[0].Error)
	}
}

// summary returns the summary of a message without the core's part, with at most
// recipients waiting recipients, and the first of the recipients that it could name. With an error it
// contains what could be read.
func (s *Server) summary(ctx context.Context, m *Message, recipients int) (sum Summary, first mail.Address, err error) {
	e := &m.Envelope
	if m.Damage != "" && e.Arrived == 0 {
		known := *e
		known.Arrived, e = known.ID.Time(), &known // the ID contains that time
	}
	sum = Summary{
		ID: e.ID.String(), Area: m.Place.Area.String(), Sender: string(e.Sender), Size: e.Size,
		Class: e.Flow.Class, Tenant: e.Flow.Tenant, Flow: e.Flow.Flow,
		Arrived: wall(e.Arrived), Attempts: e.Attempts, LastAttempt: wallOrNil(e.LastAttempt),
		Total: e.Recipients, Waiting: m.waiting(), Reason: m.Reason, Damage: m.Damage,
	}
	switch m.Place.Area {
	case mail.AreaDeferred:
		sum.Due = wallOrNil(m.Place.Due)
	case mail.AreaHold:
		sum.Until = wallOrNil(m.Place.Due)
	}
	list, err := s.named(ctx, &sum, e.ID, max(recipients, 1))
	switch {
	case errors.Is(err, ErrDamaged):
		return sum, "", nil
	case err != nil:
		return sum, "", fmt.Errorf("read its recipients: %w", err)
	}
	if sum.Reason == "" && len(list) > 0 {
		sum.Reason, sum.ReplyClass = list[0].Outcome.Reply.String(), s.cfg.ReplyClass(list[0].Outcome.Reply)
	}
	if len(list) > 0 {
		first, sum.Route = list[0].Recipient.Address, rerouteOf(list[0].Outcome.Ordered)
	}
	for i := range list[:min(len(list), recipients)] {
		sum.Recipients = append(sum.Recipients, s.recipientOf(&list[i]))
	}
	return sum, first, nil
}

// named returns the recipients that a summary names: the first that wait, or the
// first of all if none waits, as in a held message.
func (s *Server) named(ctx context.Context, sum *Summary, id mail.QueueID, max int) ([]mail.RecipientOutcome, error) {
	if sum.Waiting > 0 {
		return s.waiting(ctx, id, max)
	}
	list, err := s.store.Recipients(ctx, id, RecipientQuery{Max: max})
	return list.Recipients, err
}

// waiting returns the first recipients of a message that wait.
func (s *Server) waiting(ctx context.Context, id mail.QueueID, max int) ([]mail.RecipientOutcome, error) {
	var found []mail.RecipientOutcome
	for from := uint32(0); ; {
		list, err := s.store.Recipients(ctx, id, RecipientQuery{From: from, Max: max - len(found), Waiting: true})
		if err != nil {
			return nil, err
		}
		found = append(found, list.Recipients...)
		if !list.More || len(found) >= max {
			return found, nil
		}
		from = list.Next
	}
}

// A whereabouts is the core's part of a summary.
type whereabouts struct {
	silent bool // it did not answer in time
	view   qmgr.MessageView
}

// explain asks the core about some messages.
func (s *Server) explain(ctx context.Context, messages []Message, most int) []whereabouts {
	answers := make([]whereabouts, len(messages))
	for i := range answers {
		answers[i].silent = true
	}
	if len(messages) == 0 {
		return answers
	}
	ctx, cancel := context.WithTimeout(ctx, coreTimeout)
	defer cancel()
	ids := make([]mail.QueueID, len(messages))
	for i := range messages {
		ids[i] = messages[i].Envelope.ID
	}
	views, err := s.scheduler.Explain(ctx, ids, most)
	if err != nil || len(views) != len(ids) {
		return answers
	}
	for i := range views {
		answers[i] = whereabouts{view: views[i]}
	}
	return answers
}

// awaitsDate reports whether a message waits only for the date until which its sender has it kept.
func (m *Message) awaitsDate() bool {
	return m.Place.Area == mail.AreaHold && m.Place.Due > 0 && m.Place.Due == m.Envelope.Release
}

// locate sets a message's state and what it waits for.
func (sum *Summary) locate(m *Message, core *whereabouts, now mail.Instant) {
	has := core.view.Held
	sum.Ordered = core.view.Ordered.String()
	if !core.silent {
		sum.InCore = &has
	}
	switch m.Place.Area {
	case mail.AreaHold:
		sum.State, sum.Wait = StateHold, WaitRelease
		if m.awaitsDate() {
			sum.Wait = WaitDate
		}
	case mail.AreaCorrupt:
		sum.State, sum.Wait = StateCorrupt, WaitRepair
	case mail.AreaDeferred:
		sum.State, sum.Wait = StateDeferred, WaitBackoff
		if m.Place.Due <= now {
			sum.Wait = WaitRoom
		}
	default:
		sum.State, sum.Wait = StateIncoming, WaitRoom
	}
	resting := m.Place.Area == mail.AreaIncoming || m.Place.Area == mail.AreaDeferred
	if parked := core.view.Parked; parked != qmgr.WaitNone && resting {
		sum.Wait, sum.WaitReason = WaitParked, waitReasonOf(&qmgr.WaitReason{Kind: parked}, "")
	}
	if has && resting {
		sum.State, sum.Wait, sum.Deliveries = StateActive, WaitCore, core.view.Busy
		if len(core.view.Places) > 0 {
			sum.WaitReason = messageDestination(&core.view.Places[0]).WaitReason
		}
	}
}

func (s *Server) recipientOf(r *mail.RecipientOutcome) Recipient {
	var doubtful []Doubtful
	for _, one := range r.Outcome.Doubts.All() {
		doubtful = append(doubtful, Doubtful{Host: one.Host.String(), Times: int(one.Times)})
	}
	return Recipient{
		Doubtful: doubtful,
		Index:    r.Recipient.Index, Address: string(r.Recipient.Address), Result: r.Outcome.Result.String(),
		Reply: r.Outcome.Reply.Said().Lines(), ReplyClass: s.cfg.ReplyClass(r.Outcome.Reply), PutOff: r.Outcome.Reply.PutOff(), Expired: r.Outcome.Expired, By: r.Outcome.Reply.By, At: wallOrNil(r.Outcome.At),
		ORcpt: r.Recipient.ORcpt, Notify: r.Recipient.Notify.String(), Route: rerouteOf(r.Outcome.Ordered),
	}
}

func instant(t time.Time) mail.Instant { return mail.Instant(t.UnixNano()) }

func wall(i mail.Instant) time.Time { return time.Unix(0, int64(i)).UTC() }

func wallOrNil(i mail.Instant) *time.Time {
	if i == 0 || i == mail.Never {
		return nil
	}
	t := wall(i)
	return &t
}
