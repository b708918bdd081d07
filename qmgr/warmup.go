package qmgr

import (
	"math"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/directory"
	"github.com/posthaste-mta/posthaste/qmgr/warmup"
)

// A source that receivers do not know yet may send only so many messages to each site on a
// day (package warmup). A message counts when it is started. It is given a source when it is
// bound, of which the allowance covers it and all that waits for the same destination
// already; so a queue rarely holds more than the source may send. If it does after all,
// because the allowance became smaller at midnight or by an order, or because the mail waits
// in several transports, the start that uses the allowance up has what waits bound anew
// before another start. So the allowance is never exceeded, whatever was bound.
//
// Mail that finds all sources of its pool used up is deferred until the day ends. It does
// not wait in core, where it would take the place of other mail for hours; and no option has
// it leave nevertheless, since that is what a warm-up must not do: a pool whose mail cannot
// wait gets a source that is warm.

// WarmupPrefix begins the reason of mail that is deferred because no source of its pool may
// send more to its site today.
const WarmupPrefix = warmup.ReasonPrefix

// isWarmup reports whether a reason, with its status or without, is one of noSource's that
// says so.
func isWarmup(why string) bool {
	return strings.HasPrefix(strings.TrimPrefix(why, "4.3.0 "), WarmupPrefix)
}

// warmupKey is whose allowance a queue uses. Receivers do not see transports.
func (d *queue) warmupKey() warmup.Key { return warmup.Key{Source: d.source.String(), Site: d.nexthop} }

// allows reports whether the allowance of a source for a site covers one more message,
// besides those that wait in the transport's queue of a name for it.
func (q *Qmgr) allows(t *transport, name string, k warmup.Key) bool {
	left := q.warmup.Allowance(k, q.now).Left()
	if left == 0 || left == math.MaxInt {
		return left > 0
	}
	return left > t.waitingFrom(name, k.Source)
}

// waitingFrom is how much waits in the queues of a name that share a source.
func (t *transport) waitingFrom(name, source string) (n int) {
	v := t.queues.Variants(name)
	if v != nil && !v.Secured() {
		if d := t.queues.Get(directory.Key{Name: name, Source: source}); d != nil {
			n = d.Waiting
		}
		return n
	}
	for _, d := range v.All() {
		if d.source.String() == source {
			n += d.Waiting
		}
	}
	return n
}

// overbooked reports whether more mail waits for a destination than its source may send today.
func (q *Qmgr) overbooked(d *queue) bool {
	return d.source != nil && q.warmup.Allowance(d.warmupKey(), q.now).Left() < d.transport.waitingFrom(d.name, d.source.Name)
}

// countWarmup counts a delivery that is started. Call-outs are no messages.
func (q *Qmgr) countWarmup(d *queue, v *delivery) {
	if d.source == nil || messageOf(v.entry.Message).callout != nil {
		return
	}
	k := d.warmupKey()
	if v.counted = q.warmup.Take(k, q.now); v.counted != 0 && !q.warmup.Allowance(k, q.now).Room.Free() {
		q.spent = append(q.spent, k)
	}
}

// unstarted takes a delivery back that its connection never began.
func (q *Qmgr) unstarted(v *delivery) {
	if v.counted != 0 {
		q.warmup.Give(queueOf(v.entry.Destination()).warmupKey(), v.counted, q.now)
	}
}

// judgeWarmup counts what the receiver said to a delivery. Where no recipient's turn came,
// because the connection was lost or closed by 421, there was no message that the receiver
// could have judged: the next attempt, which is made at once, counts in its place. Otherwise
// a receiver that takes ten messages on a connection would cost a tenth of the allowance.
func (q *Qmgr) judgeWarmup(v *delivery, outcomes []mail.Outcome) {
	if v.counted == 0 {
		return
	}
	r, tried := warmup.ResultOf(outcomes)
	if !tried {
		q.unstarted(v)
		return
	}
	q.warmup.Ended(queueOf(v.entry.Destination()).warmupKey(), r, q.now)
}

// overflow binds mail anew whose source may send no more to its site today.
func (q *Qmgr) overflow() {
	for len(q.spent) > 0 {
		k := q.spent[len(q.spent)-1]
		q.spent = q.spent[:len(q.spent)-1]
		for t := range q.ring.All() {
			for d := range t.queues.Named(k.Site) {
				if d.source.String() != k.Source || d.Waiting == 0 {
					continue
				}
				d.pin()
				q.bindAnew(d)
				d.touch()
				q.unpin(d)
			}
		}
	}
}

// adjustWarmup carries out an operator's order about a warm-up.
func (q *Qmgr) adjustWarmup(o warmup.Order) {
	text := o.String()
	if err := q.warmup.Obey(o, q.now); err != nil {
		text += ": " + err.Error()
	} else if o.Kind == warmup.SetDay || o.Kind == warmup.Reset {
		q.warmups.Want(o.Key)
	}
	q.emit(Note{Kind: NoteWarmup, Source: o.Key.Source, Text: text})
	q.fit()
}

// Warmup returns where a source is in its warm-up, with at most most of its sites: those
// with the most messages today. It reports whether the source is warmed up. It takes time in
// proportion to the source's sites.
func (q *Qmgr) Warmup(source string, most int) (warmup.SourceView, bool) {
	return q.warmup.View(source, most, q.now)
}

// WarmupSite returns where one site is in a source's warm-up. It reports whether the source
// is warmed up.
func (q *Qmgr) WarmupSite(source, site string) (warmup.SiteView, bool) {
	return q.warmup.SiteView(warmup.Key{Source: source, Site: site}, q.now)
}
