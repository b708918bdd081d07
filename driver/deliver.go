package driver

import (
	"context"
	"log/slog"
	"time"

	"github.com/posthaste-mta/posthaste/internal/logline"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/replies"
	"github.com/posthaste-mta/posthaste/tlspolicy"
)

// deliver attempts an entry on a goroutine of the pool.
func (d *Driver) deliver(a qmgr.Deliver) {
	start := time.Now()
	result := d.attempt(a.Delivery)
	d.book().Delivered(&a.Delivery, &result)
	d.noteDelivered(&a.Delivery, &result)
	d.ended(&a.Delivery, &result, start)
	answer := item{event: qmgr.Delivered{Entry: a.Entry, Result: result}, ends: true}
	if result.Unavailable.IsZero() {
		d.inbox.put(answer)
		return
	}
	// Must precede the answer, or the core would start the next delivery in its
	// place.
	d.inbox.put(item{event: qmgr.AgentUnavailable{Transport: a.Delivery.Transport, Reply: result.Unavailable}}, answer)
}

// noteDelivered notes the outcome of a delivery before anything else is done with it: what
// is not noted when the process is killed is delivered again.
func (d *Driver) noteDelivered(a *mail.Delivery, r *mail.DeliveryResult) {
	if d.ports.Notebook != nil && !a.Callout {
		d.ports.Notebook.NoteDelivered(a.Envelope.ID, r.Outcomes)
	}
}

// attempt lets the transport's agent, if it has one, attempt a delivery.
func (d *Driver) attempt(a mail.Delivery) mail.DeliveryResult {
	if agent := d.ports.Agent(a.Transport); agent != nil {
		return agent.Deliver(d.deliverCtx, a)
	}
	r := mail.DeliveryResult{Crashed: true, Unavailable: mail.Reply{Code: 451, Status: mail.Status{Class: 4, Subject: 3},
		Text: "mail transport unavailable"}}
	for _, rcpt := range a.Recipients {
		r.Outcomes = append(r.Outcomes, mail.Outcome{Index: rcpt.Index, Result: mail.Deferred, Reply: r.Unavailable})
	}
	return r
}

// lookUp completes a route on a goroutine of the pool. A lookup that is interrupted
// by the driver's end is not answered: the core has been halted, and waits only for
// changes and deliveries.
func (d *Driver) lookUp(a qmgr.Lookup) {
	to := d.ports.Finder.Lookup(d.workCtx, mail.Route{Transport: a.Transport, Nexthop: a.Nexthop, Credential: a.Credential}, a.TLS)
	if d.workCtx.Err() == nil {
		d.inbox.event(qmgr.LookedUp{Lookup: a.Lookup, Route: to})
	}
}

// ended counts and logs an attempt.
func (d *Driver) ended(a *mail.Delivery, r *mail.DeliveryResult, start time.Time) {
	if a.Callout {
		if d.log.Enabled(context.Background(), slog.LevelInfo) {
			d.logCallout(a, r)
		}
		return
	}
	noteVia(a, r.Outcomes)
	arrived := time.Unix(0, int64(a.Envelope.Since()))
	delays := [3]time.Duration{max(start.Sub(arrived), 0), r.Connect, r.Send}
	if a.Transport != qmgr.TransportRetry { // or it was put off without an attempt
		d.counters.attempt(a, r, &delays)
	}
	d.journal.note(a, r, time.Now())
	d.logOutcomes(a, r, &delays)
}

// noteVia records the way of recipients that are deferred, for operators who look for mail by its
// site or its source. The strings are those of the core's queue.
func noteVia(a *mail.Delivery, outcomes []mail.Outcome) {
	for i := range outcomes {
		if o := &outcomes[i]; o.Result == mail.Deferred {
			o.Via = a.Via()
		}
	}
}

// logOutcomes writes one line for each recipient, and counts its outcome. Operators search for exactly these keys.
// Transport and nexthop are those that the mail was routed to, even if they are dead and it was
// given to TransportRetry. The delays are: before this attempt, without the time for which the sender had it kept, lookup and connection, transaction.
// reply_class is what a refusal is about (package replies), stage the command that was refused, policy what was demanded of the connection's
// security, tls what was negotiated.
// If it is unknown whether a recipient got the message, the line ends in unknown=true. Package event has all fields.
func (d *Driver) logOutcomes(a *mail.Delivery, r *mail.DeliveryResult, delays *[3]time.Duration) {
	known := classes{book: d.book()}
	tried := a.Transport != qmgr.TransportRetry // or no receiver has said anything
	if !d.log.Enabled(context.Background(), slog.LevelInfo) {
		for i := 0; i < len(r.Outcomes) && tried; i++ {
			o := &r.Outcomes[i]
			d.counters.outcomes[o.Result][known.of(o.Reply)].Add(1)
		}
		return
	}
	whole, parts := delays[0]+delays[1]+delays[2], logline.Delays(*delays)
	host := r.Host
	if host == "" {
		host = "none"
	}
	transport, nexthop := a.Destination()
	policy := tlspolicy.Word(a.Demanded())
	for i, o := range r.Outcomes {
		class := known.of(o.Reply)
		if tried {
			d.counters.outcomes[o.Result][class].Add(1)
		}
		var room [20]slog.Attr
		attrs := append(room[:0],
			slog.String("id", a.Envelope.ID.String()),
			slog.String("from", string(a.Envelope.Sender)),
			slog.String("to", string(a.Recipients[i].Address)),
			slog.String("transport", transport),
			slog.String("nexthop", nexthop),
			slog.String("host", host),
			slog.String("status", o.Result.String()),
			slog.Duration("delay", whole),
			slog.Any("delays", &parts),
			slog.Int("attempt", int(a.Envelope.Attempts)+1),
			slog.String("reply", o.Reply.String()))
		if class != replies.ClassNone {
			attrs = append(attrs, slog.String("reply_class", class.String()))
		}
		if class != replies.ClassNone && o.Stage != mail.StageUnknown {
			attrs = append(attrs, slog.String("stage", o.Stage.String()))
		}
		if a.Source != "" {
			attrs = append(attrs, slog.String("source", a.Source))
		}
		if policy != "" {
			attrs = append(attrs, slog.String("policy", policy))
		}
		if !r.Security.IsZero() {
			attrs = append(attrs, slog.String("tls", r.Security.String()))
		}
		attrs = appendFlow(attrs, &a.Envelope.Flow)
		if o.Unknown {
			if o.Doubts != nil {
				attrs = append(attrs, slog.String("doubtful", o.Doubts.String()))
			}
			attrs = append(attrs, slog.Bool("unknown", true))
		}
		logline.Log(d.log, slog.LevelInfo, "delivery", attrs...)
	}
}

// logCallout logs what a receiver has said about a recipient. A call-out that was not
// made is repeated and not logged.
func (d *Driver) logCallout(a *mail.Delivery, r *mail.DeliveryResult) {
	for i, o := range r.Outcomes {
		status := ""
		switch {
		case o.Result == mail.Delivered:
			status = "deliverable"
		case o.Result == mail.Failed:
			status = "undeliverable"
		case o.Result == mail.Deferred && o.Unknown:
			status = "not asked"
		case o.Result == mail.Deferred:
			status = "unsure"
		default:
			continue
		}
		d.log.LogAttrs(context.Background(), slog.LevelInfo, "callout",
			slog.String("id", a.Envelope.ID.String()), slog.String("from", string(a.Envelope.Sender)), slog.String("to", string(a.Recipients[i].Address)),
			slog.String("transport", a.Transport), slog.String("nexthop", a.Nexthop), slog.String("host", r.Host),
			slog.String("status", status), slog.Duration("delay", r.Connect+r.Send), slog.String("reply", o.Reply.String()))
	}
}

// appendFlow appends to whom a message counts, nothing if it was not classified.
func appendFlow(attrs []slog.Attr, f *mail.Flow) []slog.Attr {
	if f.Class == "" {
		return attrs
	}
	return append(attrs, slog.String("class", f.Class), slog.String("tenant", f.Tenant), slog.String("flow", f.Flow))
}

// logNote logs a note of the core.
func (d *Driver) logNote(n qmgr.Note) {
	level, text := slog.LevelInfo, n.Kind.String()
	switch n.Kind {
	case qmgr.NoteRemoved, qmgr.NoteDuplicate:
		level = slog.LevelDebug
	case qmgr.NoteDead, qmgr.NoteExpired, qmgr.NoteOverdue, qmgr.NoteWithdrawn:
		level = slog.LevelWarn
	case qmgr.NoteCorrupt, qmgr.NoteMixed:
		level = slog.LevelError
	}
	if !d.log.Enabled(context.Background(), level) {
		return
	}
	var room [16]slog.Attr
	attrs := room[:0]
	if n.ID != 0 {
		attrs = append(attrs, slog.String("id", n.ID.String()))
	}
	if n.Sender != "" {
		attrs = append(attrs, slog.String("from", string(n.Sender)))
	}
	attrs = appendFlow(attrs, &n.Flow)
	if n.Transport != "" {
		attrs = append(attrs, slog.String("transport", n.Transport))
	}
	if n.Nexthop != "" {
		attrs = append(attrs, slog.String("nexthop", n.Nexthop))
	}
	if n.Domain != "" {
		attrs = append(attrs, slog.String("domain", n.Domain))
	}
	if n.Source != "" {
		attrs = append(attrs, slog.String("source", n.Source))
	}
	if n.Security != "" {
		attrs = append(attrs, slog.String("security", n.Security))
	}
	if n.At != 0 {
		attrs = append(attrs, slog.Time("next", time.Unix(0, int64(n.At))))
	}
	if n.Text != "" {
		attrs = append(attrs, slog.String("reason", n.Text))
	}
	for _, of := range [...][2]string{{"refused_senders", n.Refusers.Senders}, {"refused_tenants", n.Refusers.Tenants}, {"refused_domains", n.Refusers.Domains}} {
		if of[1] != "" {
			attrs = append(attrs, slog.String(of[0], of[1]))
		}
	}
	logline.Log(d.log, level, text, attrs...)
}

// logFeedback logs a window after feedback, if the operator asks for it
// (destination_concurrency_feedback_debug).
func (d *Driver) logFeedback(f *qmgr.Feedback) {
	d.log.LogAttrs(context.Background(), slog.LevelInfo, "window",
		slog.String("transport", f.Transport), slog.String("nexthop", f.Nexthop),
		slog.String("cause", f.Cause.String()),
		slog.Int("window", f.Window), slog.Int("limit", f.Limit),
		slog.Float64("success", f.Success), slog.Float64("failure", f.Failure),
		slog.Float64("cohorts", f.FailedCohorts))
}
