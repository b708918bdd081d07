package smtp

import (
	"bytes"
	"cmp"
	"unicode"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/mail"
)

// Maximum lengths of RFC 5321 4.5.3.1, in octets.
const (
	LocalMax  = 64  // local part
	DomainMax = 255 // domain
	PathMax   = 256 // path, with its brackets
	labelMax  = 63  // one label of a domain (RFC 1035 2.3.4)
)

// PathRules relax the syntax of a path. The zero value requires a mailbox as
// defined in RFC 5321 4.1.2.
type PathRules struct {
	Null       bool // allow "<>", the null reverse path
	Postmaster bool // allow "<postmaster>" without a domain (RFC 5321 4.5.1)
	Bare       bool // allow missing brackets, as in MAIL FROM:a@b
	Underscore bool // allow "_" in labels, as in many host names
	LocalMax   int  // longest local part; 0 means LocalMax
	// Domain is appended to an address without "@", and to a domain without a dot, as only a
	// server for submission may do (RFC 6409 4.2). "" completes nothing.
	Domain string
}

// A Path is the result of ParsePath.
type Path struct {
	Address  mail.Address // with minimum quoting, and without a source route
	NonASCII bool         // needs SMTPUTF8
}

// ParsePath parses a path at the front of text. rest is the text after it,
// which is empty or begins with a space. A source route is checked and
// dropped (RFC 5321 appendix C); quoting is reduced to what the local part
// needs, so that "a.b"@d and a.b@d are the same Address.
func ParsePath(text []byte, rules PathRules) (p Path, rest []byte, f Fault) {
	inner, closer := text, byte(' ')
	switch {
	case len(text) > 0 && text[0] == '<':
		inner, closer = text[1:], '>'
	case !rules.Bare || len(text) == 0:
		return Path{}, text, FaultBrackets
	}
	s := pathScanner{text: inner, closer: closer, rules: rules}
	if s.text, f = skipRoute(inner, rules); f != FaultNone {
		return Path{}, text, f
	}
	if p, f = s.mailbox(); f != FaultNone {
		return Path{}, text, f
	}
	rest = s.text
	if closer == '>' {
		if len(rest) == 0 || rest[0] != '>' {
			return Path{}, text, FaultBrackets
		}
		rest = rest[1:]
	}
	if len(rest) > 0 && rest[0] != ' ' {
		return Path{}, text, FaultBrackets
	}
	return p, rest, FaultNone
}

// skipRoute removes "@a,@b:" from the front of a path.
func skipRoute(text []byte, rules PathRules) ([]byte, Fault) {
	if len(text) == 0 || text[0] != '@' {
		return text, FaultNone
	}
	end := bytes.IndexByte(text, ':')
	if end < 0 {
		return text, FaultRoute
	}
	for hop := range bytes.SplitSeq(text[:end], []byte(",")) {
		if len(hop) < 2 || hop[0] != '@' {
			return text, FaultRoute
		}
		if _, f := checkDomain(hop[1:], rules.Underscore); f != FaultNone {
			return text, FaultRoute
		}
	}
	return text[end+1:], FaultNone
}

// A pathScanner parses local part and domain at the front of text.
type pathScanner struct {
	text   []byte
	closer byte // the octet that ends the path: '>' or, without brackets, a space
	rules  PathRules
}

func (s *pathScanner) mailbox() (Path, Fault) {
	if s.atEnd() {
		if s.rules.Null && s.closer == '>' {
			return Path{}, FaultNone
		}
		return Path{}, FaultNull
	}
	whole := s.text
	local, quoted, f := s.local()
	if f != FaultNone {
		return Path{}, f
	}
	if s.atEnd() && s.rules.Postmaster && !quoted && bytes.EqualFold(local, []byte("postmaster")) {
		return Path{Address: "postmaster"}, FaultNone
	}
	domain, domainNonASCII, completed, f := s.afterLocal()
	if f != FaultNone {
		return Path{}, f
	}
	localNonASCII, ok := checkText(local)
	switch {
	case !ok:
		return Path{}, FaultCharset
	case len(local) > cmp.Or(s.rules.LocalMax, LocalMax):
		return Path{}, FaultLocalLong
	case len(local)+len("<@>")+len(domain) > PathMax:
		return Path{}, FaultPathLong
	}
	p := Path{NonASCII: localNonASCII || domainNonASCII}
	if quoted || completed {
		p.Address = mail.Address(string(local) + "@" + string(domain))
	} else {
		p.Address = mail.Address(whole[:len(local)+1+len(domain)])
	}
	return p, FaultNone
}

func (s *pathScanner) atEnd() bool { return len(s.text) == 0 || s.text[0] == s.closer }

// afterLocal parses what follows the local part, and completes it if that is allowed.
func (s *pathScanner) afterLocal() (domain []byte, nonASCII, completed bool, f Fault) {
	if s.atEnd() && s.rules.Domain != "" {
		return []byte(s.rules.Domain), false, true, FaultNone
	}
	if len(s.text) == 0 || s.text[0] != '@' {
		return nil, false, false, FaultDomain
	}
	s.text = s.text[1:]
	if domain, nonASCII, f = s.domain(); f != FaultNone {
		return nil, false, false, f
	}
	if s.rules.Domain != "" && domain[0] != '[' && bytes.IndexByte(domain, '.') < 0 {
		domain = append(append(bytes.Clone(domain), '.'), s.rules.Domain...)
		completed = true
	}
	return domain, nonASCII, completed, FaultNone
}

// local returns the local part in the form to emit, and reports whether that
// differs from the form in the text.
func (s *pathScanner) local() (local []byte, rewritten bool, f Fault) {
	if s.text[0] == '"' {
		local, f = s.quotedLocal()
		return local, true, f
	}
	n := 0
	for n < len(s.text) && isAtext(s.text[n]) || n < len(s.text) && s.text[n] == '.' {
		n++
	}
	local = s.text[:n]
	if !isDotString(local) {
		return nil, false, FaultLocal
	}
	s.text = s.text[n:]
	return local, false, FaultNone
}

func (s *pathScanner) quotedLocal() ([]byte, Fault) {
	content := make([]byte, 0, LocalMax)
	for i := 1; i < len(s.text); i++ {
		c := s.text[i]
		if c == '"' {
			s.text = s.text[i+1:]
			return quoteLocal(content), FaultNone
		}
		if c == '\\' {
			if i++; i == len(s.text) {
				break
			}
			c = s.text[i]
		}
		if c < ' ' || c == 0x7f {
			return nil, FaultLocal
		}
		content = append(content, c)
	}
	return nil, FaultLocal
}

// quoteLocal encodes a local part with as little quoting as possible.
func quoteLocal(content []byte) []byte {
	if isDotString(content) {
		return content
	}
	b := append(make([]byte, 0, len(content)+2), '"')
	for _, c := range content {
		if c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return append(b, '"')
}

func (s *pathScanner) domain() (domain []byte, nonASCII bool, f Fault) {
	if len(s.text) > 0 && s.text[0] == '[' {
		end := bytes.IndexByte(s.text, ']')
		if end < 0 || !validLiteral(s.text[1:end]) {
			return nil, false, FaultLiteral
		}
		domain, s.text = s.text[:end+1], s.text[end+1:]
		return domain, false, FaultNone
	}
	end := bytes.IndexByte(s.text, s.closer)
	if end < 0 {
		end = len(s.text)
	}
	domain, s.text = s.text[:end], s.text[end:]
	nonASCII, f = checkDomain(domain, s.rules.Underscore)
	return domain, nonASCII, f
}

// isDotString reports whether text is a Dot-string: atoms with single dots
// between them (RFC 5321 4.1.2, RFC 6531 3.3).
func isDotString(text []byte) bool {
	if len(text) == 0 || text[0] == '.' || text[len(text)-1] == '.' {
		return false
	}
	for i, c := range text {
		if !isAtext(c) && (c != '.' || text[i-1] == '.') {
			return false
		}
	}
	return true
}

// isAtext reports whether c may occur in an atom. Any octet beyond ASCII is
// accepted here; checkText checks the characters that they form.
func isAtext(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c >= utf8.RuneSelf:
		return true
	}
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '/', '=', '?', '^', '_', '`', '{', '|', '}', '~':
		return true
	}
	return false
}

// checkText reports whether text goes beyond ASCII, and whether everything
// beyond ASCII is UTF-8 of characters that are allowed in an address.
func checkText(text []byte) (nonASCII, ok bool) {
	for len(text) > 0 {
		if text[0] < utf8.RuneSelf {
			text = text[1:]
			continue
		}
		nonASCII = true
		r, n := utf8.DecodeRune(text)
		if !validRune(r, n) {
			return true, false
		}
		text = text[n:]
	}
	return nonASCII, true
}

// validRune rejects invalid UTF-8 (the decoder returns n = 1 for overlong forms
// and surrogates), controls, spaces, and the marks that reorder text on
// display, with which a sender could disguise an address in a log.
func validRune(r rune, n int) bool {
	if r == utf8.RuneError && n <= 1 {
		return false
	}
	return !unicode.In(r, unicode.Cc, unicode.White_Space, unicode.Bidi_Control)
}
