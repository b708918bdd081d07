package secretfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/atomicfile"
)

// lockWait is the time for which a change waits for others, each of which takes a fraction of a second.
const lockWait = 30 * time.Second

// A Kind is a kind of file with secrets, one in each line, that commands change.
type Kind struct {
	// Read returns the text of a file and what the file is; fs.ErrNotExist if there is none.
	Read func(path string) (text []byte, info os.FileInfo, err error)
	// Check returns what is wrong with a text. A wrong one is neither changed nor written.
	Check func(path string, text []byte) error
	// Header has the first lines of a new file; nil: there is never a new one.
	Header func() []string
}

// Edit changes the lines of a file: all of it, or nothing if there is an error. A new file
// can be read by its owner, and by the group with the number readers unless that is -1; the
// owner, group and mode of one that exists stay. Changes by several programs wait for each
// other, for at most 30 s.
func (k *Kind) Edit(path string, readers int, change func(lines []string) ([]string, error)) error {
	if name, managed := strings.CutPrefix(path, systemd); managed {
		return fmt.Errorf("%s: a credential of the service cannot be changed; change the file that LoadCredential=%s names, and restart the service", path, name)
	}
	// A link stays, and what it points to is changed.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if _, linked := os.Readlink(path); linked == nil {
		return fmt.Errorf("%s is a symbolic link that cannot be followed: %w", path, err)
	}
	unlock, err := lockDirectory(filepath.Dir(path), lockWait)
	if err != nil {
		return fmt.Errorf("lock %s: %w", filepath.Dir(path), err)
	}
	defer unlock()
	text, info, err := k.Read(path)
	var lines []string
	switch {
	case errors.Is(err, fs.ErrNotExist) && k.Header != nil:
		lines = k.Header()
	case err != nil:
		return err
	default:
		if err := k.Check(path, text); err != nil {
			return err
		}
		lines = []string{}
		if text = bytes.TrimRight(text, "\n"); len(text) > 0 {
			lines = strings.Split(string(text), "\n")
		}
	}
	if lines, err = change(lines); err != nil {
		return err
	}
	text = []byte(strings.Join(lines, "\n") + "\n")
	if err := k.Check(path, text); err != nil {
		return err
	}
	return replace(path, text, info, readers)
}

// replace puts a new file in the place of the old one, of which info is, nil if there is
// none, with its owner, group and mode; without one, readers is the group that can read it.
func replace(path string, text []byte, info os.FileInfo, readers int) error {
	return atomicfile.Replace(path, text, func(f *os.File) error {
		switch {
		case info != nil:
			if err := inherit(f, info); err != nil {
				return fmt.Errorf("the new file cannot be given the owner and mode of %s: %w", path, err)
			}
		case readers >= 0:
			return errors.Join(f.Chown(-1, readers), f.Chmod(0o640))
		}
		return nil
	})
}
