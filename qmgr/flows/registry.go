package flows

import (
	"strconv"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/internal/stock"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A Registry is all flows that are known, and what their lanes and claims are made of. It belongs to
// one goroutine.
type Registry struct {
	// TenantFlows is the number of flows of one tenant that have lanes of their own; further ones share a quarter
	// as many. It is at least 1.
	TenantFlows int
	Lanes       sched.Options // of all lanes

	flows   map[flowKey]*Flow
	tenants map[tenantKey]*tenant
	idle    ilist.List[Flow] // those without messages, which are remembered for views
	spare   struct {
		flows  stock.Of[Flow]
		lanes  stock.Of[Lane]
		claims stock.Of[Claim]
	}
	left []*Lane // that have ended in this Step
}

// NewRegistry returns one that knows no flows.
func NewRegistry(tenantFlows int, lanes sched.Options) *Registry {
	return &Registry{TenantFlows: tenantFlows, Lanes: lanes, flows: make(map[flowKey]*Flow), tenants: make(map[tenantKey]*tenant)}
}

// idleFlows is the number of flows without a message in core that are remembered, for views.
// They have no lanes.
const idleFlows = 800

// Join returns the flow to which a message of a name counts while it is in core, until Part; nil if it was
// not classified.
//
// Which flows share is decided when the first message of a flow comes into core. The last quarter of what a tenant
// may have of its own is for flows that are remembered: who has sent before should not have to share with a flood
// of new names.
func (r *Registry) Join(name mail.Flow) *Flow {
	if name == (mail.Flow{}) {
		return nil
	}
	t := r.tenant(name)
	f := r.flows[flowKey{t, name.Flow}]
	if f == nil || f.messages == 0 {
		f = r.begin(t, name, f)
	}
	f.messages++
	return f
}

// begin returns the flow to which mail of a name counts that has none in core: its own, which is
// f if it is remembered, or one that it shares.
func (r *Registry) begin(t *tenant, name mail.Flow, f *Flow) *Flow {
	limit := r.TenantFlows
	if f == nil {
		limit -= limit / 4
	}
	if t.flows >= limit {
		name.Flow = sharedFlow(name, r.TenantFlows)
		if f = r.flows[flowKey{t, name.Flow}]; f != nil && f.messages > 0 {
			return f
		}
	}
	if f == nil {
		f = r.spare.flows.Take()
		f.name, f.tenant = name.Flow, t
		r.flows[flowKey{t, f.name}] = f
		t.known++
	} else {
		r.idle.Remove(&f.idle)
	}
	t.flows++
	return f
}

// tenant returns that of a flow.
func (r *Registry) tenant(name mail.Flow) *tenant {
	key := tenantKey{name.Class, name.Tenant}
	t := r.tenants[key]
	if t == nil {
		t = &tenant{name: key}
		r.tenants[key] = t
	}
	return t
}

// sharedFlow returns under which name mail of a flow is in core if its tenant has as many flows as it may
// have. A sender who takes such a name for himself is one of those who share it.
func sharedFlow(name mail.Flow, most int) string {
	return "#" + strconv.Itoa(int(name.Bucket())%max(most/4, 1))
}

// Part takes a message out of its flow. It has no jobs any more.
func (r *Registry) Part(f *Flow) {
	if f == nil {
		return
	}
	if f.messages--; f.messages > 0 {
		return
	}
	for l := f.lanes; l != nil; l = f.lanes {
		f.lanes = l.sibling
		l.transport.end(l)
	}
	f.tenant.flows--
	r.idle.PushBack(&f.idle, f)
	if r.idle.Len() > idleFlows {
		r.forget(r.idle.PopFront())
	}
}

// forget ends what is known of an idle flow.
func (r *Registry) forget(f *Flow) {
	delete(r.flows, flowKey{f.tenant, f.name})
	if f.tenant.known--; f.tenant.known == 0 {
		delete(r.tenants, f.tenant.name)
	}
	*f = Flow{}
	r.spare.flows.Give(f)
}

// Reuse makes the lanes available that have ended since it was called last. It is called at the end of a Step, when
// nothing is left to refresh.
func (r *Registry) Reuse() {
	for i, l := range r.left {
		*l = Lane{Lane: l.Lane.Spare()}
		r.spare.lanes.Give(l)
		r.left[i] = nil
	}
	r.left = r.left[:0]
}

// EachTenant yields the class and the name of each tenant of which flows are known, in no order.
func (r *Registry) EachTenant(yield func(class, tenant string) bool) {
	for t := range r.tenants { //archtest:anyorder the caller sees to it
		if !yield(t.class, t.tenant) {
			return
		}
	}
}
