package tokens

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/secretfile"
)

// The errors of changes.
var (
	ErrExists  = errors.New("there is a token with this name already")
	ErrMissing = errors.New("there is no token with this name")
)

// fileMax is the maximum size of a file, in bytes.
const fileMax = 1 << 20

// Open reads a file, which others than its owner and a group of the process must not be
// able to read.
func Open(path string) (*Set, error) {
	text, err := secretfile.Read(path, fileMax)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return Parse(path, text)
}

// kind is how the file is read and changed.
var kind = secretfile.Kind{
	Read: func(path string) (text []byte, info os.FileInfo, err error) {
		if text, err = secretfile.Read(path, fileMax); err == nil {
			info, err = os.Stat(path)
		}
		return text, info, err
	},
	Check: func(path string, text []byte) error {
		_, err := Parse(path, text)
		return err
	},
	Header: func() []string {
		return []string{`# Tokens for the administration API, made by "posthaste token". See docs/api.md.`}
	},
}

// Add adds a token to a file, and returns it. If there is no file, it makes one that its owner
// can read, and the group with the number readers unless that is -1.
func Add(path string, t Token, readers int) (secret string, err error) {
	secret, line, err := New(t)
	if err != nil {
		return "", err
	}
	err = kind.Edit(path, readers, func(lines []string) ([]string, error) {
		if find(lines, t.Name) >= 0 {
			return nil, ErrExists
		}
		return append(lines, line), nil
	})
	return secret, err
}

// Remove removes a token from a file.
func Remove(path, name string) error {
	existing := kind
	existing.Header = nil
	return existing.Edit(path, -1, func(lines []string) ([]string, error) {
		i := find(lines, name)
		if i < 0 {
			return nil, ErrMissing
		}
		return slices.Delete(lines, i, i+1), nil
	})
}

// find returns the index of the line of a token, -1 without one.
func find(lines []string, name string) int {
	return slices.IndexFunc(lines, func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) > 0 && fields[0] == name
	})
}
