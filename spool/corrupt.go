package spool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/posthaste-mta/posthaste/mail"
)

// The spoilt are the messages that the spool has put aside by itself since it
// was opened. Whoever still holds a mail.Place from before does not know.
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

// spoil wraps the error of a failed read. If it is damage, the message is put
// aside, so that nobody tries in vain again and again.
func (s *Spool) spoil(ctx context.Context, id mail.QueueID, what string, cause error) error {
	cause = fmt.Errorf("spool: %s %s: %w", what, id, cause)
	if !errors.Is(cause, ErrCorrupt) {
		return cause
	}
	change := mail.Change{Op: mail.ChangeCorrupt, ID: id, Reason: cause.Error()}
	e := s.newEdits([]mail.Change{change})
	defer e.release()
	if err := e.putAside(ctx, &change, cause); err != nil {
		return err
	}
	b := s.db.NewBatch()
	defer b.Close()
	if err := errors.Join(e.emit(b), s.commit(b)); err != nil {
		return errors.Join(cause, err)
	}
	e.committed()
	return cause
}

// putAside turns a change to a damaged message into its move to the corrupt
// area. If many messages break in a short time, it is the disk that is broken:
// then the error is returned as one that is not ErrCorrupt, and nothing moves.
func (e *edits) putAside(ctx context.Context, c *mail.Change, cause error) error {
	ed, err := e.load(c.ID)
	if errors.Is(err, ErrCorrupt) {
		ed, err = e.loadDamaged(ctx, c.ID)
	}
	if err != nil || ed.phase != editKept || ed.state.area == mail.AreaCorrupt {
		return err
	}
	if !e.s.breaker.allow() {
		return fmt.Errorf("many messages are damaged, not put aside: %v", cause) // %v: no longer ErrCorrupt
	}
	ed.parts = nil // what was changed in memory may rest on damage
	reason := cause.Error()
	if c.Op == mail.ChangeCorrupt && c.Reason != "" {
		reason = c.Reason
	}
	ed.move(mail.AreaCorrupt, 0, reason)
	ed.cause = cause
	return nil
}

// loadDamaged makes a copy of a message whose state or envelope cannot be
// read. Where it is must be looked for in all indexes; in the deferred one
// that takes a scan, 92 ms for a million messages. The scan does not heal the
// index, which would need locks that are held here.
func (e *edits) loadDamaged(ctx context.Context, id mail.QueueID) (*edit, error) {
	ed := edit{id: id, phase: editKept, damaged: true, state: state{area: mail.AreaDeferred}, dirty: true}
	for _, area := range [...]mail.Area{mail.AreaIncoming, mail.AreaHold, mail.AreaCorrupt} {
		ed.strays = append(ed.strays, indexKey(area, mail.Cursor{ID: id}))
	}
	err := e.s.scanOnce(ctx, mail.AreaDeferred, mail.Cursor{}, func(at mail.Cursor) bool {
		if at.ID == id {
			ed.strays = append(ed.strays, indexKey(mail.AreaDeferred, at))
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return e.add(ed), nil
}
