package users

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/posthaste-mta/posthaste/internal/secretfile"
)

// A File is the users in a file, as it is now. Any number of goroutines may use it.
type File struct {
	path string

	mu    sync.Mutex // guards the fields below
	set   *Set
	seen  os.FileInfo // of what set was read from
	fresh os.FileInfo // of what seemed to be half-written at the last look
	next  time.Time   // when to look again
	tried os.FileInfo // the last that could not be used
	wrong string      // with it
}

// lookInterval is the time for which a change of the file may go unnoticed.
const lookInterval = 2 * time.Second

// Open reads a file. The error says what is wrong with it, and what to do.
func Open(path string) (*File, error) {
	set, info, err := read(path)
	if err != nil {
		return nil, err
	}
	return &File{path: path, set: set, seen: info, next: time.Now().Add(lookInterval)}, nil
}

// Path returns the name of the file.
func (f *File) Path() string { return f.path }

// Users returns the users as they were read last.
func (f *File) Users() *Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set
}

// Set returns the users. If the file has changed, it is read again; if that fails, the
// error says so, once for each change, and the users are those from before.
//
// A file that an editor is writing may be cut off, which can look like a file with fewer users, or
// none. So one that is empty or does not end a line, or was changed in its place, counts when it
// is older than lookInterval, or has not changed from one look to the next (if its time is wrong).
// The file is looked at when a user logs in. Without the first rule, a user who was removed could
// log in once more, however long ago that was.
func (f *File) Set(now time.Time) (*Set, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Before(f.next) {
		return f.set, nil
	}
	f.next = now.Add(lookInterval)
	info, err := os.Stat(f.path)
	if err == nil && (same(info, f.seen) || same(info, f.tried)) {
		return f.set, nil
	}
	text, info, err := readText(f.path)
	if err == nil && !same(info, f.fresh) && now.Sub(info.ModTime()) < lookInterval && f.suspicious(info, text) {
		f.fresh = info
		return f.set, nil
	}
	var set *Set
	if err == nil {
		set, err = Parse(f.path, text)
	}
	if err != nil {
		f.tried = info
		if err.Error() == f.wrong {
			return f.set, nil
		}
		f.wrong = err.Error()
		return f.set, fmt.Errorf("%w; users are those from before the change", err)
	}
	f.set, f.seen, f.fresh, f.tried, f.wrong = set, info, nil, nil, ""
	return set, nil
}

// suspicious reports whether a changed file may be one that an editor is writing.
func (f *File) suspicious(info os.FileInfo, text []byte) bool {
	return os.SameFile(info, f.seen) || !bytes.HasSuffix(text, []byte("\n"))
}

// same reports whether a file has not changed. Changes by this program make a new file;
// those by an editor change its time.
func same(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// read reads a file. info is nil if it cannot be opened.
func read(path string) (set *Set, info os.FileInfo, err error) {
	text, info, err := readText(path)
	if err != nil {
		return nil, info, err
	}
	set, err = Parse(path, text)
	return set, info, err
}

func readText(path string) (text []byte, info os.FileInfo, err error) {
	f, err := secretfile.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("users: %w; \"posthaste user add\" makes it", err)
	case err != nil:
		return nil, nil, fmt.Errorf("users: %w", err) // it names the file
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, fmt.Errorf("users: %w", err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return nil, info, fmt.Errorf("users: %s is not a regular file", path)
	case mode.Perm()&0o007 != 0:
		return nil, info, fmt.Errorf("users: %s is open to all users of this machine (mode %04o): run chmod o-rwx on it", path, mode.Perm())
	case mode.Perm()&0o020 != 0:
		return nil, info, fmt.Errorf("users: %s can be changed by its group (mode %04o): run chmod g-w on it", path, mode.Perm())
	case !secretfile.Trusted(info):
		return nil, info, fmt.Errorf("users: %s belongs to another user, who can change it: give it to the user of the daemon or to root", path)
	case info.Size() > fileMax:
		return nil, info, fmt.Errorf("users: %s has more than %d bytes", path, fileMax)
	}
	if text, err = io.ReadAll(io.LimitReader(f, fileMax)); err != nil {
		return nil, info, fmt.Errorf("users: %w", err)
	}
	return text, info, nil
}
