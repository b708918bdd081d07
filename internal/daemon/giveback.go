package daemon

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/internal/submit"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/report"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A givingBack sends messages of the maildrop that are refused back to their senders. A report on them is
// as one on a message in the spool, and is sent to the address that the message would have had as
// its sender there.
type givingBack struct {
	reporter *report.Reporter
	edits    *atomic.Pointer[inbound.Edits]
	arrived  func(mail.Arrival)
}

// giveBack implements returner.
func (g *givingBack) giveBack(ctx context.Context, s *submit.Sending, why *submit.Refusal) (told, whole bool, err error) {
	sender := s.Sender
	if edits := g.edits.Load(); edits != nil && edits.Others.Addresses != nil {
		if a, err := edits.Others.Addresses.Sender(sender); err == nil {
			sender = a
		}
	}
	sender, ok := answerable(sender)
	if !ok || !s.Notify.Failure() {
		return false, false, nil
	}
	content, all, err := s.Message.Content()
	if err != nil {
		return false, false, err
	}
	env := mail.Envelope{Sender: sender, EnvID: smtp.EncodeXtext(s.EnvID), Ret: s.Ret, Arrived: mail.Instant(time.Now().UnixNano()), Size: s.Message.Size()}
	if !all {
		env.Ret = mail.RetHeaders
	}
	arrivals, whole, err := g.reporter.Return(ctx, env, refusedOf(s, why), content)
	for _, a := range arrivals {
		g.arrived(a)
	}
	return len(arrivals) > 0, whole, err
}

// answerable returns an address as reports are sent to it; ok is false if they cannot be. Anybody may have
// written it.
func answerable(sender mail.Address) (a mail.Address, ok bool) {
	p, rest, fault := smtp.ParsePath([]byte("<"+string(sender)+">"), smtp.PathRules{Underscore: true, LocalMax: 255})
	return p.Address, fault == smtp.FaultNone && len(rest) == 0 && p.Address != ""
}

// refusedOf yields the recipients who do not get a message, and why. It is not sent to any if one is refused.
func refusedOf(s *submit.Sending, why *submit.Refusal) iter.Seq2[mail.RecipientOutcome, error] {
	return func(yield func(mail.RecipientOutcome, error) bool) {
		index := uint32(0)
		for a, err := range s.Message.Unsent(why.Mark) {
			reply := why.Reply
			if why.Recipient != "" && a != why.Recipient {
				reply = mail.Reply{Code: 554, Status: mail.Status{Class: 5, Subject: 3}, Text: fmt.Sprintf("not sent, since another recipient was refused: <%s>: %s", why.Recipient, why.Reply)}
			}
			ro := mail.RecipientOutcome{Recipient: mail.Recipient{Index: index, Address: a, Notify: s.Notify},
				Outcome: mail.Outcome{Index: index, Result: mail.Failed, Reply: reply, Report: mail.ReportFailed, At: mail.Instant(time.Now().UnixNano())}}
			if !yield(ro, err) || err != nil {
				return
			}
			index++
		}
	}
}
