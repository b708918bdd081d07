package spool

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/blob"
	tblock "github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A table of the store is a sequence of blocks, each with a checksum: data blocks,
// then a few that locate these. A bad bit in one of the few makes the whole table
// unreadable, and with it every key that the levels above it do not have. A bad bit in
// a data block costs more than its contents: no compaction gets past it, so tables
// pile up in the levels above it until Pebble blocks all writers, forever.
//
// So these few are read at each start, and all blocks of a table that was found
// damaged in an earlier run, which a note records. A damaged table is rewritten from
// the data blocks that can be read: under the same name and with the same size, as
// the list of tables requires. What cannot be read is identified by the keys around
// it.

// A damagedTable is a table that must be rewritten.
type damagedTable struct {
	file              string // its name
	problem           error
	smallest, largest []byte // bounds of its keys, from the MANIFEST
}

// mendTables rewrites damaged tables.
func (s *Spool) mendTables() error {
	noted, err := s.notedTables()
	if err != nil {
		return err
	}
	damaged, err := s.checkTables(noted)
	if err != nil {
		return err
	}
	if len(damaged) == 0 {
		return s.forgetTables(noted)
	}
	if err := s.beginMend(); err != nil {
		return err
	}
	err, s.db = s.db.Close(), nil
	if err != nil {
		return fmt.Errorf("spool: close the store for repair: %w", err)
	}
	for _, t := range damaged {
		if err := s.mendTable(t); err != nil {
			return s.refused(err)
		}
	}
	if s.db, err = s.openPebble(); err != nil {
		s.db = nil
		return s.refused(fmt.Errorf("spool: open the store in %s: %w", s.cfg.Dir, err))
	}
	return s.forgetTables(noted)
}

// checkTables returns the damaged tables. Of tables without a note it reads only the
// blocks that locate the others.
func (s *Spool) checkTables(noted map[string]bool) (damaged []*damagedTable, err error) {
	levels, err := s.db.SSTables()
	if err != nil {
		return nil, fmt.Errorf("spool: list tables: %w", err)
	}
	seen := make(map[string]*damagedTable) // nil: undamaged. Several tables may be parts of one file.
	for _, tables := range levels {
		for i := range tables {
			info := &tables[i]
			file := s.disk.PathJoin(s.path("db"), fmt.Sprintf("%06d.sst", uint64(info.BackingSSTNum)))
			t, known := seen[file]
			if !known {
				if err := s.tableProblem(file, noted[s.disk.PathBase(file)]); isWrong(err) {
					t = &damagedTable{file: file, problem: err, smallest: info.Smallest.UserKey, largest: info.Largest.UserKey}
					damaged = append(damaged, t)
				} else if err != nil && !oserror.IsNotExist(err) { // it was compacted meanwhile
					return nil, fmt.Errorf("spool: check the table %s: %w", file, err)
				}
				seen[file] = t
			}
			if t != nil {
				t.smallest = slices.MinFunc([][]byte{t.smallest, info.Smallest.UserKey}, bytes.Compare)
				t.largest = slices.MaxFunc([][]byte{t.largest, info.Largest.UserKey}, bytes.Compare)
			}
		}
	}
	return damaged, nil
}

// openTable returns a reader of a table, which reads the blocks at its end.
func (s *Spool) openTable(file string) (*sstable.Reader, vfs.File, error) {
	f, err := s.fs.Open(file)
	if err != nil {
		return nil, nil, err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, s.tableOptions().MakeReaderOptions())
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return r, f, nil
}

// tableProblem checks the blocks of a table, with all including the data blocks.
func (s *Spool) tableProblem(file string, all bool) error {
	r, f, err := s.openTable(file)
	if err != nil {
		return err
	}
	layout, err := r.Layout()
	if err != nil {
		return errors.Join(err, r.Close())
	}
	handles := append(slices.Clone(layout.Index), layout.TopIndex, layout.RangeDel, layout.RangeKey, layout.ValueIndex, layout.Properties, layout.MetaIndex, layout.BlobReferenceIndex)
	for _, filter := range layout.Filter {
		handles = append(handles, filter.Handle)
	}
	if all {
		for _, data := range layout.Data {
			handles = append(handles, data.Handle)
		}
		handles = append(handles, layout.ValueBlock...)
	}
	for _, h := range handles {
		if err = errors.Join(err, checkBlock(f, h)); err != nil {
			break
		}
	}
	return errors.Join(err, r.Close())
}

func checkBlock(f vfs.File, h tblock.Handle) error {
	if h.Length == 0 {
		return nil
	}
	data := make([]byte, h.Length+tblock.TrailerLen)
	if _, err := f.ReadAt(data, int64(h.Offset)); err != nil {
		return err
	}
	if n := len(data) - 4; chunkSum(data[:n]) != binary.LittleEndian.Uint32(data[n:]) {
		return fmt.Errorf("%w: checksum mismatch in the block at offset %d", ErrCorrupt, h.Offset)
	}
	return nil
}

func (s *Spool) tableOptions() *pebble.Options {
	o := s.storeOptions()
	o.EnsureDefaults()
	return o
}

// mendTable rewrites a table from what can be read of it.
func (s *Spool) mendTable(t *damagedTable) error {
	data, err := s.readFile(t.file)
	if oserror.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("spool: repair the table %s: %w", t.file, err)
	}
	m := tableMend{table: t, data: data}
	m.blocks = m.scan()
	base := strings.TrimSuffix(s.disk.PathBase(t.file), ".sst")
	err = s.replace(t.file, base, ".sst", func(to, kept string) error {
		err := s.rewriteTable(&m, to)
		if err != nil {
			return err
		}
		text := "nothing of it is lost"
		if len(m.lost) > 0 {
			text = "mail may be lost, or be sent again: " + strings.Join(m.lost, "; ")
		}
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "a table of the store was damaged and was rewritten",
			Err: fmt.Errorf("%s: %w; %d keys were read, %s; the file is kept as %s", t.file, t.problem, m.keys, text, kept)})
		return nil
	})
	if err != nil {
		return fmt.Errorf("spool: repair the table %s, which is damaged (%w): %w", t.file, t.problem, err)
	}
	return nil
}

// A tableMend is a table that is being rewritten.
type tableMend struct {
	table  *damagedTable
	data   []byte
	blocks []tableBlock
	keys   int
	lost   []string // what could not be read
	refs   uint32   // blob files referred to so far
	prev   []byte   // the key written last
}

// A tableBlock is an uncompressed data block, or nil for a gap.
type tableBlock []byte

// Limits of the search for blocks: the longest block where one should begin, which
// may be a filter; the longest after damage, where every byte may be the first; the
// distance from the damage; and the number of attempts, which bounds the time.
const (
	blockMost    = 2 << 20
	blockBehind  = 16 << 10
	gapMost      = 64 << 10
	searchesMost = 16
)

// scan returns the data blocks of a table, and nil for each gap between them. The
// lengths of blocks are only in the index; blocks are found by their checksums.
func (m *tableMend) scan() (blocks []tableBlock) {
	searches := 0
	for at := 0; at < len(m.data); {
		end := blockEnd(m.data, at, blockMost)
		if end == 0 {
			blocks = append(blocks, nil)
			if searches++; searches > searchesMost {
				break
			}
			from := at
			if at, end = blockAfter(m.data, from, gapMost, blockBehind); end == 0 {
				at = from + gapMost
				continue
			}
		}
		if b := dataBlock(m.data[at:end]); b != nil {
			blocks = append(blocks, b)
		}
		at = end
	}
	return blocks
}

// blockEnd returns the end of the block that begins at an offset, 0 if there is none
// of at most max bytes.
func blockEnd(data []byte, at, max int) int {
	sum := ^uint32(0)
	for i := at; i+tblock.TrailerLen <= len(data) && i-at <= max; i++ {
		octet := data[i]
		next := castagnoli[byte(sum)^octet] ^ sum>>8
		if i > at && compressions[octet] && maskSum(^next) == binary.LittleEndian.Uint32(data[i+1:]) {
			return i + tblock.TrailerLen
		}
		sum = next
	}
	return 0
}

// compressions is the set of bytes that indicate a block's compression.
var compressions = [256]bool{tblock.NoCompressionIndicator: true, tblock.SnappyCompressionIndicator: true,
	tblock.ZstdCompressionIndicator: true, tblock.MinLZCompressionIndicator: true}

// The columns of a data block: two for the key, and these.
const (
	columnKey = iota
	_
	columnTrailer
	_
	columnValue
	columnExternal
	columnObsolete
	columns
)

// dataHeader is the length of the part before the general header of a data block.
const dataHeader = 4

// dataBlock decompresses a block. It returns nil if it is not a data block.
func dataBlock(b []byte) tableBlock {
	n := len(b) - tblock.TrailerLen
	data, how := b[:n], tblock.CompressionIndicator(b[n])
	if how != tblock.NoCompressionIndicator {
		size, err := tblock.DecompressedLen(how, data)
		if err != nil || size > blockMost {
			return nil
		}
		out := make([]byte, size)
		if tblock.DecompressInto(how, data, out) != nil {
			return nil
		}
		data = out
	}
	if len(data) < dataHeader+int(colblk.HeaderSize(columns, 0)) || colblk.DecodeHeader(data[dataHeader:]).Columns != columns {
		return nil
	}
	data = slices.Clone(data) // aligned, as the decoder requires
	d := colblk.DecodeBlock(data, dataHeader)
	if d.DataType(columnKey) != colblk.DataTypePrefixBytes || d.DataType(columnTrailer) != colblk.DataTypeUint || d.DataType(columnValue) != colblk.DataTypeBytes {
		return nil
	}
	return data
}

// rewriteTable writes what could be read of a table to a new file. If that is larger,
// as small blocks and a lost filter can cause, it is compressed better.
func (s *Spool) rewriteTable(m *tableMend, to string) error {
	o := s.tableOptions()
	for _, small := range []bool{false, true} {
		w := o.MakeWriterOptions(0, s.tableFormat())
		if small {
			w.Compression, w.FilterPolicy = tblock.ZstdCompression, nil
		}
		f, err := s.mending.Create(to, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		m.keys, m.lost, m.refs, m.prev = 0, nil, 0, m.table.smallest
		raw := sstable.NewRawWriter(objstorageprovider.NewFileWritable(f), w)
		if err := errors.Join(m.write(raw), s.copyRangeDels(m.table.file, raw)); err != nil {
			return errors.Join(err, raw.Close())
		}
		if err := raw.Close(); err != nil {
			return err
		}
		data, err := s.readFile(to)
		if err != nil {
			return err
		}
		if len(data) > len(m.data) {
			continue
		}
		// The footer must be at the end, and locates everything else.
		footer := len(data) - w.TableFormat.FooterSize()
		padded := append(make([]byte, 0, len(m.data)), data[:footer]...)
		padded = append(append(padded, make([]byte, len(m.data)-len(data))...), data[footer:]...)
		if f, err = s.mending.Create(to, vfs.WriteCategoryUnspecified); err != nil {
			return err
		}
		_, err = f.Write(padded)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
		return s.tableProblem(to, true)
	}
	return fmt.Errorf("its readable part takes more than %d bytes", len(m.data))
}

func (s *Spool) tableFormat() sstable.TableFormat {
	return pebble.FormatNewest.MaxTableFormat()
}

// write adds all readable keys.
func (m *tableMend) write(w sstable.RawWriter) error {
	gap := false
	last := m.table.smallest
	for _, b := range m.blocks {
		if b == nil {
			gap = true
			continue
		}
		d := colblk.DecodeBlock(b, dataHeader)
		keys := d.PrefixBytes(columnKey)
		trailers, values := d.Uints(columnTrailer), d.RawBytes(columnValue)
		external, obsolete := d.Bitmap(columnExternal), d.Bitmap(columnObsolete)
		for i := range d.Rows() {
			k := pebble.InternalKey{UserKey: slices.Concat(keys.SharedPrefix(), keys.RowBundlePrefix(i), keys.RowSuffix(i)),
				Trailer: pebble.InternalKeyTrailer(trailers.At(i))}
			if i == 0 && gap && !bytes.Equal(k.UserKey, last) {
				m.lost = append(m.lost, lostKeys(last, k.UserKey))
			}
			if err := m.add(w, k, values.At(i), external.At(i), obsolete.At(i)); err != nil {
				return err
			}
			last = k.UserKey
			gap = false
		}
	}
	if (gap || m.keys == 0) && bytes.Compare(last, m.table.largest) < 0 {
		m.lost = append(m.lost, lostKeys(last, m.table.largest))
	}
	return nil
}

func (m *tableMend) add(w sstable.RawWriter, k pebble.InternalKey, value []byte, external, obsolete bool) error {
	if !external {
		m.keys, m.prev = m.keys+1, k.UserKey
		return w.Add(k, value, obsolete)
	}
	how := tblock.ValuePrefix(value[0])
	if how.IsValueBlockHandle() {
		return nil // an older version of the previous key
	}
	preface, rest := blob.DecodeInlineHandlePreface(value[1:])
	// For each blob file that a table refers to, the values that it needs are marked,
	// in the order in which the files first occur. If a file occurred only in the lost
	// part, a meaningless key takes its place.
	for ; m.refs < uint32(preface.ReferenceID); m.refs++ {
		m.prev = append(bytes.Clone(m.prev), 0)
		filler := pebble.InternalKey{UserKey: m.prev, Trailer: k.Trailer}
		if err := w.AddWithBlobHandle(filler, blob.InlineHandle{InlineHandlePreface: blob.InlineHandlePreface{ReferenceID: blob.ReferenceID(m.refs), ValueLen: 1}}, 0, false); err != nil {
			return err
		}
	}
	m.refs = max(m.refs, uint32(preface.ReferenceID)+1)
	m.keys, m.prev = m.keys+1, k.UserKey
	return w.AddWithBlobHandle(k, blob.InlineHandle{InlineHandlePreface: preface, HandleSuffix: blob.DecodeHandleSuffix(rest)}, how.ShortAttribute(), obsolete)
}

// copyRangeDels copies range deletions. If they cannot be read, the deleted keys
// reappear: parts of removed messages, which are never read, and keys of indexes,
// which are rebuilt.
func (s *Spool) copyRangeDels(file string, w sstable.RawWriter) error {
	r, f, err := s.openTable(file)
	if err != nil {
		return nil
	}
	defer r.Close()
	layout, err := r.Layout()
	if err == nil {
		err = checkBlock(f, layout.RangeDel)
	}
	if err != nil {
		return nil
	}
	it, err := r.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil || it == nil {
		return err
	}
	defer it.Close()
	span, err := it.First()
	for ; span != nil && err == nil; span, err = it.Next() {
		if err := w.EncodeSpan(*span); err != nil {
			return err
		}
	}
	return err
}

// lostKeys names the messages that may have had data between two keys.
func lostKeys(from, to []byte) string {
	var parts []string
	for _, kind := range []byte{keyBody, keyEnvelope, keyRecipients, keyState, keyOutcomes} {
		if len(from) == 0 || kind < from[0] || kind > to[0] {
			continue
		}
		text := fmt.Sprintf("keys %q", kind)
		if from[0] == kind && len(from) >= 9 {
			text += fmt.Sprintf(" from %s", mail.QueueID(keyNumber(from)))
		}
		if to[0] == kind && len(to) >= 9 {
			text += fmt.Sprintf(" to %s", mail.QueueID(keyNumber(to)))
		}
		parts = append(parts, text)
	}
	if parts == nil {
		return "keys of indexes, which are rebuilt, and of hosts"
	}
	return strings.Join(parts, ", ")
}

// keepLost moves messages of which something is left, but no envelope, to the
// corrupt area: their sender and recipients may be lost.
func (s *Spool) keepLost(ctx context.Context) error {
	var lost []mail.Change
	known := make(map[mail.QueueID]bool)
	look := func(id mail.QueueID) bool {
		if ok, err := s.has(messageKey(keyEnvelope, id)); !ok && err == nil && !known[id] {
			known[id] = true
			lost = append(lost, mail.Change{Op: mail.ChangeCorrupt, ID: id, Reason: "its envelope is lost with part of a table"})
		}
		return true
	}
	for _, kind := range []byte{keyBody, keyState} {
		from := plainKey(kind)
		if _, err := s.eachKeyPast(ctx, kind, from.bytes(), func(k []byte) bool { return len(k) != 9 || look(mail.QueueID(keyNumber(k))) }); err != nil {
			return err
		}
	}
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		if _, err := s.scanPast(ctx, area, mail.Cursor{}, func(at mail.Cursor) bool { return look(at.ID) }); err != nil {
			return err
		}
	}
	for len(lost) > 0 {
		n := min(len(lost), lostBatch)
		if err := s.putAsideLost(ctx, lost[:n]); err != nil {
			return err
		}
		lost = lost[n:]
	}
	return nil
}

// lostBatch is the number of messages moved in one commit.
const lostBatch = 512

func (s *Spool) putAsideLost(ctx context.Context, lost []mail.Change) error {
	e := s.newEdits(lost)
	defer e.release()
	for i := range lost {
		ed := e.byID[lost[i].ID]
		if ed == nil {
			var err error
			if ed, err = e.loadDamaged(ctx, lost[i].ID); err != nil {
				return err
			}
		}
		ed.move(mail.AreaCorrupt, 0, lost[i].Reason)
		ed.cause = fmt.Errorf("%w: %s; if it had already been removed, remove it again", ErrCorrupt, lost[i].Reason)
	}
	b := s.db.NewBatch()
	defer b.Close()
	if err := errors.Join(e.emit(b), s.commit(b)); err != nil {
		return err
	}
	s.totals.doubt()
	e.committed()
	return nil
}
