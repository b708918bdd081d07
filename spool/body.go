package spool

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/posthaste-mta/posthaste/mail"
)

// A bodyDirs manages the content files, body/<2 hex digits>/<queue ID>. The 256
// directories keep each of them small; the digits are those of the queue ID that
// change fastest.
type bodyDirs struct {
	fs  vfs.FS
	dir string

	mu   sync.Mutex
	made bitset // directories known to exist durably
}

// draftSuffix marks a content file whose message is not committed.
const draftSuffix = ".t"

func (d *bodyDirs) path(id mail.QueueID) (dir, file string) {
	return d.subdir(byte(id >> 12)), d.fs.PathJoin(d.subdir(byte(id>>12)), id.String())
}

func (d *bodyDirs) subdir(n byte) string {
	const hex = "0123456789abcdef"
	return d.fs.PathJoin(d.dir, string([]byte{hex[n>>4], hex[n&15]}))
}

// subdirs returns the directories that exist. Most do not while there are few large messages.
func (d *bodyDirs) subdirs() (dirs []string, err error) {
	names, err := d.fs.List(d.dir)
	if err != nil && !oserror.IsNotExist(err) {
		return nil, fmt.Errorf("spool: list content files: %w", err)
	}
	for n := range 256 {
		if dir := d.subdir(byte(n)); slices.Contains(names, d.fs.PathBase(dir)) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// ensure creates the directory of a content file if it does not exist.
func (d *bodyDirs) ensure(id mail.QueueID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := byte(id >> 12)
	if d.made.has(uint32(n)) {
		return nil
	}
	if err := d.fs.MkdirAll(d.subdir(n), 0o700); err != nil {
		return err
	}
	// The parent directory as well: all of it may have been removed.
	if err := errors.Join(syncDir(d.fs, d.dir), syncDir(d.fs, d.fs.PathDir(d.dir))); err != nil {
		return err
	}
	d.made.add(uint32(n))
	return nil
}

func syncDir(fs vfs.FS, name string) error {
	dir, err := fs.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (d *bodyDirs) remove(id mail.QueueID) error {
	_, name := d.path(id)
	if err := d.fs.Remove(name); err != nil && !oserror.IsNotExist(err) {
		return err
	}
	return nil
}

// each calls visit with the queue IDs of all content files that are not drafts,
// until it returns false.
func (d *bodyDirs) each(ctx context.Context, visit func(mail.QueueID) bool) error {
	for n := range 256 {
		names, err := d.fs.List(d.subdir(byte(n)))
		if err != nil && !oserror.IsNotExist(err) {
			return fmt.Errorf("spool: list content files: %w", err)
		}
		for _, name := range names {
			if id, err := mail.ParseQueueID(name); err == nil && !visit(id) {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// sweep removes content files of drafts, and those that have no envelope, if their
// queue ID is below earlier. A file for which wanted returns an error stays. All
// others are passed to remove.
func (d *bodyDirs) sweep(ctx context.Context, earlier mail.QueueID, wanted func(mail.QueueID) (bool, error), remove func(name string) error) error {
	var first error
	var failed int
	for n := range 256 {
		dir := d.subdir(byte(n))
		names, err := d.fs.List(dir)
		if oserror.IsNotExist(err) {
			continue
		}
		if err != nil {
			if failed++; first == nil {
				first = fmt.Errorf("spool: sweep: %w", err)
			}
			continue
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := d.sweepFile(dir, name, earlier, wanted, remove); err != nil {
				failed++
				if first == nil {
					first = fmt.Errorf("spool: sweep %s: %w", name, err)
				}
			}
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w, and %d more", first, failed-1)
	}
	return first
}

func (d *bodyDirs) sweepFile(dir, name string, earlier mail.QueueID, wanted func(mail.QueueID) (bool, error), remove func(name string) error) error {
	text, draft := strings.CutSuffix(name, draftSuffix)
	id, err := mail.ParseQueueID(text)
	if err != nil || id >= earlier {
		return nil // not ours, or still being written
	}
	if !draft {
		if keep, err := wanted(id); keep || err != nil {
			return err
		}
	}
	if err := remove(d.fs.PathJoin(dir, name)); err != nil && !oserror.IsNotExist(err) {
		return err
	}
	return nil
}

// A bodyFile is a content file being written.
type bodyFile struct {
	fs   vfs.FS
	dir  string
	name string   // current name
	file vfs.File // nil when nothing more can be written
	sum  uint32
}

func (d *bodyDirs) create(id mail.QueueID) (*bodyFile, error) {
	if err := d.ensure(id); err != nil {
		return nil, err
	}
	dir, name := d.path(id)
	name += draftSuffix
	f, err := d.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &bodyFile{fs: d.fs, dir: dir, name: name, file: f}, nil
}

// write appends bytes. It may modify the slice (vfs.File allows that), which is why
// the checksum is updated first.
func (f *bodyFile) write(p []byte) error {
	f.sum = crc32.Update(f.sum, castagnoli, p)
	_, err := f.file.Write(p)
	return err
}

// keep gives the file its final name and makes it durable; only the envelope that
// refers to it is then missing.
func (f *bodyFile) keep() error {
	err := errors.Join(f.file.SyncData(), f.file.Close())
	f.file = nil
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(f.name, draftSuffix)
	if err := f.fs.Rename(f.name, name); err != nil {
		return err
	}
	f.name = name
	return syncDir(f.fs, f.dir)
}

// abandon removes the file.
func (f *bodyFile) abandon() error {
	var err error
	if f.file != nil {
		err = f.file.Close()
	}
	return errors.Join(err, f.fs.Remove(f.name))
}

// open returns the content of a message after checking all of it.
func (d *bodyDirs) open(e *envelope) (*bodyReader, error) {
	_, name := d.path(e.ID)
	f, err := d.fs.Open(name, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	if err := verify(f, e); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &bodyReader{file: f, head: e.head, size: e.Size - int64(len(e.head)), want: e.sum}, nil
}

var verifyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// verify reads a file completely. Reading it again soon is served by the page
// cache; passing on bytes before the last has been checked would send damaged mail
// that cannot be recalled.
func verify(f vfs.File, e *envelope) error {
	buf := verifyBuffers.Get().(*[32 << 10]byte)
	defer verifyBuffers.Put(buf)
	var size int64
	var sum uint32
	for {
		n, err := f.ReadAt(buf[:], size)
		sum = crc32.Update(sum, castagnoli, buf[:n])
		size += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if want := e.Size - int64(len(e.head)); size != want {
		return fmt.Errorf("%w: content file of %d bytes, not %d", ErrCorrupt, size, want)
	}
	if sum != e.sum {
		return fmt.Errorf("%w: checksum mismatch in content file of %d bytes", ErrCorrupt, size)
	}
	return nil
}

// A bodyReader reads a content file that has been checked, after what is in front of
// it, and checks the file again while reading: it withholds the last bytes unless all of
// them match the checksum. So a content that has changed since it was checked is never
// passed on completely.
type bodyReader struct {
	file    vfs.File
	head    string                  // the rest of what is in front of the file
	size    int64                   // of the file
	want    uint32                  // the checksum
	changed func(cause error) error // decides what an error means for the message

	at  int64
	sum uint32
	err error // the error that ended the reading, or nil
}

func (r *bodyReader) Read(p []byte) (n int, err error) {
	left := r.size - r.at
	switch {
	case r.err != nil:
		return 0, r.err
	case r.head != "":
		n = copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	case left == 0:
		return 0, io.EOF
	}
	n, err = r.file.ReadAt(p[:min(int64(len(p)), left)], r.at)
	r.sum = crc32.Update(r.sum, castagnoli, p[:n])
	r.at += int64(n)
	switch {
	case err != nil && err != io.EOF:
	case r.at == r.size && r.sum == r.want:
		return n, nil
	case r.at == r.size || err == io.EOF:
		err = fmt.Errorf("%w: content file changed after it was checked", ErrCorrupt)
	default:
		return n, nil
	}
	r.err = r.changed(err)
	return 0, r.err
}

func (r *bodyReader) Close() error { return r.file.Close() }
