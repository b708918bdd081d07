package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// names returns the files in a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// A file is replaced as a whole: who has the old one open goes on reading that, and nothing else
// is left in the directory.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := Replace(path, []byte("first"), nil); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := Replace(path, []byte("second"), func(f *os.File) error { return f.Chmod(0o640) }); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 10)
	if n, _ := old.Read(text); string(text[:n]) != "first" {
		t.Errorf("the old file has %q", text[:n])
	}
	if got, err := os.ReadFile(path); string(got) != "second" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got := names(t, dir); got != "file" {
		t.Error(got)
	}
}

// Only the owner can read a new file, whatever the umask and the mode of the one before.
func TestReplaceMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("secret"), nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What fails changes nothing and leaves nothing behind: the file could not be prepared, or its
// name is that of a directory, or its directory is missing.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := Replace(path, []byte("first"), nil); err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("no such group")
	if err := Replace(path, []byte("second"), func(*os.File) error { return wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); string(got) != "first" {
		t.Errorf("%q, %v", got, err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(folder, nil, nil); err == nil {
		t.Error("a directory is replaced")
	}
	if err := Replace(filepath.Join(dir, "missing", "file"), nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if got := names(t, dir); got != "file folder" {
		t.Error(got)
	}
}
