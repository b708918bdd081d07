package qmgr

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/best"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/conns"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A tally is what became of the recipients of deliveries on one day, which is that of UTC.
type tally struct {
	since mail.Instant // the beginning of the day, or when counting began
	count [results]uint64
}

// results is the number of what a recipient's outcome can be.
const results = mail.Failed + 1

// day is the length of a day.
const day = mail.Instant(24 * 60 * 60 * 1e9)

// add counts an outcome.
func (t *tally) add(r mail.Result, now mail.Instant) {
	t.turn(now)
	t.count[r]++
}

// turn begins a new day's tally if it is one.
func (t *tally) turn(now mail.Instant) {
	switch begin := now - now%day; {
	case t.since == 0:
		t.since = now
	case t.since < begin:
		*t = tally{since: begin}
	}
}

// A SourceView is one source, and what the core has of it.
type SourceView struct {
	Name, Hello string
	Configured  bool // false: a reload has removed it, and mail is still under way from it
	Addresses   []AddressView
	Pools       []SourcePool // those that have it
	Connections int          // ready, or being opened
	Waiting     int          // entries
	Busy        int          // deliveries under way
	// Delivered, Deferred and Bounced are the recipients of today's deliveries, which is
	// since Since.
	Delivered, Deferred, Bounced uint64
	Since                        mail.Instant // 0 if there was none
	Destinations                 int          // for which it has mail, connections, or knows that they are dead
	// Most of these, those with the most waiting first.
	Sites  []DestinationSummary
	Warmup *warmup.SourceView // nil if it is not warmed up
}

// An AddressView is one address of a source.
type AddressView struct {
	Addr  netip.Addr
	State string       // "in use", "withdrawn" or "tried"
	Why   mail.Reply   // withdrawn, tried: what the system said
	Since mail.Instant // likewise: when it said so first
	Until mail.Instant // withdrawn: when it is tried again
}

// A SourcePool is the part that a source has in a pool.
type SourcePool struct {
	Pool       string
	Weight, Of int // Of is the sum of all weights
}

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
	today := s.today
	if today.since != 0 {
		today.turn(q.now)
	}
	v := SourceView{Name: s.Name, Hello: s.Hello, Configured: s.configured, Since: today.since,
		Delivered: today.count[mail.Delivered], Deferred: today.count[mail.Deferred], Bounced: today.count[mail.Failed]}
	for f := range s.addresses {
		a := &s.addresses[f]
		if addr := s.Address(source.Family(f)); addr.IsValid() {
			one := AddressView{Addr: addr, State: a.state.String(), Why: a.why}
			if a.state != addressUsed {
				one.Since = a.since
			}
			if a.timer.slot.Heaped() {
				one.Until = a.timer.at
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
	found := best.Of[ranked]{Most: most, Compare: compareRanked}
	for d := range q.queuesOf(s) {
		v.Connections += d.site.Count()
		v.Waiting += d.Waiting
		v.Busy += d.Busy
		v.Destinations++
		found.Add(q.rank(d))
	}
	for _, one := range found.Sorted() {
		v.Sites = append(v.Sites, q.summary(one))
	}
	return v
}

// String returns the word that views show.
func (s addressState) String() string {
	return [...]string{"none", "in use", "withdrawn", "tried"}[s]
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

// rank returns the ranked of a destination of one source.
func (q *Qmgr) rank(d *queue) ranked {
	return ranked{queue: d, condition: q.condition(d), waiting: d.Waiting, source: d.source.name(), security: d.security}
}

// rankAll returns the ranked of a destination of all sources together: what waits is the
// sum, and its condition is the best of those from which mail waits, or of all if none does,
// since mail takes that way.
func (q *Qmgr) rankAll(all []*queue) ranked {
	s := q.rank(all[0])
	for _, d := range all[1:] {
		one := q.rank(d)
		switch {
		case s.waiting > 0 && one.waiting == 0:
		case s.waiting == 0 && one.waiting > 0:
			s.condition = one.condition
		default:
			s.condition = min(s.condition, one.condition)
		}
		s.waiting += one.waiting
		if one.source != s.source {
			s.source = ""
		}
		if one.security != s.security {
			s.security = ""
		}
	}
	s.all = all
	return s
}

// addSource adds what a destination has from another source.
func (v *DestinationSummary) addSource(other *DestinationSummary) {
	v.Messages += other.Messages
	v.Recipients += other.Recipients
	if v.Oldest == 0 || other.Oldest != 0 && other.Oldest < v.Oldest {
		v.Oldest = other.Oldest
	}
	a, b := &v.Queue, &other.Queue
	if a.Source != b.Source {
		a.Source = ""
	}
	if a.Security != b.Security {
		a.Security = ""
	}
	if a.Lowered == "" {
		a.Lowered, a.LoweredUntil = b.Lowered, b.LoweredUntil
	}
	a.Window += b.Window
	a.Busy += b.Busy
	if a.Todo == 0 {
		a.WaitReason = b.WaitReason
	}
	a.Todo += b.Todo
	for result, n := range b.Outcomes {
		a.Outcomes[result] += n
	}
	a.Connections.Connecting += b.Connections.Connecting
	a.Connections.Ready += b.Connections.Ready
	if a.Connections.Waits == conns.WaitNone {
		a.Connections.Waits = b.Connections.Waits
	}
	if a.State > b.State || a.Until == 0 { // that of the one that mail can use
		a.State, a.Reason, a.Until, a.Rule = b.State, b.Reason, b.Until, b.Rule
	}
	h, o := &v.Hosts, &other.Hosts
	h.Up, h.Busy, h.Retry = max(h.Up, o.Up), max(h.Busy, o.Busy), max(h.Retry, o.Retry)
	if o.FailedAt > h.FailedAt {
		h.Failure, h.FailedAt = o.Failure, o.FailedAt
	}
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
