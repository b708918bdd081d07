package daemon

import (
	"context"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/inbound"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/quota"
	"github.com/posthaste-mta/posthaste/spool"
)

// quotaMost bounds how many quotas are considered for an answer, of those that have sent
// something and of each level with the most waiting.
const quotaMost = 2000

// quotaViews shows the administration the quotas.
type quotaViews struct {
	quotas *inbound.Quotas
	spool  *spool.Spool
}

// A quotaKey identifies a class, tenant or flow.
type quotaKey struct {
	kind         quota.Kind
	tenant, name string
}

func (v quotaViews) page(ctx context.Context) (p admin.QuotaPage, err error) {
	p.Counted, p.Counting = v.spool.Counting()
	if !p.Counting {
		p.Counted = 0
	}
	for _, k := range quota.Kinds() {
		for _, r := range quota.Resources() {
			if n := v.quotas.Refused(k, r); n > 0 {
				p.Refused = append(p.Refused, admin.QuotaRefusal{Kind: k.String(), Limit: r.String(), Count: n})
			}
		}
	}
	seen := make(map[quotaKey]bool)
	add := func(one quota.View) {
		key := quotaKey{one.Kind, one.Tenant, one.Name}
		if one.Limits != (quota.Limits{}) && (one.Shared || !seen[key]) {
			seen[key] = true
			p.Quotas = append(p.Quotas, v.quota(&one))
		}
	}
	for _, one := range v.quotas.Views(quotaMost) {
		add(one)
	}
	classes, tenants, flows, err := v.spool.Counts(ctx, quotaMost)
	if err != nil {
		return p, err
	}
	for _, c := range classes {
		add(v.quotas.View(quota.Class, "", c.Class))
	}
	for _, c := range tenants {
		add(v.quotas.View(quota.Tenant, "", c.Tenant))
	}
	for _, c := range flows {
		add(v.quotas.View(quota.Flow, c.Tenant, c.Flow))
	}
	return p, nil
}

func (v quotaViews) quota(one *quota.View) admin.Quota {
	q := admin.Quota{Kind: one.Kind.String(), Name: one.Name, Tenant: one.Tenant, Shared: one.Shared, Uses: []admin.QuotaUsage{},
		RecipientLimit: one.Limits.Recipients, Refused: one.Refused}
	if l := &one.Limits; !one.Shared && (l.Messages > 0 || l.Octets > 0) {
		used, known := v.waiting(one)
		if l.Messages > 0 {
			q.Uses = append(q.Uses, admin.QuotaUsage{Limit: quota.Messages.String(), Used: used.Messages, Of: int64(l.Messages), Unknown: !known})
		}
		if l.Octets > 0 {
			q.Uses = append(q.Uses, admin.QuotaUsage{Limit: quota.Octets.String(), Used: used.Octets, Of: l.Octets, Unknown: !known})
		}
	}
	rates := func(of quota.Resource, uses []rate.Use) {
		for _, u := range uses {
			q.Uses = append(q.Uses, admin.QuotaUsage{Limit: of.String(), Used: int64(u.Used), Of: int64(u.Limit.N), Per: int64(u.Limit.Per / time.Millisecond)})
		}
	}
	rates(quota.MessageRate, one.Messages)
	rates(quota.RecipientRate, one.Recipients)
	return q
}

func (v quotaViews) waiting(one *quota.View) (u mail.Usage, known bool) {
	switch one.Kind {
	case quota.Class:
		w := v.spool.Waiting(mail.Flow{Class: one.Name})
		return w.Class, w.Known
	case quota.Tenant:
		w := v.spool.Waiting(mail.Flow{Tenant: one.Name})
		return w.Tenant, w.Known
	}
	w := v.spool.Waiting(mail.Flow{Tenant: one.Tenant, Flow: one.Name})
	return w.Flow, w.Known
}
