package header

import (
	"fmt"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// An AddressError means that a text is not an address, or not a list of
// addresses.
type AddressError struct {
	Text string // what it is about, cut to a readable length
	Why  string
}

func (e *AddressError) Error() string { return fmt.Sprintf("bad address %q: %s", e.Text, e.Why) }

// mailboxMax is the maximum length of one mailbox of a list, display name and
// comments left out.
const mailboxMax = 4096

// listState is the position of a List in the syntax of an address list.
type listState uint8

const (
	listPlain   listState = iota
	listQuoted            // in a quoted string
	listComment           // in comments, depth deep
	listLiteral           // in a domain literal
)

// A Mailbox is one address of a list.
type Mailbox struct {
	// Address is as written, without display name, comments and white space. It is valid
	// until Emit returns.
	Address []byte
	// From and To are where in the list it is written, comments within it included.
	From, To int
}

// A List takes addresses out of an address list (RFC 5322 3.4): comments, folding,
// quoted strings, display names, groups and the obsolete forms of section 4.4. It is
// fed in portions of any size, and its memory is bounded whatever they are. Set Emit,
// call Feed for each portion, then End. A List belongs to one goroutine.
type List struct {
	// Emit gets each address. Its error ends the list.
	Emit func(Mailbox) error

	fed      int // octets so far, without the one that is looked at
	from, to int // where the octets of the address are
	state    listState
	depth    int
	escaped  bool
	inAngle  bool   // between < and >
	hasAngle bool   // a <...> was read for this mailbox
	gap      bool   // white space since the last octet of text
	inGroup  bool   // behind a group's colon
	text     []byte // outside of <>: an address or a display name
	angle    []byte // inside of <>
}

// Feed takes the next octets of the list. The error is an *AddressError or Emit's, and ends
// the list.
func (s *List) Feed(p []byte) error {
	for _, c := range p {
		if err := s.octet(c); err != nil {
			return err
		}
		s.fed++
		if len(s.text) > mailboxMax || len(s.angle) > mailboxMax {
			return s.bad("it is too long")
		}
	}
	return nil
}

func (s *List) octet(c byte) error {
	switch {
	case c == '\r' || c == '\n': // folding; the white space behind it counts
		return nil
	case s.escaped:
		s.escaped = false
		if s.state != listComment {
			s.put(c)
		}
		return nil
	case s.state == listComment:
		switch c {
		case '\\':
			s.escaped = true
		case '(':
			s.depth++
		case ')':
			if s.depth--; s.depth == 0 {
				s.state = listPlain
			}
		}
		return nil
	case s.state == listQuoted, s.state == listLiteral:
		s.put(c)
		switch {
		case c == '\\':
			s.escaped = true
		case c == '"' && s.state == listQuoted, c == ']' && s.state == listLiteral:
			s.state = listPlain
		}
		return nil
	}
	return s.plain(c)
}

// plain takes an octet that is in no quotes, comments or brackets.
func (s *List) plain(c byte) error {
	switch c {
	case ' ', '\t':
		s.gap = true
	case '(':
		s.state, s.depth = listComment, 1
		s.gap = true
	case '"':
		s.put(c)
		s.state = listQuoted
	case '[':
		s.put(c)
		s.state = listLiteral
	case '<':
		return s.openAngle()
	case '>':
		if !s.inAngle {
			return s.bad("there is a > without a <")
		}
		s.inAngle = false
	case ',', ';', ':':
		return s.delimiter(c)
	default:
		s.put(c)
	}
	return nil
}

func (s *List) openAngle() error {
	switch {
	case s.inAngle:
		return s.bad("there is a < inside of <>")
	case s.hasAngle:
		return s.bad("there is no comma behind it")
	}
	s.inAngle, s.hasAngle = true, true
	s.text, s.gap = s.text[:0], false // it was a display name
	return nil
}

// delimiter ends a mailbox or begins a group. Inside of <> commas and colons
// belong to a source route (RFC 5322 4.4).
func (s *List) delimiter(c byte) error {
	switch {
	case s.inAngle && c != ';':
		s.put(c)
	case c == ':':
		if s.inGroup || s.hasAngle {
			return s.bad("there is a colon where none may be")
		}
		s.inGroup, s.text, s.gap = true, s.text[:0], false
	case c == ';':
		if s.inAngle || !s.inGroup {
			return s.bad("there is a semicolon where none may be")
		}
		s.inGroup = false
		return s.flush()
	default:
		return s.flush()
	}
	return nil
}

// put appends an octet to what is being read. White space is kept as one space
// where it separates words, since an address with a space in it is none, and
// forgotten around dots and at signs, where old mail has it.
func (s *List) put(c byte) {
	to := &s.text
	if s.inAngle {
		to = &s.angle
	}
	if n := len(*to); s.gap && n > 0 && !separates(c) && !separates((*to)[n-1]) {
		*to = append(*to, ' ')
	}
	s.gap = false
	if len(*to) == 0 {
		s.from = s.fed
	}
	s.to = s.fed + 1
	*to = append(*to, c)
}

func separates(c byte) bool { return c == '.' || c == '@' || c == ',' || c == ':' }

// flush hands over the mailbox that was read, if there is one.
func (s *List) flush() error {
	address := s.text
	switch {
	case s.hasAngle && len(s.text) > 0:
		return s.bad("there is something behind the >")
	case s.hasAngle && len(s.angle) == 0:
		return s.bad("there is nothing in the <>")
	case s.hasAngle:
		address = s.angle
	}
	if len(address) > 0 {
		if err := s.Emit(Mailbox{address, s.from, s.to}); err != nil {
			return err
		}
	}
	s.hasAngle, s.gap = false, false
	s.text, s.angle = s.text[:0], s.angle[:0]
	return nil
}

// End ends the list. Nothing may be fed after it. The errors are those of Feed.
func (s *List) End() error {
	switch {
	case s.state == listQuoted:
		return s.bad("a quote is not closed")
	case s.state == listComment:
		return s.bad("a comment is not closed")
	case s.state == listLiteral:
		return s.bad("a bracket is not closed")
	case s.inAngle:
		return s.bad("a < is not closed")
	}
	s.inGroup = false // a missing semicolon leaves no doubt about who is meant
	return s.flush()
}

func (s *List) bad(why string) error {
	text := slices.Concat(s.text, s.angle)
	return &AddressError{clip(text), why}
}

// clip cuts what is quoted in an error to a readable length.
func clip(text []byte) string {
	const most = 80
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// longLocal is how long a local part may be here: what is too long is for the
// server to say, whose limit can be raised.
const longLocal = 200

// ParseAddress reads one address as a person writes it, without angle brackets.
// One without a domain is given the default domain. The error is an
// *AddressError.
func ParseAddress(text, domain string) (mail.Address, error) { return ParsePath([]byte(text), domain) }

// ParsePath is ParseAddress for the Address of a Mailbox.
func ParsePath(text []byte, domain string) (mail.Address, error) {
	rules := smtp.PathRules{Underscore: true, LocalMax: longLocal}
	wrapped := slices.Concat([]byte("<"), text, []byte(">"))
	p, rest, fault := smtp.ParsePath(wrapped, rules)
	if fault == smtp.FaultDomain && !slices.Contains(text, '@') {
		wrapped = slices.Concat([]byte("<"), text, []byte("@"), []byte(domain), []byte(">"))
		p, rest, fault = smtp.ParsePath(wrapped, rules)
	}
	if fault != smtp.FaultNone {
		return "", &AddressError{clip(text), explain(fault, text)}
	}
	if len(rest) > 0 {
		return "", &AddressError{clip(text), "there is something behind it"}
	}
	return p.Address, nil
}

// explain says in words what is wrong with an address.
func explain(f smtp.Fault, text []byte) string {
	if slices.Contains(text, ' ') && !slices.Contains(text, '"') {
		return "it has white space in it; is a comma missing?"
	}
	switch f {
	case smtp.FaultLocal, smtp.FaultRoute:
		return "what precedes the @ is missing or has characters that need quotes"
	case smtp.FaultDomain, smtp.FaultLiteral:
		return "what follows the @ is not a domain"
	case smtp.FaultLocalLong, smtp.FaultDomainLong, smtp.FaultPathLong:
		return "it is too long"
	case smtp.FaultCharset:
		return "it has characters that no address may have"
	}
	return "it is not an address"
}

// ParseList calls visit with each address of a list as people write it
// ("Jane <jane@example.net>, joe"). The error is an *AddressError or visit's.
func ParseList(text, domain string, visit func(mail.Address) error) error {
	s := List{Emit: func(m Mailbox) error {
		p, err := ParsePath(m.Address, domain)
		if err != nil {
			return err
		}
		return visit(p)
	}}
	if err := s.Feed([]byte(text)); err != nil {
		return err
	}
	return s.End()
}
