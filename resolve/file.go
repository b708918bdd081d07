package resolve

import (
	"io"
	"os"
	"sync"
	"time"
)

const (
	// fileCheckInterval is the interval between checks of a file for changes.
	fileCheckInterval = 5 * time.Second
	// fileSizeMax is the maximum number of bytes read from a file.
	fileSizeMax = 4 << 20
)

// A file holds the parsed contents of a small text file, and reads it again when
// it has changed. A file that cannot be read counts as empty.
type file[T any] struct {
	path  string
	parse func(text string) T

	mu      sync.Mutex
	value   T
	looked  time.Time // when the file was last checked
	changed time.Time // its modification time at that check
	size    int64
}

func newFile[T any](path string, parse func(text string) T) *file[T] {
	f := &file[T]{path: path, parse: parse}
	f.value = parse("")
	return f
}

// get returns the parsed contents of the file.
func (f *file[T]) get(now time.Time) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.looked.IsZero() && now.Sub(f.looked) < fileCheckInterval {
		return f.value
	}
	f.looked = now
	var changed time.Time
	var size int64
	if info, err := os.Stat(f.path); err == nil {
		changed, size = info.ModTime(), info.Size()
	}
	if !changed.Equal(f.changed) || size != f.size {
		f.changed, f.size = changed, size
		f.value = f.parse(readSome(f.path))
	}
	return f.value
}

func readSome(path string) string {
	in, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, fileSizeMax))
	if err != nil {
		return ""
	}
	return string(text)
}
