// Package glob matches texts with patterns that operators write: a star stands for any
// text, and the case of ASCII letters does not matter.
package glob

import "strings"

// A Pattern is a pattern in lower case; New makes one.
type Pattern string

// New returns the pattern of a text.
func New(text string) Pattern { return Pattern(lower(text)) }

// Matches reports whether a text matches, without regard to the case of ASCII letters.
// The time is at most proportional to the product of the lengths, and mostly to the
// length of the text: only the last star is ever tried again.
func Matches[T string | []byte](g Pattern, text T) bool {
	p, i := 0, 0
	star, from := -1, 0
	for i < len(text) {
		switch {
		case p < len(g) && g[p] == '*':
			star, from = p, i
			p++
		case p < len(g) && g[p] == lowerOctet(text[i]):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	for p < len(g) && g[p] == '*' {
		p++
	}
	return p == len(g)
}

func lowerOctet(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// lower returns text with ASCII letters in lower case.
func lower(text string) string {
	octets := []byte(text)
	for i := range octets {
		octets[i] = lowerOctet(octets[i])
	}
	return string(octets)
}

// Any reports whether one of several patterns matches a text.
func Any(patterns []Pattern, text string) bool {
	for _, p := range patterns {
		if Matches(p, text) {
			return true
		}
	}
	return false
}

// NullSender is the pattern for mail without a sender.
const NullSender = "<>"

// Senders are patterns for envelope senders.
type Senders []sender

// A sender matches a whole address, or its domain.
type sender struct {
	pattern Pattern
	domain  bool
}

// NewSenders compiles patterns, none of which is empty: an address, a domain, .domain for
// the domains below it, or NullSender.
func NewSenders(patterns []string) (all Senders) {
	for _, text := range patterns {
		p := New(text)
		switch {
		case p == NullSender, strings.IndexByte(text, '@') >= 0:
			all = append(all, sender{pattern: p})
		case text[0] == '.':
			all = append(all, sender{pattern: "*" + p, domain: true})
		default:
			all = append(all, sender{pattern: p, domain: true})
		}
	}
	return all
}

// Match reports whether one of the patterns matches an address; "" is that of the null
// sender.
func (all Senders) Match(address string) bool {
	domain := address[strings.LastIndexByte(address, '@')+1:]
	if len(domain) == len(address) {
		domain = ""
	}
	if address == "" {
		address = NullSender
	}
	for i := range all {
		if s := &all[i]; !s.domain && Matches(s.pattern, address) || s.domain && domain != "" && Matches(s.pattern, domain) {
			return true
		}
	}
	return false
}
