package smtp

import (
	"bytes"
	"strings"
)

// ETRN is the argument of the command ETRN: what the client asks to have sent now (RFC 1985 5).
type ETRN struct {
	Domain string // in lower case and without a dot at its end; "" if Queue is set
	Below  bool   // "@" before the domain: those below it, too
	Queue  string // behind "#": a queue of the server, of which there are none here
}

// String returns the argument as replies and the log show it.
func (e ETRN) String() string {
	switch {
	case e.Queue != "":
		return "#" + e.Queue
	case e.Below:
		return "@" + e.Domain
	}
	return e.Domain
}

// ParseETRN parses the argument of ETRN. ok is false if it is neither a domain, nor "@" and a domain,
// nor "#" and a word of printable ASCII that is no longer than a domain.
func ParseETRN(arg []byte) (e ETRN, ok bool) {
	if name, found := bytes.CutPrefix(arg, []byte("#")); found {
		printable := bytes.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
		if len(name) == 0 || len(name) > DomainMax || !printable {
			return ETRN{}, false
		}
		return ETRN{Queue: string(name)}, true
	}
	arg, e.Below = bytes.CutPrefix(arg, []byte("@"))
	e.Domain = strings.ToLower(string(bytes.TrimSuffix(arg, []byte("."))))
	if !ValidDomain(e.Domain) {
		return ETRN{}, false
	}
	return e, true
}
