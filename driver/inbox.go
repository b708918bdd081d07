package driver

import (
	"sync"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// An inbox carries events to the goroutine that owns the core. A sender of several
// events puts them in together, so that the owner is woken once.
//
// It has no bound of its own: everything in it is an answer to an action of the
// core, a message that is safe on disk, an operator's order, or a question whose
// caller waits; the core's limits bound the first, the spool's room the second.
type inbox struct {
	mu     sync.Mutex
	items  []item
	wakeup chan struct{} // buffer of one
}

// An item is an event, or a question.
type item struct {
	event    qmgr.Event
	ends     bool // event ends a delivery, a change or a report that was under way
	question question
	link     *link // Dialed: the connection that is ready
}

// A question is answered by the owner, between two steps.
type question interface{ ask(d *Driver) }

// viewRequest asks for a snapshot.
type viewRequest struct {
	queues int
	reply  chan qmgr.View // buffer of one
}

func (r viewRequest) ask(d *Driver) { r.reply <- d.core.View(r.queues) }

// destinationRequest asks what the core holds of one destination.
type destinationRequest struct {
	transport, nexthop string
	most               int
	reply              chan destinationReply // buffer of one
}

type destinationReply struct {
	view qmgr.DestinationView
	held bool
}

func (r destinationRequest) ask(d *Driver) {
	view, held := d.core.Destination(r.transport, r.nexthop, r.most)
	r.reply <- destinationReply{view, held}
}

// destinationsRequest asks for a page of destinations.
type destinationsRequest struct {
	query qmgr.DestinationQuery
	reply chan qmgr.DestinationList // buffer of one
}

func (r destinationsRequest) ask(d *Driver) { r.reply <- d.core.Destinations(r.query) }

// sourcesRequest asks for the sources.
type sourcesRequest struct {
	sites int
	reply chan []qmgr.SourceView // buffer of one
}

func (r sourcesRequest) ask(d *Driver) { r.reply <- d.core.Sources(r.sites) }

// flowsRequest asks for flows.
type flowsRequest struct {
	query qmgr.FlowQuery
	reply chan qmgr.FlowList // buffer of one
}

func (r flowsRequest) ask(d *Driver) { r.reply <- d.core.Flows(r.query) }

// jobsRequest asks for the jobs of a transport.
type jobsRequest struct {
	transport   string
	lanes, most int
	reply       chan jobsReply // buffer of one
}

type jobsReply struct {
	list  qmgr.JobList
	known bool
}

func (r jobsRequest) ask(d *Driver) {
	list, known := d.core.Jobs(r.transport, r.lanes, r.most)
	r.reply <- jobsReply{list, known}
}

// tenantsRequest asks for tenants.
type tenantsRequest struct {
	most  int
	reply chan qmgr.TenantList // buffer of one
}

func (r tenantsRequest) ask(d *Driver) { r.reply <- d.core.Tenants(r.most) }

// explainRequest asks where messages are in core.
type explainRequest struct {
	ids   []mail.QueueID
	most  int
	reply chan []qmgr.MessageView // buffer of one
}

func (r explainRequest) ask(d *Driver) { r.reply <- d.core.Explain(r.ids, r.most) }

// explainRecipientRequest asks where one recipient is in core.
type explainRecipientRequest struct {
	id    mail.QueueID
	index uint32
	reply chan qmgr.RecipientView // buffer of one
}

func (r explainRecipientRequest) ask(d *Driver) { r.reply <- d.core.ExplainRecipient(r.id, r.index) }

// drainRequest asks Run to return when there is nothing left to try.
type drainRequest struct{}

func (drainRequest) ask(d *Driver) { d.draining = true }

// whichRequest asks for which messages something is true.
type whichRequest struct {
	ids   []mail.QueueID
	true  func(*qmgr.Qmgr, mail.QueueID) bool
	reply chan []bool // buffer of one
}

func (r whichRequest) ask(d *Driver) {
	which := make([]bool, len(r.ids))
	for i, id := range r.ids {
		which[i] = r.true(d.core, id)
	}
	r.reply <- which
}

func newInbox() *inbox { return &inbox{wakeup: make(chan struct{}, 1)} }

func (b *inbox) put(items ...item) {
	if len(items) == 0 {
		return
	}
	b.mu.Lock()
	b.items = append(b.items, items...)
	b.mu.Unlock()
	select {
	case b.wakeup <- struct{}{}:
	default: // the owner has been woken and has not yet read the inbox
	}
}

func (b *inbox) event(ev qmgr.Event) { b.put(item{event: ev}) }

// take returns the items, and keeps spare for the next ones.
func (b *inbox) take(spare []item) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	clear(spare)
	b.items = spare[:0]
	return items
}
