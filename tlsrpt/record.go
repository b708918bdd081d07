package tlsrpt

import (
	"errors"
	"net/url"
	"strings"
)

// recordVersion is the beginning of the record; other records of this name have another purpose.
const recordVersion = "v=TLSRPTv1;"

// urisMax is the maximum number of destinations that are used.
const urisMax = 10

// Errors of ParseRecords.
var (
	ErrNoRecord = errors.New("tlsrpt: no TLSRPT record")
	ErrRecord   = errors.New("tlsrpt: the TLSRPT record is malformed")
	ErrRecords  = errors.New("tlsrpt: more than one TLSRPT record")
)

// ParseRecords returns where a domain wants its reports, from the TXT records of
// _smtp._tls and the domain, each with its strings joined (RFC 8460 3): URIs with the
// schemes mailto and https; others are left out. Unless exactly one record is of
// TLSRPT, the domain wants none.
func ParseRecords(texts []string) ([]*url.URL, error) {
	record, found := "", false
	for _, text := range texts {
		switch {
		case !strings.HasPrefix(text, recordVersion):
		case found:
			return nil, ErrRecords
		default:
			record, found = strings.TrimPrefix(text, recordVersion), true
		}
	}
	if !found {
		return nil, ErrNoRecord
	}
	for field := range strings.SplitSeq(record, ";") {
		name, value, ok := strings.Cut(field, "=")
		if ok && trim(name) == "rua" {
			return destinations(value)
		}
	}
	return nil, ErrRecord
}

// destinations parses a list of URIs. A comma in a URI is encoded.
func destinations(list string) ([]*url.URL, error) {
	var uris []*url.URL
	for text := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(trim(text))
		switch {
		case err != nil || len(uris) == urisMax:
		case u.Scheme == "mailto" && strings.Contains(u.Opaque, "@"), u.Scheme == "https" && u.Hostname() != "" && u.User == nil:
			uris = append(uris, u)
		}
	}
	if len(uris) == 0 {
		return nil, ErrRecord
	}
	return uris, nil
}

func trim(s string) string { return strings.Trim(s, " \t") }
