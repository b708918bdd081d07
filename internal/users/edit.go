package users

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/atomicfile"
	"github.com/posthaste-mta/posthaste/sasl"
)

// The errors of changes.
var (
	ErrExists  = errors.New("the user exists already")
	ErrMissing = errors.New("there is no such user")
)

// Kinds is what passwords are stored as.
type Kinds uint8

const (
	KindBoth  Kinds = iota // for PLAIN, LOGIN and SCRAM
	KindHash               // only the hash, for PLAIN and LOGIN
	KindScram              // only the keys, for SCRAM
)

// AddUser adds a user to a file. If there is none, it makes one that a group can read, given
// by its number; -1 is none, so that only its owner can.
func AddUser(path, name, password string, kinds Kinds, readers int) error {
	line, prepared, err := lineOf(name, password, kinds)
	if err != nil {
		return err
	}
	return edit(path, true, readers, func(lines []string) ([]string, error) {
		if find(lines, prepared) >= 0 {
			return nil, ErrExists
		}
		return append(lines, line), nil
	})
}

// SetPassword changes the password of a user.
func SetPassword(path, name, password string, kinds Kinds) error {
	line, prepared, err := lineOf(name, password, kinds)
	if err != nil {
		return err
	}
	return edit(path, false, -1, func(lines []string) ([]string, error) {
		i := find(lines, prepared)
		if i < 0 {
			return nil, ErrMissing
		}
		lines[i] = line
		return lines, nil
	})
}

// RemoveUser removes a user.
func RemoveUser(path, name string) error {
	prepared, err := CheckName(name)
	if err != nil {
		return err
	}
	return edit(path, false, -1, func(lines []string) ([]string, error) {
		i := find(lines, prepared)
		if i < 0 {
			return nil, ErrMissing
		}
		return append(lines[:i], lines[i+1:]...), nil
	})
}

// find returns the index of the line of a user, -1 without one.
func find(lines []string, name string) int {
	for i, line := range lines {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == name {
			return i
		}
	}
	return -1
}

// lineOf returns the line of a user.
func lineOf(name, password string, kinds Kinds) (line, prepared string, err error) {
	if prepared, err = CheckName(name); err != nil {
		return "", "", err
	}
	secret, err := sasl.Prepare(password)
	if err != nil {
		return "", "", fmt.Errorf("the password: %w", err)
	}
	line = prepared
	if kinds != KindScram {
		line += " " + newHash(secret).String()
	}
	if kinds != KindHash {
		keys, err := sasl.NewKeys(secret, random(newSalt), newRounds)
		if err != nil {
			return "", "", err
		}
		line += " " + keysText(&keys)
	}
	return line, prepared, nil
}

// header begins a new file.
func header() []string {
	return []string{
		"# Users of posthaste, made by \"posthaste user\". See docs/authentication.md.",
		secretWord + " " + base64.StdEncoding.EncodeToString(random(secretSize)),
	}
}

// lockWait is the time for which a change waits for others, each of which takes a fraction of a second.
const lockWait = 30 * time.Second

// edit changes the lines of a file. What cannot be read is not changed.
func edit(path string, create bool, readers int, change func([]string) ([]string, error)) error {
	// A link stays, and what it points to is changed.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if _, linked := os.Readlink(path); linked == nil {
		return fmt.Errorf("users: %s is a symbolic link that cannot be followed: %w", path, err)
	}
	unlock, err := lockDirectory(filepath.Dir(path), lockWait)
	if err != nil {
		return fmt.Errorf("users: lock %s: %w", filepath.Dir(path), err)
	}
	defer unlock()
	text, info, err := readText(path)
	lines := header()
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
	case err != nil:
		return err
	default:
		if _, err := Parse(path, text); err != nil {
			return err
		}
		if text = bytes.TrimRight(text, "\n"); len(text) > 0 {
			lines = strings.Split(string(text), "\n")
		}
	}
	if lines, err = change(lines); err != nil {
		return err
	}
	text = []byte(strings.Join(lines, "\n") + "\n")
	if _, err := Parse(path, text); err != nil {
		return err
	}
	return replace(path, text, info, readers)
}

// replace puts a new file in the place of the old one, of which info is, nil if there is
// none, with its owner, group and mode; without one, readers is the group that can read it.
func replace(path string, text []byte, info os.FileInfo, readers int) error {
	err := atomicfile.Replace(path, text, func(f *os.File) error {
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
	if err != nil {
		return fmt.Errorf("users: %w", err)
	}
	return nil
}
