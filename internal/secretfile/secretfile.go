// Package secretfile reads files that have secrets, and refuses those that others than their
// owner can read or replace.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// systemd begins a path that is the name of a credential of the service (systemd.exec(5),
// LoadCredential=).
const systemd = "systemd:"

// directoryVariable is the variable of the environment that has the directory of those.
const directoryVariable = "CREDENTIALS_DIRECTORY"

// ValidPath reports whether a text names a file: an absolute path, or "systemd:NAME".
func ValidPath(text string) bool {
	if name, ok := strings.CutPrefix(text, systemd); ok {
		return name != "" && !strings.ContainsAny(name, "/\x00") && name != "." && name != ".."
	}
	return filepath.IsAbs(text)
}

// Read reads a file of at most so many octets. The path is absolute, or "systemd:NAME", for which
// the service manager has seen to who can read it. The error names the file and has
// nothing of what is in it.
func Read(path string, max int) ([]byte, error) {
	name, managed := strings.CutPrefix(path, systemd)
	if managed {
		dir := os.Getenv(directoryVariable)
		if dir == "" {
			return nil, fmt.Errorf("%s: the environment has no %s: add LoadCredential=%s:/path/of/the/file to the service", path, directoryVariable, name)
		}
		if !ValidPath(path) {
			return nil, fmt.Errorf("%s: %q cannot be the name of a credential", path, name)
		}
		path = filepath.Join(dir, name)
	}
	f, err := Open(path)
	if err != nil {
		return nil, err // it names the operation and the path
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := check(info, managed); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > max {
		return nil, fmt.Errorf("%s: the file is larger than %d bytes", path, max)
	}
	return text, nil
}

// Open opens a file for reading without waiting: to open a FIFO waits until a program writes to it,
// and Open is there to find out that it is one. Regular files are read as usual.
func Open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) }

// Trusted reports whether a file belongs to the user of this process, or to root. Root may read a
// file of any owner, as when it checks the configuration of a service.
func Trusted(info os.FileInfo) bool { return trusted(info) }

// check refuses a file that is not secret.
func check(info os.FileInfo, managed bool) error {
	mode := info.Mode()
	switch {
	case !mode.IsRegular():
		return errors.New("it is not a regular file")
	case managed:
		return nil
	case mode.Perm()&0o007 != 0:
		return fmt.Errorf("mode %#o: all users may use this file, which has secrets; run chmod 600 on it, and change the secrets if others may have read it", mode.Perm())
	case mode.Perm()&0o070 != 0 && !ofOurGroup(info):
		return fmt.Errorf("mode %#o: the file's group may use this file, which has secrets, and is no group of this process; run chmod 600 on it", mode.Perm())
	case mode.Perm()&0o020 != 0:
		return fmt.Errorf("mode %#o: the file's group may change this file; run chmod g-w on it", mode.Perm())
	case !trusted(info):
		return errors.New("another user owns this file, and may change it: give it to this process's user or to root")
	}
	return nil
}
