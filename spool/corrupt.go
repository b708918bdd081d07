package spool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/posthaste-mta/posthaste/mail"
)

// The spoilt are the messages that the spool itself has moved to the corrupt area
// since it was opened. A caller that holds a mail.Place from before does not know
// that.
type spoilt struct {
	mu  sync.Mutex
	ids map[mail.QueueID]struct{}
}

func (p *spoilt) add(id mail.QueueID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ids == nil {
		p.ids = make(map[mail.QueueID]struct{})
	}
	p.ids[id] = struct{}{}
}

func (p *spoilt) has(id mail.QueueID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.ids[id]
	return ok
}

func (p *spoilt) forget(id mail.QueueID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ids, id)
}

// spoil wraps the error of a failed read. If the error is damage, it moves the
// message to the corrupt area, so that it is not tried over and over.
func (s *Spool) spoil(ctx context.Context, id mail.QueueID, what string, cause error) error {
	cause = fmt.Errorf("spool: %s %s: %w", what, id, cause)
	if !errors.Is(cause, ErrCorrupt) {
		return cause
	}
	if cause = s.confirm(ctx, id, cause); !errors.Is(cause, ErrCorrupt) {
		return cause
	}
	change := mail.Change{Op: mail.ChangeCorrupt, ID: id, Reason: cause.Error()}
	e := s.newEdits([]mail.Change{change})
	defer e.release()
	if err := e.putAside(ctx, &change, cause); err != nil {
		return fmt.Errorf("%w; cannot move it to the corrupt area: %w", cause, err)
	}
	b := s.db.NewBatch()
	defer b.Close()
	if err := errors.Join(e.emit(b), s.commit(b)); err != nil {
		return errors.Join(cause, err)
	}
	s.totals.doubt()
	e.committed()
	return cause
}

// confirm rereads a message after part of it was read wrongly. It returns the cause
// if that repeats, otherwise a temporary error: a single bad read does not prove
// that the data on disk is damaged.
func (s *Spool) confirm(ctx context.Context, id mail.QueueID, cause error) error {
	switch err := s.check(ctx, id); {
	case err == nil:
		s.cfg.Logger.Warn("a message was read with errors, but without when it was read again", "id", id.String(), "error", cause)
		return fmt.Errorf("read with errors, but without when it was read again: %v", cause) // %v: not ErrCorrupt
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrGone):
		return cause
	default:
		return fmt.Errorf("%v; when it was read again: %w", cause, err)
	}
}

// check reads all of a message: nil means that it can be delivered.
func (s *Spool) check(ctx context.Context, id mail.QueueID) error {
	m, err := s.readMessage(id)
	if err != nil {
		return err
	}
	if err := s.eachRecipient(ctx, m, 0, skipNone, func(mail.Recipient, mail.Outcome) bool { return true }); err != nil {
		return err
	}
	c, err := s.content(ctx, id)
	if err != nil {
		return err
	}
	return c.Close()
}

// putAside turns a change of a damaged message into its move to the corrupt area. What
// was recorded before the damage was found stays: it does not depend on damaged data,
// and a recipient that has the message must stay settled when the message becomes
// readable again.
func (e *edits) putAside(ctx context.Context, c *mail.Change, cause error) error {
	ed, err := e.load(c.ID)
	if errors.Is(err, ErrCorrupt) {
		if ed, err = e.loadDamaged(ctx, c.ID); err == nil {
			err = e.record(ed, c)
		}
	}
	if err != nil || ed.phase != editKept || ed.state.area == mail.AreaCorrupt {
		return err
	}
	reason := cause.Error()
	if c.Op == mail.ChangeCorrupt && c.Reason != "" {
		reason = c.Reason
	}
	ed.state.aside, ed.state.held = true, ed.state.area == mail.AreaHold && (!ed.state.kept || ed.state.due == 0)
	ed.move(mail.AreaCorrupt, 0, reason)
	ed.cause = cause
	return nil
}

// loadDamaged makes a copy of a message whose state or envelope cannot be read. Its
// place must be searched for in all indexes; those ordered by bucket or due time need a
// scan, 92 ms for a million messages, once for all messages of an Apply. The scan does
// not rebuild a damaged index, which would need locks that are held here; it skips
// what it cannot read.
func (e *edits) loadDamaged(ctx context.Context, id mail.QueueID) (*edit, error) {
	if e.dues == nil {
		dues := make(map[mail.QueueID][]key)
		for i := range e.about {
			dues[e.about[i].ID] = nil
		}
		for _, area := range [...]mail.Area{mail.AreaIncoming, mail.AreaDeferred, mail.AreaHold} {
			_, err := e.s.scanPast(ctx, area, mail.Cursor{}, func(at mail.Cursor) bool {
				if keys, ours := dues[at.ID]; ours {
					dues[at.ID] = append(keys, e.s.indexKey(area, at))
				}
				return true
			})
			if err != nil {
				return nil, err
			}
		}
		e.dues = dues
	}
	ed := edit{id: id, phase: editKept, damaged: true, state: state{area: mail.AreaDeferred}, dirty: true}
	for _, area := range [...]mail.Area{mail.AreaHold, mail.AreaCorrupt} {
		k := e.s.indexKey(area, mail.Cursor{ID: id})
		ed.strays = append(ed.strays, k)
		if held, err := e.s.has(k); area == mail.AreaHold && held && err == nil {
			ed.state.area = mail.AreaHold
		}
	}
	ed.strays = append(ed.strays, e.dues[id]...)
	for _, k := range e.dues[id] {
		if k.octets[0] == e.s.kind(mail.AreaHold) {
			ed.state.area = mail.AreaHold
		}
	}
	return e.add(ed), nil
}

// restore moves a message out of the corrupt area if all of it can be read, and
// otherwise leaves it there.
func (e *edits) restore(ctx context.Context, ed *edit, due mail.Instant) error {
	err := e.s.check(ctx, ed.id)
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrGone) {
		e.s.cfg.Logger.Warn("a message stays in the corrupt area", "id", ed.id.String(), "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	var kept outcomes
	if ed.state.lost() {
		if kept, err = e.rebuild(ed); err != nil {
			return err
		}
		e.s.cfg.Logger.Warn("the record of what became of a message's recipients was lost: those who have it may receive it again",
			"id", ed.id.String(), "recipients", ed.state.recipients, "known", len(kept))
	} else if ed.state.chunks > 0 {
		kept, ed.state.outcomes = ed.state.outcomes, nil
	}
	if err := e.placeKept(ed, kept); err != nil {
		return err
	}
	st := &ed.state
	st.area, st.due, st.reason, st.held = mail.AreaDeferred, max(due, 0), "", false
	st.aside = false
	ed.dirty, ed.back = true, true
	if st.kept {
		_, err = e.awaitDate(ed, st.due)
	}
	return err
}

// rebuild reconstructs a state from the envelope and the outcomes that are stored
// separately. It returns those that the lost state has kept since.
func (e *edits) rebuild(ed *edit) (kept outcomes, err error) {
	env, err := e.s.readEnvelope(ed.id)
	if err != nil {
		return nil, err
	}
	if env == nil {
		return nil, fmt.Errorf("%w: state without envelope", ErrCorrupt)
	}
	st := freshState(env)
	st.kept = isKept(&env.Envelope) // though it may have been released before its date
	for chunk := range env.chunks {
		known, err := e.s.readOutcomes(ed.id, &st, chunk)
		if err != nil {
			return nil, err
		}
		for i := range known {
			st.count(mail.Outcome{}, known[i])
		}
		if first, end := chunkBounds(chunk, env.Recipients); known.settled() == end-first {
			st.full.add(chunk)
		}
	}
	kept, ed.state, ed.parts = ed.state.outcomes, st, nil
	return kept, nil
}

// recheckMax is the maximum number of messages of the corrupt area that are read at
// a start.
const recheckMax = 1000

// recheck moves messages that can be read again out of the corrupt area: the fault
// may have been in the machine, not on the disk. A message whose state was lost
// stays, as some of its recipients may already have it; an operator may release it.
func (s *Spool) recheck(ctx context.Context) error {
	var ids []mail.QueueID
	_, err := s.scanPast(ctx, mail.AreaCorrupt, mail.Cursor{}, func(at mail.Cursor) bool {
		ids = append(ids, at.ID)
		return len(ids) < recheckMax
	})
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		st, stateErr := s.readState(id)
		if stateErr != nil || st == nil || !st.aside || st.lost() || s.check(ctx, id) != nil {
			continue
		}
		c := []mail.Change{{Op: mail.ChangeRelease, ID: id, Due: s.cfg.Now()}}
		if st.held {
			c = append(c, mail.Change{Op: mail.ChangeHold, ID: id, Reason: "was damaged, and is readable again"})
		}
		if _, applyErr := s.apply(ctx, c); applyErr != nil {
			err = errors.Join(err, applyErr)
		}
	}
	return err
}
