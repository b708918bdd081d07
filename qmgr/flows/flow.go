package flows

import (
	"iter"

	"github.com/posthaste-mta/posthaste/internal/ilist"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
)

// A Flow is what of a mail.Flow is in core. A nil Flow is mail that was not classified.
//
// Invariant: it has lanes only while it has messages, and is listed as idle if it has none.
type Flow struct {
	name     string // within its tenant
	tenant   *tenant
	messages int   // in core
	lanes    *Lane // one of them, which leads to the others; nil if there are none
	counts
	idle ilist.Link[Flow] // on Registry.idle, if it has no messages
}

// A flowKey finds a flow. Tenants are compared by identity: one is known as long as its flows are.
type flowKey struct {
	tenant *tenant
	name   string
}

// A tenantKey finds a tenant: the same name in two classes is two tenants.
type tenantKey struct{ class, tenant string }

// A tenant is the flows of one tenant, in one class, that are known.
type tenant struct {
	name  tenantKey
	known int // flows, and those that are remembered
	flows int // with messages in core
}

// Name returns the name of the flow together with those of its class and its tenant. Where flows share lanes,
// it is # and a number.
func (f *Flow) Name() mail.Flow {
	if f == nil {
		return mail.Flow{}
	}
	return mail.Flow{Class: f.tenant.name.class, Tenant: f.tenant.name.tenant, Flow: f.name}
}

// Path is where the flow stands in a fair order.
func (f *Flow) Path() fair.Path { return fair.Path(f.Name()) }

// all yields the flow's lanes.
func (f *Flow) all() iter.Seq[*Lane] {
	return func(yield func(*Lane) bool) {
		for l := f.lanes; l != nil && yield(l); l = l.sibling {
		}
	}
}

// load is what the flow has in all transports.
func (f *Flow) load() (sum sched.Load) {
	for l := range f.all() {
		sum.Add(l.Load)
	}
	return sum
}
