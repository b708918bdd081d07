// Package tokens knows the programs that may use the administration API over the network,
// by the bearer tokens that they present (RFC 6750). The file has a hash of each token, so
// that whoever reads it, or a copy of it, cannot use the API.
//
// A token is 32 random octets, which cannot be guessed, so a fast hash without salt is as
// good as a slow one; it must be fast, since it is made for each request. Tokens are looked
// up by their hash: how long that takes reveals nothing about the tokens in the file.
//
// # The file
//
// Each line is a token: its name, its scope, "sha256:" and the hash in hexadecimal, and
// optionally "until=" and the date of the first day, in UTC, on which it is not valid any
// more. Empty lines and lines that begin with # mean nothing.
package tokens

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Scope is what a token allows.
type Scope uint8

const (
	ScopeRead    Scope = iota + 1 // to look at everything, the contents of mail among it
	ScopeOperate                  // and to give orders
)

// String returns the name of the scope.
func (s Scope) String() string { return [...]string{"", "read", "operate"}[s] }

// ParseScope reads the name of a scope.
func ParseScope(text string) (Scope, error) {
	switch text {
	case "read":
		return ScopeRead, nil
	case "operate":
		return ScopeOperate, nil
	}
	return 0, fmt.Errorf("%q is not a scope: want read or operate", text)
}

// A Token is what the file says of one token.
type Token struct {
	Name  string
	Scope Scope
	Until time.Time // the first instant at which it is not valid any more; zero: it always is
}

// Valid reports whether a token is valid at an instant.
func (t *Token) Valid(now time.Time) bool { return t.Until.IsZero() || now.Before(t.Until) }

// prefix begins every token, so that programs that look for secrets in public find them.
const prefix = "posthaste_"

// size is the number of random octets of a token.
const size = 32

// sum is the hash by which a token is known.
type sum [sha256.Size]byte

// A Set is the tokens of a file. It does not change, and any number of goroutines may use
// it. The zero Set has none.
type Set struct {
	tokens map[sum]*Token
	names  []string // in the order of the file
}

// Find returns what a token allows; nil if it is unknown, or not valid any more.
func (s *Set) Find(secret string, now time.Time) *Token {
	if t := s.tokens[sha256.Sum256([]byte(secret))]; t != nil && t.Valid(now) {
		return t
	}
	return nil
}

// All returns the tokens in the order of the file.
func (s *Set) All() []Token {
	byName := make(map[string]*Token, len(s.tokens))
	for _, t := range s.tokens {
		byName[t.Name] = t
	}
	all := make([]Token, 0, len(s.names))
	for _, name := range s.names {
		all = append(all, *byName[name])
	}
	return all
}

// New returns a new token, and the line of the file for it.
func New(t Token) (secret, line string, err error) {
	if err := checkName(t.Name); err != nil {
		return "", "", err
	}
	octets := make([]byte, size)
	rand.Read(octets) // which never fails
	secret = prefix + base64.RawURLEncoding.EncodeToString(octets)
	hash := sha256.Sum256([]byte(secret))
	line = fmt.Sprintf("%s %s %s%s", t.Name, t.Scope, hashWord, hex.EncodeToString(hash[:]))
	if !t.Until.IsZero() {
		line += " " + untilWord + t.Until.UTC().Format(time.DateOnly)
	}
	return secret, line, nil
}

// The words of a line.
const (
	hashWord  = "sha256:"
	untilWord = "until="
)

// nameMax is the maximum length of a name, in octets: it is in each line of the log.
const nameMax = 64

func checkName(name string) error {
	if strings.HasPrefix(name, prefix) {
		return fmt.Errorf("a name must not begin with %s, as tokens do: it is shown in the log", prefix)
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@", r)
	}
	if name == "" || len(name) > nameMax || strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) >= 0 {
		return fmt.Errorf("%q is not a name for a token: want up to %d letters, digits, dots, underscores, hyphens or @", name, nameMax)
	}
	return nil
}

// mistakesMax is the maximum number of mistakes in an error.
const mistakesMax = 20

// Parse reads the text of a file. The error joins what is wrong with its lines, each with the
// name of the file and the line's number, and has no part of a token or a hash.
func Parse(file string, text []byte) (*Set, error) {
	s := &Set{tokens: make(map[sum]*Token)}
	var wrong []error
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if err := s.take(strings.TrimSpace(string(line))); err != nil {
			if wrong = append(wrong, fmt.Errorf("%s:%d: %w", file, number, err)); len(wrong) == mistakesMax {
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

// errSecret is the error of a line that may be a token itself, which must not be shown.
var errSecret = errors.New(`want a name, a scope, and sha256: with a hash; "posthaste token add" makes such lines`)

func (s *Set) take(line string) error {
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0][0] == '#' {
		return nil
	}
	if len(fields) < 3 || len(fields) > 4 || checkName(fields[0]) != nil {
		return errSecret
	}
	t := &Token{Name: fields[0]}
	var err error
	if t.Scope, err = ParseScope(fields[1]); err != nil {
		return err
	}
	var key sum
	hash, found := strings.CutPrefix(fields[2], hashWord)
	if n, err := hex.Decode(key[:], []byte(hash[:min(len(hash), 2*len(key))])); err != nil || n != len(key) || len(hash) != 2*len(key) || !found {
		return errSecret
	}
	if len(fields) == 4 {
		date, found := strings.CutPrefix(fields[3], untilWord)
		if t.Until, err = time.Parse(time.DateOnly, date); err != nil || !found {
			return fmt.Errorf("want %s and a date such as 2027-01-31 after the hash", untilWord)
		}
	}
	for _, name := range s.names {
		if name == t.Name {
			return fmt.Errorf("there are two tokens with the name %s", name)
		}
	}
	if s.tokens[key] != nil {
		return fmt.Errorf("%s and %s have the same hash", s.tokens[key].Name, t.Name)
	}
	s.tokens[key], s.names = t, append(s.names, t.Name)
	return nil
}
