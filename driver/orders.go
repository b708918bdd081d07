package driver

import (
	"context"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/pause"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// Arrived reports a message that has become durable.
func (d *Driver) Arrived(a mail.Arrival) { d.inbox.event(qmgr.Arrived{Arrival: a}) }

// Hold holds messages until they are released.
func (d *Driver) Hold(ids []mail.QueueID, reason string) {
	d.inbox.event(qmgr.Hold{IDs: ids, Reason: reason})
}

// Release puts held messages back, due at once.
func (d *Driver) Release(ids []mail.QueueID) { d.inbox.event(qmgr.Release{IDs: ids}) }

// Drop removes messages without a report.
func (d *Driver) Drop(ids []mail.QueueID) { d.inbox.event(qmgr.Drop{IDs: ids}) }

// Settle marks some recipients of a message as failed; the outcomes say which, and
// whether a report is owed. last means that no other recipient waits. Without
// outcomes it makes the report that a held message owes.
func (d *Driver) Settle(id mail.QueueID, outcomes []mail.Outcome, last bool) {
	d.inbox.event(qmgr.Settle{ID: id, Outcomes: outcomes, Last: last})
}

// Split moves some recipients of a message to a new message, which is held or, with s.Requeue, takes the place of the
// message. last, of a requeue, means that no other recipient waits.
func (d *Driver) Split(id mail.QueueID, s mail.Split, last bool) {
	d.inbox.event(qmgr.Split{ID: id, Split: s, Last: last})
}

// SetRoute has some recipients of a message go where an operator says, or again where the configuration says.
func (d *Driver) SetRoute(id mail.QueueID, r mail.Reroute) {
	d.inbox.event(qmgr.SetRoute{ID: id, Reroute: r})
}

// Kept says when the first held mail is due, best at the start.
func (d *Driver) Kept(due mail.Instant) { d.inbox.event(qmgr.Kept{Due: due}) }

// Retry tries messages now.
func (d *Driver) Retry(ids []mail.QueueID) { d.inbox.event(qmgr.Retry{IDs: ids}) }

// RetryAll tries all deferred mail now.
func (d *Driver) RetryAll() { d.inbox.event(qmgr.RetryAll{}) }

// AdjustWarmup changes where a source is in its warm-up plan.
func (d *Driver) AdjustWarmup(o warmup.Order) { d.inbox.event(qmgr.AdjustWarmup{Order: o}) }

// Configure replaces the configuration: the core's limits and the flow delay.
// Grace and Readers keep their values until the next start.
func (d *Driver) Configure(cfg Config) error {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	d.flowDelay.Store(int64(cfg.FlowDelay))
	d.deadline.Store(int64(cfg.Qmgr.VerifyDeadline))
	d.inbox.event(qmgr.Configure{Config: cfg.Qmgr})
	if d.ports.Replies != nil { // they may be others, too
		d.inbox.event(qmgr.Rules{Names: d.book().RuleNames()})
	}
	return nil
}

// Reroute has the mail that waits routed again, by the Router that is in force now.
func (d *Driver) Reroute() { d.inbox.event(qmgr.Reroute{}) }

// Drain makes Run return when there is nothing left to try: when all mail in the
// spool, including that reported before by Arrived, is done or held. It is for
// hosts whose input is finite; it does not wait.
func (d *Driver) Drain() { d.inbox.put(item{question: drainRequest{}}) }

// View returns a snapshot of the core with at most queues destinations for each
// transport. It returns ctx's error if the driver does not answer in time, as
// before Run is called. After Run has returned, it shows the core's final state.
func (d *Driver) View(ctx context.Context, queues int) (qmgr.View, error) {
	req := viewRequest{queues: queues, reply: make(chan qmgr.View, 1)}
	return consult(ctx, d, req, req.reply)
}

// Destination returns what the core holds of a nexthop of a transport, with at most
// most hosts and most connections; false if it holds nothing. Errors are as for
// View.
func (d *Driver) Destination(ctx context.Context, transport, nexthop string, most int) (qmgr.DestinationView, bool, error) {
	req := destinationRequest{transport: transport, nexthop: nexthop, most: most, reply: make(chan destinationReply, 1)}
	r, err := consult(ctx, d, req, req.reply)
	return r.view, r.held, err
}

// Destinations returns a page of the destinations that the core holds. The query's
// Match is called on the goroutine that owns the core. Errors are as for View.
func (d *Driver) Destinations(ctx context.Context, query qmgr.DestinationQuery) (qmgr.DestinationList, error) {
	req := destinationsRequest{query: query, reply: make(chan qmgr.DestinationList, 1)}
	return consult(ctx, d, req, req.reply)
}

// Sources returns our addresses towards receivers, with at most sites destinations of each.
// Errors are as for View.
func (d *Driver) Sources(ctx context.Context, sites int) ([]qmgr.SourceView, error) {
	req := sourcesRequest{sites: sites, reply: make(chan []qmgr.SourceView, 1)}
	return consult(ctx, d, req, req.reply)
}

// Flows returns the flows that have most mail waiting in core. The query's Match is called
// on the goroutine that owns the core. Errors are as for View.
func (d *Driver) Flows(ctx context.Context, query qmgr.FlowQuery) (qmgr.FlowList, error) {
	req := flowsRequest{query: query, reply: make(chan qmgr.FlowList, 1)}
	return consult(ctx, d, req, req.reply)
}

// Jobs returns the jobs of a transport, at most lanes lanes and most jobs of each; false if there is no such
// transport. Errors are as for View.
func (d *Driver) Jobs(ctx context.Context, transport string, lanes, most int) (qmgr.JobList, bool, error) {
	req := jobsRequest{transport: transport, lanes: lanes, most: most, reply: make(chan jobsReply, 1)}
	r, err := consult(ctx, d, req, req.reply)
	return r.list, r.known, err
}

// Tenants returns the tenants that have most mail waiting in core. Errors are as for View.
func (d *Driver) Tenants(ctx context.Context, most int) (qmgr.TenantList, error) {
	req := tenantsRequest{most: most, reply: make(chan qmgr.TenantList, 1)}
	return consult(ctx, d, req, req.reply)
}

// Explain returns where each message is in core, with at most most destinations.
// Errors are as for View.
func (d *Driver) Explain(ctx context.Context, ids []mail.QueueID, most int) ([]qmgr.MessageView, error) {
	req := explainRequest{ids: slices.Clone(ids), most: most, reply: make(chan []qmgr.MessageView, 1)}
	return consult(ctx, d, req, req.reply)
}

// ExplainRecipient returns where the recipient with an index is in core, of a message with an
// ID. Errors are as for View.
func (d *Driver) ExplainRecipient(ctx context.Context, id mail.QueueID, index uint32) (qmgr.RecipientView, error) {
	req := explainRecipientRequest{id: id, index: index, reply: make(chan qmgr.RecipientView, 1)}
	return consult(ctx, d, req, req.reply)
}

// InCore reports for each message whether it is in core, that is, scheduled for
// delivery. Errors are as for View.
func (d *Driver) InCore(ctx context.Context, ids []mail.QueueID) ([]bool, error) {
	return d.which(ctx, ids, (*qmgr.Qmgr).InCore)
}

// Busy reports for each message whether it is in core, or a change that an operator has ordered is not durable
// yet. Errors are as for View.
func (d *Driver) Busy(ctx context.Context, ids []mail.QueueID) ([]bool, error) {
	return d.which(ctx, ids, (*qmgr.Qmgr).Busy)
}

func (d *Driver) which(ctx context.Context, ids []mail.QueueID, true func(*qmgr.Qmgr, mail.QueueID) bool) ([]bool, error) {
	req := whichRequest{ids: slices.Clone(ids), true: true, reply: make(chan []bool, 1)}
	return consult(ctx, d, req, req.reply)
}

// consult passes a question to the owner of the core or, after Run has returned,
// answers it itself: by then questions change nothing.
func consult[T any](ctx context.Context, d *Driver, q question, reply <-chan T) (T, error) {
	d.inbox.put(item{question: q})
	select {
	case v := <-reply:
		return v, nil
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case <-d.atRest:
	}
	select {
	case v := <-reply: // the owner's last answer
		return v, nil
	default:
		q.ask(d)
		return <-reply, nil
	}
}

// Wait delays the intake of a message by FlowDelay if delivery has fallen behind,
// that is, if new mail waits in the spool because the core is full (in_flow_delay
// in Postfix). It returns ctx's error if that ends first.
func (d *Driver) Wait(ctx context.Context) error {
	delay := time.Duration(d.flowDelay.Load())
	if delay <= 0 || !d.behind.Load() {
		return nil
	}
	if !pause.For(ctx, delay) {
		return ctx.Err()
	}
	return nil
}
