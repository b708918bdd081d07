package idn

import (
	"strings"

	"golang.org/x/net/idna"

	"github.com/posthaste-mta/posthaste/internal/ascii"
)

// replacement is the decoding of octets that are not UTF-8. Package idna would encode it, and all such names would
// become equal.
const replacement = '\ufffd'

// prefix begins an A-label (RFC 5890 2.3.2.1).
const prefix = "xn--"

// ASCII returns a domain with A-labels and in lower case, so that all spellings of a name are equal (UTS 46, nontransitional). The error
// says why a domain with other characters is no valid name; the others are not checked.
func ASCII(domain string) (string, error) {
	if isASCII(domain) {
		return strings.ToLower(domain), nil
	}
	// The Lookup profile is the one that RFC 5891 5 prescribes before a DNS query.
	return idna.Lookup.ToASCII(domain)
}

// Key returns the form in which domains are compared, which is that of the DNS: A-labels in lower case. What is no
// valid name is only put in lower case.
func Key(domain string) string {
	if isASCII(domain) {
		return strings.ToLower(domain)
	}
	if strings.ContainsRune(domain, replacement) {
		return ascii.Lower(domain) // strings.ToLower would replace what is not UTF-8
	}
	alabels, err := ASCII(domain)
	if err != nil {
		return strings.ToLower(domain)
	}
	return strings.TrimSuffix(alabels, ".") // an ideographic full stop at the end
}

// Others returns the forms of a domain with A-labels and with U-labels, in lower case, if it has labels in another script; "" and ""
// for other domains, which have one form.
func Others(domain string) (ascii, unicode string) {
	if isASCII(domain) && !hasPrefix(domain) {
		return "", ""
	}
	ascii = Key(domain)
	unicode, err := idna.Lookup.ToUnicode(ascii)
	if err != nil || !isASCII(ascii) {
		unicode = ascii
	}
	return ascii, unicode
}

// Nexthop returns a nexthop with the domains in it as Key returns them. What is ASCII is returned unchanged.
func Nexthop(text string) string {
	if isASCII(text) {
		return text
	}
	var b strings.Builder
	for text != "" {
		end := strings.IndexAny(text, "[]{},;: ")
		if end < 0 {
			b.WriteString(Key(text))
			break
		}
		b.WriteString(Key(text[:end]))
		b.WriteByte(text[end])
		text = text[end+1:]
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// hasPrefix reports whether s has prefix, in upper or lower case.
func hasPrefix(s string) bool {
	for i := 0; i+len(prefix) <= len(s); i++ {
		if s[i+2] == '-' && strings.EqualFold(s[i:i+len(prefix)], prefix) {
			return true
		}
	}
	return false
}
