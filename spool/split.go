package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// Reserve gives out a queue ID for mail.Split.Into. The error wraps ErrFull if there is
// no room for content of size bytes once more: changes are never refused, so whoever
// orders one that takes room has to ask before.
func (s *Spool) Reserve(size int64) (mail.QueueID, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if err := s.room.admit(false, size); err != nil {
		return 0, err
	}
	return s.ids.next()
}

// A split is a message that comes out of another one (mail.Split). It is written in the
// batch that marks its recipients as moved, and only its content file, which is a second
// name of the same file, is there before: without an envelope that is nobody's, and is
// cleared after a start as what a draft leaves is.
type split struct {
	env     envelope
	state   state
	chunks  [][]byte   // of recipients; the last one may not be full
	known   []outcomes // for each chunk
	moved   []waiting  // whom it takes from the other message
	body    []byte     // if it is no file
	kind    byte       // of the hold area's index keys when it was written; 0 before
	indexed mail.Cursor
}

// A waiting is a recipient that is not settled, and where what is known of it stands.
type waiting struct {
	part  *part
	known mail.Outcome
}

// split carries out a mail.Split. Of recipients that are settled nothing is done, so
// that it may be repeated. Until all that it takes has been read, nothing is changed: the
// recipients of a split that fails for damage still wait.
func (e *edits) split(ed *edit, c *mail.Change, order *mail.Split) error {
	if ed.state.area == mail.AreaCorrupt {
		return nil // it is not known who is left
	}
	env, err := e.s.readEnvelope(ed.id)
	if err != nil {
		return err
	}
	if env == nil {
		return fmt.Errorf("%w: state without envelope", ErrCorrupt)
	}
	sp := &split{env: *env, state: state{area: mail.AreaHold, reason: order.Reason, file: env.file,
		attempts: ed.state.attempts, lastAttempt: ed.state.lastAttempt, warned: ed.state.warned}}
	sp.env.ID, sp.env.recipients, sp.indexed = order.Into, "", mail.Cursor{ID: order.Into}
	wanted := slices.Clone(order.Recipients)
	slices.Sort(wanted)
	for len(wanted) > 0 && wanted[0] < env.Recipients {
		chunk := chunkOf(env.chunks, wanted[0])
		_, end := partBounds(env.chunks, chunk, env.Recipients)
		n, _ := slices.BinarySearch(wanted, end)
		if err := e.splitChunk(ed, env, chunk, wanted[:n], sp); err != nil {
			return err
		}
		wanted = wanted[n:]
	}
	if sp.state.recipients == 0 {
		return nil
	}
	if err := e.splitContent(env, sp); err != nil {
		return err
	}
	sp.finish()
	ed.splits = append(ed.splits, sp)
	moved := mail.Outcome{Result: mail.Moved, At: c.At,
		Reply: mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: "moved to " + order.Into.String() + ", which is held"}}
	for _, w := range sp.moved {
		moved.Index = w.known.Index
		ed.update(w.part, w.known, moved)
	}
	return nil
}

func (e *edits) splitChunk(ed *edit, env *envelope, chunk uint32, wanted []uint32, sp *split) error {
	return e.eachWaiting(ed, env, chunk, func(p *part, r mail.Recipient, known mail.Outcome) {
		if _, found := slices.BinarySearch(wanted, r.Index); found {
			sp.add(r, known)
			sp.moved = append(sp.moved, waiting{p, known})
		}
	})
}

// add takes a recipient in, with what is known of it.
func (sp *split) add(r mail.Recipient, known mail.Outcome) {
	index := sp.state.recipients
	if index%chunkSize == 0 {
		sp.chunks, sp.known = append(sp.chunks, nil), append(sp.known, nil)
	}
	last := len(sp.chunks) - 1
	sp.chunks[last] = appendRecipient(sp.chunks[last], r)
	sp.state.recipients++
	if known != (mail.Outcome{Index: r.Index}) {
		known.Index = index
		sp.known[last] = append(sp.known[last], known)
		sp.state.count(mail.Outcome{}, known)
	}
}

// finish decides where the recipients go, as Draft.emit does.
func (sp *split) finish() {
	sp.env.Recipients = sp.state.recipients
	sp.env.chunks = 0
	if len(sp.chunks) > 1 || len(sp.chunks[0]) > inlineRecipients {
		sp.env.chunks = uint32(len(sp.chunks))
	} else {
		sp.state.outcomes = sp.known[0]
	}
	sp.state.chunks = sp.env.chunks
}

// splitContent copies small content, and gives a file a second name.
func (e *edits) splitContent(env *envelope, sp *split) error {
	if env.file {
		return e.s.shareFile(env.ID, sp.env.ID)
	}
	k := messageKey(keyBody, env.ID)
	ok, err := e.s.load(k, func(payload []byte) { sp.body = bytes.Clone(payload) })
	if err == nil && !ok {
		err = e.s.missing(env.ID, k)
	}
	return err
}

// shareFile makes the content file of one message that of another one, too. Files are
// never written to once they have their name, so a link is as good as a copy; where the
// file system has no links it is copied. A file that is not there is not there for
// the other message either, and delivering either says so.
func (s *Spool) shareFile(from, to mail.QueueID) error {
	if err := s.bodies.ensure(to); err != nil {
		return fmt.Errorf("link content file: %w", err)
	}
	_, old := s.bodies.path(from)
	dir, name := s.bodies.path(to)
	err := s.fs.Link(old, name)
	switch {
	case oserror.IsExist(err): // made before a commit that failed
	case oserror.IsNotExist(err):
		return nil
	case err != nil:
		s.cfg.Logger.Debug("content file is copied, as it could not be linked", "from", from.String(), "to", to.String(), "error", err)
		if err := s.copyFile(old, to); err != nil {
			return fmt.Errorf("copy content file: %w", err)
		}
	}
	if err := syncDir(s.fs, dir); err != nil {
		return fmt.Errorf("link content file: %w", err)
	}
	return nil
}

func (s *Spool) copyFile(old string, to mail.QueueID) error {
	in, err := s.fs.Open(old, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := s.bodies.create(to)
	if err != nil {
		return err
	}
	buf := verifyBuffers.Get().(*[32 << 10]byte)
	defer verifyBuffers.Put(buf)
	for {
		n, err := in.Read(buf[:])
		if n > 0 {
			s.room.spend(int64(n))
			if err := out.write(buf[:n]); err != nil {
				return errors.Join(err, out.abandon())
			}
		}
		if err == io.EOF {
			return out.keep()
		}
		if err != nil {
			return errors.Join(err, out.abandon())
		}
	}
}

// emit adds the message to a batch, once.
func (sp *split) emit(s *Spool, b *pebble.Batch) error {
	if sp.kind != 0 {
		return nil
	}
	sp.kind = s.kind(mail.AreaHold)
	var list []byte
	if sp.env.chunks == 0 {
		list = sp.chunks[0]
	}
	for i := range sp.env.chunks {
		if err := put(b, chunkKey(keyRecipients, sp.env.ID, i), sp.chunks[i]); err != nil {
			return err
		}
		if len(sp.known[i]) == 0 {
			continue
		}
		if err := put(b, chunkKey(keyOutcomes, sp.env.ID, i), appendOutcomes(nil, sp.known[i], i*chunkSize)); err != nil {
			return err
		}
	}
	if !sp.env.file {
		if err := put(b, messageKey(keyBody, sp.env.ID), sp.body); err != nil {
			return err
		}
	}
	return errors.Join(put(b, messageKey(keyEnvelope, sp.env.ID), appendEnvelope(nil, &sp.env), list),
		put(b, messageKey(keyState, sp.env.ID), appendState(nil, &sp.state)),
		mark(b, indexKey(sp.kind, mail.AreaHold, sp.indexed)))
}

func (ed *edit) emitSplits(s *Spool, b *pebble.Batch) error {
	for _, sp := range ed.splits {
		if err := sp.emit(s, b); err != nil {
			return err
		}
	}
	return nil
}

// committed sees to it that the message is in its index, which may have moved meanwhile
// (see Draft.commit).
func (sp *split) committed(s *Spool) {
	if sp.kind == 0 || s.kind(mail.AreaHold) == sp.kind {
		return
	}
	if err := s.index(mail.AreaHold, sp.indexed); err != nil {
		s.cfg.Logger.Error("a message is not in its index until the next start", "id", sp.env.ID.String(), "error", err)
	}
}
