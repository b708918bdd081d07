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

// Reserve returns a queue ID for mail.Split.Into. The error wraps ErrFull if there is
// no room for another copy of content of size bytes: changes are never refused, so a
// caller must check for room before a change that needs it.
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

// A split is a message created from another one (mail.Split). It is written in the batch
// that marks its recipients as moved. Only its content file, a second name of the same
// file, is made before that: without an envelope it is removed after a start, like the
// remains of a draft.
type split struct {
	env     envelope
	state   state
	order   *mail.Requeue             // nil: it is held
	present map[mail.Address]struct{} // with order: keys of recipients, at most mail.RequeueDistinct; nil if no address comes twice
	served  map[mail.Address]struct{} // likewise, of those who have the mail or get it by the original
	chunks  [][]byte                  // of recipients; the last one may be partial
	known   []outcomes                // for each chunk
	moved   []waiting                 // the recipients moved from the other message
	body    []byte                    // content, unless it is a file
	kind    byte                      // kind of its area's index keys when it was written; 0 before
	indexed mail.Cursor
}

// A waiting is a recipient that is not settled, and the part that has its outcome.
type waiting struct {
	part  *part
	known mail.Outcome
}

// split applies a mail.Split. Settled recipients are left alone, so that it may be
// repeated. Nothing is changed until everything needed has been read: the recipients of a
// split that fails because of damage still wait.
func (e *edits) split(ed *edit, c *mail.Change, order *mail.Split) error {
	if ed.state.area == mail.AreaCorrupt {
		return nil // the remaining recipients are unknown
	}
	env, err := e.s.readEnvelope(ed.id)
	if err != nil {
		return err
	}
	if env == nil {
		return fmt.Errorf("%w: state without envelope", ErrCorrupt)
	}
	sp := newSplit(env, &ed.state, order, c.At)
	wanted := slices.Clone(order.Recipients)
	slices.Sort(wanted)
	if sp.present != nil {
		if err := e.findServed(ed, env, wanted, sp); err != nil {
			return err
		}
	}
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
	text := "moved to " + order.Into.String() + ", which is held"
	if order.Requeue != nil {
		text = "requeued as " + order.Into.String()
	}
	moved := mail.Outcome{Result: mail.Moved, At: c.At, Reply: mail.Reply{Code: 250, Status: mail.Status{Class: 2}, Text: text}}
	for _, w := range sp.moved {
		moved.Index = w.known.Index
		ed.update(w.part, w.known, moved)
	}
	return nil
}

// newSplit returns the message that a split makes of another one with this state, without recipients.
func newSplit(env *envelope, of *state, order *mail.Split, now mail.Instant) *split {
	sp := &split{env: *env, order: order.Requeue, state: state{area: mail.AreaHold, bucket: env.Flow.Bucket(), reason: order.Reason, file: env.file,
		attempts: of.attempts, lastAttempt: of.lastAttempt, warned: of.warned, late: of.late, kept: of.kept, released: of.released}}
	sp.env.ID, sp.env.recipients = order.Into, ""
	if r := order.Requeue; r != nil {
		sp.env.Sender, sp.env.Flow, sp.env.Requeued = r.Sender, r.Flow, env.ID
		st := &sp.state
		st.bucket, st.attempts, st.lastAttempt = r.Flow.Bucket(), 0, 0
		if of.area == mail.AreaHold {
			st.due, st.reason = of.due, of.reason
		} else {
			st.area, st.due, st.reason = mail.AreaDeferred, now, ""
		}
		if len(r.To) > 0 {
			sp.present = make(map[mail.Address]struct{})
		}
	}
	sp.indexed = sp.state.cursor(order.Into)
	return sp
}

func (e *edits) splitChunk(ed *edit, env *envelope, chunk uint32, wanted []uint32, sp *split) error {
	return e.eachWaiting(ed, env, chunk, func(p *part, r mail.Recipient, known mail.Outcome) {
		if _, found := slices.BinarySearch(wanted, r.Index); found {
			sp.take(r, known)
			sp.moved = append(sp.moved, waiting{p, known})
		}
	})
}

// take takes a recipient over, or puts others in his place.
func (sp *split) take(r mail.Recipient, known mail.Outcome) {
	if sp.order == nil {
		sp.add(r, known)
		return
	}
	known = sp.fresh(known)
	instead := sp.order.Replacements(r.Index)
	if len(instead) == 0 {
		sp.addOnce(r, known)
		return
	}
	known.Doubts = nil // they are about another address
	for _, one := range sp.unserved(instead) {
		sp.addOnce(mail.Recipient{Index: r.Index, Address: one.Address, ORcpt: one.ORcpt, Notify: one.Notify}, known)
	}
}

// unserved returns those who do not get the mail otherwise or, if all of them do, all: rather twice than not at all.
func (sp *split) unserved(instead []mail.Replacement) []mail.Replacement {
	var left []mail.Replacement
	for _, one := range instead {
		if _, served := sp.served[one.Address.Key()]; !served {
			left = append(left, one)
		}
	}
	if len(left) == 0 {
		return instead
	}
	return left
}

// findServed finds who has the mail already, or gets it since he is not among those who are wanted for another message.
func (e *edits) findServed(ed *edit, env *envelope, wanted []uint32, sp *split) error {
	sp.served = make(map[mail.Address]struct{})
	for chunk := range chunkCount(env.chunks) {
		list, err := e.s.readList(env, chunk)
		if err != nil {
			return err
		}
		p, err := e.part(ed, chunk)
		if err != nil {
			return err
		}
		for r, ok := list.read(); ok; r, ok = list.read() {
			result := p.known.at(r.Index).Result
			if _, moves := slices.BinarySearch(wanted, r.Index); result != mail.Delivered && (moves || result.Settled()) {
				continue
			}
			if sp.served[r.Address.Key()] = struct{}{}; len(sp.served) == mail.RequeueDistinct {
				return nil
			}
		}
	}
	return nil
}

// fresh returns what is left of an outcome when a recipient is requeued: the hosts that may have the message, and
// what is owed to the sender, with what the report will say.
func (sp *split) fresh(known mail.Outcome) mail.Outcome {
	left := mail.Outcome{Index: known.Index, Doubts: known.Doubts}
	if known.Report != mail.ReportNone {
		left.Result, left.Report, left.Reply, left.At = known.Result, known.Report, known.Reply, known.At
	}
	if sp.order.KeepRoute {
		left.Ordered = known.Ordered
	}
	return left
}

// addOnce adds a recipient of a requeued message unless it has the address already.
func (sp *split) addOnce(r mail.Recipient, known mail.Outcome) {
	if sp.present != nil {
		key := r.Address.Key()
		if _, there := sp.present[key]; there {
			return
		}
		if len(sp.present) < mail.RequeueDistinct {
			sp.present[key] = struct{}{}
		}
	}
	sp.add(r, known)
}

// add adds a recipient with its outcome.
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

// finish decides where the recipient list is stored, as Draft.emit does.
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

// splitContent copies small content, and gives a content file a second name.
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

// shareFile makes the content file of one message also that of another one. Files are
// never modified once they have their final name, so a link is as good as a copy; if
// the file system has no links, the file is copied. If the file is missing, it is
// missing for both messages, and delivering either reports that.
func (s *Spool) shareFile(from, to mail.QueueID) error {
	if err := s.bodies.ensure(to); err != nil {
		return fmt.Errorf("link content file: %w", err)
	}
	_, old := s.bodies.path(from)
	dir, name := s.bodies.path(to)
	err := s.fs.Link(old, name)
	switch {
	case oserror.IsExist(err): // made by an earlier attempt whose commit failed
	case oserror.IsNotExist(err):
		return nil
	case err != nil:
		s.cfg.Logger.Debug("content file cannot be linked, it is copied", "from", from.String(), "to", to.String(), "error", err)
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
	sp.kind = s.kind(sp.state.area)
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
		if err := putOutcomes(b, sp.env.ID, i, sp.known[i], appendOutcomes(nil, sp.known[i], i*chunkSize)); err != nil {
			return err
		}
	}
	if !sp.env.file {
		if err := put(b, messageKey(keyBody, sp.env.ID), sp.body); err != nil {
			return err
		}
	}
	return errors.Join(putEnvelope(b, &sp.env, list),
		putState(b, sp.env.ID, &sp.state, appendState(nil, &sp.state)),
		mark(b, indexKey(sp.kind, sp.state.area, sp.indexed)))
}

func (e *edits) emitSplits(b *pebble.Batch, ed *edit) error {
	for _, sp := range ed.splits {
		if sp.kind == 0 {
			e.tally.moves = append(e.tally.moves, move{sp.env.ID, mail.AreaNone, sp.state.area})
			if e.s.counts.active() {
				e.tally.add(sp.env.Flow, 1, sp.env.Size)
			}
		}
		if err := sp.emit(e.s, b); err != nil {
			return err
		}
	}
	return nil
}

// committed ensures that the message is in its index, which may have been rebuilt
// meanwhile (see Draft.commit).
func (sp *split) committed(s *Spool) {
	if sp.kind == 0 || s.kind(sp.state.area) == sp.kind {
		return
	}
	if err := s.index(sp.state.area, sp.indexed); err != nil {
		s.cfg.Logger.Error("a message is not in its index until the next start", "id", sp.env.ID.String(), "error", err)
	}
}

// requeuedBy returns the messages that have taken the place of that of a change, as it orders. If the change is
// repeated because it was unknown whether it had been made, they are on disk already, and the original may be gone.
func (e *edits) requeuedBy(c *mail.Change) (made []mail.Requeued, err error) {
	for i := range c.Splits {
		if c.Splits[i].Requeue == nil {
			continue
		}
		into := c.Splits[i].Into
		st := e.splitState(c.ID, into)
		if st == nil {
			if st, err = e.s.readState(into); err != nil {
				return nil, err
			}
		}
		if st != nil {
			made = append(made, mail.Requeued{ID: into, Place: st.place()})
		}
	}
	return made, nil
}

// splitState returns the state of a message that this Apply makes of another one; nil if it does not.
func (e *edits) splitState(of, into mail.QueueID) *state {
	if ed := e.byID[of]; ed != nil {
		for _, sp := range ed.splits {
			if sp.env.ID == into {
				return &sp.state
			}
		}
	}
	return nil
}

// endRequeue removes a message of which nothing is left after a requeue.
func (ed *edit) endRequeue(c *mail.Change) {
	requeued := slices.ContainsFunc(c.Splits, func(s mail.Split) bool { return s.Requeue != nil })
	if st := &ed.state; requeued && st.area != mail.AreaCorrupt && !st.lost() && st.settled == st.recipients && st.owed == 0 {
		ed.phase = editGone
	}
}
