package qmgr

import (
	"cmp"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/views"
)

// Sources returns all sources in the order of the configuration, with at most most of the
// destinations of each. It takes time in proportion to the destinations in core.
func (q *Qmgr) Sources(most int) []SourceView {
	var views []SourceView
	for _, s := range q.sources.All() {
		v := q.sourceView(s, most)
		if s.Configured || v.Destinations > 0 {
			views = append(views, v)
		}
	}
	return views
}

func (q *Qmgr) sourceView(s *source.State, most int) SourceView {
	today := s.Today.At(q.now)
	v := SourceView{Name: s.Name, Hello: s.Hello, Configured: s.Configured, Since: today.Since,
		Delivered: today.Count[mail.Delivered], Deferred: today.Count[mail.Deferred], Bounced: today.Count[mail.Failed]}
	for f := range source.Family(source.Families) {
		if addr, a := s.Address(f), s.Of(f); addr.IsValid() {
			v.Addresses = append(v.Addresses, AddressView{Addr: addr, State: a.State.String(), Why: a.Why, Since: a.Since, Until: a.Until})
		}
	}
	for i := range q.cfg.Sources.Pools {
		p := SourcePool{Pool: q.cfg.Sources.Pools[i].Name}
		for _, m := range q.cfg.Sources.Pools[i].Members {
			p.Of += m.Weight
			if m.Source == s.Name {
				p.Weight = m.Weight
			}
		}
		if p.Weight > 0 {
			v.Pools = append(v.Pools, p)
		}
	}
	if w, warming := q.warmup.View(s.Name, most, q.now); warming {
		v.Warmup = &w
	}
	found := views.NewRanking[[]*queue](most)
	for d := range q.queuesOf(s) {
		v.Connections += d.site.Count()
		v.Waiting += d.Waiting
		v.Busy += d.Busy
		v.Destinations++
		all := []*queue{d}
		found.Add(q.position(all), all)
	}
	for at, all := range found.All() {
		v.Sites = append(v.Sites, q.summary(at, all))
	}
	return v
}

// siblings are the queues of a destination from all sources and with all demands of security,
// itself included, in the order of the sources.
func (q *Qmgr) siblings(d *queue) []*queue { return q.queuesFor(d.transport, d.name) }

// queuesFor are the queues of one name among those of a transport, in the order of the
// sources.
func (q *Qmgr) queuesFor(t *transport, name string) (all []*queue) {
	for d := range t.queues.Named(name) {
		all = append(all, d)
	}
	if len(all) > 1 {
		slices.SortStableFunc(all, func(a, b *queue) int {
			return cmp.Or(cmp.Compare(q.sources.Place(a.source), q.sources.Place(b.source)), cmp.Compare(a.security, b.security))
		})
	}
	return all
}

// sourcesOf are the names of the sources of several queues.
func sourcesOf(all []*queue) (names []string) {
	for _, d := range all {
		if d.source != nil {
			names = append(names, d.source.Name)
		}
	}
	slices.SortFunc(names, cmp.Compare)
	return slices.Compact(names)
}
