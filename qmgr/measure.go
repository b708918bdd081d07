package qmgr

import (
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/rate"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Measures of rules on replies (mail.Measure) come with results. A destination that is to
// rest is dead until the rest ends, whatever its hosts do meanwhile; only an operator's
// retry ends it earlier. Limits are laid over those of the destination for a time. Both
// are forgotten at a restart, like the deaths of destinations and what windows have
// learned: a receiver that means it will say so again.

// measures are those of one destination.
type measures struct {
	until mail.Instant // when the rest ends; 0: it does not rest
	rule  string       // that demanded the rest
	lower lowered
	seen  []sighting
	timer timer // the limits end, or sightings are forgotten
}

// lowered are limits that apply for a time.
type lowered struct {
	rule        string
	until       mail.Instant // 0: there are none
	concurrency int          // 0: none
	rate        rate.Limit   // zero: none
}

// A sighting counts replies that matched a rule which needs several.
type sighting struct {
	rule  string
	since mail.Instant // the first of them
	ends  mail.Instant // when they do not count any more
	times int
}

// sightingsMost is the number of rules that are counted for one destination. Of more, the
// oldest count is forgotten.
const sightingsMost = 8

// resting reports whether a rule has the destination rest.
func (d *queue) resting(now mail.Instant) bool { return d.measures != nil && d.measures.until > now }

// measure takes what a rule demands because of a reply. Mail that was put off says what
// was said about it before, and is no destination.
func (q *Qmgr) measure(d *queue, m *mail.Measure) {
	if m == nil || d.transport.Name == TransportRetry || d.transport.Name == TransportError {
		return
	}
	if d.measures == nil {
		d.measures = &measures{}
		d.measures.timer.kind, d.measures.timer.queue = timerMeasure, d
	}
	if d.measures.enough(m, q.now) {
		if m.Rest > 0 {
			q.restBy(d, m)
		}
		if m.Limits() {
			q.lowerBy(d, m)
		}
	}
	q.watchMeasures(d)
}

// enough counts a reply, and reports whether there have been as many as the rule wants.
func (ms *measures) enough(m *mail.Measure, now mail.Instant) bool {
	if m.Times <= 1 {
		return true
	}
	ms.forget(now)
	i := 0
	for ; i < len(ms.seen) && ms.seen[i].rule != m.Rule; i++ {
	}
	if i == len(ms.seen) {
		if i == sightingsMost {
			ms.seen = append(ms.seen[:0], ms.seen[1:]...)
			i--
		}
		ms.seen = append(ms.seen, sighting{rule: m.Rule, since: now, ends: now.Add(max(m.Within, 1))})
	}
	s := &ms.seen[i]
	if s.times++; s.times < m.Times {
		return false
	}
	s.times = 0 // the next measure needs as many again
	s.ends = now
	return true
}

// forget drops sightings that do not count any more.
func (ms *measures) forget(now mail.Instant) {
	kept := ms.seen[:0]
	for _, s := range ms.seen {
		if s.ends > now {
			kept = append(kept, s)
		}
	}
	ms.seen = kept
}

// restBy has a destination rest. A rest that would end earlier than the present one
// changes nothing.
func (q *Qmgr) restBy(d *queue, m *mail.Measure) {
	until := q.now.Add(m.Rest)
	if d.measures.until >= until {
		return
	}
	first := !d.resting(q.now)
	d.measures.until, d.measures.rule = until, m.Rule
	switch d.window.State() {
	case window.Dead:
		q.disarm(&d.timer)
		d.reason = m.Reply
		d.reason.Text = SuspendedPrefix + m.Reply.Text
		q.arm(&d.timer, max(until, q.now.Add(shortestDeath)))
	case window.Suspended:
		q.disarm(&d.timer)
		d.window.Resume()
		fallthrough
	case window.Ready:
		d.window.Close()
		d.touch()
		q.die(d, m.Reply, until)
	}
	if first {
		q.emitMeasure(d, m, until)
	}
}

// lowerBy lowers limits of a destination.
func (q *Qmgr) lowerBy(d *queue, m *mail.Measure) {
	l := &d.measures.lower
	first := l.until <= q.now || l.rule != m.Rule
	*l = lowered{rule: m.Rule, until: q.now.Add(m.For), concurrency: m.Concurrency}
	if m.RateCount > 0 {
		l.rate = rate.Limit{N: m.RateCount, Per: m.RatePer}
	}
	if !first {
		return
	}
	q.reshape(d, d.site.Best())
	if l.concurrency > 0 && d.site != nil {
		q.hangupAll(q.conns.Shrink(d.site, l.concurrency))
		d.touch()
	}
	q.emitMeasure(d, m, l.until)
}

func (q *Qmgr) emitMeasure(d *queue, m *mail.Measure, until mail.Instant) {
	q.emit(Note{Kind: NoteRule, Transport: d.transport.Name, Nexthop: d.nexthop, Source: d.source.name(), Security: d.security, At: until,
		Text: m.Rule + ": " + m.Reply.String()})
}

// below returns limits with those of the measures in force over them.
func (ms *measures) below(l limits, now mail.Instant) limits {
	low := &ms.lower
	if low.concurrency > 0 {
		if l.window.Limit == 0 || l.window.Limit > low.concurrency {
			l.window.Limit = low.concurrency
		}
		l.window.Initial = min(l.window.Initial, l.window.Limit)
	}
	if low.rate.N > 0 {
		both, err := rate.Of(append(l.rate.All(), low.rate)...)
		if err != nil { // more than there may be, or two for the same time
			both, _ = rate.Of(low.rate)
		}
		l.rate = both
	}
	return l
}

// lowers reports whether limits are lowered now.
func (d *queue) lowers(now mail.Instant) bool {
	return d.measures != nil && d.measures.lower.until > now
}

// watchMeasures starts the timer for what ends next.
func (q *Qmgr) watchMeasures(d *queue) {
	ms := d.measures
	q.disarm(&ms.timer)
	ms.forget(q.now)
	at := mail.Never
	if ms.lower.until > 0 {
		at = ms.lower.until
	}
	for _, s := range ms.seen {
		at = min(at, s.ends)
	}
	if at != mail.Never {
		q.arm(&ms.timer, max(at, q.now.Add(1)))
	}
}

// measuresEnd ends the limits whose time is over.
func (q *Qmgr) measuresEnd(d *queue) {
	ms := d.measures
	if ms.lower.until > 0 && ms.lower.until <= q.now {
		ms.lower = lowered{}
		d.pin()
		q.reshape(d, d.site.Best())
		d.pinned = false
	}
	q.watchMeasures(d)
	q.freeIfIdle(d)
}

// remembersMeasures reports whether an idle destination has measures that have not ended.
func (q *Qmgr) remembersMeasures(d *queue) bool {
	return d.measures != nil && d.measures.timer.slot.Heaped() && q.queues <= 2*q.cfg.RecipientLimit
}

// endRest notes that an operator, or time, has ended a destination's rest.
func (d *queue) endRest() {
	if d.measures != nil {
		d.measures.until, d.measures.rule = 0, ""
	}
}
