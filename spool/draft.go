package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/spool/settings"
)

// A Draft is a message that is being received. It is not visible to other calls
// until it is committed. A Draft belongs to one goroutine at a time; it must be
// ended by exactly one of Commit, CommitWith and Abort.
type Draft struct {
	s      *Spool
	id     mail.QueueID
	report bool
	phase  draftPhase
	err    error // why it cannot be committed

	// Content. Up to Config.InlineMax bytes are in blocks; beyond that, a file is
	// created and one block serves as its buffer. What was prepended is in neither.
	head   []byte
	blocks []*block
	filled int // bytes in the last block
	size   int64
	file   *bodyFile

	// Recipients. Full chunks are collected in chunks, and written ahead of the
	// commit when there are many.
	chunk  []byte // the encoded chunk being filled
	chunks [][]byte
	ahead  uint32           // chunks written ahead
	count  uint32           // recipients
	first  []mail.Recipient // those needed by Arrival

	arrival  mail.Arrival
	reserved *entry // in the counts; nil: none
	hold     string // why the message is held from the beginning; "": it is not
}

type draftPhase uint8

const (
	draftOpen draftPhase = iota
	draftCommitted
	draftAborted
)

// blockSize is the unit in which a draft allocates memory for content: most
// messages fit into one block, and blocks are never copied to grow.
const blockSize = 16 << 10

type block [blockSize]byte

var blockPool = sync.Pool{New: func() any { return new(block) }}

// aheadChunks is the maximum number of full chunks that a draft holds in memory: 16
// of them are 4,096 recipients and some 150 KB.
const aheadChunks = 16

var errDraftEnded = errors.New("spool: draft has ended")

// Begin opens a draft. It assigns a queue ID and writes nothing. The error wraps
// ErrFull if there is no room for more mail.
func (s *Spool) Begin(ctx context.Context) (*Draft, error) { return s.begin(ctx, false) }

// Room returns an error that wraps ErrFull if there is no room for a message whose
// content has size bytes. It does not reserve the room.
func (s *Spool) Room(size int64) error { return s.room.admit(false, size) }

// MinFree returns the free disk space, in bytes, below which new mail is refused.
func (s *Spool) MinFree() int64 { return s.cfg.MinFree }

// BeginReport opens a draft for a report on mail already accepted. It may use disk
// space that Begin may not.
func (s *Spool) BeginReport(ctx context.Context) (*Draft, error) { return s.begin(ctx, true) }

func (s *Spool) begin(ctx context.Context, report bool) (*Draft, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := s.room.admit(report, 0); err != nil {
		return nil, err
	}
	id, err := s.ids.next()
	if err != nil {
		return nil, err
	}
	s.pace.opened()
	return &Draft{s: s, id: id, report: report}, nil
}

// ID returns the queue ID that the message will have.
func (d *Draft) ID() mail.QueueID { return d.id }

// Size returns the size of the content so far, in bytes.
func (d *Draft) Size() int64 { return d.size }

// AddRecipient appends a recipient and sets its Index: recipients are numbered in
// the order in which they are added.
func (d *Draft) AddRecipient(r mail.Recipient) error {
	if err := d.usable(); err != nil {
		return err
	}
	r.Index = d.count
	if len(d.first) < mail.ArrivalRecipients {
		d.first = append(d.first, r)
	}
	d.chunk = appendRecipient(d.chunk, r)
	d.count++
	if d.count%chunkSize != 0 {
		return nil
	}
	d.chunks = append(d.chunks, d.chunk)
	d.chunk = nil
	if len(d.chunks) < aheadChunks {
		return nil
	}
	return d.fail(d.writeAhead())
}

// writeAhead writes full chunks to the store, with a mark by which they are found
// after a crash.
func (d *Draft) writeAhead() error {
	if err := d.s.enter(); err != nil {
		return err
	}
	defer d.s.leave()
	b := d.s.db.NewBatch()
	defer b.Close()
	if d.ahead == 0 {
		if err := mark(b, messageKey(keyAhead, d.id)); err != nil {
			return err
		}
	}
	if err := d.putChunks(b); err != nil {
		return err
	}
	if err := d.s.room.admit(d.report, int64(b.Len())); err != nil {
		return err
	}
	if err := d.s.commit(b); err != nil {
		return err
	}
	d.ahead += uint32(len(d.chunks))
	d.chunks = nil
	return nil
}

func (d *Draft) putChunks(b *pebble.Batch) error {
	for i, chunk := range d.chunks {
		if err := put(b, chunkKey(keyRecipients, d.id, d.ahead+uint32(i)), chunk); err != nil {
			return err
		}
	}
	return nil
}

// Write appends content: lines that end in CRLF, without dot-stuffing. The
// error wraps ErrFull if there is no room for it.
func (d *Draft) Write(p []byte) (int, error) {
	if err := d.usable(); err != nil {
		return 0, err
	}
	if d.file == nil && d.size+int64(len(p)) > int64(d.s.cfg.InlineMax) {
		if err := d.fail(d.beginFile()); err != nil {
			return 0, err
		}
	}
	for rest := p; len(rest) > 0; {
		room, err := d.room()
		if err != nil {
			return len(p) - len(rest), d.fail(err)
		}
		n := copy(room, rest)
		d.filled += n
		rest = rest[n:]
	}
	d.size += int64(len(p))
	return len(p), nil
}

// PrependMax is the maximum number of bytes that Draft.Prepend takes.
const PrependMax = 16 << 10

// Prepend puts bytes in front of the content, such as a header field that depends on all
// of it; nothing that was written is written again. It may be called once, before the
// commit, with at most PrependMax bytes. Where the content is a file, the bytes are
// stored in the envelope, whose checksum covers them.
func (d *Draft) Prepend(p []byte) error {
	if err := d.usable(); err != nil {
		return err
	}
	if len(p) > PrependMax || len(d.head) > 0 {
		return d.fail(fmt.Errorf("spool: prepend %d bytes to %s after %d", len(p), d.id, len(d.head)))
	}
	d.head = bytes.Clone(p)
	d.size += int64(len(p))
	return nil
}

// Hold has the message committed to the hold area, with a reason, which must not be empty:
// not for a moment is it there to be delivered.
func (d *Draft) Hold(reason string) { d.hold = reason }

// area returns where the message is committed to.
func (d *Draft) area(e *mail.Envelope) mail.Area {
	if d.hold != "" || isKept(e) {
		return mail.AreaHold
	}
	return mail.AreaIncoming
}

// room returns the free part of the last block, which is never empty.
func (d *Draft) room() ([]byte, error) {
	if len(d.blocks) > 0 && d.filled < blockSize {
		return d.blocks[len(d.blocks)-1][d.filled:], nil
	}
	if d.file != nil && len(d.blocks) > 0 {
		if err := d.flush(); err != nil {
			return nil, err
		}
	} else {
		d.blocks = append(d.blocks, blockPool.Get().(*block))
		d.filled = 0
	}
	return d.blocks[len(d.blocks)-1][:], nil
}

// beginFile creates the content file.
func (d *Draft) beginFile() error {
	file, err := d.s.bodies.create(d.id)
	if err != nil {
		return fmt.Errorf("spool: create content file: %w", err)
	}
	d.file = file
	return d.flush()
}

// flush writes the blocks to the file and keeps one of them, empty.
func (d *Draft) flush() error {
	for i, b := range d.blocks {
		octets := b[:]
		if i == len(d.blocks)-1 {
			octets = b[:d.filled]
		}
		if err := d.s.room.admit(d.report, int64(len(octets))); err != nil {
			return err
		}
		if err := d.file.write(octets); err != nil {
			return fmt.Errorf("spool: write content file: %w", err)
		}
		d.s.room.spend(int64(len(octets)))
	}
	if len(d.blocks) > 1 {
		d.freeBlocks(d.blocks[1:])
		d.blocks = d.blocks[:1]
	}
	d.filled = 0
	return nil
}

func (d *Draft) freeBlocks(blocks []*block) {
	for i, b := range blocks {
		blockPool.Put(b)
		blocks[i] = nil
	}
}

// Commit makes the message durable in the incoming area, or in the hold area after Hold, or if its
// Release lies in the future. The envelope's ID,
// Size and Recipients are set here. When it returns nil, the message is safe
// against a crash at any later instant; when it does not, there is no message.
func (d *Draft) Commit(ctx context.Context, e mail.Envelope) error {
	return d.CommitWith(ctx, e, nil)
}

// CommitWith is Commit together with changes of other messages, atomically. It
// makes a report durable in the same step in which the reports that it covers are
// recorded as no longer owed.
func (d *Draft) CommitWith(ctx context.Context, e mail.Envelope, changes []mail.Change) error {
	if err := d.usable(); err != nil {
		d.Abort()
		return err
	}
	if err := d.commit(ctx, e, changes); err != nil {
		d.Abort()
		return err
	}
	return nil
}

func (d *Draft) commit(ctx context.Context, e mail.Envelope, changes []mail.Change) error {
	if d.count == 0 {
		return fmt.Errorf("spool: commit %s: no recipients", d.id)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.s.enter(); err != nil {
		return err
	}
	defer d.s.leave()
	if err := d.settle(); err != nil {
		return d.s.room.refuse(err)
	}
	d.s.counts.gate.RLock()
	defer d.s.counts.gate.RUnlock()
	edits := d.s.newEdits(changes)
	defer edits.release()
	_, failed, err := edits.all(ctx, changes)
	if err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	area := d.area(&e)
	kind := d.s.kind(area)
	if err := d.commitBatch(e, edits); err != nil {
		return err
	}
	if d.s.kind(area) != kind {
		// The index has been rebuilt meanwhile, possibly without this message.
		if err := d.s.index(area, d.arrival.Place.Cursor(d.id)); err != nil {
			d.s.cfg.Logger.Error("a message is not in its index until the next start", "id", d.id.String(), "error", err)
		}
	}
	edits.committed()
	d.end(draftCommitted)
	d.freeBlocks(d.blocks)
	return nil
}

// settle ensures that there is room for the content, or that its file is durable.
func (d *Draft) settle() error {
	if d.file == nil {
		return d.s.room.admit(d.report, d.size)
	}
	if err := d.flush(); err != nil {
		return err
	}
	if err := d.file.keep(); err != nil {
		return fmt.Errorf("spool: keep content file: %w", err)
	}
	return nil
}

func (d *Draft) commitBatch(e mail.Envelope, edits *edits) error {
	const rest = 1 << 10 // envelope and keys
	b := d.s.db.NewBatchWithSize(int(min(d.size, settings.InlineLimit)) + len(d.chunk) + rest)
	defer b.Close()
	if err := errors.Join(d.emit(b, e), edits.emit(b)); err != nil {
		return fmt.Errorf("spool: batch for %s: %w", d.id, err)
	}
	d.s.pace.committed()
	edits.tally.moves = append(edits.tally.moves, move{d.id, mail.AreaNone, d.arrival.Place.Area})
	if d.s.counts.active() {
		edits.tally.add(e.Flow, 1, d.size)
	}
	if err := d.s.commitCounted(b, &edits.tally, d.reserved); err != nil {
		return err
	}
	d.reserved = nil
	return nil
}

// emit adds the message to a batch.
func (d *Draft) emit(b *pebble.Batch, e mail.Envelope) error {
	e.ID, e.Size, e.Recipients = d.id, d.size, d.count
	env := envelope{Envelope: e, file: d.file != nil}
	if d.file != nil {
		env.sum, env.head = d.file.sum, string(d.head)
	}
	list := d.chunk
	if d.count > chunkSize || len(list) > inlineRecipients || len(d.chunks) > 0 {
		if len(d.chunk) > 0 {
			d.chunks = append(d.chunks, d.chunk)
		}
		if err := d.putChunks(b); err != nil {
			return err
		}
		env.chunks = d.ahead + uint32(len(d.chunks))
		list = nil
	}
	if d.ahead > 0 {
		if err := drop(b, messageKey(keyAhead, d.id)); err != nil {
			return err
		}
	}
	if err := putEnvelope(b, &env, list); err != nil {
		return err
	}
	place := env.place()
	if area := d.area(&e); area == mail.AreaHold {
		st := keptState(&env)
		if d.hold != "" {
			st = freshState(&env)
			st.area, st.reason, st.kept = mail.AreaHold, d.hold, isKept(&env.Envelope) // an operator's release ends the hold only
		}
		if err := putState(b, d.id, &st, appendState(nil, &st)); err != nil {
			return err
		}
		place = st.place()
	}
	if err := mark(b, d.s.indexKey(place.Area, place.Cursor(d.id))); err != nil {
		return err
	}
	d.arrival = mail.Arrival{Envelope: env.Envelope, Place: place, Batch: mail.RecipientBatch{
		Recipients: d.first, Next: uint32(len(d.first)), More: d.count > uint32(len(d.first)),
	}}
	if d.file != nil {
		return nil
	}
	return put(b, messageKey(keyBody, d.id), d.content()...)
}

// content returns what was prepended, and the contents of the blocks.
func (d *Draft) content() [][]byte {
	parts := make([][]byte, 1, 1+len(d.blocks))
	parts[0] = d.head
	for i, b := range d.blocks {
		octets := b[:]
		if i == len(d.blocks)-1 {
			octets = b[:d.filled]
		}
		parts = append(parts, octets)
	}
	return parts
}

// Arrival returns what the driver must be given after the draft was committed.
// Before that it is zero.
func (d *Draft) Arrival() mail.Arrival {
	if d.phase != draftCommitted {
		return mail.Arrival{}
	}
	return d.arrival
}

func (d *Draft) end(phase draftPhase) {
	d.phase = phase
	d.s.pace.ended()
}

// Abort discards the draft. It does nothing if the draft has ended.
func (d *Draft) Abort() {
	if d.phase != draftOpen {
		return
	}
	d.end(draftAborted)
	d.unreserve()
	d.freeBlocks(d.blocks)
	d.blocks, d.chunks, d.chunk, d.head = nil, nil, nil, nil
	var err error
	if d.file != nil {
		err = d.file.abandon()
	}
	if d.ahead > 0 {
		err = errors.Join(err, d.dropAhead())
	}
	if err != nil { // it only wastes space until the next start
		d.s.cfg.Logger.Warn("cannot remove an aborted message", "id", d.id.String(), "error", err)
	}
}

func (d *Draft) dropAhead() error {
	if err := d.s.enter(); err != nil {
		return err
	}
	defer d.s.leave()
	return d.s.dropAhead(d.id)
}

func (d *Draft) usable() error {
	if d.phase != draftOpen {
		return errDraftEnded
	}
	return d.err
}

// fail makes an error permanent: lost data cannot be added later.
func (d *Draft) fail(err error) error {
	if err != nil {
		d.err = d.s.room.refuse(err)
	}
	return d.err
}
