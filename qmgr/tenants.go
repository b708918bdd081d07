package qmgr

import (
	"cmp"
	"slices"
)

// A TenantList is what the core holds of tenants.
type TenantList struct {
	// Tenants have most waiting, the first of them first.
	Tenants []TenantView
	// Others is the sum of all that are not among Tenants, without names.
	Others TenantView
	// Classes are sums of all tenants of a class, by name.
	Classes []TenantView
	Known   int // tenants that have mail in core, or had some lately
}

// A TenantView is what the core holds of one tenant, or of several.
type TenantView struct {
	Class, Tenant string
	Messages      int // in core
	Waiting       int // entries
	Busy          int // deliveries under way
}

func (v *TenantView) add(w *TenantView) {
	v.Messages += w.Messages
	v.Waiting += w.Waiting
	v.Busy += w.Busy
}

// Tenants returns those that have most waiting, at most most of them. It takes time in proportion to the number
// of flows.
func (q *Qmgr) Tenants(most int) TenantList {
	sums := make(map[*tenant]*TenantView, len(q.tenants))
	for _, f := range q.flows { //archtest:anyorder sums
		v := sums[f.tenant]
		if v == nil {
			v = &TenantView{Class: f.tenant.name.class, Tenant: f.tenant.name.tenant}
			sums[f.tenant] = v
		}
		load := f.load()
		v.add(&TenantView{Messages: f.messages, Waiting: load.Waiting, Busy: load.Busy})
	}
	list := TenantList{Known: len(sums)}
	all := make([]*TenantView, 0, len(sums))
	for _, v := range sums { //archtest:anyorder sorted below
		all = append(all, v)
	}
	slices.SortFunc(all, compareTenants)
	for i, v := range all {
		if i < most {
			list.Tenants = append(list.Tenants, *v)
		} else {
			list.Others.add(v)
		}
		at, found := slices.BinarySearchFunc(list.Classes, v.Class, func(c TenantView, name string) int { return cmp.Compare(c.Class, name) })
		if !found {
			list.Classes = slices.Insert(list.Classes, at, TenantView{Class: v.Class})
		}
		list.Classes[at].add(v)
	}
	return list
}

// compareTenants puts those first that have most waiting, then those with most messages.
func compareTenants(a, b *TenantView) int {
	return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Tenant, b.Tenant))
}
