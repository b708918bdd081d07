package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

type showInput struct {
	ID    string `path:"id" doc:"The queue ID: 13 letters and digits."`
	From  uint32 `query:"from" doc:"Index of the first recipient to return."`
	Limit int    `query:"limit" minimum:"0" maximum:"1000" default:"100" doc:"Maximum number of recipients in the answer."`
}

// placesMax is the maximum number of a message's destinations in an answer.
const placesMax = 20

type showOutput struct{ Body Detail }

func (s *Server) show(ctx context.Context, in *showInput) (*showOutput, error) {
	m, err := s.message(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	sum, first, err := s.summary(ctx, &m, 0)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	core := &s.explain(ctx, []Message{m}, placesMax)[0]
	sum.locate(&m, core, instant(time.Now()))
	sum.suspended(s.inForce(ctx), first)
	d := detailOf(sum, &m.Envelope)
	d.Places, d.MorePlaces, d.Routing = messageDestinations(&core.view), core.view.More, core.view.Routing
	if s.cfg.Attempts != nil {
		d.remember(s.cfg.Attempts(m.Envelope.ID), s.cfg.Started)
	}
	if in.Limit == 0 {
		return &showOutput{d}, nil
	}
	list, err := s.store.Recipients(ctx, m.Envelope.ID, RecipientQuery{From: in.From, Max: in.Limit})
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, s.problem(ctx, fmt.Errorf("read recipients of %s: %w", in.ID, err))
	}
	for i := range list.Recipients {
		d.All = append(d.All, s.recipientOf(&list.Recipients[i]))
	}
	if list.More {
		d.Next = &list.Next
	}
	return &showOutput{d}, nil
}

// historyMax is the maximum number of attempts in an answer. A message with 20,000 recipients may have as many.
const historyMax = 100

// remember sets the attempts that are remembered, the oldest first, and the number of those that are not.
func (d *Detail) remember(all []Attempt, since time.Time) {
	rounds := make(map[int]bool)
	for i := range all {
		if n := all[i].Number; n <= int(d.Attempts) { // the next is under way
			rounds[n] = true
		}
	}
	if d.Forgotten = int(d.Attempts) - len(rounds); d.Forgotten > 0 {
		since = since.UTC()
		d.Since = &since
	}
	d.Older = max(len(all)-historyMax, 0)
	d.History = append(d.History, all[d.Older:]...)
}

func detailOf(sum Summary, e *mail.Envelope) Detail {
	d := Detail{
		Summary: sum, EnvID: e.EnvID, Ret: e.Ret.String(), Body: e.Body.String(), SMTPUTF8: e.SMTPUTF8, TLS: e.TLS.String(), VERP: e.VERP.String(), Warned: e.Warned, Late: e.Late,
		Date: wallOrNil(e.Release), ByMode: e.By.Mode.String(), ByTrace: e.By.Trace, ClientHelo: e.Client.Helo, Protocol: e.Client.Proto, History: []Attempt{}, All: []Recipient{},
	}
	if e.Requeued != 0 {
		d.RequeuedFrom = e.Requeued.String()
	}
	if e.Client.Addr.IsValid() {
		d.ClientAddr = e.Client.Addr.String()
	}
	if e.By.Mode != mail.ByNone {
		at := wall(e.By.At)
		d.DeliverBy = &at
	}
	return d
}

// message looks up the message that a path names.
func (s *Server) message(ctx context.Context, text string) (Message, error) {
	id, err := mail.ParseQueueID(text)
	if err != nil {
		return Message{}, huma.Error400BadRequest("bad queue ID",
			&huma.ErrorDetail{Location: "path.id", Message: err.Error(), Value: clip(text)})
	}
	m, err := s.store.Show(ctx, id)
	if err != nil {
		return Message{}, s.problem(ctx, fmt.Errorf("look up %s: %w", id, err))
	}
	return m, nil
}

type contentInput struct {
	ID string `path:"id" doc:"The queue ID: 13 letters and digits."`
}

// content sends a message as it is on disk, with its length, so that a client can
// detect truncation.
func (s *Server) content(ctx context.Context, in *contentInput) (*huma.StreamResponse, error) {
	m, err := s.message(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	r, err := s.store.Content(ctx, m.Envelope.ID)
	if err != nil {
		return nil, s.problem(ctx, fmt.Errorf("open content of %s: %w", in.ID, err))
	}
	return &huma.StreamResponse{Body: func(out huma.Context) {
		defer r.Close()
		out.SetHeader("Content-Type", "message/rfc822")
		out.SetHeader("Content-Length", strconv.FormatInt(m.Envelope.Size, 10))
		out.SetStatus(http.StatusOK)
		if _, err := io.Copy(out.BodyWriter(), r); err != nil && ctx.Err() == nil {
			s.log.Warn("content truncated", "id", in.ID, "error", err)
		}
	}}, nil
}

// clip shortens input, so that an answer does not repeat a megabyte of it.
func clip(text string) string {
	if len(text) > 64 {
		return text[:64] + "…"
	}
	return text
}
