package dsn

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A TypedAddress is an address with the name of its address type (RFC 3464 2.1.2):
// "rfc822", "utf-8" or another registered word, in lower case. The zero value means
// that there is none.
type TypedAddress struct {
	Type string
	Text string // decoded
}

// typedAddressMax is the longest ORCPT value that a server must accept
// (RFC 3461 5.4); longer ones have no use.
const typedAddressMax = 500

// ParseORCPT decodes an ORCPT parameter as it was received: a type, ";", and
// an address in xtext (RFC 3461 4.2) or, for the type utf-8, in one of the
// forms of RFC 6533 3. A malformed address, or one that a report could not safely
// quote, yields the zero TypedAddress: the field in the report is optional.
func ParseORCPT(parameter string) TypedAddress {
	kind, text, ok := strings.Cut(parameter, ";")
	if !ok {
		return TypedAddress{}
	}
	if text, ok = decodeXtext(text); !ok {
		return TypedAddress{}
	}
	if strings.EqualFold(kind, "utf-8") {
		text = decodeEmbedded(text)
	}
	return TypedAddress{Type: kind, Text: text}.Clean()
}

// Clean returns the address in the form in which a report can contain it, or zero.
func (t TypedAddress) Clean() TypedAddress {
	t.Type = strings.ToLower(t.Type)
	t.Text = strings.Trim(t.Text, " ")
	if !atom(t.Type) || t.Text == "" || len(t.Text) > typedAddressMax || !printable(t.Text) {
		return TypedAddress{}
	}
	if t.Type != "utf-8" && !ascii(t.Text) {
		return TypedAddress{}
	}
	if t.Type == "utf-8" && len(encodeEmbedded(t.Text, false)) > encodedAddressMax {
		return TypedAddress{}
	}
	return t
}

// atom reports whether s can be the name of an address type; 30 letters is longer than
// any registered one.
func atom(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 30
}

// DecodeEnvID decodes an ENVID parameter as it was received (RFC 3461 4.4).
// It returns "" for a malformed one, or one with anything but printable ASCII.
func DecodeEnvID(parameter string) string {
	text, ok := decodeXtext(parameter)
	if !ok {
		return ""
	}
	return cleanEnvID(text)
}

// decodeXtext undoes the encoding of RFC 3461 4. Octets above 127 pass, since
// an ORCPT of type utf-8 may have them.
func decodeXtext(s string) (string, bool) {
	if strings.IndexByte(s, '+') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '+' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(v))
		i += 2
	}
	return string(b), true
}

// encodedAddressMax leaves room for a field name and a type in a line of 998
// octets: an encoded address holds no space at which it could be folded.
const encodedAddressMax = 900

// encodeEmbedded writes an address of type utf-8. Where UTF-8 is allowed, only the
// backslash is encoded, so that it is not read as the start of an embedded
// character; elsewhere everything that utf-8-addr-xtext excludes is (RFC 6533 3).
func encodeEmbedded(s string, utf8OK bool) string {
	var b strings.Builder
	for _, r := range s {
		plain := r > 0x20 && r < 0x7f && r != '+' && r != '='
		if r != '\\' && (plain || utf8OK) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(`\x{`)
		if r < 0x10 {
			b.WriteByte('0')
		}
		b.WriteString(strings.ToUpper(strconv.FormatInt(int64(r), 16)))
		b.WriteByte('}')
	}
	return b.String()
}

// decodeEmbedded is the inverse of encodeEmbedded. Text that only resembles an
// embedded character is left unchanged.
func decodeEmbedded(s string) string {
	if !strings.Contains(s, `\x{`) {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, `\x{`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		digits, rest, closed := strings.Cut(after, "}")
		v, err := strconv.ParseUint(digits, 16, 32)
		if !closed || err != nil || len(digits) > 6 || !utf8.ValidRune(rune(v)) {
			b.WriteString(`\x{`)
			s = after
			continue
		}
		b.WriteRune(rune(v))
		s = rest
	}
}
