package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The MANIFEST of a store is the list of its files: a log of edits, each of which
// adds and removes tables. Pebble reads it up to the first record that it cannot
// read, takes that for the end, and then deletes every file that the list so far
// does not name. One bad bit in it silently destroyed half of the mail.
//
// So there is a copy, in files of our own whose frames have checksums. A sync of
// the MANIFEST returns only after the copy has the same bytes durably, and nothing
// is deleted because of an edit before that sync. Hence the MANIFEST must have
// everything that the copy has, and nothing depends on what the MANIFEST has beyond
// the copy. If one of the two is damaged, the other one is complete.

// manifestDir holds the copies; the name of a copy is the number of its MANIFEST.
const manifestDir = "manifest"

// A frame of a copy is a CRC-32C over the number of the MANIFEST, the offset in it,
// and all that follows; the length of the data (4); the kind (1); and the data.
const frameHeader = 4 + 4 + 1

// The kinds of frames.
const (
	frameData    = 'd' // bytes of the MANIFEST
	frameCurrent = 'c' // the store's marker points to this MANIFEST, durably
	frameLog     = 'l' // the log with a number has been created durably
	frameNoLog   = 'x' // the log with a number is about to be deleted
)

func frameSum(num uint64, offset int64, rest []byte) uint32 {
	var place [16]byte
	binary.BigEndian.PutUint64(place[:], num)
	binary.BigEndian.PutUint64(place[8:], uint64(offset))
	return crc32.Update(crc32.Update(0, castagnoli, place[:]), castagnoli, rest)
}

func appendFrame(b []byte, num uint64, offset int64, kind byte, data []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	b = append(append(b, kind), data...)
	binary.BigEndian.PutUint32(b[at:], frameSum(num, offset, b[at+4:]))
	return b
}

// A manifestCopy is the readable part of a copy.
type manifestCopy struct {
	data    []byte          // the beginning of the MANIFEST
	current bool            // it was the MANIFEST in use
	whole   bool            // the file ends with a whole frame
	logs    map[uint64]bool // logs that were created; false: and deleted
}

func parseManifestCopy(num uint64, file []byte) (c manifestCopy) {
	for len(file) >= frameHeader {
		n := int64(binary.BigEndian.Uint32(file[4:]))
		if n > int64(len(file)-frameHeader) || frameSum(num, int64(len(c.data)), file[4:frameHeader+n]) != binary.BigEndian.Uint32(file) {
			return c
		}
		switch file[8] {
		case frameData:
			c.data = append(c.data, file[frameHeader:frameHeader+n]...)
		case frameCurrent:
			c.current = true
		case frameLog, frameNoLog:
			if n == 8 {
				if c.logs == nil {
					c.logs = make(map[uint64]bool)
				}
				c.logs[binary.BigEndian.Uint64(file[frameHeader:])] = file[8] == frameLog
			}
		}
		file = file[frameHeader+n:]
	}
	c.whole = len(file) == 0
	return c
}

// manifests maintains the copies of the MANIFESTs that are being written.
type manifests struct {
	mu   sync.Mutex
	last *manifestFile       // the latest one, nil if there is none or the store is closed
	due  uint64              // the MANIFEST whose copy must still be marked as current; 0: none
	logs map[uint64]struct{} // the existing logs
}

func (s *Spool) manifestCopy(num uint64) string {
	return s.disk.PathJoin(s.path(manifestDir), fmt.Sprintf("%06d", num))
}

// manifestNum returns the number in the name of a MANIFEST.
func manifestNum(name string) (num uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "MANIFEST-")
	num, err := strconv.ParseUint(digits, 10, 64)
	return num, ok && err == nil
}

// markedManifest returns the number of the MANIFEST that a marker points to.
func markedManifest(name string) (iter, num uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, "marker.manifest.")
	count, file, cut := strings.Cut(rest, ".")
	iter, err := strconv.ParseUint(count, 10, 64)
	num, isManifest := manifestNum(file)
	return iter, num, ok && cut && isManifest && err == nil
}

// A manifestFile is a MANIFEST being written, together with its copy.
type manifestFile struct {
	vfs.File
	s      *Spool
	num    uint64
	copy   vfs.File
	offset int64  // bytes that are in the copy
	ahead  []byte // bytes written but not yet in the copy
	buf    []byte
	closed bool // but for the copy
}

// createManifest creates the copy of a MANIFEST, then the MANIFEST.
func (f *storeFS) createManifest(name string, num uint64, category vfs.DiskWriteCategory) (vfs.File, error) {
	copyName := f.s.manifestCopy(num)
	second, err := f.FS.Create(copyName, category)
	if err == nil {
		err = syncDir(f.FS, f.s.path(manifestDir))
	}
	if err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, category)
	if err != nil {
		return nil, errors.Join(err, second.Close())
	}
	m := &manifestFile{s: f.s, num: num,
		File: &storeFile{File: file, s: f.s, name: name, kind: fileManifest},
		copy: &storeFile{File: second, s: f.s, name: copyName, kind: fileManifest}}
	f.s.manifests.mu.Lock()
	defer f.s.manifests.mu.Unlock()
	if old := f.s.manifests.last; old != nil && old.closed {
		if err := old.copy.Close(); err != nil {
			return nil, errors.Join(err, file.Close(), second.Close())
		}
	}
	f.s.manifests.last = m
	for log := range f.s.manifests.logs {
		if err := m.append(frameLog, binary.BigEndian.AppendUint64(nil, log)); err != nil {
			return nil, errors.Join(err, file.Close(), second.Close())
		}
	}
	return m, nil
}

func (m *manifestFile) Write(p []byte) (int, error) {
	m.ahead = append(m.ahead, p...) // first: Write may change p
	return m.File.Write(p)
}

func (m *manifestFile) Sync() error { return m.sync(m.File.Sync) }

func (m *manifestFile) SyncData() error { return m.sync(m.File.SyncData) }

func (m *manifestFile) sync(first func() error) error {
	if err := first(); err != nil {
		return err
	}
	m.s.manifests.mu.Lock()
	defer m.s.manifests.mu.Unlock()
	if err := m.s.manifests.settle(); err != nil {
		return err
	}
	if len(m.ahead) == 0 {
		return nil
	}
	if err := m.append(frameData, m.ahead); err != nil {
		return err
	}
	m.offset += int64(len(m.ahead))
	m.ahead = m.ahead[:0]
	return nil
}

func (m *manifestFile) append(kind byte, data []byte) error {
	m.buf = appendFrame(m.buf[:0], m.num, m.offset, kind, data)
	if _, err := m.copy.Write(m.buf); err != nil {
		return err
	}
	return m.copy.SyncData()
}

// Close closes the MANIFEST. The copy of the latest one stays open until there is a newer
// one or the store is closed: Pebble may delete logs after it has closed the MANIFEST, and
// each deletion must be recorded.
func (m *manifestFile) Close() error {
	ms := &m.s.manifests
	ms.mu.Lock()
	defer ms.mu.Unlock()
	err := errors.Join(ms.settle(), m.File.Close())
	if m.closed = true; ms.last != m {
		err = errors.Join(err, m.copy.Close())
	}
	return err
}

// close closes the copy of the latest MANIFEST, when the store is closed.
func (ms *manifests) close() error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	last := ms.last
	if ms.last = nil; last == nil || !last.closed {
		return nil
	}
	return last.copy.Close()
}

// marked records that the store's marker durably points to a MANIFEST.
func (ms *manifests) marked(num uint64) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.due = num
}

// beforeRemoval must be called before a file of the store is deleted, which the
// MANIFEST in use justifies: an older MANIFEST is unusable from then on.
func (ms *manifests) beforeRemoval() error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.settle()
}

// logMade durably records the existence of a log. Pebble reads the logs that it
// finds at a start, and does not notice if one is missing.
func (ms *manifests) logMade(num uint64) error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.logs == nil {
		ms.logs = make(map[uint64]struct{})
	}
	ms.logs[num] = struct{}{}
	if ms.last == nil {
		return nil // the next copy begins with all of them
	}
	return ms.last.append(frameLog, binary.BigEndian.AppendUint64(nil, num))
}

// logGivenUp records that a log is no longer needed. It must be called before the log
// is deleted or reused for another one.
func (ms *manifests) logGivenUp(num uint64) error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	delete(ms.logs, num)
	if ms.last == nil {
		return nil
	}
	return ms.last.append(frameNoLog, binary.BigEndian.AppendUint64(nil, num))
}

// settle marks the copy of the MANIFEST in use. The mutex is held.
func (ms *manifests) settle() error {
	if ms.due == 0 || ms.last == nil || ms.last.num != ms.due {
		return nil
	}
	ms.due = 0
	return ms.last.append(frameCurrent, nil)
}

// A damagedStore is damage that keeps the spool from opening.
type damagedStore struct{ what string }

func (e *damagedStore) Error() string { return e.what }

// checkManifest ensures that Pebble will find the list of files that it has
// written, and restores it if it is damaged. It must precede the opening of the
// store, which deletes the files that the list does not name.
func (s *Spool) checkManifest() error {
	names, err := s.disk.List(s.path("db"))
	if err != nil {
		return fmt.Errorf("spool: look for the MANIFEST: %w", err)
	}
	copies, err := s.manifestCopies()
	if err != nil {
		return err
	}
	num, marked := currentManifest(names)
	if !marked {
		return s.checkEmpty(names, copies)
	}
	for n, c := range copies {
		if n > num && c.current {
			return &damagedStore{fmt.Sprintf("its marker names MANIFEST-%06d, but MANIFEST-%06d has been in use since; if db was put there from elsewhere on purpose, remove %s", num, n, s.path(manifestDir))}
		}
	}
	c, copied := copies[num]
	name := s.disk.PathJoin(s.path("db"), fmt.Sprintf("MANIFEST-%06d", num))
	data, err := s.readFile(name)
	if err != nil && !isDamage(err) {
		return fmt.Errorf("spool: read the MANIFEST: %w", err)
	}
	at, end := scanManifest(data)
	switch {
	case err == nil && !copied && end == manifestSound:
		return nil // as left by a version that made no copies
	case err == nil && copied && bytes.HasPrefix(data, c.data) && (c.whole || end != manifestDamaged):
		return nil
	case err == nil && copied && !c.whole && end == manifestSound && len(data) >= len(c.data):
		s.cfg.Logger.Warn("the copy of the store's MANIFEST is damaged and is made again", "file", s.manifestCopy(num))
		return nil
	case copied && c.whole && len(c.data) > 0:
		return s.mendManifest(name, num, c.data, manifestProblem(data, c.data, err))
	case err != nil:
		return &damagedStore{fmt.Sprintf("%s cannot be read: %v", name, err)}
	case !copied && end == manifestTorn:
		return &damagedStore{fmt.Sprintf("%s ends in the middle of a record, at offset %d, and there is no copy of it; "+
			"if this is the first start of a new version, start and stop the previous one once", name, at)}
	}
	return &damagedStore{fmt.Sprintf("%s is damaged at offset %d of %d, and there is no undamaged copy of it", name, at, len(data))}
}

// currentManifest returns which MANIFEST a store's marker names.
func currentManifest(names []string) (num uint64, ok bool) {
	var latest uint64
	for _, name := range names {
		if iter, n, is := markedManifest(name); is && (!ok || iter > latest) {
			latest, num, ok = iter, n, true
		}
	}
	return num, ok
}

// checkEmpty refuses a store that has files but no marker: Pebble would create a
// new store in its place.
func (s *Spool) checkEmpty(names []string, copies map[uint64]manifestCopy) error {
	for n, c := range copies {
		if c.current {
			return &damagedStore{fmt.Sprintf("the marker that names MANIFEST-%06d is missing from %s", n, s.path("db"))}
		}
	}
	for _, name := range names {
		if kindOf(name) != fileOther && kindOf(name) != fileManifest {
			return &damagedStore{fmt.Sprintf("%s has %s, but no marker that names a MANIFEST", s.path("db"), name)}
		}
	}
	return nil
}

func (s *Spool) manifestCopies() (map[uint64]manifestCopy, error) {
	names, err := s.disk.List(s.path(manifestDir))
	if err != nil {
		return nil, fmt.Errorf("spool: look for copies of the MANIFEST: %w", err)
	}
	copies := make(map[uint64]manifestCopy)
	for _, name := range names {
		num, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			continue
		}
		data, err := s.readFile(s.manifestCopy(num))
		if err != nil && !isDamage(err) {
			return nil, fmt.Errorf("spool: read the copy of the MANIFEST: %w", err)
		}
		copies[num] = parseManifestCopy(num, data)
	}
	return copies, nil
}

func (s *Spool) readFile(name string) ([]byte, error) {
	f, err := s.disk.Open(name, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// manifestProblem describes how a MANIFEST differs from its copy.
func manifestProblem(data, want []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	n := min(len(data), len(want))
	for i := range n {
		if data[i] != want[i] {
			return fmt.Sprintf("it is damaged at offset %d of %d", i, len(data))
		}
	}
	return fmt.Sprintf("it has %d of %d bytes", len(data), len(want))
}

// mendManifest restores a MANIFEST from its copy. The old file is kept, as for a
// damaged log.
func (s *Spool) mendManifest(name string, num uint64, data []byte, problem string) error {
	err := s.replace(name, fmt.Sprintf("%06d", num), ".manifest", func(to, kept string) error {
		f, err := s.mending.Create(to, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = f.Write(bytes.Clone(data))
		if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
			s.raise(Alarm{Kind: AlarmCorrupt, Text: "the store's MANIFEST was damaged and was restored from its copy; nothing is missing",
				Err: fmt.Errorf("%s: %s; the file is kept as %s", name, problem, kept)})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("spool: repair %s: %w", name, err)
	}
	return nil
}

// replace substitutes a new file, which write creates, for a damaged one, which is
// kept in damagedDir. The old file gets its second name first and loses its first
// one last, so that after a crash in between it is repaired again. write also
// raises the alarm: after a crash behind it the damage would otherwise go
// unreported.
func (s *Spool) replace(current, text, ext string, write func(to, kept string) error) (err error) {
	dir := s.path(damagedDir)
	text += time.Unix(0, int64(s.cfg.Now())).UTC().Format("-" + damagedTime)
	kept := s.disk.PathJoin(dir, text+ext)
	mended := s.disk.PathJoin(dir, text+".new")
	if err := errors.Join(s.disk.MkdirAll(dir, 0o700), syncDir(s.disk, s.cfg.Dir)); err != nil {
		return err
	}
	defer func() { // each start uses a name of its own: a full disk must not get fuller
		if err != nil {
			if rm := s.disk.Remove(mended); rm != nil && !oserror.IsNotExist(rm) {
				err = errors.Join(err, rm)
			}
		}
	}()
	if err := write(mended, kept); err != nil {
		return err
	}
	if err := s.mending.Link(current, kept); err != nil && !oserror.IsNotExist(err) {
		return err
	}
	if err := syncDir(s.disk, dir); err != nil {
		return err
	}
	if err := s.disk.Rename(mended, current); err != nil {
		return err
	}
	return errors.Join(syncDir(s.disk, s.disk.PathDir(current)), syncDir(s.disk, dir))
}

// checkOptions moves a damaged OPTIONS file away. Pebble compares it with the
// options it is opened with, which are always the same here, and does not need it.
func (s *Spool) checkOptions() error {
	names, err := s.disk.List(s.path("db"))
	if err != nil {
		return fmt.Errorf("spool: look for OPTIONS: %w", err)
	}
	o := s.storeOptions()
	o.EnsureDefaults()
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "OPTIONS-")
		if !ok {
			continue
		}
		file := s.disk.PathJoin(s.path("db"), name)
		data, err := s.readFile(file)
		if err == nil {
			err = o.CheckCompatibility(s.path("db"), string(data))
		}
		if err == nil {
			continue
		}
		dir := s.path(damagedDir)
		kept := s.disk.PathJoin(dir, digits+time.Unix(0, int64(s.cfg.Now())).UTC().Format("-"+damagedTime)+".options")
		if moveErr := errors.Join(s.disk.MkdirAll(dir, 0o700), s.disk.Rename(file, kept), syncDir(s.disk, s.path("db"))); moveErr != nil {
			return fmt.Errorf("spool: move away %s, which is damaged (%w): %w", file, err, moveErr)
		}
		s.raise(Alarm{Kind: AlarmCorrupt, Text: "the store's OPTIONS file was damaged and is not needed; nothing is missing",
			Err: fmt.Errorf("%w; the file is kept as %s", err, kept)})
	}
	return nil
}

// A manifestEnd is how a MANIFEST ends.
type manifestEnd uint8

const (
	manifestSound   manifestEnd = iota // with a whole record
	manifestTorn                       // in the middle of one
	manifestDamaged                    // there is an invalid record before the end
)

// scanManifest checks every record of a MANIFEST and returns the offset of the
// first byte that is not part of a whole one. The format is that of the log
// (scanLog) with a shorter header: checksum (4 bytes), length (2), type (1).
func scanManifest(data []byte) (at int, end manifestEnd) {
	const header = 7
	open := false
	for pos := 0; pos < len(data); {
		left := min(logBlock-pos%logBlock, len(data)-pos)
		if logBlock-pos%logBlock < header {
			pos += left
			continue
		}
		rest := data[pos : pos+left]
		if len(bytes.Trim(rest, "\x00")) == 0 && (pos+left == len(data) || left < logHeaderSync) {
			if pos+left == len(data) {
				return at, manifestTorn
			}
			pos += left
			continue
		}
		n := header
		if left >= header {
			n += int(binary.LittleEndian.Uint16(rest[4:]))
		}
		switch {
		case n > left && pos+left == len(data) && n <= logBlock-pos%logBlock:
			return at, manifestTorn
		case n > left, chunkSum(rest[6:n]) != binary.LittleEndian.Uint32(rest), rest[6] < 1, rest[6] > 4, open != (rest[6] > 2):
			return at, manifestDamaged
		}
		pos += n
		if open = rest[6] == 2 || rest[6] == 3; !open {
			at = pos
		}
	}
	if open {
		return at, manifestTorn
	}
	return len(data), manifestSound
}
