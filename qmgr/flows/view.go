package flows

import (
	"cmp"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/best"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Query picks flows.
type Query struct {
	Match func(mail.Flow) bool // nil: all are wanted. It must not keep the core waiting
	Most  int                  // in the answer
}

// A List is the flows that have most waiting, the first of them first.
type List struct {
	Flows   []View
	Matched int
	More    bool
}

// A View is what the core holds of one flow, and what it has done for it since the
// flow was first seen, or was forgotten because it had been idle for too long.
type View struct {
	Flow     mail.Flow
	Messages int // in core
	Waiting  int // entries
	Busy     int // deliveries under way
	Started  uint64
	// Half and NinetyNine are times that half of the deliveries, and 99 % of them, have
	// not waited longer than since their messages were admitted: powers of two of a
	// millisecond, rounded up. They are 0 if there were none.
	Half, NinetyNine time.Duration
	// Places are the destinations that have something of it waiting, those with most
	// first, up to placesMost of them.
	Places []Place
	More   int // destinations that are not among Places
}

// placesMost bounds View.Places.
const placesMost = 5

// A Place is what one flow has at one destination.
type Place struct {
	Transport, Nexthop string
	Source             string // "" where none is chosen
	Security           string // what is demanded of connections
	Waiting, Busy      int
	Sharing            Sharing
}

// Sharing is how a flow shares the room of a destination.
type Sharing struct {
	Flows int // that have something waiting there, itself included
	// Share is what it is entitled to, in thousandths, and Turns how many entries of other
	// flows may start before its next, if the room is scarce; otherwise 0.
	Share, Turns int
}

// View returns the flows that have most waiting. It takes time in proportion to the number of
// flows and of the destinations for which they have mail waiting.
func (r *Registry) View(query Query) List {
	var list List
	found := best.Of[*Flow]{Most: query.Most, Compare: compare}
	for _, f := range r.flows { //archtest:anyorder compare is a total order
		if query.Match != nil && !query.Match(f.Name()) {
			continue
		}
		list.Matched++
		found.Add(f)
	}
	for _, f := range found.Sorted() {
		list.Flows = append(list.Flows, f.view())
	}
	list.More = found.More()
	return list
}

// compare puts those first that have most waiting, then those with most messages.
func compare(a, b *Flow) int {
	return cmp.Or(cmp.Compare(b.load().Waiting, a.load().Waiting), cmp.Compare(b.messages, a.messages), cmp.Compare(b.started, a.started),
		cmp.Compare(a.tenant.name.class, b.tenant.name.class), cmp.Compare(a.tenant.name.tenant, b.tenant.name.tenant), cmp.Compare(a.name, b.name))
}

func (f *Flow) view() View {
	load := f.load()
	v := View{Flow: f.Name(), Messages: f.messages, Waiting: load.Waiting, Busy: load.Busy,
		Started: f.started, Half: f.quantile(500), NinetyNine: f.quantile(990)}
	most := best.Of[*Claim]{Most: placesMost, Compare: compareClaims}
	places := 0
	for l := range f.all() {
		for d := range l.Destinations() {
			if d.Waiting > 0 {
				most.Add(ClaimOf(d))
				places++
			}
		}
	}
	for _, c := range most.Sorted() {
		at := c.At.Outlet.Place()
		at.Waiting, at.Busy, at.Sharing = c.Waiting, c.Busy, c.Sharing()
		v.Places = append(v.Places, at)
	}
	v.More = places - len(v.Places)
	return v
}

// Busiest returns the lanes that have most waiting, at most most of them, and how many more have anything.
func (t *Transport) Busiest(most int) (lanes []*Lane, more int) {
	found, all := best.Of[*Lane]{Most: most, Compare: compareLanes}, 0
	for l := range t.lanes.All() {
		if l.Waiting+l.Busy > 0 {
			found.Add(l)
			all++
		}
	}
	lanes = found.Sorted()
	return lanes, all - len(lanes)
}

// Flow returns the name of the lane's flow; it is zero for mail without a flow.
func (l *Lane) Flow() mail.Flow {
	if l.flow == nil {
		return mail.Flow{}
	}
	return l.flow.Name()
}

// compareLanes is a total order of the lanes of one transport.
func compareLanes(a, b *Lane) int {
	x, y := a.Flow(), b.Flow()
	return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Busy, a.Busy), cmp.Compare(x.Class, y.Class), cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.Flow, y.Flow))
}

func compareClaims(a, b *Claim) int {
	if c := cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.At.transport.Name, b.At.transport.Name), cmp.Compare(a.Name, b.Name)); c != 0 {
		return c
	}
	p, q := a.At.Outlet.Place(), b.At.Outlet.Place()
	return cmp.Or(cmp.Compare(p.Source, q.Source), cmp.Compare(p.Security, q.Security))
}

// Sharing returns how the claim shares the room of its destination.
func (c *Claim) Sharing() Sharing {
	d := c.At
	s := Sharing{Flows: d.contenders.Len()}
	if c.leaf.Joined() {
		_, _, flow := d.turns.View(&c.leaf)
		s.Share, s.Turns = flow.Share, d.turns.Wait(&c.leaf)
	}
	return s
}

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
func (r *Registry) Tenants(most int) TenantList {
	sums := make(map[*tenant]*TenantView, len(r.tenants))
	for _, f := range r.flows { //archtest:anyorder sums
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
