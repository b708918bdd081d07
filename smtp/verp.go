package smtp

import (
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// VERPFilter is the characters that may be delimiters of a recipient in a sender, unless an
// operator names others (Postfix: verp_delimiter_filter).
const VERPFilter = "-=+"

// VERPPossible is all characters that an operator may name: those that a local part may have without
// quotes (RFC 5321 4.1.2) besides letters and digits.
const VERPPossible = "-=+!#$%&'*/?^_`{|}~"

// ParseVERP parses the value of XVERP: two characters of a filter, which is VERPFilter if it is "".
func ParseVERP(value, filter string) (v mail.VERP, ok bool) {
	if filter == "" {
		filter = VERPFilter
	}
	if len(value) != 2 || strings.IndexByte(filter, value[0]) < 0 || strings.IndexByte(filter, value[1]) < 0 {
		return v, false
	}
	return mail.VERP{Before: value[0], At: value[1]}, true
}
