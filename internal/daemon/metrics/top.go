package metrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Labels are chosen by senders and receivers: names of domains, of tenants, and of networks. So their
// number and their length are bounded, and they are made valid.

// other is the label of all that has no time series of its own. A destination or tenant of this name
// is one of these.
const other = "other"

// classesMost bounds the classes. Their number is that of the configuration, but mail that waits may have
// names of earlier ones.
const classesMost = 32

// labelMost bounds the length of a label. Sites with many hosts have long names.
const labelMost = 120

func label(s string) string {
	if len(s) > labelMost {
		s = s[:labelMost-3] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

// A site is a destination, or the sum of several.
type site struct {
	transport, name, source string
	qmgr.QueueSum
}

// topSites returns the destinations with most mail, at most top of them, and for each transport the sum of
// its others. Mail that waits in the transport retry to be deferred is not at a destination.
func topSites(v *qmgr.View, top int) []site {
	type key struct{ transport, name, source string }
	var all []site
	at := make(map[key]int) // destinations that differ in their security alone are one
	for i := range v.Transports {
		t := &v.Transports[i]
		for j := range t.Queues {
			q := &t.Queues[j]
			if q.Instead.Nexthop != "" || q.Instead.Transport != "" {
				continue
			}
			k := key{label(t.Name), label(q.Nexthop), label(q.Source)}
			n, known := at[k]
			if !known {
				n = len(all)
				at[k] = n
				all = append(all, site{transport: k.transport, name: k.name, source: k.source})
			}
			all[n].take(q)
		}
	}
	slices.SortFunc(all, func(a, b site) int {
		return cmp.Or(cmp.Compare(b.Todo, a.Todo), cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.transport, b.transport), cmp.Compare(a.name, b.name), cmp.Compare(a.source, b.source))
	})
	all = slices.DeleteFunc(all, func(s site) bool { return s.name == other })
	all = all[:min(len(all), top)]
	for i := range v.Transports {
		t := &v.Transports[i]
		rest := site{transport: label(t.Name), name: other, QueueSum: t.All}
		for j := range all {
			if all[j].transport == rest.transport && all[j].name != other {
				rest.less(&all[j])
			}
		}
		all = append(all, rest)
	}
	return all
}

// take adds a destination.
func (s *site) take(q *qmgr.QueueView) {
	s.Queues++
	if q.State == window.Dead {
		s.Dead++
	}
	s.Window += q.Window
	s.Busy += q.Busy
	s.Todo += q.Todo
	s.Ready += q.Connections.Ready
	s.Connecting += q.Connections.Connecting
}

// less subtracts what has a time series of its own.
func (s *site) less(o *site) {
	s.Dead -= o.Dead
	s.Window -= o.Window
	s.Busy -= o.Busy
	s.Todo -= o.Todo
	s.Ready -= o.Ready
	s.Connecting -= o.Connecting
}

// topTenants returns the tenants with most mail, at most top of them, and the sum of the others.
func topTenants(list *qmgr.TenantList, top int) []qmgr.TenantView {
	return fold(list.Tenants, list.Others, top, func(t *qmgr.TenantView) { t.Class, t.Tenant = label(t.Class), label(t.Tenant) },
		qmgr.TenantView{Class: other, Tenant: other})
}

// topClasses returns the classes, and the sum of further ones.
func topClasses(list *qmgr.TenantList) []qmgr.TenantView {
	return fold(list.Classes, qmgr.TenantView{}, classesMost, func(t *qmgr.TenantView) { t.Class = label(t.Class) }, qmgr.TenantView{Class: other})
}

// fold returns the first views with names that shorten has shortened, and the sum of all that would have the same
// names, or are too many, as rest.
func fold(views []qmgr.TenantView, others qmgr.TenantView, top int, shorten func(*qmgr.TenantView), rest qmgr.TenantView) []qmgr.TenantView {
	type key struct{ class, tenant string }
	seen := map[key]bool{{rest.Class, rest.Tenant}: true}
	var all []qmgr.TenantView
	add := func(v *qmgr.TenantView) {
		rest.Messages += v.Messages
		rest.Waiting += v.Waiting
		rest.Busy += v.Busy
	}
	for _, v := range views {
		shorten(&v)
		if k := (key{v.Class, v.Tenant}); len(all) < top && !seen[k] {
			seen[k] = true
			all = append(all, v)
			continue
		}
		add(&v)
	}
	add(&others)
	return append(all, rest)
}

// distinct returns one Milter for each name: names need not differ in the configuration.
func distinct(all []Milter) (list []Milter) {
	for _, m := range all {
		m.Name = label(m.Name)
		i := slices.IndexFunc(list, func(o Milter) bool { return o.Name == m.Name })
		if i < 0 {
			list = append(list, m)
			continue
		}
		sum := &list[i].Counters
		sum.Connections += m.Connections
		sum.Messages += m.Messages
		sum.Refused += m.Refused
		sum.Deferred += m.Deferred
		sum.Discarded += m.Discarded
		sum.Held += m.Held
		sum.Changed += m.Changed
		sum.Failures += m.Failures
	}
	return list
}
