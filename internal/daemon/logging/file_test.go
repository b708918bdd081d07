package logging

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clock is the time of a test's file.
type clock struct{ time.Time }

func openAt(t *testing.T, cfg FileConfig, c *clock) *File {
	t.Helper()
	f := &File{cfg: cfg, now: func() time.Time { return c.Time }}
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, f *File, text string) {
	t.Helper()
	if n, err := f.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
}

// contents returns the texts of a directory's files in the order of names, the file of the log last; compressed ones unpacked.
func contents(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	entries = append(entries[1:], entries[0]) // "log" is the first
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(e.Name(), ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, string(text))
	}
	return all
}

// A new file begins before the one that there is would exceed its size, or when it has its age, even after a restart; so many old ones
// are kept, packed or not, and no line is lost or divided.
func TestFilesAreReplaced(t *testing.T) {
	for _, packed := range []bool{false, true} {
		dir := t.TempDir()
		c := &clock{time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)}
		cfg := FileConfig{Path: filepath.Join(dir, "log"), Size: 10, Age: time.Hour, Keep: 2, Compress: packed}
		f := openAt(t, cfg, c)
		for _, text := range []string{"one\n", "two\n", "three\n"} {
			write(t, f, text)
			c.Time = c.Add(time.Second)
		}
		f.tidy.Wait()
		if got := contents(t, dir); !slices.Equal(got, []string{"one\ntwo\n", "three\n"}) {
			t.Errorf("by size: %q", got)
		}
		if f.Close() != nil || os.Chtimes(cfg.Path, c.Time, c.Time) != nil {
			t.Fatal("cannot close")
		}
		f = openAt(t, cfg, c)
		c.Time = c.Add(time.Hour - 1)
		write(t, f, "4\n")
		c.Time = c.Add(1)
		write(t, f, "5\n")
		f.tidy.Wait()
		if got := contents(t, dir); !slices.Equal(got, []string{"one\ntwo\n", "three\n4\n", "5\n"}) {
			t.Errorf("by age: %q", got)
		}
		c.Time = c.Add(time.Hour)
		write(t, f, "larger than a whole file\n")
		f.tidy.Wait()
		if got := contents(t, dir); !slices.Equal(got, []string{"three\n4\n", "5\n", "larger than a whole file\n"}) {
			t.Errorf("beyond those that are kept: %q", got)
		}
		names, _ := filepath.Glob(cfg.Path + ".20261126T14*")
		if len(names) != 1 || strings.HasSuffix(names[0], ".gz") != packed {
			t.Errorf("the last old file is %q", names)
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Without limits, the file grows. Another program renames it, and after Reopen the log goes on in a new one.
func TestFileIsReopened(t *testing.T) {
	dir := t.TempDir()
	c := &clock{time.Now()}
	f := openAt(t, FileConfig{Path: filepath.Join(dir, "log")}, c)
	write(t, f, "one\n")
	c.Time = c.Add(1000 * time.Hour)
	if err := os.Rename(f.cfg.Path, f.cfg.Path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, f, "two\n")
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	write(t, f, "three\n")
	if got := contents(t, dir); !slices.Equal(got, []string{"one\ntwo\n", "three\n"}) {
		t.Errorf("got %q", got)
	}
	f.cfg.Path = filepath.Join(dir, "gone", "log")
	if err := f.Reopen(); err == nil {
		t.Error("a file in no directory is opened")
	}
	write(t, f, "four\n")
	if got := contents(t, dir); got[1] != "three\nfour\n" {
		t.Errorf("after a failure, got %q", got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// If the file cannot be renamed or made anew, the log goes on where it was.
func TestFileThatCannotBeReplaced(t *testing.T) {
	dir := t.TempDir()
	c := &clock{time.Now()}
	f := openAt(t, FileConfig{Path: filepath.Join(dir, "log"), Size: 8, Keep: 1}, c)
	write(t, f, "one\n")
	f.cfg.Path = filepath.Join(dir, "gone")
	write(t, f, "two, long\n")
	if got := contents(t, dir); !slices.Equal(got, []string{"one\ntwo, long\n"}) {
		t.Errorf("got %q", got)
	}
	f.Close()
}

// A fullDisk takes so many octets.
type fullDisk struct {
	bytes.Buffer
	room int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// While the disk is full, lines are lost and nothing waits. When there is room again, one line has their number, behind the end of the
// one that was cut.
func TestFullDisk(t *testing.T) {
	d := &fullDisk{room: 6}
	l := lossless{w: d, line: func(lost int, why error) []byte {
		if !errors.Is(why, syscall.ENOSPC) {
			t.Error(why)
		}
		return []byte(strings.Repeat("!", lost) + "\n")
	}}
	l.write([]byte("a\nb\ncut\nlost\n"))
	l.write([]byte("lost\n"))
	d.room = 2 // of what should be said first
	l.write([]byte("lost\n"))
	d.room = 100
	l.write([]byte("c\n"))
	l.write([]byte("d\n"))
	if got, want := d.String(), "a\nb\ncu\n!\n!!!!\nc\nd\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A log on a full disk says in its own form what it lacks.
func TestLogOnFullDisk(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		d := &fullDisk{}
		log, closeLog := New(d, slog.LevelInfo, asJSON)
		log.Error("one") // which is written at once
		d.room = 1000
		log.Error("two")
		closeLog()
		want := `level=WARN msg="the log lacks lines that could not be written" lines=1 error="no space left on device"`
		if asJSON {
			want = `"level":"WARN","msg":"the log lacks lines that could not be written","lines":1,"error":"no space left on device"`
		}
		if got := d.String(); !strings.Contains(got, want) || strings.Count(got, "\n") != 2 || strings.Contains(got, "one") {
			t.Errorf("got %s", got)
		}
	}
}
