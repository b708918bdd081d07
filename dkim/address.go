package dkim

import (
	"bytes"
	"strings"

	"github.com/posthaste-mta/posthaste/idn"
	"github.com/posthaste-mta/posthaste/smtp"
)

// authorDomain returns the domain of the first address in the value of a From field, as
// asciiDomain does; "" if there is none. It reads the field more leniently than RFC
// 5322 3.4, since what counts is which domain receivers see.
func authorDomain(value []byte) string {
	var s addressScan
	for i := 0; i < len(value); {
		n, ended := s.next(value[i:])
		i += n
		if !ended && i < len(value) {
			continue
		}
		if domain := s.domain(); domain != "" {
			return domain
		}
		s.address = s.address[:0]
	}
	return ""
}

// An addressScan collects one address, without comments and display names.
type addressScan struct {
	address []byte
	at      int  // the position after the last @ in it; 0: there is none
	angle   bool // between < and >
}

// next takes one element of the value, and reports whether it ends an address.
func (s *addressScan) next(p []byte) (n int, ended bool) {
	switch c := p[0]; c {
	case '(':
		return comment(p), false
	case '"':
		n = quoted(p)
		s.address = append(s.address, p[:n]...)
		return n, false
	case '[': // a domain literal, in which IPv6 addresses have colons
		if n = bytes.IndexByte(p, ']') + 1; n > 0 {
			s.address = append(s.address, p[:n]...)
			return n, false
		}
	case '<':
		s.address, s.at, s.angle = s.address[:0], 0, true
	case '>':
		s.angle = false
		return 1, true
	case ',', ';':
		return 1, !s.angle
	case ':': // of a group, or of a source route (RFC 5322 4.4)
		s.address, s.at = s.address[:0], 0
	case ' ', '\t', '\r', '\n':
	default:
		s.address = append(s.address, c)
		if c == '@' {
			s.at = len(s.address)
		}
	}
	return 1, false
}

func (s *addressScan) domain() string {
	at := s.at
	s.at, s.angle = 0, false
	if at == 0 {
		return ""
	}
	return asciiDomain(string(s.address[at:]))
}

// comment returns the length of the comment at the beginning, with those in it (RFC 5322
// 3.2.2).
func comment(p []byte) (n int) {
	depth := 0
	for n < len(p) {
		c := p[n]
		n++
		switch c {
		case '\\':
			n = min(n+1, len(p))
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return n
			}
		}
	}
	return n
}

// quoted returns the length of the quoted text at the beginning (RFC 5322 3.2.4).
func quoted(p []byte) (n int) {
	for n = 1; n < len(p); {
		c := p[n]
		n++
		switch c {
		case '\\':
			n = min(n+1, len(p))
		case '"':
			return n
		}
	}
	return n
}

// asciiDomain returns a domain in lower case, with labels in other scripts as A-labels;
// "" if it is not the name of a domain.
func asciiDomain(name string) string {
	ascii, err := idn.ASCII(strings.TrimSuffix(name, "."))
	if err != nil || !smtp.ValidDomain(ascii) {
		return ""
	}
	return ascii
}
