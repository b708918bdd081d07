package smtp

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// ValidXtext reports whether text is xtext: printable ASCII in which "+" is
// followed by two upper-case hexadecimal digits, and "=" does not occur
// (RFC 3461 4).
func ValidXtext(text string) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '+':
			if i+2 >= len(text) || !isUpperHex(text[i+1]) || !isUpperHex(text[i+2]) {
				return false
			}
			i += 2
		case c < '!' || c > '~' || c == '=':
			return false
		}
	}
	return true
}

// DecodeXtext returns the octets that xtext encodes. They can have any value,
// including CR and LF: callers must clean them before displaying them.
func DecodeXtext(text string) (string, bool) {
	if !ValidXtext(text) {
		return "", false
	}
	if strings.IndexByte(text, '+') < 0 {
		return text, true
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '+' {
			b = append(b, hexValue(text[i+1])<<4|hexValue(text[i+2]))
			i += 2
			continue
		}
		b = append(b, text[i])
	}
	return string(b), true
}

// EncodeXtext returns text as xtext.
func EncodeXtext(text string) string {
	const digits = "0123456789ABCDEF"
	var b []byte
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < '!' || c > '~' || c == '+' || c == '=' {
			b = append(b, '+', digits[c>>4], digits[c&15])
			continue
		}
		b = append(b, text[i])
	}
	return string(b)
}

// ValidUTF8Address reports whether text may follow "utf-8;" in ORCPT: either of
// the forms utf-8-addr-xtext and utf-8-addr-unitext of RFC 6533 3, in which
// \x{HEX} encodes a character. Characters beyond ASCII may occur unencoded only
// if raw is true, that is, if MAIL had SMTPUTF8.
func ValidUTF8Address(text string, raw bool) bool {
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\\':
			n := embeddedLength(text[i:])
			if n == 0 {
				return false
			}
			i += n
			continue
		case c == '+':
			if i+2 >= len(text) || !isUpperHex(text[i+1]) || !isUpperHex(text[i+2]) {
				return false
			}
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(text[i:])
			if !raw || !validRune(r, n) {
				return false
			}
			i += n
			continue
		case c < '!' || c > '~' || c == '=':
			return false
		}
		i++
	}
	return true
}

// embeddedLength returns the length of the \x{HEX} at the start of text, or 0
// if there is none or it is not a character.
func embeddedLength(text string) int {
	end := strings.IndexByte(text, '}')
	if end < len(`\x{1}`)-1 || end > len(`\x{10FFFF}`)-1 || text[:3] != `\x{` {
		return 0
	}
	v, err := strconv.ParseUint(text[3:end], 16, 32)
	if err != nil || v == 0 || !utf8.ValidRune(rune(v)) {
		return 0
	}
	return end + 1
}

func isUpperHex(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'F' }

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'A' + 10
}
