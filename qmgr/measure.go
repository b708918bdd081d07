package qmgr

import (
	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/directory"
	"github.com/posthaste-mta/posthaste/qmgr/measure"
	"github.com/posthaste-mta/posthaste/qmgr/source"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// Measures of rules on replies (mail.Measure) come with results. A destination that is to
// rest is dead until the rest ends, whatever its hosts do meanwhile; only an operator's
// retry ends it earlier. Limits are laid over those of the destination for a time.
//
// Unlike the deaths of destinations and what windows have learned, both are kept over restarts:
// what is demanded is in a table of its own (package measure), whose changes a HostFeed returns
// and Learned brings back. A queue has a copy of what the table has of it, which keep and
// recall make the same.
//
// A rule may also suspend a destination or its mail to a domain, as an operator can (package suspend): it is
// put off without an attempt, an operator sees what is suspended and why, and can resume it. That is
// an order in the table of orders. It ends with its rule, as all measures do.

// measures are those of one destination.
type measures struct {
	measure.Demands
	refusals []refusal // the last
	timer    timer     // replies are forgotten that rules want several of
}

// resting reports whether a rule has the destination rest.
func (d *queue) resting(now mail.Instant) bool {
	return d.measures != nil && d.measures.Resting(now)
}

// lowers reports whether limits are lowered now.
func (d *queue) lowers(now mail.Instant) bool {
	return d.measures != nil && d.measures.Lowers(now)
}

// measure takes what a rule demands because of a reply. Mail that was put off says what
// was said about it before, and is no destination.
func (q *Qmgr) measure(d *queue, m *mail.Measure) {
	d = d.whole()
	if m == nil || d.transport.Name == TransportRetry || d.transport.Name == TransportError || !q.rules.Has(m.Rule) {
		return
	}
	if m.Suspend > 0 && q.suspendedBy(d, m) {
		return // to what was under way: it neither lengthens the suspension nor counts after it
	}
	if d.measures == nil {
		d.newMeasures()
	}
	d.measures.refuses(m, q.now)
	switch enough, before := d.measures.Count(m, q.now); enough {
	case measure.EnoughForAll:
		q.take(d, m, before)
	case measure.EnoughForDomain:
		if m.Suspend > 0 {
			q.suspendDomainBy(d, m, m.SuspendAfter(before))
		}
	}
	q.watchSightings(d)
}

// take applies a measure once enough replies were counted; before is how often that had happened already.
func (q *Qmgr) take(d *queue, m *mail.Measure, before int) {
	if m.Rest > 0 {
		q.restBy(d, m)
	}
	if m.Limits() {
		q.lowerBy(d, m)
	}
	if m.Suspend > 0 {
		q.suspendBy(d, m, m.SuspendAfter(before))
	}
}

func (d *queue) newMeasures() {
	d.measures = &measures{}
	d.measures.timer.Of = timed{kind: timerMeasure, queue: d}
}

// accepts records that a destination has accepted a message, for rules that count replies in a row.
func (q *Qmgr) accepts(d *queue, to []mail.Recipient, outcomes []mail.Outcome) {
	if d = d.whole(); d.measures == nil || !d.measures.Counts() {
		return
	}
	delivered := false
	for i := range outcomes {
		if outcomes[i].Result == mail.Delivered && i < len(to) {
			d.measures.Accepted(idn.Key(to[i].Address.Domain()))
			delivered = true
		}
	}
	if delivered {
		d.measures.refusals = nil
		q.watchSightings(d)
	}
}

// restBy has a destination rest. A rest that would end earlier than the present one
// changes nothing.
func (q *Qmgr) restBy(d *queue, m *mail.Measure) {
	r, longer := d.measures.WithRest(m, q.now)
	if !longer {
		return
	}
	first := !d.resting(q.now)
	q.keep(d, r)
	q.retire(d, &r.Rest)
	if first {
		q.emitMeasure(d, m, r.Rest.Until)
	}
}

// retire makes a destination dead until a rest ends. One that is dead longer for another reason
// stays dead as long.
func (q *Qmgr) retire(d *queue, r *measure.Rest) {
	switch d.window.State() {
	case window.Dead:
		until := max(r.Until, d.timer.At())
		q.timers.Stop(&d.timer)
		d.reason = r.Reason
		d.reason.Text = SuspendedPrefix + r.Reason.Text
		q.timers.Start(&d.timer, max(until, q.now.Add(shortestDeath)))
	case window.Suspended:
		q.timers.Stop(&d.timer)
		d.window.Resume()
		fallthrough
	case window.Ready:
		d.window.Close()
		d.touch()
		q.die(d, r.Reason, r.Until)
	}
}

// lowerBy lowers limits of a destination.
func (q *Qmgr) lowerBy(d *queue, m *mail.Measure) {
	r, first := d.measures.WithLowering(m, q.now)
	q.keep(d, r)
	if !first {
		return
	}
	q.lowerLimits(d)
	q.emitMeasure(d, m, r.Lower.Until)
}

// lowerLimits puts lowered limits in force.
func (q *Qmgr) lowerLimits(d *queue) {
	q.reshape(d, d.site.Best())
	if n := d.measures.Lower.Concurrency; n > 0 && d.site != nil {
		q.hangupAll(q.conns.Shrink(d.site, n))
		d.touch()
	}
}

func (q *Qmgr) emitMeasure(d *queue, m *mail.Measure, until mail.Instant) {
	q.emit(Note{Kind: NoteRule, Transport: d.transport.Name, Nexthop: d.nexthop, Source: d.source.String(), Security: d.security, At: until,
		Text: m.Rule + ": " + m.Reply.String()})
}

// measureKey returns the key of the destination in the table.
func (d *queue) measureKey() measure.Key {
	return measure.Key{Scope: measure.Queue, Transport: d.transport.Name, Name: d.name, Nexthop: d.nexthop, Source: d.source.String(), Security: d.security}
}

// keep changes what is demanded of a destination. The caller puts it in force.
func (q *Qmgr) keep(d *queue, r measure.Record) {
	d.measures.Record = r
	if forgot, full := q.measured.Put(d.measureKey(), r); full {
		q.measureEnded(forgot.Key, forgot.Record, true)
	}
}

// recall has a destination do what was demanded of it before there was a queue of it.
func (q *Qmgr) recall(d *queue) {
	r := q.measured.Get(d.measureKey())
	if r == (measure.Record{}) {
		return
	}
	if d.measures == nil {
		d.newMeasures()
	}
	d.measures.Record = r
	if d.lowers(q.now) {
		q.lowerLimits(d)
	}
	if d.resting(q.now) {
		q.retire(d, &r.Rest)
	}
}

// learnedMeasures takes what was demanded of destinations before the last stop. Queues of those
// whose transport and source are configured are made at once, so that views show them; the
// others get what is demanded of them if they are made before it ends.
func (q *Qmgr) learnedMeasures(known []measure.Known) {
	for _, k := range q.measured.Load(known, q.now) {
		was := q.measured.Get(k)
		now := q.rules.Leave(was)
		if now != was {
			q.measured.Put(k, now)
		}
		if now == (measure.Record{}) {
			continue
		}
		if q.recallKey(k); q.measuredQueue(k) == nil && now.Rest.Until != 0 {
			q.emit(Note{Kind: NoteDead, Transport: k.Transport, Nexthop: k.Nexthop, Source: k.Source, Security: k.Security, Text: now.Rest.Reason.String()})
		}
	}
}

// recallKey puts what is demanded of a destination in force. It makes a queue for that if the configuration allows one.
// A key may be of another configuration, and of any age.
func (q *Qmgr) recallKey(k measure.Key) {
	if d := q.measuredQueue(k); d != nil {
		d.pin()
		q.recall(d)
		q.unpin(d)
		return
	}
	cfg, configured := q.cfg.Transports[k.Transport]
	s := q.sources.Named(k.Source)
	switch connects := cfg.Agents == AgentsConnections; {
	case !configured, q.queues >= 2*q.cfg.RecipientLimit, k.Transport == TransportRetry, k.Transport == TransportError:
	case connects && k.Name != k.Nexthop, k.Source != "" && (!connects || s == nil || !s.Configured):
	default:
		q.queue(q.transport(k.Transport), k.Name, k.Nexthop, s, k.Security) // which recalls it
	}
}

// measuredQueue returns the queue of a key; nil if there is none.
func (q *Qmgr) measuredQueue(k measure.Key) *queue {
	if t := q.transports[k.Transport]; t != nil {
		if d := t.queues.Get(directory.Key{Name: k.Name, Source: k.Source, Security: k.Security}); d != nil && d.nexthop == k.Nexthop {
			return d
		}
	}
	return nil
}

// deadFrom reports whether mail cannot leave for a destination from a source: its queue is dead,
// or there is none and it is to rest.
func (q *Qmgr) deadFrom(t *transport, to way, s *source.State) bool {
	if d := t.queues.Get(directory.Key{Name: to.name, Source: s.Name, Security: to.security}); d != nil {
		return d.dead()
	}
	return q.measured.Len() > 0 &&
		q.measured.Get(measure.Key{Scope: measure.Queue, Transport: t.Name, Name: to.name, Nexthop: to.reach, Source: s.Name, Security: to.security}).Rest.Until > q.now
}

// endMeasures drops what has ended; nothing before measured.Next.
func (q *Qmgr) endMeasures() {
	for k, was, ok := q.measured.End(q.now); ok; k, was, ok = q.measured.End(q.now) {
		q.measureEnded(k, was, false)
	}
}

// measureEnded has a destination do without what is not demanded any more. The end of a rest
// that was foreseen is that of the destination's death, which has a timer.
func (q *Qmgr) measureEnded(k measure.Key, was measure.Record, early bool) {
	now := q.measured.Get(k)
	rested := was.Rest.Until != 0 && now.Rest.Until == 0
	d := q.measuredQueue(k)
	if d == nil || d.measures == nil {
		if rested {
			q.emit(Note{Kind: NoteAlive, Transport: k.Transport, Nexthop: k.Nexthop, Source: k.Source, Security: k.Security})
		}
		return
	}
	d.measures.Record = now
	d.pin()
	if was.Lower.Until != 0 && now.Lower.Until == 0 {
		q.reshape(d, d.site.Best())
	}
	if rested && early && d.dead() {
		q.revive(d, CauseRevival)
	}
	q.watchSightings(d)
	q.unpin(d)
}

// watchSightings starts the timer for the replies that are forgotten next, and frees what is not needed any more.
func (q *Qmgr) watchSightings(d *queue) {
	ms := d.measures
	if ms == nil {
		return
	}
	q.timers.Stop(&ms.timer)
	switch at := ms.Forget(q.now); {
	case at != mail.Never:
		q.timers.Start(&ms.timer, max(at, q.now.Add(1)))
	case ms.Record == (measure.Record{}):
		d.measures = nil
	}
}

// sightingsEnd forgets the replies whose time is over.
func (q *Qmgr) sightingsEnd(d *queue) {
	q.watchSightings(d)
	q.freeIfIdle(d)
}

// remembersMeasures reports whether an idle destination has measures that have not ended. The
// table has them in any case; but for a few the queue stays, where views show it.
func (q *Qmgr) remembersMeasures(d *queue) bool {
	return d.measures != nil && q.queues <= 2*q.cfg.RecipientLimit
}

// endRest notes that an operator, or time, has ended a destination's rest.
func (q *Qmgr) endRest(d *queue) {
	if d.measures == nil || d.measures.Rest.Until == 0 {
		return
	}
	r := d.measures.Record
	r.Rest = measure.Rest{}
	q.keep(d, r)
	q.watchSightings(d)
}

// endRests ends those of all destinations that have no queue.
func (q *Qmgr) endRests() {
	for _, k := range q.measured.All() {
		if k.Record.Rest.Until != 0 && q.measuredQueue(k.Key) == nil {
			r := k.Record
			r.Rest = measure.Rest{}
			q.measured.Put(k.Key, r)
			q.measureEnded(k.Key, k.Record, true)
		}
	}
}

// ruled takes which rules there are. What others have demanded ends: an operator who
// removes a rule does not want it.
func (q *Qmgr) ruled(names []string) {
	q.rules = measure.NewRules(names)
	q.tellSuspensions(q.suspended.Leave(q.rules.Has, q.now)...)
	for _, k := range q.measured.All() {
		if now := q.rules.Leave(k.Record); now != k.Record {
			q.measured.Put(k.Key, now)
			q.measureEnded(k.Key, k.Record, true)
		}
	}
}
