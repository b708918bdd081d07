package verp

import (
	"fmt"
	"strings"
)

// Delimiters are the octets around the recipient in an address.
type Delimiters struct {
	Before byte // between the sender's local part and the recipient
	At     byte // in place of the recipient's "@"
}

// Default is the delimiters of Postfix (default_verp_delimiters).
const Default = "+="

// allowed are the octets that may be delimiters (Postfix: verp_delimiter_filter). All can be
// in the local part of an address without quotes.
const allowed = "-=+"

// ParseDelimiters parses two octets, such as "+=".
func ParseDelimiters(text string) (Delimiters, error) {
	if len(text) != 2 || !strings.Contains(allowed, text[:1]) || !strings.Contains(allowed, text[1:]) {
		return Delimiters{}, fmt.Errorf("%q is not two of the characters - = + such as %q", text, Default)
	}
	return Delimiters{text[0], text[1]}, nil
}

// String returns the text that ParseDelimiters takes; that of Default for the zero value.
func (d Delimiters) String() string {
	d = d.withDefault()
	return string([]byte{d.Before, d.At})
}

// Ambiguous reports whether domains may contain the second delimiter, so that some
// recipients are not read as they were written: with "-", jane@my-shop.example becomes
// jane-my@shop.example.
func (d Delimiters) Ambiguous() bool { return d.withDefault().At == '-' }

func (d Delimiters) withDefault() Delimiters {
	if d == (Delimiters{}) {
		return Delimiters{Default[0], Default[1]}
	}
	return d
}
