package quota

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// Refused returns how many messages and recipients each limit has refused.
func (b *Book) Refused(k Kind, r Resource) uint64 { return b.refused[k][r] }

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Class, Tenant, Flow} }

// Resources returns all resources.
func Resources() []Resource {
	return []Resource{Messages, Octets, MessageRate, RecipientRate, Recipients}
}

// A View is the limits of one class, tenant or flow, and how much of them is used.
type View struct {
	Kind         Kind
	Tenant, Name string // Tenant only of a flow
	Limits       Limits
	Messages     []rate.Use
	Recipients   []rate.Use
	Refused      uint64
	Shared       bool // of many names together; Name is empty
}

// View returns the limits and the use of one class, tenant or flow.
func (b *Book) View(now mail.Instant, kind Kind, tenant, of string) View {
	n := name{kind: kind, tenant: tenant, name: of}
	m := b.meters[n]
	if m == nil {
		m = b.fresh(n)
	}
	return b.view(now, m)
}

func (b *Book) view(now mail.Instant, m *meter) View {
	return View{Kind: m.kind, Tenant: m.tenant, Name: m.name.name, Limits: b.limits(m.kind, m.name.name), Refused: m.refused,
		Messages: m.messages.Uses(now), Recipients: m.recipients.Uses(now), Shared: m.slot > 0}
}

// Views returns those that have sent something, at most most, the one used last first,
// and before them all classes and tenants with limits of their own.
func (b *Book) Views(now mail.Instant, most int) (list []View) {
	var own []name
	for class, l := range b.cfg.Classes { //archtest:anyorder it is sorted
		if l != (Limits{}) {
			own = append(own, name{kind: Class, name: class})
		}
	}
	for tenant, l := range b.cfg.Tenants { //archtest:anyorder it is sorted
		if l != (Limits{}) {
			own = append(own, name{kind: Tenant, name: tenant})
		}
	}
	slices.SortFunc(own, func(x, y name) int { return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.name, y.name)) })
	for _, n := range own {
		list = append(list, b.View(now, n.kind, "", n.name))
	}
	for m := range b.order.Backward() {
		if len(list) >= most {
			break
		}
		if !slices.Contains(own, m.name) {
			list = append(list, b.view(now, m))
		}
	}
	return list
}
