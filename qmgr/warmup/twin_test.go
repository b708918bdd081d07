package warmup

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/internal/golden"
	"github.com/posthaste-mta/posthaste/internal/prng"
	"github.com/posthaste-mta/posthaste/mail"
)

// A naiveTable is the warm-up as the package comment and docs/warmup.md describe it, and nothing
// but that: it goes through every day one by one, for every site, and finds what to forget
// by sorting.
type naiveTable struct {
	plans map[string]*Plan
	limit int
	today Day
	turn  int // of uses, so that equal days are in order
	sites []*naiveSite
	whole map[string]*naiveSite
}

type naiveSite struct {
	key                                           Key
	step, bad                                     int
	paused                                        bool
	last                                          Verdict
	used                                          Day
	turn                                          int
	taken, delivered, accepted, deferred, bounced int
}

func (n *naiveTable) first(source string) int {
	if w := n.whole[source]; w != nil {
		return w.step
	}
	return 0
}

func (n *naiveTable) pausedAll(source string) bool {
	return n.whole[source] != nil && n.whole[source].paused
}

// reach lets the days pass until today.
func (n *naiveTable) reach(today Day) {
	for n.today < today {
		for _, s := range n.sites {
			n.endDay(s)
		}
		n.today++
		for _, s := range n.sites {
			p := n.plans[s.key.Source]
			if !s.paused && !n.pausedAll(s.key.Source) && int(n.today-s.used) > p.IdleDays {
				s.step, s.bad, s.last = n.first(s.key.Source), 0, Unjudged
			}
		}
	}
}

func (n *naiveTable) endDay(s *naiveSite) {
	p := n.plans[s.key.Source]
	replies := s.accepted + s.deferred + s.bounced
	tooMany := func(failed, percent int) bool {
		return failed >= p.Failures && float64(failed)/float64(replies) > float64(percent)/100
	}
	quiet := s.taken == 0 && replies == 0
	switch {
	case quiet, s.paused, n.pausedAll(s.key.Source), s.step == len(p.Allowances):
	case tooMany(s.deferred, p.DeferralPercent):
		n.badDay(s, Deferrals, BackForDeferrals)
	case tooMany(s.bounced, p.BouncePercent):
		n.badDay(s, Bounces, BackForBounces)
	case float64(s.delivered) < float64(p.UsedPercent)/100*float64(p.Allowances[s.step]):
		s.last, s.bad = Unused, 0
	default:
		s.last, s.bad = Advanced, 0
		s.step++
	}
	s.taken, s.delivered, s.accepted, s.deferred, s.bounced = 0, 0, 0, 0, 0
}

func (n *naiveTable) badDay(s *naiveSite, stayed, back Verdict) {
	s.bad++
	s.last = stayed
	if s.bad < n.plans[s.key.Source].BadDays {
		return
	}
	s.bad = 0
	if s.step > 0 {
		s.step--
		s.last = back
	}
}

func (n *naiveTable) find(k Key) *naiveSite {
	i := slices.IndexFunc(n.sites, func(s *naiveSite) bool { return s.key == k })
	if i < 0 {
		return nil
	}
	return n.sites[i]
}

// oldest returns the site of a source that would be forgotten next, nil if none may be.
func (n *naiveTable) oldest(source string) *naiveSite {
	var list []*naiveSite
	for _, s := range n.sites {
		if s.key.Source == source && !s.paused {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *naiveSite) int { return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.turn, b.turn)) })
	if len(list) == 0 || list[0].used == n.today {
		return nil
	}
	return list[0]
}

func (n *naiveTable) count(source string) (c int) {
	for _, s := range n.sites {
		if s.key.Source == source {
			c++
		}
	}
	return c
}

// add remembers a site, if it can.
func (n *naiveTable) add(k Key) *naiveSite {
	if s := n.find(k); s != nil {
		return s
	}
	if n.count(k.Source) == n.limit {
		old := n.oldest(k.Source)
		if old == nil {
			return nil
		}
		n.sites = slices.DeleteFunc(n.sites, func(s *naiveSite) bool { return s == old })
	}
	s := &naiveSite{key: k, step: n.first(k.Source)}
	n.sites = append(n.sites, s)
	return s
}

func (n *naiveTable) use(s *naiveSite) {
	s.used = n.today
	if !s.paused {
		n.turn++
		s.turn = n.turn
	}
}

func (n *naiveTable) room(k Key) (Room, int) {
	p := n.plans[k.Source]
	s, step, taken := n.find(k), n.first(k.Source), 0
	if s != nil {
		step, taken = s.step, s.taken
	}
	switch {
	case step == len(p.Allowances):
		return Unlimited, 0
	case s == nil && n.count(k.Source) == n.limit && n.oldest(k.Source) == nil:
		return Full, 0
	case taken >= p.Allowances[step]:
		return Spent, 0
	}
	return Open, p.Allowances[step] - taken
}

func (n *naiveTable) obey(o Order) bool {
	p := n.plans[o.Key.Source]
	change := func(s *naiveSite, kind OrderKind) {
		was := s.paused
		switch kind {
		case SetDay:
			s.step, s.bad, s.last = min(o.Day-1, len(p.Allowances)), 0, Unjudged
		case Pause:
			s.paused = true
		case Resume:
			s.paused = false
		case Reset:
			s.step, s.bad, s.last, s.paused = 0, 0, Unjudged, false
		}
		if was != s.paused { // it goes behind the others of its kind that were last used on the same day
			n.turn++
			s.turn = n.turn
		}
	}
	if o.Key.Site != "" {
		s := n.add(o.Key)
		if s != nil {
			n.use(s)
			change(s, o.Kind)
		}
		return s != nil
	}
	w := n.whole[o.Key.Source]
	if w == nil {
		w = &naiveSite{}
		n.whole[o.Key.Source] = w
	}
	change(w, o.Kind)
	kind := o.Kind
	if kind == Pause {
		kind = Resume
	}
	for _, s := range n.inOrder(o.Key.Source) {
		change(s, kind)
	}
	return true
}

// inOrder returns all sites of a source in the order of their last turns.
func (n *naiveTable) inOrder(source string) []*naiveSite {
	var list []*naiveSite
	for _, s := range n.sites {
		if s.key.Source == source {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *naiveSite) int { return cmp.Compare(a.turn, b.turn) })
	return list
}

// A table and its naive twin agree on every answer over random days: mail that is accepted,
// deferred, refused or lost, messages given back, days without mail, orders, sites that are
// forgotten, and restarts at which everything was saved.
func TestTwin(t *testing.T) {
	for seed := range uint64(20 * golden.Runs(1)) {
		twin(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func twin(t *testing.T, seed uint64) {
	r := prng.New(seed)
	between := func(low, high int) int { return low + r.IntN(high-low+1) }
	plan := func() *Plan {
		p := &Plan{Name: "p", Allowances: Grow(between(1, 6), between(0, 90), between(1, 6)), Limits: Limits{
			UsedPercent: between(1, 100), DeferralPercent: between(1, 100), BouncePercent: between(1, 100),
			Failures: between(1, 4), BadDays: between(1, 3), IdleDays: between(1, 8)}}
		return p
	}
	cfg := Config{SiteLimit: between(1, 5), Sources: []Source{{Name: "a", Plan: *plan()}, {Name: "b", Plan: *plan()}}}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	now := mail.Instant(20_000 * dayLength)
	table := New(cfg, now)
	naive := &naiveTable{plans: map[string]*Plan{"a": &cfg.Sources[0].Plan, "b": &cfg.Sources[1].Plan}, limit: cfg.SiteLimit, today: DayOf(now), whole: map[string]*naiveSite{}}
	saved := map[Key]Record{}
	save := func() {
		for _, c := range table.Changed(nil, 1_000_000) {
			if delete(saved, c.Key); !c.Gone {
				saved[c.Key] = c.Record
			}
		}
	}
	type started struct {
		on   Mark
		site *naiveSite
		day  Day
	}
	var open []started
	for step := range 600 {
		if r.Permille(60) {
			now = now.Add(time.Duration(r.Uint64() % (uint64(between(1, 3)) * uint64(dayLength))))
			if r.Permille(100) {
				now = now.Add(10 * dayLength)
			}
		}
		naive.reach(DayOf(now))
		k := Key{string(rune('a' + r.IntN(2))), fmt.Sprintf("%d.test", r.IntN(7))}
		switch r.IntN(20) {
		default:
			if !table.Allowance(k, now).Room.Free() {
				break
			}
			on := table.Take(k, now)
			if s := naive.add(k); s != nil {
				naive.use(s)
				s.taken++
				open = append(open, started{on, s, naive.today})
			}
		case 8, 9, 10, 11, 12, 13, 14:
			res := Result{Accepted: r.IntN(3)}
			if r.Permille(300) {
				res = Result{r.IntN(2), r.IntN(4), r.IntN(4)}
			}
			table.Ended(k, res, now)
			if s := naive.find(k); s != nil {
				s.delivered += min(res.Accepted, 1)
				s.accepted += res.Accepted
				s.deferred += res.Deferred
				s.bounced += res.Bounced
			}
		case 15:
			if len(open) == 0 {
				break
			}
			i := r.IntN(len(open))
			o := open[i]
			open = slices.Delete(open, i, i+1)
			table.Give(o.site.key, o.on, now)
			if slices.Contains(naive.sites, o.site) && o.day == naive.today {
				o.site.taken--
			}
		case 16:
			if !r.Permille(300) {
				break
			}
			o := Order{Key: k, Kind: OrderKind(r.IntN(4)), Day: between(1, 7)}
			if r.Permille(300) {
				o.Key.Site = ""
			}
			err := table.Obey(o, now)
			if ok := naive.obey(o); ok != (err == nil) {
				t.Errorf("step %d: %v %v is obeyed: %v, by the twin %v", step, o.Kind, o.Key, err, ok)
			}
		case 17:
			save()
		case 18:
			if !r.Permille(200) {
				break
			}
			save()
			table = New(cfg, now)
			var all []Known
			for key, rec := range saved {
				all = append(all, Known{key, rec})
			}
			table.Load(all, now)
			naive.restart()
		}
		table.Check()
		for _, k := range []Key{k, {k.Source, "0.test"}, {k.Source, "1.test"}} {
			compare(t, table, naive, k, now, step)
		}
		if t.Failed() {
			return
		}
	}
	save()
	if len(saved) > 2*(cfg.SiteLimit+1) {
		t.Errorf("%d records are saved for two sources with %d sites", len(saved), cfg.SiteLimit)
	}
}

// restart forgets what is not worth loading, and the order of uses on one day.
func (n *naiveTable) restart() {
	n.sites = slices.DeleteFunc(n.sites, func(s *naiveSite) bool {
		return !s.paused && int(n.today-s.used) > n.plans[s.key.Source].IdleDays
	})
	slices.SortFunc(n.sites, func(a, b *naiveSite) int {
		return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.key.Source, b.key.Source), cmp.Compare(a.key.Site, b.key.Site))
	})
	for _, s := range n.sites {
		n.turn++
		s.turn = n.turn
	}
}

func compare(t *testing.T, table *Table, naive *naiveTable, k Key, now mail.Instant, step int) {
	t.Helper()
	room, left := naive.room(k)
	if a := table.Allowance(k, now); a.Room != room || room == Open && a.Left() != left {
		t.Errorf("step %d: %v: %v %d of %d, the twin says %v %d left", step, k, a.Room, a.Taken, a.Of, room, left)
	}
	s := naive.find(k)
	if s == nil {
		return
	}
	v, _ := table.SiteView(k, now)
	type site struct {
		counts Counts
		last   Verdict
		paused bool
		used   Day
	}
	counts := Counts{uint32(s.taken), uint32(s.delivered), uint32(s.accepted), uint32(s.deferred), uint32(s.bounced)}
	want := site{counts, s.last, s.paused || naive.pausedAll(k.Source), s.used}
	if got := (site{v.Counts, v.Last, v.Paused, v.Used}); got != want {
		t.Errorf("step %d: %v: %+v, the twin says %+v", step, k, got, want)
	}
}
