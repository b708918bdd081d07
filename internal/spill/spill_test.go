package spill

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// Octets that go into the file, and those that stay in memory, are read back from any octet on. The
// file has no name at any moment at which something else could see it.
func TestBuffer(t *testing.T) {
	for _, size := range []int{0, 1, 99, 100, 101, 300_000} {
		dir := t.TempDir()
		asked := int64(0)
		b := Buffer{Max: 100, Dir: dir, Grow: func(octets int64) error {
			asked = octets
			return nil
		}}
		want := strings.Repeat("0123456789", size/10+1)[:size]
		for rest := want; len(rest) > 0; {
			n, err := io.WriteString(&b, rest[:min(7, len(rest))])
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		for _, from := range []int{0, size / 2, size} {
			r, err := b.Reader(int64(from))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != want[from:] {
				t.Errorf("%d octets from %d: %d, %v", size, from, len(got), err)
			}
		}
		if b.Size() != int64(size) || asked > 0 != (size > 100) || size > 100 && asked != int64(size) {
			t.Errorf("%d octets: size %d, asked for %d", size, b.Size(), asked)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("%v, %v", names, err)
		}
		b.Close()
	}
}

// Without room, and without a directory, the write fails.
func TestNoRoom(t *testing.T) {
	full := errors.New("full")
	b := Buffer{Max: 10, Grow: func(int64) error { return full }}
	if _, err := b.Write(make([]byte, 11)); !errors.Is(err, full) {
		t.Error(err)
	}
	b = Buffer{Dir: t.TempDir() + "/none"}
	if _, err := b.Write(make([]byte, 11)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	b.Close()
}
