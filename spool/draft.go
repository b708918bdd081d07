package spool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Draft is a message on its way in. It does not exist for anybody else until
// it is committed. A Draft belongs to one goroutine at a time; exactly one of
// Commit, CommitWith and Abort ends it.
type Draft struct {
	s      *Spool
	id     mail.QueueID
	report bool
	phase  draftPhase
	err    error // what made it impossible to commit

	// Content. Up to Config.InlineMax octets are in blocks; when there are
	// more, a file is begun and one block serves as its buffer.
	blocks []*block
	filled int // octets in the last block
	size   int64
	file   *bodyFile

	// Recipients. Full chunks wait in chunks, and are written ahead of the
	// commit when they have become many.
	chunk  []byte // the encoded chunk being filled
	chunks [][]byte
	ahead  uint32           // chunks written ahead
	count  uint32           // recipients
	first  []mail.Recipient // what Arrival needs

	arrival mail.Arrival
}

type draftPhase uint8

const (
	draftOpen draftPhase = iota
	draftCommitted
	draftAborted
)

// blockSize is how much content memory a draft takes at a time: one block
// holds most messages whole, and none is ever copied to make room.
const blockSize = 16 << 10

type block [blockSize]byte

var blockPool = sync.Pool{New: func() any { return new(block) }}

// aheadChunks is how many full chunks a draft holds in memory: 16 of them are
// 4,096 recipients and some 150 KB.
const aheadChunks = 16

var errDraftEnded = errors.New("spool: draft has ended")

// Begin opens a draft. It gives out a queue ID and writes nothing. The error
// wraps ErrFull if there is no room for more mail.
func (s *Spool) Begin(ctx context.Context) (*Draft, error) { return s.begin(ctx, false) }

// Room returns an error that wraps ErrFull if there is no room for a message whose
// content has size bytes. It keeps no room: others may be faster.
func (s *Spool) Room(size int64) error { return s.room.admit(false, size) }

// BeginReport opens a draft for a report about mail already taken in. It may
// use disk space that Begin leaves alone.
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
	return &Draft{s: s, id: id, report: report}, nil
}

// ID is the queue ID that the message will have.
func (d *Draft) ID() mail.QueueID { return d.id }

// AddRecipient appends a recipient. Its Index is set here: recipients are
// numbered in the order in which they come.
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

// writeAhead moves full chunks out of memory, with a mark by which they are
// found after a crash.
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

// room returns where the next octets of content go; it is never empty.
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

// beginFile moves content out of memory.
func (d *Draft) beginFile() error {
	file, err := d.s.bodies.create(d.id)
	if err != nil {
		return fmt.Errorf("spool: begin content file: %w", err)
	}
	d.file = file
	return d.flush()
}

// flush writes out what is in blocks and leaves one of them, empty.
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

// Commit makes the message durable in the incoming area. The envelope's ID,
// Size and Recipients are set here. When it returns nil, the message is safe
// against a crash at any later instant; when it does not, there is no message.
func (d *Draft) Commit(ctx context.Context, e mail.Envelope) error {
	return d.CommitWith(ctx, e, nil)
}

// CommitWith is Commit together with changes to other messages: either all of
// it happens or nothing. It lets a report and the clearing of the debts that
// it pays be one step.
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
	edits := d.s.newEdits(changes)
	defer edits.release()
	_, failed, err := edits.all(ctx, changes)
	if err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	kind := d.s.kind(mail.AreaIncoming)
	if err := d.commitBatch(e, edits); err != nil {
		return err
	}
	if d.s.kind(mail.AreaIncoming) != kind {
		// The index has moved meanwhile, and may have done so without this message.
		if err := d.s.index(mail.AreaIncoming, mail.Cursor{ID: d.id}); err != nil {
			d.s.cfg.Logger.Error("a message is not in its index until the next start", "id", d.id.String(), "error", err)
		}
	}
	edits.committed()
	d.phase = draftCommitted
	d.freeBlocks(d.blocks)
	return nil
}

// settle makes sure of the content: that there is room for it, or that its
// file is durable.
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
	b := d.s.db.NewBatchWithSize(int(min(d.size, inlineLimit)) + len(d.chunk) + rest)
	defer b.Close()
	if err := errors.Join(d.emit(b, e), edits.emit(b)); err != nil {
		return fmt.Errorf("spool: batch for %s: %w", d.id, err)
	}
	return d.s.commit(b)
}

// emit adds the message to a batch.
func (d *Draft) emit(b *pebble.Batch, e mail.Envelope) error {
	e.ID, e.Size, e.Recipients = d.id, d.size, d.count
	env := envelope{Envelope: e, file: d.file != nil}
	if d.file != nil {
		env.sum = d.file.sum
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
	var buf [512]byte
	if err := put(b, messageKey(keyEnvelope, d.id), appendEnvelope(buf[:0], &env), list); err != nil {
		return err
	}
	if err := mark(b, d.s.indexKey(mail.AreaIncoming, mail.Cursor{ID: d.id})); err != nil {
		return err
	}
	d.arrival = mail.Arrival{Envelope: env.Envelope, Place: env.place(), Batch: mail.RecipientBatch{
		Recipients: d.first, Next: uint32(len(d.first)), More: d.count > uint32(len(d.first)),
	}}
	if d.file != nil {
		return nil
	}
	return put(b, messageKey(keyBody, d.id), d.content()...)
}

// content is what is in blocks.
func (d *Draft) content() [][]byte {
	parts := make([][]byte, len(d.blocks))
	for i, b := range d.blocks {
		parts[i] = b[:]
	}
	if n := len(parts); n > 0 {
		parts[n-1] = parts[n-1][:d.filled]
	}
	return parts
}

// Arrival is what the driver is told after the draft was committed. Before,
// it is zero.
func (d *Draft) Arrival() mail.Arrival {
	if d.phase != draftCommitted {
		return mail.Arrival{}
	}
	return d.arrival
}

// Abort forgets the draft. It does nothing to one that has ended.
func (d *Draft) Abort() {
	if d.phase != draftOpen {
		return
	}
	d.phase = draftAborted
	d.freeBlocks(d.blocks)
	d.blocks, d.chunks, d.chunk = nil, nil, nil
	var err error
	if d.file != nil {
		err = d.file.abandon()
	}
	if d.ahead > 0 {
		err = errors.Join(err, d.dropAhead())
	}
	if err != nil { // it costs space until the next start, no more
		d.s.cfg.Logger.Warn("remains of an aborted message", "id", d.id.String(), "error", err)
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

// fail makes an error final: what a draft has lost cannot be added later.
func (d *Draft) fail(err error) error {
	if err != nil {
		d.err = d.s.room.refuse(err)
	}
	return d.err
}
