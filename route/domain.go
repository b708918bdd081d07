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

// replacement is what octets that are not UTF-8 decode to. Package idna would
// encode it, and all such names would become one.
const replacement = '\ufffd'

// A SyntaxError says what is wrong with a piece of configuration or with a
// domain, and, where it can be guessed, what was meant.
type SyntaxError struct {
	What    string // the kind of text: "domain", "nexthop", "transport rule"
	Text    string // the text as given
	Problem string
	Hint    string // what to write instead; "" if nothing comes to mind
}

// Error returns the complaint on one line.
func (e *SyntaxError) Error() string {
	s := e.What + " " + strconv.Quote(e.Text) + ": " + e.Problem
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// spelling tells how a domain is written.
type spelling uint8

const (
	spellingCanonical spelling = iota // lower-case ASCII
	spellingUpper                     // ASCII with upper-case letters
	spellingForeign                   // with octets beyond ASCII
	spellingBad                       // not a domain at all
)

// ParseDomain returns a domain in canonical form: lower-case A-labels without
// a final dot. A text that is canonical already is returned as it is, without
// an allocation.
//
// Underscores are let through because domains that receive mail have them,
// although RFC 5321 4.1.2 does not provide for any. A text that is an IPv4
// address is refused: taking it for a name would send a query for it to the
// root servers.
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
		// The Lookup profile is the one that RFC 5891 5 prescribes for those who
		// are about to ask the DNS.
		ascii, err := idna.Lookup.ToASCII(s)
		if err != nil || strings.ContainsRune(s, replacement) {
			return "", &SyntaxError{"domain", text, "it is not a valid internationalised name", ""}
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

// inspectDomain reads s once and tells how it is spelt, and what is wrong if it
// is no domain. Lengths of foreign names are left to be checked as A-labels.
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
		return spellingBad, "it is longer than a name can be"
	}
	return how, ""
}

// isAddress tells whether a canonical domain is the text of an IPv4 address.
// No top-level domain ends with a digit, which spares most names the parsing.
func isAddress(s string) bool {
	if c := s[len(s)-1]; c < '0' || c > '9' {
		return false
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

// parseLiteral reads what stands between the brackets of an address literal
// (RFC 5321 4.1.3), or, as people write it, a bare IPv6 address.
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
