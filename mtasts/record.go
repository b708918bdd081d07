package mtasts

import (
	"errors"
	"strings"
)

// recordVersion is the beginning of the record; other records of this name belong to
// something else (RFC 8461 3.1).
const recordVersion = "v=STSv1;"

// Errors of ParseRecords.
var (
	ErrNoRecord = errors.New("mtasts: no MTA-STS record")
	ErrRecord   = errors.New("mtasts: the MTA-STS record is malformed")
	ErrRecords  = errors.New("mtasts: more than one MTA-STS record")
)

// ParseRecords returns the id of the policy that TXT records announce, each with its
// strings joined (RFC 8461 3.1). Unless there is exactly one record of MTA-STS, and it is
// well formed, there is no policy.
func ParseRecords(texts []string) (id string, err error) {
	err = ErrNoRecord
	for _, text := range texts {
		if !strings.HasPrefix(text, recordVersion) {
			continue
		}
		if err != ErrNoRecord {
			return "", ErrRecords
		}
		var ok bool
		if id, ok = parseRecord(text[len(recordVersion):]); ok {
			err = nil
		} else {
			err = ErrRecord
		}
	}
	return id, err
}

// parseRecord parses what follows the version: fields with ";" between them, and
// perhaps one at the end. Unknown fields are extensions.
func parseRecord(rest string) (id string, ok bool) {
	fields := strings.Split(rest, ";")
	if last := len(fields) - 1; last > 0 && trim(fields[last]) == "" {
		fields = fields[:last]
	}
	for _, field := range fields {
		name, value, found := strings.Cut(trim(field), "=")
		switch {
		case !found || !isName(name) || !isExtension(value):
			return "", false
		case name != "id":
		case id != "" || !isID(value):
			return "", false
		default:
			id = value
		}
	}
	return id, id != ""
}

const (
	idMax   = 32 // characters of an id
	nameMax = 32 // characters of the name of a field
)

func isID(s string) bool { return s != "" && len(s) <= idMax && all(s, isAlphanumeric) }

// isName reports whether a text is the name of a field, known or not.
func isName(s string) bool {
	return s != "" && len(s) <= nameMax && isAlphanumeric(s[0]) && all(s, func(c byte) bool {
		return isAlphanumeric(c) || c == '_' || c == '-' || c == '.'
	})
}

// isExtension reports whether a text is the value of a field: printable, without "="
// and ";".
func isExtension(s string) bool {
	return s != "" && all(s, func(c byte) bool { return c > ' ' && c < 0x7f && c != '=' && c != ';' })
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func all(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

// trim removes white space (RFC 5234 B.1).
func trim(s string) string { return strings.Trim(s, " \t") }
