package smtp

import (
	"encoding/binary"
	"strings"
)

// A LeadScan finds out whether content begins as a message does: with a header
// field (RFC 5322 2.2), or with the empty line after an empty header. Any other
// content needs an empty line in front, or its first lines would be taken for a
// continuation of the fields that are prepended. The "From " line of mailbox
// files is left to readers, who know it. The zero LeadScan is ready to use.
type LeadScan struct {
	name  []byte
	blank bool // white space after the name
	lead  Lead
}

// A Lead is how content begins.
type Lead uint8

const (
	LeadOpen   Lead = iota // not known yet
	LeadHeader             // with a header, or the empty line after it
	LeadBody               // with neither
)

// nameMax is the longest name of a header field: a line cannot be longer.
const nameMax = 998

// Scan examines the next octets of the content and returns what is known so far.
func (s *LeadScan) Scan(p []byte) Lead {
	for _, c := range p {
		if s.lead != LeadOpen {
			break
		}
		s.look(c)
	}
	return s.lead
}

func (s *LeadScan) look(c byte) {
	switch {
	case c == '\r' && len(s.name) == 0, c == ':' && len(s.name) > 0:
		s.lead = LeadHeader
	case (c == ' ' || c == '\t') && len(s.name) > 0:
		s.blank = true
		if c == ' ' && strings.TrimLeft(string(s.name), ">") == "From" {
			s.lead = LeadHeader
		}
	case c > ' ' && c < 0x7f && c != ':' && !s.blank && len(s.name) < nameMax:
		s.name = append(s.name, c)
	default:
		s.lead = LeadBody
	}
}

// EightBit reports whether some octet is above 127.
func EightBit(p []byte) bool {
	const high = 0x8080808080808080
	for ; len(p) >= 8; p = p[8:] {
		if binary.LittleEndian.Uint64(p)&high != 0 {
			return true
		}
	}
	for _, c := range p {
		if c >= 0x80 {
			return true
		}
	}
	return false
}
