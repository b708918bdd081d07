package users

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/secretfile"
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

// edit changes the lines of a file. What cannot be read is not changed. An
// empty file gets the header, which has the secret.
func edit(path string, create bool, readers int, change func([]string) ([]string, error)) error {
	kind := secretfile.Kind{Read: readText, Check: func(path string, text []byte) error {
		_, err := Parse(path, text)
		return err
	}}
	if create {
		kind.Header = header
	}
	err := kind.Edit(path, readers, func(lines []string) ([]string, error) {
		if len(lines) == 0 {
			lines = header()
		}
		return change(lines)
	})
	if err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, ErrMissing) && !strings.HasPrefix(err.Error(), "users: ") {
		err = fmt.Errorf("users: %w", err)
	}
	return err
}
