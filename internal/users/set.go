package users

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/sasl"
)

// A Set is the users of a file. It does not change, and any number of goroutines may use
// it.
type Set struct {
	users  map[string]*user // by the prepared name
	secret []byte
	nobody *hash // of what no password is checked with
}

// user is what passwords of a user are checked with; either may be missing.
type user struct {
	hash *hash
	keys *sasl.Keys
}

// Limits of a file.
const (
	fileMax     = 256 << 20 // a million users take 220 MB
	lineMax     = 1024
	mistakesMax = 20
	secretSize  = 32
	shownMax    = 20 // octets of a word without @ that is taken for a name, not for a part of a hash
)

// secretWord begins the line of the secret.
const secretWord = "@secret"

// Parse reads the text of a file. The error joins what is wrong with its lines, up to 20 of
// them, each with the name of the file and the line's number, and has no part of a secret.
func Parse(file string, text []byte) (*Set, error) {
	s := &Set{users: make(map[string]*user), secret: random(secretSize)}
	s.nobody = &hash{memory: newMemory, passes: newPasses, threads: newThreads, salt: random(newSalt), sum: random(newSum)}
	var wrong []error
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if err := s.take(string(bytes.TrimSpace(line))); err != nil {
			wrong = append(wrong, fmt.Errorf("%s:%d: %w", file, number, err))
			if len(wrong) == mistakesMax {
				wrong = append(wrong, fmt.Errorf("%s: perhaps more mistakes follow", file))
				break
			}
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return s, nil
}

// take reads a line.
func (s *Set) take(line string) error {
	switch {
	case line == "" || line[0] == '#':
		return nil
	case len(line) > lineMax:
		return fmt.Errorf("the line has more than %d bytes", lineMax)
	}
	fields := strings.Fields(line)
	if fields[0] == secretWord {
		if len(fields) != 2 {
			return fmt.Errorf("want %s and one value", secretWord)
		}
		secret, err := base64.StdEncoding.DecodeString(fields[1])
		if err != nil || len(secret) != secretSize {
			return fmt.Errorf("the value of %s is not %d bytes in base64", secretWord, secretSize)
		}
		s.secret = secret
		return nil
	}
	if len(fields) == 1 {
		return errHidden
	}
	if err := s.takeUser(fields); err != nil {
		if !shown(fields) {
			return errHidden
		}
		return err
	}
	return nil
}

// errHidden is the error of a line that must not be quoted.
var errHidden = errors.New("want the name of a user, and then something to check a password with; the line is not shown, since it may be secret")

// shown reports whether an error may quote the first word of a line. In a damaged line it may be
// secret: if the name is missing, or an editor has wrapped the line.
func shown(fields []string) bool {
	first := fields[0]
	switch {
	case strings.Contains(first, "$"), strings.HasPrefix(strings.ToLower(first), secretWord):
		return false
	}
	return len(first) < shownMax || strings.Contains(first, "@")
}

func (s *Set) takeUser(fields []string) error {
	name, err := CheckName(fields[0])
	switch {
	case err != nil:
		return err
	case name != fields[0]:
		return fmt.Errorf("the name %q is compared as %q: write it so", fields[0], name)
	case s.users[name] != nil:
		return fmt.Errorf("the user %q is there twice", name)
	}
	u := &user{}
	for _, field := range fields[1:] {
		if err := u.take(field); err != nil {
			return fmt.Errorf("user %q: %w", name, err)
		}
	}
	s.users[name] = u
	return nil
}

func (u *user) take(field string) (err error) {
	switch {
	case strings.HasPrefix(field, hashPrefix) && u.hash == nil:
		u.hash, err = parseHash(field)
	case strings.HasPrefix(field, keysPrefix) && u.keys == nil:
		u.keys, err = parseKeys(field)
	default: // it may be a password: it is not quoted
		return errors.New("want one hash $argon2id$… and one SCRAM-SHA-256$… after the name, and nothing else")
	}
	return err
}

// CheckName returns a user's name in the form in which it is compared (sasl.PrepareName).
// Names that begin with # or @, or with the prefix of users of this machine, are not
// allowed.
func CheckName(name string) (string, error) {
	prepared, err := sasl.PrepareName(name)
	switch {
	case err != nil:
		return "", fmt.Errorf("the name %q: %w", name, err)
	case strings.ContainsAny(prepared[:1], "#@") || strings.HasPrefix(prepared, "uid:"):
		return "", fmt.Errorf("the name %q begins with #, @ or uid:, which is not allowed", name)
	}
	return prepared, nil
}

// Len returns the number of users.
func (s *Set) Len() int { return len(s.users) }

// Names returns the users in alphabetical order.
func (s *Set) Names() []string {
	all := make([]string, 0, len(s.users))
	for name := range s.users {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Mechanisms returns what a user can log in with, for people.
func (s *Set) Mechanisms(name string) string {
	u := s.users[name]
	switch {
	case u == nil:
		return ""
	case u.keys == nil:
		return "PLAIN LOGIN"
	case u.hash == nil:
		return "SCRAM-SHA-256"
	}
	return "SCRAM-SHA-256 PLAIN LOGIN"
}

// Check reports whether a user has a password. It takes time and memory, the same for a
// user that does not exist: see MemoryMax.
func (s *Set) Check(name, password string) bool {
	h, known := s.nobody, false
	if prepared, err := sasl.PrepareName(name); err == nil {
		if u := s.users[prepared]; u != nil && u.hash != nil {
			h, known = u.hash, true
		}
	}
	prepared, err := sasl.Prepare(password)
	return h.check(prepared) && known && err == nil
}

// Keys returns the keys of a user for SCRAM; of one that does not exist, keys that none
// has, with a salt that is always the same.
func (s *Set) Keys(name string) sasl.Keys {
	prepared, err := sasl.PrepareName(name)
	if err == nil {
		if u := s.users[prepared]; u != nil && u.keys != nil {
			return *u.keys
		}
	} else {
		prepared = name
	}
	return sasl.Keys{Salt: s.derive("salt", prepared)[:newSalt], Iterations: newRounds, Stored: s.derive("stored", prepared), Server: s.derive("server", prepared)}
}

func (s *Set) derive(what, name string) []byte {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte(what + "\x00" + name))
	return m.Sum(nil)
}
