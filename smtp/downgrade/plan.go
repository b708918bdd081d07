package downgrade

import "github.com/posthaste-mta/posthaste/smtp"

// A Plan describes the conversion of a message. The zero Plan changes nothing but
// long lines.
type Plan struct {
	// EightBit reports whether some octet is above 127; HeaderEightBit reports
	// whether some octet of the message's own header is.
	EightBit, HeaderEightBit bool
	// Complex reports that the message has too many parts to be converted, or a
	// part that must not be encoded. A Converter leaves its octets above 127
	// unchanged.
	Complex bool

	parts []change // in the order in which their headers begin
}

// LineLimit is the length of the longest line that is sent, without its CRLF.
const LineLimit = 998

// A change is the conversion of one part.
type change uint8

const (
	keep    change = iota
	relabel        // its encoding is relabeled as 7bit
	encode         // it becomes quoted-printable
)

const (
	partsMax = 10_000
	depthMax = 100
)

// A Scanner makes the Plan for a message. The zero Scanner is ready to use.
type Scanner struct {
	plan  Plan
	lines splitter
	m     parser
}

// Scan examines the next piece of the message.
func (s *Scanner) Scan(p []byte) { s.lines.split(p, s.take) }

// Plan returns the plan after the whole message was scanned.
func (s *Scanner) Plan() Plan {
	s.lines.end(s.take)
	if s.m.state == atHeader && len(s.plan.parts) > 0 {
		s.m.endHeader() // the message ends in it
		s.conclude()
	}
	if s.plan.Complex = s.plan.Complex || s.m.deep; s.plan.Complex {
		s.plan.parts = nil
	}
	return s.plan
}

func (s *Scanner) take(f fragment) {
	inHeader := s.m.state == atHeader && s.m.part == 0
	e := s.m.take(f)
	if e&headerEnds != 0 {
		s.conclude()
	}
	if e&partBegins != 0 || len(s.plan.parts) == 0 {
		s.begin()
	}
	if !smtp.EightBit(f.octets) {
		return
	}
	s.plan.EightBit = true
	s.plan.HeaderEightBit = s.plan.HeaderEightBit || inHeader && e&headerBroken == 0
	if s.m.state == atBody && e&boundaryLine == 0 && s.m.part < len(s.plan.parts) {
		s.plan.parts[s.m.part] = encode
		s.plan.Complex = s.plan.Complex || s.m.last.kind == partial
	}
}

// begin adds a part whose header begins.
func (s *Scanner) begin() {
	if s.m.part >= partsMax {
		s.plan.Complex = true
		return
	}
	for len(s.plan.parts) <= s.m.part {
		s.plan.parts = append(s.plan.parts, keep)
	}
}

// conclude decides the conversion of a part whose header has ended. Octets above
// 127 in its body will change the decision.
func (s *Scanner) conclude() {
	if len(s.plan.parts) == 0 {
		s.plan.parts = append(s.plan.parts, keep) // a message that is empty but for this line
	}
	if part := s.m.ended; part < len(s.plan.parts) && s.m.last.encoding == eightBit {
		s.plan.parts[part] = relabel
	}
}
