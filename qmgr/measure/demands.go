package measure

import (
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
)

// Demands are the measures on one destination, and the replies counted for rules that want several. The zero value has none.
type Demands struct {
	Record
	seen []sighting
}

// A sighting counts replies that matched a rule which needs several.
type sighting struct {
	rule  string
	since mail.Instant // the first of them
	ends  mail.Instant // when they do not count any more
	times int
	// Of a rule that needs several senders: the domains of those that were refused, and whether something
	// was refused before there was a sender. inARow is whether a message that is accepted ends the count.
	senders []string
	ofUs    bool
	inARow  bool
}

// sendersMost is the number of domains that a sighting knows at most.
const sendersMost = 16

// sightingsMost is the number of rules that are counted for one destination. Of more, the
// oldest count is forgotten.
const sightingsMost = 8

// Enough counts a reply, and reports whether there have been as many as the rule wants.
func (d *Demands) Enough(m *mail.Measure, now mail.Instant) bool {
	if m.Times <= 1 && m.Senders <= 1 {
		return true
	}
	d.Forget(now)
	i := slices.IndexFunc(d.seen, func(s sighting) bool { return s.rule == m.Rule })
	if i < 0 {
		if len(d.seen) == sightingsMost {
			d.seen = slices.Delete(d.seen, 0, 1)
		}
		i = len(d.seen)
		d.seen = append(d.seen, sighting{rule: m.Rule, since: now, ends: now.Add(max(m.Within, 1))})
	}
	s := &d.seen[i]
	s.times++
	s.inARow = m.InARow
	if !s.ofEnough(m) || s.times < m.Times {
		return false
	}
	s.times = 0 // the next measure needs as many again
	s.ends = now
	return true
}

// ofEnough counts the sender that was refused, and reports whether as many were as the rule wants.
func (s *sighting) ofEnough(m *mail.Measure) bool {
	switch {
	case m.Senders <= 1:
		return true
	case m.Sender == "":
		s.ofUs = true
	case len(s.senders) < sendersMost && !slices.Contains(s.senders, m.Sender):
		s.senders = append(s.senders, m.Sender)
	}
	return s.ofUs || len(s.senders) >= min(m.Senders, sendersMost)
}

// Counts reports whether replies are counted for some rule.
func (d *Demands) Counts() bool { return len(d.seen) > 0 }

// Accepted is for a message that the destination has accepted, so that it does not refuse everything.
func (d *Demands) Accepted() {
	d.seen = slices.DeleteFunc(d.seen, func(s sighting) bool { return s.inARow })
}

// Forget drops replies that do not count any more, and returns when the next ones do not; Never if there are none.
func (d *Demands) Forget(now mail.Instant) (next mail.Instant) {
	d.seen = slices.DeleteFunc(d.seen, func(s sighting) bool { return s.ends <= now })
	next = mail.Never
	for _, s := range d.seen {
		next = min(next, s.ends)
	}
	return next
}

// Resting reports whether the destination is to get no mail.
func (r *Record) Resting(now mail.Instant) bool { return r.Rest.Until > now }

// Lowers reports whether limits are lowered.
func (r *Record) Lowers(now mail.Instant) bool { return r.Lower.Until > now }

// WithRest returns the record with a rest that begins now; false if it would end earlier than the present one.
func (r Record) WithRest(m *mail.Measure, now mail.Instant) (Record, bool) {
	until := now.Add(m.Rest)
	if r.Rest.Until >= until {
		return r, false
	}
	r.Rest = Rest{Rule: m.Rule, Since: now, Until: until, Reason: m.Reply}
	return r, true
}

// WithLowering returns the record with limits that are lowered from now on, and reports whether no rule had lowered them, or another
// one.
func (r Record) WithLowering(m *mail.Measure, now mail.Instant) (_ Record, first bool) {
	first = !r.Lowers(now) || r.Lower.Rule != m.Rule
	r.Lower = Lowering{Rule: m.Rule, Since: now, Until: now.Add(m.For), Concurrency: m.Concurrency}
	if m.RateCount > 0 {
		r.Lower.Count, r.Lower.Per = m.RateCount, m.RatePer
	}
	return r, first
}

// Concurrencies returns the initial and the highest concurrency of a destination below those that it has otherwise, where 0 is
// no limit.
func (l *Lowering) Concurrencies(initial, limit int) (int, int) {
	if l.Concurrency > 0 {
		if limit == 0 || limit > l.Concurrency {
			limit = l.Concurrency
		}
		initial = min(initial, limit)
	}
	return initial, limit
}

// Rates returns the limits by time with that of the lowering among them.
func (l *Lowering) Rates(others rate.Limits) rate.Limits {
	if l.Count == 0 {
		return others
	}
	own := rate.Limit{N: l.Count, Per: l.Per}
	both, err := rate.Of(append(others.All(), own)...)
	if err != nil { // more than there may be, or two for the same time
		both, _ = rate.Of(own)
	}
	return both
}

// Rules are the rules on replies that there are. The zero value has all.
type Rules struct {
	known bool
	names []string // in order
}

// NewRules returns the rules of these names.
func NewRules(names []string) Rules {
	return Rules{known: true, names: slices.Sorted(slices.Values(names))}
}

// Has reports whether there is a rule.
func (r *Rules) Has(name string) bool {
	_, found := slices.BinarySearch(r.names, name)
	return found || !r.known
}

// Leave returns what remains of a record without rules that there are not any more.
func (r *Rules) Leave(m Record) Record {
	if m.Rest.Rule != "" && !r.Has(m.Rest.Rule) {
		m.Rest = Rest{}
	}
	if m.Lower.Rule != "" && !r.Has(m.Lower.Rule) {
		m.Lower = Lowering{}
	}
	return m
}
