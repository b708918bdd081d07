package spool

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/blob"
	tblock "github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// mender returns a spool with only the fields that rewriting tables needs.
func mender(fs vfs.FS) *Spool {
	return &Spool{cfg: small(fs).WithDefaults(), disk: fs, fs: fs, mending: fs}
}

func tableKey(i int) pebble.InternalKey {
	k := messageKey(keyState, mail.QueueID(i))
	return pebble.MakeInternalKey(k.bytes(), 1, pebble.InternalKeyKindSet)
}

// madeTable creates a table and returns the state needed to rewrite it.
func madeTable(t *testing.T, s *Spool, change func(*sstable.WriterOptions), fill func(sstable.RawWriter) error) *tableMend {
	t.Helper()
	o := s.tableOptions().MakeWriterOptions(0, s.tableFormat())
	change(&o)
	f, err := s.disk.Create("/old.sst", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	w := sstable.NewRawWriter(objstorageprovider.NewFileWritable(f), o)
	if err := fill(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := s.readFile("/old.sst")
	if err != nil {
		t.Fatal(err)
	}
	m := &tableMend{table: &damagedTable{file: "/old.sst", smallest: tableKey(0).UserKey, largest: tableKey(tableKeys - 1).UserKey}, data: data}
	m.blocks = m.scan()
	return m
}

const tableKeys = 2000

// digits writes values that only a compression with an entropy code makes smaller.
func digits(w sstable.RawWriter) (err error) {
	for i := 0; i < tableKeys && err == nil; i++ {
		err = w.Add(tableKey(i), []byte(hex.EncodeToString(noise(i, 100))), false)
	}
	return err
}

// keysOf returns the user keys in a table, with the blob file of the value, if it is in
// one.
func keysOf(t *testing.T, s *Spool, file string) (keys []string) {
	t.Helper()
	data, err := s.readFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range (&tableMend{data: data}).scan() {
		if b == nil {
			continue
		}
		d := colblk.DecodeBlock(b, dataHeader)
		names, values, external := d.PrefixBytes(columnKey), d.RawBytes(columnValue), d.Bitmap(columnExternal)
		for i := range d.Rows() {
			k := fmt.Sprintf("%x", string(names.SharedPrefix())+string(names.RowBundlePrefix(i))+string(names.RowSuffix(i)))
			if external.At(i) {
				preface, _ := blob.DecodeInlineHandlePreface(values.At(i)[1:])
				k += fmt.Sprint(" in ", preface.ReferenceID)
			}
			keys = append(keys, k)
		}
	}
	return keys
}

// A table that grows when it is rewritten is compressed better, so that it keeps its
// size, with all keys. If that does not help, it is not replaced.
//
// Seen failing: with one round only, and with the check of the size left out.
func TestTableThatGrows(t *testing.T) {
	for _, test := range []struct {
		name    string
		options func(*sstable.WriterOptions)
		fits    bool
	}{
		{"as it is made", func(*sstable.WriterOptions) {}, true},
		{"compressed well", func(o *sstable.WriterOptions) { o.Compression = tblock.ZstdCompression; o.FilterPolicy = nil }, true},
		{"compressed well, in large blocks", func(o *sstable.WriterOptions) {
			o.Compression, o.FilterPolicy, o.BlockSize = tblock.ZstdCompression, nil, 512<<10
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := mender(vfs.NewMem())
			m := madeTable(t, s, test.options, digits)
			err := s.rewriteTable(m, "/new.sst")
			if !test.fits {
				if err == nil || !strings.Contains(err.Error(), "takes more than") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			info, err := s.disk.Stat("/new.sst")
			if err != nil || info.Size() != int64(len(m.data)) {
				t.Errorf("it has %d octets, the old one %d, error %v", info.Size(), len(m.data), err)
			}
			if got := keysOf(t, s, "/new.sst"); len(got) != tableKeys || m.keys != tableKeys || len(m.lost) > 0 {
				t.Errorf("%d keys in it, %d said to be, lost %v", len(got), m.keys, m.lost)
			}
		})
	}
}

// Any failure while a table is rewritten is reported, and no incomplete table
// replaces it.
//
// Seen failing: without checking the error of Close, and that of readFile.
func TestErrorsWhileATableIsWritten(t *testing.T) {
	t.Parallel()
	longWithoutRaces(t)
	n := int64(0)
	for ; ; n += sampled(13) {
		var ops atomic.Int64
		var what atomic.Value
		s := mender(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Path == "/new.sst" && ops.Add(1) == n+1 {
				what.Store(fmt.Sprint("op ", op.Kind))
				return syscall.EIO
			}
			return nil
		})))
		m := madeTable(t, s, func(o *sstable.WriterOptions) {}, digits)
		err := s.rewriteTable(m, "/new.sst")
		if what.Load() == nil {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if err == nil {
			t.Errorf("%v: no error", what.Load())
		}
	}
	if n < 10 {
		t.Errorf("%d operations", n)
	}
}

// A flipFS flips a bit in the middle of each long write.
type flipFS struct{ vfs.FS }

type flipFile struct{ vfs.File }

func (f flipFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	return flipFile{file}, err
}

func (f flipFile) Write(p []byte) (int, error) {
	if len(p) > 50_000 {
		p = bytes.Clone(p)
		p[len(p)/4] ^= 1
	}
	return f.File.Write(p)
}

// A table is read once more before it replaces the old one.
//
// Seen failing: without tableProblem at the end of rewriteTable.
func TestTableIsWrittenWrongly(t *testing.T) {
	s := mender(vfs.NewMem())
	m := madeTable(t, s, func(o *sstable.WriterOptions) {}, digits)
	s.mending = flipFS{s.disk}
	if err := s.rewriteTable(m, "/new.sst"); !isWrong(err) {
		t.Errorf("error %v", err)
	}
}

// The blob files that a table refers to keep their order when all keys with values in
// one of them are lost.
//
// Seen failing: without the key that replaces them.
func TestReferenceThatOnlyLostKeysHeld(t *testing.T) {
	s := mender(vfs.NewMem())
	m := madeTable(t, s, func(*sstable.WriterOptions) {}, func(w sstable.RawWriter) (err error) {
		for i := 0; i < tableKeys && err == nil; i++ {
			err = w.AddWithBlobHandle(tableKey(i), blob.InlineHandle{
				InlineHandlePreface: blob.InlineHandlePreface{ReferenceID: blob.ReferenceID(i * 4 / tableKeys), ValueLen: 5000},
				HandleSuffix:        blob.HandleSuffix{BlockID: 1, ValueID: blob.BlockValueID(i)},
			}, 0, false)
		}
		return err
	})
	before := keysOf(t, s, "/old.sst")
	rows := func(b tableBlock) int { d := colblk.DecodeBlock(b, dataHeader); return d.Rows() }
	lost := 0
	for i := 0; lost < tableKeys/2; i++ { // all in the first two
		lost += rows(m.blocks[i])
		m.blocks[i] = nil
	}
	if err := s.rewriteTable(m, "/new.sst"); err != nil {
		t.Fatal(err)
	}
	first := fmt.Sprintf("%x", tableKey(0).UserKey)
	want := append([]string{first + "00 in 0", first + "0000 in 1"}, before[lost:]...)
	if len(before) != tableKeys || lost > tableKeys*3/4 {
		t.Fatalf("%d keys, %d lost", len(before), lost)
	}
	if got := keysOf(t, s, "/new.sst"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d keys %.300v, want %d %.300v", len(got), got, len(want), want)
	}
	if m.keys != tableKeys-lost || len(m.lost) != 1 {
		t.Errorf("%d keys said to be read, lost %v", m.keys, m.lost)
	}
}

// A block that is not a data block, or claims to be longer than any, is skipped.
//
// Seen failing: without each of the checks in dataBlock.
func TestNoDataBlock(t *testing.T) {
	m := madeTable(t, mender(vfs.NewMem()), func(*sstable.WriterOptions) {}, digits)
	sound := m.blocks[0]
	snappy := tblock.MakeCompressor(tblock.SnappyCompression)
	defer snappy.Close()
	compressed := func(data []byte) []byte {
		how, b := snappy.Compress(nil, data, blockkind.SSTableData)
		return append(append(b, byte(how)), 0, 0, 0, 0)
	}
	long := func(n int) []byte { return append(bytes.Clone(sound), make([]byte, n-len(sound))...) }
	plain := func(data []byte) []byte {
		return append(bytes.Clone(data), byte(tblock.NoCompressionIndicator), 0, 0, 0, 0)
	}
	kind := func(column int, to byte) []byte {
		b := bytes.Clone(sound)
		b[dataHeader+int(colblk.HeaderSize(column, 0))] = to
		return b
	}
	other := bytes.Clone(sound)
	binary.LittleEndian.PutUint16(other[dataHeader+1:], columns-1)
	for name, test := range map[string]struct {
		block []byte
		data  bool
	}{
		"sound":            {plain(sound), true},
		"compressed":       {compressed(sound), true},
		"as long as any":   {compressed(long(blockMost)), true},
		"longer":           {compressed(long(blockMost + 1)), false},
		"no length":        {append([]byte{255, 255, 255, 255, 255, 255}, byte(tblock.SnappyCompressionIndicator), 0, 0, 0, 0), false},
		"cut":              {compressed(sound)[10:], false},
		"short":            {plain(sound[:dataHeader+5]), false},
		"other columns":    {plain(other), false},
		"keys of a kind":   {plain(kind(columnKey, byte(colblk.DataTypeBytes))), false},
		"trailers":         {plain(kind(columnTrailer, byte(colblk.DataTypeBytes))), false},
		"values of a kind": {plain(kind(columnValue, byte(colblk.DataTypeBool))), false},
	} {
		if got := dataBlock(test.block) != nil; got != test.data {
			t.Errorf("%s: a data block is %v", name, got)
		}
	}
}

// If several tables are parts of one damaged file, the bounds of all of them count,
// in whatever order the tables are listed.
//
// Seen failing: without the smallest key of the second one, and the largest of the third.
func TestTablesThatShareAFile(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, small(fs))
	<-s.work.swept
	var ids []mail.QueueID
	for i := range 60 {
		ids = append(ids, accept(t, s, mail.Envelope{}, addresses(1), noise(i, 300)).Envelope.ID)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	// Of three parts, the first and the last are moved to a lower level, where they
	// are listed later.
	body := messageKey(keyBody, ids[30])
	first, last := body.bytes(), []byte{keyEnvelope}
	err := errors.Join(s.db.Excise(ctxTest, pebble.KeyRange{Start: first, End: append(bytes.Clone(first), 0)}),
		s.db.Excise(ctxTest, pebble.KeyRange{Start: last, End: []byte{keyEnvelope + 1}}),
		s.db.Compact(ctxTest, []byte{0}, first, false), s.db.Compact(ctxTest, last, []byte{255}, false))
	if err != nil {
		t.Fatal(err)
	}
	levels, err := s.db.SSTables()
	if err != nil {
		t.Fatal(err)
	}
	parts := slices.Concat(levels...)
	if len(parts) != 3 || parts[0].BackingSSTNum != parts[1].BackingSSTNum || parts[0].BackingSSTNum != parts[2].BackingSSTNum ||
		bytes.Compare(parts[0].Smallest.UserKey, parts[1].Smallest.UserKey) < 0 || bytes.Compare(parts[0].Largest.UserKey, parts[2].Largest.UserKey) > 0 {
		t.Fatalf("tables %+v, want three of one file, the middle of it first", parts)
	}
	name := s.disk.PathJoin("/spool/db", fmt.Sprintf("%06d.sst", uint64(parts[0].BackingSSTNum)))
	data, err := s.readFile(name)
	if err != nil {
		t.Fatal(err)
	}
	img := image{name: append(data[:len(data)-60], make([]byte, 60)...)}
	s.fs = img.fs(t)
	damaged, err := s.checkTables(nil)
	if err != nil || len(damaged) != 1 || !bytes.Equal(damaged[0].smallest, parts[1].Smallest.UserKey) || !bytes.Equal(damaged[0].largest, parts[2].Largest.UserKey) {
		t.Errorf("damaged %+v, error %v, want the file of %+v", damaged, err, parts)
	}
}

// A message of which only an index key is left, of any area, is moved to the corrupt
// area.
//
// Seen failing: without the last area.
func TestKeepLostLooksIntoEachArea(t *testing.T) {
	s := open(t, small(vfs.NewMem()))
	<-s.work.swept
	var ids []mail.QueueID
	for area := mail.AreaIncoming; area <= mail.AreaCorrupt; area++ {
		id, err := s.Reserve(1)
		if err == nil {
			err = s.index(area, mail.Cursor{ID: id})
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := s.keepLost(ctxTest); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if area, _, err := s.whereabouts(id); area != mail.AreaCorrupt || err != nil {
			t.Errorf("of area %d: it is in %s, error %v", i, area, err)
		}
	}
}
