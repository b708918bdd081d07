package route

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Limits of names in text form (RFC 1035 2.3.4, RFC 5321 4.5.3.1.2).
const (
	domainLengthMax = 253
	labelLengthMax  = 63
)

// replacement is the decoding of octets that are not UTF-8. Package idna would
// encode it, and all such names would become equal.
const replacement = '\ufffd'

// A SyntaxError describes an error in a piece of configuration or in a domain, and,
// where it can be guessed, the correct form.
type SyntaxError struct {
	What    string // the kind of text: "domain", "nexthop", "transport rule"
	Text    string // the text as given
	Problem string
	Hint    string // what to write instead; "" if unknown
}

// Error returns the description on one line.
func (e *SyntaxError) Error() string {
	s := e.What + " " + strconv.Quote(e.Text) + ": " + e.Problem
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// spelling is the way a domain is written.
type spelling uint8

const (
	spellingCanonical spelling = iota // lower-case ASCII
	spellingUpper                     // ASCII with upper-case letters
	spellingForeign                   // with octets beyond ASCII
	spellingBad                       // not a domain
)

// ParseDomain returns a domain in canonical form: lower-case A-labels without
// a final dot. A text that is already canonical is returned unchanged, without
// an allocation.
//
// Underscores are allowed because domains that receive mail have them, although
// RFC 5321 4.1.2 does not permit them. A text that is an IPv4 address is
// rejected: taking it for a name would send a query for it to the root servers.
func ParseDomain(text string) (string, error) {
	name, flaw := parseDomain(text)
	if flaw != nil {
		return "", flaw
	}
	return name, nil
}

func parseDomain(text string) (name string, flaw *SyntaxError) {
	s := strings.TrimSuffix(text, ".")
	how, problem := inspectDomain(s)
	if how == spellingForeign {
		// The Lookup profile is the one that RFC 5891 5 prescribes before a DNS
		// query.
		ascii, err := idna.Lookup.ToASCII(s)
		if err != nil || strings.ContainsRune(s, replacement) {
			return "", &SyntaxError{"domain", text, "it is not a valid internationalized name", ""}
		}
		s = strings.TrimSuffix(ascii, ".") // an ideographic full stop at the end
		how, problem = inspectDomain(s)
	}
	switch how {
	case spellingUpper:
		return strings.ToLower(s), nil
	case spellingCanonical:
		if !isAddress(s) {
			return s, nil
		}
		return "", &SyntaxError{"domain", text, "it is an address", "write [" + s + "]"}
	}
	return "", &SyntaxError{"domain", text, problem, ""}
}

// inspectDomain scans s once and returns its spelling, and the problem if it is not a
// domain. The lengths of foreign names are checked later, as A-labels.
func inspectDomain(s string) (how spelling, problem string) {
	if s == "" {
		return spellingBad, "it is empty"
	}
	label := 0
	long := len(s) > domainLengthMax
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_':
			label++
		case 'A' <= c && c <= 'Z':
			label++
			how = max(how, spellingUpper)
		case c == '-':
			if label == 0 {
				return spellingBad, "a label begins with a hyphen"
			}
			label++
		case c == '.':
			if label == 0 {
				return spellingBad, "a label is empty"
			}
			if s[i-1] == '-' {
				return spellingBad, "a label ends with a hyphen"
			}
			label = 0
		case c >= 0x80:
			label++
			how = spellingForeign
		default:
			return spellingBad, "the character " + strconv.QuoteRune(rune(c)) + " cannot be part of it"
		}
		long = long || label > labelLengthMax
	}
	switch {
	case label == 0:
		return spellingBad, "a label is empty"
	case s[len(s)-1] == '-':
		return spellingBad, "a label ends with a hyphen"
	case long && how != spellingForeign:
		return spellingBad, "it is too long for a domain name"
	}
	return how, ""
}

// isAddress reports whether a canonical domain is the text of an IPv4 address.
// No top-level domain ends with a digit, so most names need not be parsed.
func isAddress(s string) bool {
	if c := s[len(s)-1]; c < '0' || c > '9' {
		return false
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

// parseLiteral parses the text between the brackets of an address literal
// (RFC 5321 4.1.3), or a bare IPv6 address, as people often write it.
func parseLiteral(inside string) (netip.Addr, bool) {
	const tag = "ipv6:"
	six := len(inside) > len(tag) && strings.EqualFold(inside[:len(tag)], tag)
	if six {
		inside = inside[len(tag):]
	}
	a, err := netip.ParseAddr(inside)
	if err != nil || six && !a.Is6() {
		return netip.Addr{}, false
	}
	// A zone names an interface of one machine and has no place in mail.
	if a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}
