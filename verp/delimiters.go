package verp

import (
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/smtp"
)

// Delimiters are the octets around the recipient in an address.
type Delimiters struct {
	Before byte // between the sender's local part and the recipient
	At     byte // in place of the recipient's "@"
}

// Default is the delimiters of Postfix (default_verp_delimiters).
const Default = "+="

// ParseDelimiters parses two octets of smtp.VERPFilter, such as "+=".
func ParseDelimiters(text string) (Delimiters, error) {
	return ParseDelimitersOf(text, smtp.VERPFilter)
}

// ParseDelimitersOf parses two octets of a filter (Postfix: verp_delimiter_filter), of which each
// can be in a local part without quotes.
func ParseDelimitersOf(text, filter string) (Delimiters, error) {
	v, ok := smtp.ParseVERP(text, filter)
	if !ok {
		return Delimiters{}, fmt.Errorf("%q is not two of the characters %s such as %q", text, strings.Join(strings.Split(filter, ""), " "), Default)
	}
	return Delimiters{v.Before, v.At}, nil
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
