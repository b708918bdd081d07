package outbound

import (
	"context"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// An Agent attempts deliveries; it is the driver's port of the same name.
type Agent interface {
	Deliver(ctx context.Context, d mail.Delivery) mail.DeliveryResult
}

// Agents passes each delivery to the agent of its transport, by name. It must
// not be changed while it is in use.
type Agents map[string]Agent

// Deliver calls the transport's agent. Mail for an unknown transport is deferred:
// the configuration may have been changed while it waited.
func (a Agents) Deliver(ctx context.Context, d mail.Delivery) mail.DeliveryResult {
	if agent := a[d.Transport]; agent != nil {
		return agent.Deliver(ctx, d)
	}
	return unknownTransport(d)
}

func unknownTransport(d mail.Delivery) mail.DeliveryResult {
	why := unconfigured(d.Transport)
	r := verdict(d, mail.Deferred, why)
	r.Crashed, r.Unavailable = true, why
	return r
}

// Discard accepts all mail and drops it (Postfix's discard(8)). The nexthop is a
// comment.
type Discard struct{}

// Deliver reports every recipient as delivered. NOTIFY=SUCCESS is honored with a
// report of delivery, since no later hop can send one.
func (Discard) Deliver(_ context.Context, d mail.Delivery) mail.DeliveryResult {
	text := "mail dropped"
	if d.Nexthop != "" {
		text += ": " + d.Nexthop
	}
	r := verdict(d, mail.Delivered, mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: mail.CleanText(text)})
	for i := range r.Outcomes {
		if d.Recipients[i].Notify.Success() && d.Envelope.Sender != "" {
			r.Outcomes[i].Report = mail.ReportDelivered
		}
	}
	return r
}

// Error refuses all mail permanently (Postfix's error(8)). The nexthop is the
// reason; it may begin with an enhanced code of class 5.
type Error struct{}

// Deliver fails every recipient with the nexthop's text. The reply that has led to it (mail.Delivery.Said) keeps its code and
// status: a host's always, one of this program if it is permanent.
func (Error) Deliver(_ context.Context, d mail.Delivery) mail.DeliveryResult {
	ours := reason(d.Nexthop, 550, mail.Status{Class: 5})
	if d.Said.By != "" || d.Said.Permanent() {
		ours = d.Said
	}
	return verdict(d, mail.Failed, ours)
}

// Retry refuses all mail temporarily (Postfix's retry(8)). The nexthop is the
// reason; it may begin with an enhanced code of class 4.
type Retry struct{}

// Deliver defers every recipient with the nexthop's text. As with Error, the reply that has led to it keeps its code and status,
// one of this program if it is temporary.
func (Retry) Deliver(_ context.Context, d mail.Delivery) mail.DeliveryResult {
	ours := reason(d.Nexthop, 450, mail.Status{Class: 4})
	if d.Said.By != "" || d.Said.Temporary() {
		ours = d.Said
	}
	return verdict(d, mail.Deferred, ours)
}

// reason converts a nexthop's text to a reply. A status of another class keeps its
// subject and detail.
func reason(text string, code uint16, otherwise mail.Status) mail.Reply {
	status, rest, ok := mail.ParseStatus(strings.TrimSpace(text))
	if !ok {
		status, rest = otherwise, strings.TrimSpace(text)
	}
	status.Class = otherwise.Class
	if rest == "" {
		rest = "mail is not delivered here"
	}
	return mail.Reply{Code: code, Status: status, Text: mail.CleanText(rest)}
}

// verdict gives all recipients the same outcome.
func verdict(d mail.Delivery, result mail.Result, reply mail.Reply) mail.DeliveryResult {
	at := now()
	outcomes := make([]mail.Outcome, len(d.Recipients))
	for i := range outcomes {
		outcomes[i] = mail.Outcome{Index: d.Recipients[i].Index, Result: result, Reply: reply, At: at}
	}
	return mail.DeliveryResult{Outcomes: outcomes}
}

func now() mail.Instant { return mail.Instant(time.Now().UnixNano()) }
