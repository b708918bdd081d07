package logging

import (
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// FileConfig says to which file the log goes, and when the file is replaced.
type FileConfig struct {
	Path     string
	Size     int64         // octets after which a new file begins; 0: any
	Age      time.Duration // of the file, after which a new one begins; 0: any
	Keep     int           // old files that are kept
	Compress bool          // old files
}

// A File is the file of a log. A full one becomes an old one, whose name has the time of that behind the name of the
// file. It is safe for concurrent use.
type File struct {
	cfg FileConfig
	now func() time.Time

	mu    sync.Mutex
	file  *os.File
	size  int64
	began time.Time
	tidy  sync.WaitGroup // goroutines that compress and remove old files, one after another
	tidyM sync.Mutex
}

// OpenFile opens a log file, which goes on where it ended.
func OpenFile(cfg FileConfig) (*File, error) {
	f := &File{cfg: cfg, now: time.Now}
	return f, f.Reopen()
}

// Reopen opens the file again, after another program has renamed it. On an error the log goes on to the old one.
func (f *File) Reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := os.OpenFile(f.cfg.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if f.file != nil {
		err = f.file.Close()
	}
	f.file, f.size, f.began = file, info.Size(), f.now()
	if f.size > 0 {
		f.began = info.ModTime() // the earliest time that is known
	}
	return err
}

// Write appends lines. It begins a new file before them if it is time for that.
func (f *File) Write(lines []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	full := f.cfg.Size > 0 && f.size+int64(len(lines)) > f.cfg.Size
	old := f.cfg.Age > 0 && f.now().Sub(f.began) >= f.cfg.Age
	if f.size > 0 && (full || old) {
		f.replace()
	}
	n, err := f.file.Write(lines)
	f.size += int64(n)
	return n, err
}

// replace makes the file an old one, and begins a new one. If that fails, the log goes on to the same file, and
// it is tried again when that has grown as much again.
func (f *File) replace() {
	at := f.now()
	name := f.cfg.Path + "." + at.UTC().Format("20060102T150405.000000")
	f.size, f.began = 0, at
	if err := os.Rename(f.cfg.Path, name); err != nil {
		return
	}
	file, err := os.OpenFile(f.cfg.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		_ = os.Rename(name, f.cfg.Path) // then the open file has its name again
		return
	}
	f.file.Close() // what was written is with the system
	f.file = file
	f.tidy.Go(func() { f.tidyUp(name) })
}

// tidyUp compresses an old file, and removes those beyond the number that is kept.
func (f *File) tidyUp(name string) {
	f.tidyM.Lock()
	defer f.tidyM.Unlock()
	if f.cfg.Compress {
		_ = compress(name) // else it stays as it is
	}
	old, err := filepath.Glob(globOf(f.cfg.Path) + ".[0-9]*T[0-9]*.[0-9]*")
	if err != nil {
		return
	}
	slices.Sort(old) // in the order of their times
	for _, path := range old[:max(len(old)-f.cfg.Keep, 0)] {
		_ = os.Remove(path) // or at the next time
	}
}

// globOf quotes what has a meaning in patterns of names.
func globOf(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// compress replaces a file by a compressed one.
func compress(name string) (err error) {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	part := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".part")
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(out)
	_, err = io.Copy(z, in)
	if err = errors.Join(err, z.Close(), out.Close()); err == nil {
		err = os.Rename(part, name+".gz")
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Remove(name)
}

// Close waits until old files are compressed, and closes the file.
func (f *File) Close() error {
	f.tidy.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.file.Close(); !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}

// A lossless writer says how many lines were lost when a write succeeds again after others have failed.
type lossless struct {
	w     io.Writer
	line  func(lost int, why error) []byte
	lost  int
	why   error
	begun bool // the last thing that was written is a part of a line
}

// write writes lines. If that fails, they are counted.
func (l *lossless) write(lines []byte) {
	if l.lost > 0 {
		said := l.line(l.lost, l.why)
		if l.begun {
			said = append([]byte("\n"), said...)
		}
		n, err := l.w.Write(said)
		if n > 0 {
			l.begun = said[n-1] != '\n'
		}
		if n < len(said) || err != nil {
			l.fail(lines, err)
			return
		}
		l.lost, l.why = 0, nil
	}
	n, err := l.w.Write(lines)
	if n > 0 && n <= len(lines) {
		l.begun = lines[n-1] != '\n'
	}
	if n < len(lines) {
		l.fail(lines[max(n, 0):], err)
	}
}

func (l *lossless) fail(lines []byte, err error) {
	l.lost += strings.Count(string(lines), "\n")
	if l.why = err; err == nil {
		l.why = io.ErrShortWrite
	}
}
