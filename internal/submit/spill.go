package submit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
)

// spillMax is how many octets are kept in memory: nearly all messages, and
// about 40,000 recipients.
const spillMax = 1 << 20

// A spill keeps octets: in memory up to spillMax, beyond that in a file
// without a name, which vanishes with the process. The zero value is empty.
type spill struct {
	mem  []byte
	file *os.File
	out  *bufio.Writer // to file
	size int64
	grow func(octets int64) error // asked before octets go into the file; nil: they may
}

// Write appends octets.
func (s *spill) Write(p []byte) (int, error) {
	s.size += int64(len(p))
	if s.file == nil && len(s.mem)+len(p) <= spillMax {
		s.mem = append(s.mem, p...)
		return len(p), nil
	}
	if s.grow != nil {
		if err := s.grow(s.size); err != nil {
			return 0, err
		}
	}
	if s.file == nil {
		if err := s.overflow(); err != nil {
			return 0, err
		}
	}
	if _, err := s.out.Write(p); err != nil {
		return 0, fmt.Errorf("write a temporary file: %w", err)
	}
	return len(p), nil
}

// overflow moves what is in memory to a file.
func (s *spill) overflow() error {
	f, err := os.CreateTemp("", "posthaste-*")
	if err != nil {
		return fmt.Errorf("make a temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return fmt.Errorf("remove the name of a temporary file: %w", err)
	}
	s.file, s.out = f, bufio.NewWriterSize(f, 64<<10)
	if _, err := s.out.Write(s.mem); err != nil {
		return fmt.Errorf("write a temporary file: %w", err)
	}
	s.mem = nil
	return nil
}

// reader returns all octets, from the first on. Nothing may be written after.
func (s *spill) reader() (io.Reader, error) {
	if s.file == nil {
		return bytes.NewReader(s.mem), nil
	}
	if err := s.out.Flush(); err != nil {
		return nil, fmt.Errorf("write a temporary file: %w", err)
	}
	return io.NewSectionReader(s.file, 0, s.size), nil
}

func (s *spill) close() {
	if s.file != nil {
		s.file.Close()
	}
}
