package textmap

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// A Map is the content of a file. It does not change, and may be used concurrently.
type Map struct {
	name string
	text string   // for each entry: key and value
	at   []uint32 // for each entry: where in text its key begins
	keys []uint16 // for each entry: the length of its key
	// slots are a hash table with open addressing: numbers of entries, from 1; 0 is free.
	slots       []uint32
	expressions []expression // of a file with regular expressions
}

// An expression is one line of a file with regular expressions, or an if.
type expression struct {
	match  *regexp.Regexp
	not    bool
	parts  []valuePart
	beyond int // of an if: the expression after its endif; 0 for others
}

// Name returns the name of the file.
func (m *Map) Name() string { return m.name }

// Len returns the number of entries.
func (m *Map) Len() int { return len(m.at) + len(m.expressions) }

// Whole reports whether keys are whole addresses only, since regular expressions look at
// them; parts of addresses are for files with keys.
func (m *Map) Whole() bool { return m.expressions != nil }

// Find returns the value of a key, in which the case of ASCII letters does not matter.
func (m *Map) Find(key string) (value string, ok bool) {
	if m.expressions != nil {
		return m.match(key)
	}
	if len(m.slots) == 0 {
		return "", false
	}
	key = fold(key)
	if e := m.slots[m.slot(key)]; e != 0 {
		return m.value(int(e - 1)), true
	}
	return "", false
}

// match returns the value of the first expression that matches.
func (m *Map) match(key string) (value string, ok bool) {
	for i := 0; i < len(m.expressions); i++ {
		e := &m.expressions[i]
		found := e.match.FindStringSubmatchIndex(key)
		matches := found != nil != e.not
		switch {
		case e.beyond > 0 && !matches:
			i = e.beyond - 1
		case e.beyond > 0 || !matches:
		default:
			return e.expand(key, found), true
		}
	}
	return "", false
}

// slot returns where in the table a key is, or belongs.
func (m *Map) slot(key string) int {
	mask := len(m.slots) - 1
	for i := int(hash(key)) & mask; ; i = (i + 1) & mask {
		if e := m.slots[i]; e == 0 || m.key(int(e-1)) == key {
			return i
		}
	}
}

func (m *Map) key(entry int) string {
	from := m.at[entry]
	return m.text[from : from+uint32(m.keys[entry])]
}

func (m *Map) value(entry int) string {
	end := uint32(len(m.text))
	if entry+1 < len(m.at) {
		end = m.at[entry+1]
	}
	return m.text[m.at[entry]+uint32(m.keys[entry]) : end]
}

// index makes the table of hashes, in which at most two thirds of the slots are used, and
// returns the entries that have the key of an earlier one.
func (m *Map) index() (repeated []repetition) {
	if len(m.at) == 0 {
		return nil
	}
	m.slots = make([]uint32, 1<<bits.Len(uint(len(m.at)*3/2)))
	for entry := range m.at {
		if i := m.slot(m.key(entry)); m.slots[i] == 0 {
			m.slots[i] = uint32(entry + 1)
		} else {
			repeated = append(repeated, repetition{entry, int(m.slots[i] - 1)})
		}
	}
	return repeated
}

// A repetition is an entry with the key of an earlier one.
type repetition struct{ entry, first int }

// hash is FNV-1a, with its upper half folded in, because tables use the lower bits.
func hash(key string) uint32 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return uint32(h ^ h>>32)
}

// fold returns a key in lower case; letters beyond ASCII stay.
func fold(key string) string {
	for i := 0; i < len(key); i++ {
		if c := key[i]; 'A' <= c && c <= 'Z' || c >= 0x80 {
			return strings.Map(func(r rune) rune {
				if 'A' <= r && r <= 'Z' {
					return r + 'a' - 'A'
				}
				return r
			}, key)
		}
	}
	return key
}

// mistakesMax is the number of mistakes of one file that are listed.
const mistakesMax = 20

// A complaints collects the mistakes in a file.
type complaints struct {
	name  string
	list  mistakes.List
	count int
}

func (c *complaints) add(line int, format string, args ...any) {
	if c.count++; c.count <= mistakesMax {
		c.list.Add(fmt.Errorf("%s:%d: %s", c.name, line, fmt.Sprintf(format, args...)))
	}
}

func (c *complaints) join() error {
	if c.count > mistakesMax {
		c.list.Add(fmt.Errorf("%s: %d more mistakes", c.name, c.count-mistakesMax))
	}
	return c.list.Join()
}
