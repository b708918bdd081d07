package qmgr

import (
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr/flows"
	"github.com/posthaste-mta/posthaste/qmgr/sched"
	"github.com/posthaste-mta/posthaste/qmgr/texts"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// delivered takes the result of an attempt: feedback for the destination first,
// then what became of the recipients.
func (q *Qmgr) delivered(ev Delivered) {
	if q.busy[ev.Entry] == nil {
		q.duplicate(0, "delivered")
		return
	}
	v := q.end(ev.Entry)
	e := v.entry
	if !ev.Result.Crashed {
		q.restore(queueOf(e.Destination()).transport) // its agents can be had after all
	}
	if v.conn != nil {
		d := queueOf(e.Destination())
		d.spreading.Ended(q.now.Sub(v.started), d.Busy)
		q.spare(d)
		q.carried(&v, &ev.Result)
	} else {
		q.feedback(queueOf(e.Destination()), v.attempt, ev.Result)
	}
	m := messageOf(e.Message)
	if m.callout == nil {
		q.accepts(queueOf(e.Destination()), e.Recipients, ev.Result.Outcomes)
	}
	q.measure(queueOf(e.Destination()), ev.Result.Measure)
	q.judgeWarmup(&v, ev.Result.Outcomes)
	if untried := q.noteOutcomes(m, e, ev.Result.Outcomes); len(untried) > 0 {
		q.putBack(ev.Entry, e, untried)
	}
	q.finish(e)
	if q.room.Low() {
		q.read(m)
	}
	q.attend(m)
}

// end takes a delivery from those under way.
func (q *Qmgr) end(id EntryID) delivery {
	d := q.busy[id]
	delete(q.busy, id)
	v := *d
	q.stocks.giveDelivery(d)
	return v
}

// finish ends an entry, waiting or busy, and frees what nothing else needs:
// its peer and its queue. Feedback has been given before.
func (q *Qmgr) finish(e *sched.Entry) {
	c, d, m := flows.ClaimOf(e.Destination()), queueOf(e.Destination()), messageOf(e.Message)
	wasBusy := e.Busy()
	e.Leave()
	if wasBusy {
		d.volley.Ended()
		q.endDelay(d.transport)
		q.sent(d.transport)
	}
	q.hold(m, -len(e.Recipients))
	e.Release()
	if wasBusy {
		q.restAfterDelivery(d, m.callout != nil)
	}
	c.Ended()
	d.rearrange()
	e.Free()
	c.FreeIfEmpty()
	q.freeIfIdle(d)
}

// feedback has a destination's window learn how an attempt went. A delivery that
// failed for the recipients only shows that the destination works.
func (q *Qmgr) feedback(d *queue, a window.Attempt, r mail.DeliveryResult) {
	cfg := &d.limits.window
	switch {
	case r.Crashed, d.resting(q.now): // it is dead by a rule, whatever else it does
		d.window.Lost(a)
	case r.Site.IsZero():
		if d.window.State() == window.Dead {
			q.revive(d, CauseSuccess)
			return
		}
		d.window.Success(cfg, a, d.Busy)
		d.touch()
		q.explain(d, CauseSuccess)
	case d.window.State() == window.Ready:
		died := d.window.Failure(cfg, a)
		d.touch()
		q.explain(d, CauseFailure)
		if died {
			q.die(d, r.Site, q.now.Add(q.cfg.Backoff.MinimalBackoffTime))
		}
	}
}

// explain reports what a window has come to. A reader of decisions wants to know of
// each attempt; the operator of what has changed, or a destination at its limit
// would fill the log.
func (q *Qmgr) explain(d *queue, cause FeedbackCause) {
	if !q.cfg.Debug && !d.transport.cfg.FeedbackDebug {
		return
	}
	if d.told == nil {
		fresh := window.New(&d.limits.window)
		told := d.tell(&fresh)
		d.told = &told
	}
	f := d.tell(&d.window)
	if f == *d.told && !q.cfg.Debug {
		return
	}
	*d.told = f
	f.Cause = cause
	q.emit(f)
}

func (d *queue) tell(w *window.Window) Feedback {
	f := Feedback{Transport: d.transport.Name, Nexthop: d.nexthop, Source: d.source.String(), Limit: d.limits.window.Limit, Window: w.Size()}
	f.Success, f.Failure, f.FailedCohorts = w.Counters()
	return f
}

// SuspendedPrefix comes before the reason in the replies of recipients that are
// deferred without an attempt because their destination is dead.
const SuspendedPrefix = mail.SuspendedPrefix

// die takes a destination out of service until an instant: its waiting entries go
// to another source of their pool if there is one that is not dead, and else to the
// retry transport, which defers them.
func (q *Qmgr) die(d *queue, why mail.Reply, until mail.Instant) {
	q.rejoinAll(d)
	q.dies(d, why, until)
	if q.cfg.AsPostfix {
		q.queueInstead(TransportRetry, d.reason, d.origin())
	}
	if d.source != nil {
		q.bindAnew(d)
		return
	}
	q.putOffAll(d, TransportRetry, d.reason)
}

// dies is that without what becomes of its mail.
func (q *Qmgr) dies(d *queue, why mail.Reply, until mail.Instant) {
	d.reason = why
	if q.queues > reasonsWhole {
		why.Text = mail.CutText(why.Text, texts.Short)
	}
	d.reason.Text = SuspendedPrefix + why.Text
	q.timers.Start(&d.timer, max(until, q.now.Add(shortestDeath)))
	q.emit(Note{Kind: NoteDead, Transport: d.transport.Name, Nexthop: d.nexthop, Source: d.source.String(), Security: d.security, Text: why.String()})
}

// reasonsWhole is for how many destinations at most the reason is kept whole why
// they are dead. Of more than that it is cut.
const reasonsWhole = 1000

// shortestDeath keeps a destination from dying and reviving in one instant.
const shortestDeath = time.Second

// noteOutcomes takes what became of an entry's recipients, and returns those whose
// turn did not come.
func (q *Qmgr) noteOutcomes(m *message, e *sched.Entry, outcomes []mail.Outcome) (untried []mail.Recipient) {
	assert.That(len(outcomes) == len(e.Recipients), "%d outcomes for %d recipients of %v", len(outcomes), len(e.Recipients), m.ID)
	for i, o := range outcomes {
		r := &e.Recipients[i]
		assert.That(o.Index == r.Index, "outcome of recipient %d of %v, want %d", o.Index, m.ID, r.Index)
		if o.At == 0 {
			o.At = q.now
		}
		switch {
		case o.Result == mail.Untried:
			untried = append(untried, *r)
			continue
		case m.callout != nil:
			q.noted(m, &o)
			continue
		case o.Result == mail.Failed:
			o.Report = failureReport(m, r)
		case o.Unknown:
			q.unknown(m, e, &o)
		}
		d := queueOf(e.Destination())
		if o.Result == mail.Deferred {
			why := ""
			if d.transport.Name == TransportRetry {
				why = d.nexthop
			}
			m.deferring(why)
		}
		q.counts.Outcomes[o.Result]++
		d.outcomes[o.Result]++
		d.transport.outcomes[o.Result]++
		if s := d.source; s != nil {
			s.Today.Add(o.Result, q.now)
		}
		q.noted(m, &o)
	}
	return untried
}

// unknown deals with a recipient who may have the message or not (RFC 1047).
func (q *Qmgr) unknown(m *message, e *sched.Entry, o *mail.Outcome) {
	d := queueOf(e.Destination())
	m.unsure = true
	m.doubt = m.doubt || d.transport.cfg.UnknownOutcome == UnknownHold
	q.counts.Unknown++
	q.emit(Note{Kind: NoteUnknown, ID: m.ID, Transport: d.transport.Name, Nexthop: d.nexthop, Source: d.source.String(), Sender: m.env.Sender, Flow: m.env.Flow, Text: o.Reply.String()})
}

// failureReport returns which report a failure of a recipient owes. With the null
// sender no report is made, and the debt is kept all the same: it is how the policy for
// double bounces survives a restart.
func failureReport(m *message, r *mail.Recipient) mail.ReportKind {
	if m.env.Sender == "" || r.Notify.Failure() {
		return mail.ReportFailed
	}
	return mail.ReportNone
}

// duplicate counts an answer for something that is already gone.
func (q *Qmgr) duplicate(id mail.QueueID, what string) {
	q.counts.Duplicates++
	q.emit(Note{Kind: NoteDuplicate, ID: id, Text: what})
}

// noted is message.note for outcomes whose texts are kept within bounds.
func (q *Qmgr) noted(m *message, o *mail.Outcome) {
	o.Reply.Text = q.texts.Keep(o.Reply.Text)
	m.note(o)
}
