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
	for _, s := range q.sources.all {
		v := q.sourceView(s, most)
		if s.configured || v.Destinations > 0 {
			views = append(views, v)
		}
	}
	return views
}

func (q *Qmgr) sourceView(s *sourceState, most int) SourceView {
	today := s.Today.At(q.now)
	v := SourceView{Name: s.Name, Hello: s.Hello, Configured: s.configured, Since: today.Since,
		Delivered: today.Count[mail.Delivered], Deferred: today.Count[mail.Deferred], Bounced: today.Count[mail.Failed]}
	for f := range s.timers {
		a := s.Of(source.Family(f))
		if addr := s.Address(source.Family(f)); addr.IsValid() {
			one := AddressView{Addr: addr, State: a.State.String(), Why: a.Why}
			if a.State != source.AddressUsed {
				one.Since = a.Since
			}
			if s.timers[f].slot.Heaped() {
				one.Until = s.timers[f].at
			}
			v.Addresses = append(v.Addresses, one)
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
	for d := range t.named(name) {
		all = append(all, d)
	}
	if len(all) > 1 {
		slices.SortStableFunc(all, func(a, b *queue) int {
			return cmp.Or(cmp.Compare(q.sources.place(a.source), q.sources.place(b.source)), cmp.Compare(a.security, b.security))
		})
	}
	return all
}

// place is that of a source in the order of the configuration; no source is before all.
func (v *sources) place(s *sourceState) int { return slices.Index(v.all, s) }

// names are those of all sources.
func (v *sources) names() (names []string) {
	for _, s := range v.all {
		names = append(names, s.Name)
	}
	return names
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
