// Package spill keeps octets of which it is not known how many there will be: in memory, and
// beyond a limit in a file without a name, which vanishes with the process.
package spill

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// A Buffer keeps octets. Set the exported fields before the first Write, and call Close. It
// belongs to one goroutine.
type Buffer struct {
	Max  int                      // octets that are kept in memory
	Dir  string                   // of the file; "" is that of the system for temporary files
	Grow func(octets int64) error // asked before octets go into the file, with all that there will be; nil: they may

	mem  []byte
	file *os.File
	out  *bufio.Writer // to file
	size int64
}

// Write appends octets.
func (b *Buffer) Write(p []byte) (int, error) {
	b.size += int64(len(p))
	if b.file == nil && len(b.mem)+len(p) <= b.Max {
		b.mem = append(b.mem, p...)
		return len(p), nil
	}
	if b.Grow != nil {
		if err := b.Grow(b.size); err != nil {
			return 0, err
		}
	}
	if b.file == nil {
		if err := b.overflow(); err != nil {
			return 0, err
		}
	}
	if _, err := b.out.Write(p); err != nil {
		return 0, fmt.Errorf("write a temporary file: %w", err)
	}
	return len(p), nil
}

// overflow moves what is in memory to a file.
func (b *Buffer) overflow() error {
	f, err := os.CreateTemp(b.Dir, "posthaste-*")
	if err != nil {
		return fmt.Errorf("make a temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return errors.Join(fmt.Errorf("remove the name of a temporary file: %w", err), f.Close())
	}
	b.file, b.out = f, bufio.NewWriterSize(f, 64<<10)
	if _, err := b.out.Write(b.mem); err != nil {
		return fmt.Errorf("write a temporary file: %w", err)
	}
	b.mem = nil
	return nil
}

// Size returns the number of octets.
func (b *Buffer) Size() int64 { return b.size }

// Reader returns all octets from one on. Nothing may be written after it was called.
func (b *Buffer) Reader(from int64) (*io.SectionReader, error) {
	if b.file == nil {
		return io.NewSectionReader(bytes.NewReader(b.mem), from, b.size-from), nil
	}
	if err := b.out.Flush(); err != nil {
		return nil, fmt.Errorf("write a temporary file: %w", err)
	}
	return io.NewSectionReader(b.file, from, b.size-from), nil
}

// Close gives the memory and the file back.
func (b *Buffer) Close() {
	b.mem = nil
	if b.file != nil {
		b.file.Close() // what was in it is not needed any more
		b.file = nil
	}
}
