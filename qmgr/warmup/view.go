package warmup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A SourceView is what is shown of a source.
type SourceView struct {
	Name   string
	Start  Day
	Plan   *Plan
	Paused bool // all of its sites are
	// First is the day of the plan on which sites begin, from 1 on; 0 if they are warm.
	First int
	// How many sites are remembered, and of these, how many are warm, and how many have
	// used up today's allowance.
	Sites, Warm, Spent int
	Taken              int // messages that were started today
	// Top are those with the most messages today, then with the largest allowance.
	Top []SiteView
}

// A SiteView is what is shown of a site.
type SiteView struct {
	Site   string
	State  State
	Day    int // of the plan, from 1 on; 0 if the site is warm
	Of     int // today's allowance; 0 if the site is warm
	Paused bool
	Counts
	// Last is what became of the last day that was judged, Next what would become of today
	// if it ended now, and Tomorrow the allowance that follows; 0 if the site is warm then.
	Last, Next Verdict
	Tomorrow   int
	Used       Day // the last day on which a message was started; 0 if there was none
}

// DeferredPercent and BouncedPercent return which parts of today's recipients were
// deferred and refused, rounded down.
func (v *SiteView) DeferredPercent() int { return v.share(v.Deferred) }

// BouncedPercent returns which part of today's recipients was refused, rounded down.
func (v *SiteView) BouncedPercent() int { return v.share(v.Bounced) }

// View returns what is shown of a source, with at most most of its sites. It reports whether
// the source is warmed up. It takes time in proportion to the source's sites.
func (t *Table) View(name string, most int, now mail.Instant) (SourceView, bool) {
	w := t.configured(name)
	if w == nil {
		return SourceView{}, false
	}
	today := DayOf(now)
	v := SourceView{Name: w.name, Start: w.start, Plan: w.plan.clone(), Paused: w.paused(), Sites: w.sites()}
	if f := w.first(); f < w.plan.length() {
		v.First = int(f) + 1
	}
	for s := range w.all() {
		r := s.rec
		w.rollOf(&r, today)
		v.Taken += int(r.Taken)
		switch {
		case r.State == Warm:
			v.Warm++
		case r.Taken >= r.Allowed:
			v.Spent++
		}
		v.Top = append(v.Top, w.viewOf(s.key.Site, r))
		if len(v.Top) >= 2*most+64 {
			v.Top = top(v.Top, most)
		}
	}
	v.Top = top(v.Top, most)
	return v, true
}

// SiteView returns what is shown of one site. It reports whether the source is warmed up.
func (t *Table) SiteView(k Key, now mail.Instant) (SiteView, bool) {
	w := t.configured(k.Source)
	if w == nil {
		return SiteView{}, false
	}
	r, _ := t.at(w, k.cut(), DayOf(now))
	return w.viewOf(k.Site, r), true
}

func (w *source) viewOf(site string, r Record) SiteView {
	v := SiteView{Site: site, State: r.State, Paused: r.Paused || w.paused(), Counts: r.Counts, Last: r.Last, Used: r.Used}
	if r.State == Warming {
		v.Day, v.Of = int(r.Step)+1, int(r.Allowed)
	}
	next := r
	next.Last = Unjudged
	w.rollOf(&next, r.Day+1)
	v.Next = next.Last
	v.Tomorrow = int(next.Allowed)
	return v
}

func top(list []SiteView, most int) []SiteView {
	slices.SortFunc(list, func(a, b SiteView) int {
		return cmp.Or(cmp.Compare(b.Taken, a.Taken), cmp.Compare(b.Of, a.Of), strings.Compare(a.Site, b.Site))
	})
	return list[:min(most, len(list))]
}

// ReasonPrefix begins each Reason.
const ReasonPrefix = "warm-up of "

// Reason says why a message to a site cannot go from a source now, as in "warm-up of
// mta7: 50 of 50 to gmail.com today; next at 2026-11-24 00:00 UTC". It is empty if it can.
func (a Allowance) Reason(k Key) string {
	next := fmt.Sprintf("next at %s 00:00 UTC", DayOf(a.Until))
	switch a.Room {
	case Spent:
		return fmt.Sprintf(ReasonPrefix+"%s: %d of %d to %s today; %s", k.Source, a.Taken, a.Of, k.Site, next)
	case Early:
		return fmt.Sprintf(ReasonPrefix+"%s: begins on %s", k.Source, DayOf(a.Until))
	case Full:
		return fmt.Sprintf(ReasonPrefix+"%s: it has been used for its limit of sites today, and %s is none of them; %s", k.Source, k.Site, next)
	}
	return ""
}

// Why is why a source may not send to a site now, or will not be able to when what waits has been sent.
func (t *Table) Why(k Key, now mail.Instant) string {
	a := t.Allowance(k, now)
	if a.Room == Open { // what waits will use it up
		a.Room, a.Taken = Spent, a.Of
	}
	return a.Reason(k)
}
