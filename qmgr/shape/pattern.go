package shape

import (
	"errors"
	"fmt"
	"strings"
)

// nameMax is the longest name of a domain or host in text (RFC 1035 2.3.4).
const nameMax = 253

// CheckDomain returns why a domain pattern is invalid, nil if it is valid: a domain
// in lower-case ASCII, optionally with a leading dot.
func CheckDomain(pattern string) error {
	return checkName(strings.TrimPrefix(pattern, "."), false)
}

// CheckMX returns why an MX pattern is invalid, nil if it is valid: a host's name
// in lower-case ASCII, optionally with stars or a leading dot.
func CheckMX(pattern string) error {
	if err := checkName(strings.TrimPrefix(pattern, "."), true); err != nil {
		return err
	}
	if star := strings.LastIndexByte(pattern, '*'); star >= 0 && !strings.Contains(pattern[star:], ".") {
		return errors.New("behind the last star there is no whole label")
	}
	return nil
}

func checkName(name string, stars bool) error {
	if name == "" || len(name) > nameMax {
		return fmt.Errorf("want a name of 1 to %d characters", nameMax)
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			return errors.New("a label is empty")
		}
		for _, c := range label {
			if !plain(c) && (c != '*' || !stars) {
				return fmt.Errorf("the character %q cannot be part of it", c)
			}
		}
	}
	return nil
}

func plain(c rune) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// A glob is an MX pattern with stars, split at these.
type glob struct {
	pieces []string // at least two
	entry  int      // the destination's
}

// newGlob splits a pattern and returns the domain after its last star.
func newGlob(pattern string, entry int) (domain string, g glob) {
	if strings.HasPrefix(pattern, ".") {
		pattern = "*" + pattern
	}
	last := pattern[strings.LastIndexByte(pattern, '*'):]
	return last[strings.IndexByte(last, '.')+1:], glob{pieces: strings.Split(pattern, "*"), entry: entry}
}

// literal returns the number of characters that are not stars.
func (g *glob) literal() (n int) {
	for _, piece := range g.pieces {
		n += len(piece)
	}
	return n
}

// matches takes time linear in the name for each piece: the pieces between the
// first and the last are searched from the left, and the leftmost match is never a
// worse one.
func (g *glob) matches(name string) bool {
	first, last := g.pieces[0], g.pieces[len(g.pieces)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, piece := range g.pieces[1 : len(g.pieces)-1] {
		_, rest, found := strings.Cut(name, piece)
		if !found {
			return false
		}
		name = rest
	}
	return true
}
