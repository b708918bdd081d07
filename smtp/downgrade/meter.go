package downgrade

import (
	"bytes"

	"github.com/posthaste-mta/posthaste/smtp"
)

// A Meter finds out, much faster than a Scanner, whether a message has octets above
// 127, and how large it is once its long lines are broken. The zero Meter is ready
// to use.
type Meter struct {
	EightBit bool // some octet so far is above 127

	size int64 // octets so far, with the breaks of lines that have ended
	line int   // octets of the line so far
	cr   bool  // the last octet was a CR
}

// Scan examines the next piece of the message.
func (m *Meter) Scan(p []byte) {
	if len(p) == 0 {
		return
	}
	m.EightBit = m.EightBit || smtp.EightBit(p)
	m.size += int64(len(p))
	line := -m.line // where the line begins
	for from := 0; ; {
		i := bytes.IndexByte(p[from:], '\n')
		if i < 0 {
			break
		}
		i += from
		from = i + 1
		if i > 0 && p[i-1] == '\r' || i == 0 && m.cr {
			m.size += breaks(i - 1 - line)
			line = from
		}
	}
	m.line, m.cr = len(p)-line, p[len(p)-1] == '\r'
}

// Folded returns the size in octets of the message so far after a Converter has
// broken its long lines and changed nothing else.
func (m *Meter) Folded() int64 { return m.size + breaks(m.line) }

// FoldedMax returns the maximum of Folded for a message of the given size.
func FoldedMax(octets int64) int64 { return octets + octets/(LineLimit-1)*int64(len("\r\n ")) }

// breaks returns how many octets are added to a line of n octets.
func breaks(n int) int64 {
	if n <= LineLimit {
		return 0
	}
	const rest = LineLimit - 1 // of the message, on each line after the first
	return int64((n - LineLimit + rest - 1) / rest * len("\r\n "))
}
