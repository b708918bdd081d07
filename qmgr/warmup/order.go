package warmup

import (
	"fmt"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
)

// An Order is what an operator wants done with the warm-up of a source, or of one site of
// it. It is kept over restarts.
type Order struct {
	Key  Key // without a site: all sites of the source, also those that it will have
	Kind OrderKind
	Day  int // SetDay: the day of the plan, from 1 on; beyond the plan's last, warm
}

// An OrderKind is what an Order does.
type OrderKind uint8

const (
	// SetDay goes on with another day of the plan. What was sent today counts.
	SetDay OrderKind = iota
	// Pause stops the plan: the allowance stays as it is until Resume, whatever happens.
	Pause
	// Resume goes on with a plan that was paused.
	Resume
	// Reset begins again, not paused. What was sent today counts.
	Reset
)

// String returns the order's name.
func (k OrderKind) String() string { return [...]string{"day", "pause", "resume", "reset"}[k] }

// String returns what the order says, as in "warm-up of mta7 to gmail.com: day 10".
func (o Order) String() string {
	text := "warm-up of " + o.Key.Source
	if o.Key.Site != "" {
		text += " to " + o.Key.Site
	}
	if text += ": " + o.Kind.String(); o.Kind == SetDay {
		text += fmt.Sprintf(" %d", o.Day)
	}
	return text
}

// Obey does what an order says. It returns an error if the source is not warmed up, the day
// is not a positive number, or no further site can be remembered.
func (t *Table) Obey(o Order, now mail.Instant) error {
	w := t.configured(o.Key.Source)
	if w == nil {
		return fmt.Errorf("source %s has no warm-up", o.Key.Source)
	}
	if o.Kind == SetDay && o.Day < 1 {
		return fmt.Errorf("day %d: want a number from 1 on", o.Day)
	}
	today := DayOf(now)
	if k := o.Key.cut(); k.Site != "" && t.sites[k] == nil && !w.mayAdd(t.limit, today) {
		return fmt.Errorf("source %s: all of %d sites were used today or are paused; no further one can be remembered", w.name, w.sites())
	}
	s := t.toOrder(w, o.Key.cut(), today)
	if s != w.whole {
		t.use(s) // so that it is not forgotten before it is used
		t.obey(s, o)
		return nil
	}
	t.rollAll(w, today) // until now the old order held
	t.obey(s, o)
	if o.Kind == Pause || o.Kind == Resume {
		o.Kind = Resume // the sites' own pauses end: the source's word holds for all
	}
	for _, s := range slices.Collect(w.all()) {
		t.obey(s, o)
	}
	return nil
}

// toOrder returns the site that an order is about, remembered if it is new.
func (t *Table) toOrder(w *source, k Key, today Day) *site {
	if k.Site != "" {
		return t.find(w, k, today)
	}
	if w.whole == nil {
		s := &site{key: Key{Source: w.name}, source: w, rec: Record{Day: today}}
		s.rec.start(w.plan, 0)
		t.add(s)
	}
	return w.whole
}

func (t *Table) obey(s *site, o Order) {
	before := s.rec
	r, p := &s.rec, s.source.plan
	switch o.Kind {
	case SetDay:
		r.start(p, uint16(min(o.Day-1, int(p.length()))))
	case Pause:
		r.Paused = true
	case Resume:
		r.Paused = false
	case Reset:
		r.start(p, 0)
		r.Paused = false
	}
	if s.rec != before {
		t.mark(s)
		s.settle()
	}
}
