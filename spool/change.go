package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
)

// Apply makes changes durable, all in one synced commit, and returns for each where
// its message is now. A change of a message that is not in the spool succeeds and
// does nothing.
//
// A message that turns out to be damaged is moved to the corrupt area instead of
// being changed; that is also a success, and shows in Changed.Place. If messages
// cannot be read for a possibly temporary reason, the changes of all other messages
// are made, and the error is a mail.ChangeErrors. After any other error it is
// unknown which changes were made. Changes that were not made may be applied again.
//
// ChangeExpire, ChangeWarn and ChangeLate on a very long recipient list are done in several
// commits, so that memory stays bounded; each leaves the message consistent, and a
// repeated change does the rest.
func (s *Spool) Apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.apply(ctx, changes)
}

func (s *Spool) apply(ctx context.Context, changes []mail.Change) ([]mail.Changed, error) {
	s.counts.gate.RLock()
	defer s.counts.gate.RUnlock()
	e := s.newEdits(changes)
	defer e.release()
	answers, failed, err := e.all(ctx, changes)
	if err != nil {
		return nil, err
	}
	b := s.db.NewBatch()
	defer b.Close()
	if err := e.emit(b); err != nil {
		return nil, err
	}
	if err := e.commit(b); err != nil {
		return nil, err
	}
	e.committed()
	if failed != nil {
		return answers, failed
	}
	return answers, nil
}

// all applies changes to the copies in memory. If a message cannot be read, only
// its own changes fail, and it stays as it is. The last result is an error that
// affects all changes.
func (e *edits) all(ctx context.Context, changes []mail.Change) ([]mail.Changed, mail.ChangeErrors, error) {
	if err := e.preload(changes); err != nil {
		return nil, nil, fmt.Errorf("spool: read what is changed: %w", err)
	}
	answers := make([]mail.Changed, len(changes))
	var failed map[mail.QueueID]error
	for i := range changes {
		c := &changes[i]
		if failed[c.ID] != nil {
			continue
		}
		err := e.one(ctx, c)
		if errors.Is(err, ErrCorrupt) {
			if err = e.s.confirm(ctx, c.ID, err); errors.Is(err, ErrCorrupt) {
				err = e.putAside(ctx, c, err)
			}
		}
		if err == nil {
			if answers[i], err = e.answer(c); err == nil {
				continue
			}
		}
		err = fmt.Errorf("spool: %s %s: %w", c.Op, c.ID, err)
		if ctx.Err() != nil {
			return nil, nil, err
		}
		if failed == nil {
			failed = make(map[mail.QueueID]error)
		}
		failed[c.ID] = err
		e.forget(c.ID)
	}
	if failed == nil {
		return answers, nil, nil
	}
	errs := make(mail.ChangeErrors, len(changes))
	for i := range changes {
		if errs[i] = failed[changes[i].ID]; errs[i] != nil {
			answers[i] = mail.Changed{ID: changes[i].ID}
		}
	}
	return answers, errs, nil
}

func (e *edits) answer(c *mail.Change) (a mail.Changed, err error) {
	a.ID = c.ID
	if ed := e.byID[c.ID]; ed.phase == editKept {
		a.Place, a.Reports = ed.place(), ed.state.owed > 0
	}
	a.Requeued, err = e.requeuedBy(c)
	return a, err
}

// one applies one change.
func (e *edits) one(ctx context.Context, c *mail.Change) error {
	if c.Op == mail.ChangeRemove {
		return e.remove(ctx, c)
	}
	ed, err := e.load(c.ID)
	if err != nil || ed.phase != editKept {
		return err
	}
	if err := e.record(ed, c); err != nil {
		return err
	}
	for i := range c.Reroutes {
		if err := e.reroute(ed, &c.Reroutes[i]); err != nil {
			return err
		}
	}
	for i := range c.Splits {
		if err := e.split(ed, c, &c.Splits[i]); err != nil {
			return err
		}
	}
	switch c.Op {
	case mail.ChangeRecord:
		ed.endRequeue(c)
	case mail.ChangeReported:
	case mail.ChangeDefer:
		ed.deferUntil(c)
	case mail.ChangeHold:
		ed.move(mail.AreaHold, c.Due, c.Reason)
	case mail.ChangeRelease:
		switch ed.state.area {
		case mail.AreaHold:
			return e.letGo(ed, c)
		case mail.AreaCorrupt:
			return e.restore(ctx, ed, c.Due)
		}
	case mail.ChangeLapse:
		st := &ed.state
		switch {
		case st.area != mail.AreaHold || st.due == 0 || st.due > c.At:
		case st.kept:
			ed.move(mail.AreaDeferred, c.At, "")
		default:
			ed.phase = editGone
		}
	case mail.ChangeExpire:
		return e.walk(ctx, ed, expire(c.At, c.Except))
	case mail.ChangeWarn:
		return e.warn(ctx, ed, &ed.state.warned)
	case mail.ChangeLate:
		return e.warn(ctx, ed, &ed.state.late)
	case mail.ChangeCorrupt:
		ed.move(mail.AreaCorrupt, 0, c.Reason)
	default:
		return fmt.Errorf("unknown operation %d", c.Op)
	}
	return nil
}

// remove deletes a message. If the caller knows its place, nothing is read.
func (e *edits) remove(ctx context.Context, c *mail.Change) error {
	ed := e.byID[c.ID]
	if ed == nil && c.Place.Area != mail.AreaNone && !e.s.spoilt.has(c.ID) {
		e.add(edit{id: c.ID, phase: editGone, home: c.Place})
		return nil
	}
	ed, err := e.load(c.ID)
	if errors.Is(err, ErrCorrupt) {
		// It need not be readable to be removed, but its place must be found.
		ed, err = e.loadDamaged(ctx, c.ID)
	}
	if err != nil {
		return err
	}
	if ed.phase == editKept {
		ed.phase = editGone
	}
	return nil
}

// deferUntil moves a message to the deferred area, unless it is held and has unsettled
// recipients. The same change applied twice counts as one attempt; its instant
// identifies it.
func (ed *edit) deferUntil(c *mail.Change) {
	st := &ed.state
	if st.area == mail.AreaHold && st.settled < st.recipients {
		return
	}
	if st.attempts == 0 || st.lastAttempt != c.At {
		st.attempts++
		st.lastAttempt = c.At
		ed.dirty = true
	}
	ed.move(mail.AreaDeferred, c.Due, "")
}

// letGo ends an operator's hold, after which the message is as it was before: if its sender has it kept until a date
// that has not come, it waits for that. One that only waits for its date is due now.
func (e *edits) letGo(ed *edit, c *mail.Change) error {
	st := &ed.state
	switch {
	case st.kept && st.due > 0:
		st.released = c.At
	case st.kept && st.settled < st.recipients: // otherwise it only has to be removed, and no recipient waits for that
		if waits, err := e.awaitDate(ed, c.Due); waits || err != nil {
			return err
		}
	}
	ed.move(mail.AreaDeferred, c.Due, "")
	return nil
}

// awaitDate has a message that is kept wait for its date, and reports whether that has not come.
func (e *edits) awaitDate(ed *edit, now mail.Instant) (bool, error) {
	env, err := e.envelope(ed)
	if err != nil {
		return false, err
	}
	if env == nil {
		return false, fmt.Errorf("%w: state without envelope", ErrCorrupt)
	}
	st := &ed.state
	if st.kept = env.Release > now; st.kept {
		st.area, st.due, st.reason = mail.AreaHold, env.Release, KeptReason
		ed.dirty = true
	}
	return st.kept, nil
}

// move changes the area of a message. A message only leaves the corrupt area by
// restore or removal.
func (ed *edit) move(area mail.Area, due mail.Instant, reason string) {
	st := &ed.state
	if st.area == mail.AreaCorrupt {
		return
	}
	if area != mail.AreaDeferred && area != mail.AreaHold {
		due = 0
	}
	due = max(due, 0)
	if st.area != area || st.due != due || st.reason != reason {
		st.kept = st.kept && (area == mail.AreaCorrupt || area == mail.AreaHold && due == 0)
		st.area, st.due, st.reason = area, due, reason
		ed.dirty = true
	}
}

// record stores the outcomes of a change, or clears the reports they name. A damaged
// chunk does not prevent this for the others: its outcomes are kept in the state until the
// chunk can be read, as are those of a message whose state is lost.
func (e *edits) record(ed *edit, c *mail.Change) error {
	var damage error
	for i := range c.Outcomes {
		out := c.Outcomes[i]
		if ed.state.lost() {
			ed.keep(c, out)
			continue
		}
		if out.Index >= ed.state.recipients {
			e.s.cfg.Logger.Error("outcome of a recipient that does not exist",
				"id", c.ID.String(), "op", c.Op.String(), "recipient", out.Index)
			continue
		}
		p, err := e.part(ed, chunkOf(ed.state.chunks, out.Index))
		if errors.Is(err, ErrCorrupt) {
			damage = err
			ed.keep(c, out)
			continue
		}
		if err != nil {
			return err
		}
		before := p.known.at(out.Index)
		ed.update(p, before, outcomeAfter(c, before, out))
	}
	return damage
}

// reroute applies a mail.Reroute. It needs no recipients, only their outcomes. A message whose state is
// lost, and so has no recipients, or that is in the corrupt area, is left alone: it is not known who waits.
func (e *edits) reroute(ed *edit, order *mail.Reroute) error {
	if ed.state.area == mail.AreaCorrupt {
		return nil
	}
	for _, index := range order.Recipients {
		if index >= ed.state.recipients {
			continue
		}
		p, err := e.part(ed, chunkOf(ed.state.chunks, index))
		if err != nil {
			return err
		}
		before := p.known.at(index)
		if before.Result.Settled() {
			continue
		}
		after := before
		after.Ordered = order.To
		ed.update(p, before, after)
	}
	return nil
}

// outcomeAfter returns what is known of a recipient after a change.
func outcomeAfter(c *mail.Change, before, out mail.Outcome) mail.Outcome {
	if c.Op == mail.ChangeReported {
		before.Report = mail.ReportNone
		return before
	}
	return supersede(before, out)
}

// keep stores an outcome in the state until it can be put where it belongs.
func (ed *edit) keep(c *mail.Change, out mail.Outcome) {
	before := ed.state.outcomes.at(out.Index)
	if after := outcomeAfter(c, before, out); !same(after, before) {
		ed.state.outcomes.set(after)
		ed.dirty = true
	}
}

// placeKept puts the outcomes that the state has kept where they belong.
func (e *edits) placeKept(ed *edit, kept outcomes) error {
	for _, out := range kept {
		p, err := e.part(ed, chunkOf(ed.state.chunks, out.Index))
		if err != nil {
			return err
		}
		before := p.known.at(out.Index)
		ed.update(p, before, supersede(before, out))
	}
	return nil
}

// update replaces the outcome of a recipient if it differs.
func (ed *edit) update(p *part, before, after mail.Outcome) {
	if same(after, before) {
		return
	}
	p.known.set(after)
	p.dirty = true
	ed.dirty = true
	ed.state.count(before, after)
}

// warn marks a delay report as owed on every waiting recipient that requests one, once in the
// life of a message for each reason; done says that it was for this one.
func (e *edits) warn(ctx context.Context, ed *edit, done *bool) error {
	if *done {
		return nil
	}
	if err := e.walk(ctx, ed, owe); err != nil {
		return err
	}
	*done = true
	ed.dirty = true
	return nil
}

// owe is the verdict of ChangeWarn and ChangeLate on one recipient.
func owe(sender mail.Address, r mail.Recipient, known mail.Outcome) mail.Outcome {
	if sender != "" && r.Notify.Delay() {
		known.Report = mail.ReportDelayed
	}
	return known
}

// expire is the verdict of ChangeExpire on one recipient, unless it is one of those that are left as they are.
func expire(at mail.Instant, except []uint32) verdict {
	return func(sender mail.Address, r mail.Recipient, known mail.Outcome) mail.Outcome {
		if _, spared := slices.BinarySearch(except, r.Index); spared {
			return known
		}
		known.Result, known.Expired = mail.Failed, true
		if known.At == 0 {
			known.At = at // otherwise it would be the last attempt's (RFC 3464 2.3.7)
		}
		known.Report = mail.ReportNone
		if sender == "" || r.Notify.Failure() {
			known.Report = mail.ReportFailed
		}
		if known.Reply.IsZero() { // RFC 3463 3.5: delivery time expired
			known.Reply = mail.Reply{Code: 550, Status: mail.Status{Class: 5, Subject: 4, Detail: 7}, Text: "delivery time expired"}
		}
		return known
	}
}
