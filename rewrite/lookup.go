package rewrite

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/smtp"
)

// A part is the part of an address that was a key.
type part uint8

const (
	wholeAddress part = iota
	withoutExtension
	onlyDomain
)

// find returns the value that a list of maps has for an address: in the first map that has one
// for the most specific key.
func (r *Rules) find(a mail.Address, maps []Map) (value string, p part, ok bool) {
	if len(maps) == 0 || a == "" {
		return "", 0, false
	}
	for key, p := range r.keys(a) {
		for _, m := range maps {
			if p.partial && m.Whole() {
				continue
			}
			if value, ok := m.Find(key); ok {
				return value, p.part, true
			}
		}
	}
	return "", 0, false
}

// A keyPart describes a key.
type keyPart struct {
	part    part
	partial bool // not the whole address
}

// keys are the keys of an address, the most specific first.
func (r *Rules) keys(a mail.Address) iter.Seq2[string, keyPart] {
	return func(yield func(string, keyPart) bool) {
		local, domain := a.Local(), a.Domain()
		user := r.withoutExtension(local)
		own := domain == "" || r.domains[strings.ToLower(domain)]
		for _, k := range []struct {
			key  string
			part keyPart
			use  bool
		}{
			{string(a), keyPart{}, true},
			{user + "@" + domain, keyPart{withoutExtension, true}, user != local && domain != ""},
			{local, keyPart{wholeAddress, true}, own && domain != ""},
			{user, keyPart{withoutExtension, true}, own && user != local},
			{"@" + domain, keyPart{onlyDomain, true}, domain != ""},
		} {
			if k.use && !yield(k.key, k.part) {
				return
			}
		}
	}
}

// withoutExtension returns a local part without its extension. One that begins with the
// delimiter has none, and neither has one in quotes.
func (r *Rules) withoutExtension(local string) string {
	if r.cfg.Delimiter == "" || local == "" || local[0] == '"' {
		return local
	}
	if i := strings.Index(local, r.cfg.Delimiter); i > 0 {
		return local[:i]
	}
	return local
}

// result returns the address that a field of a value stands for: "@domain" keeps the local
// part, a name without a domain gets ours, and an extension that was not part of the key is
// kept. "" if it is no address, as expressions can make one of parts that do not fit.
func (r *Rules) result(field string, a mail.Address, p part) mail.Address {
	if domain, ok := strings.CutPrefix(field, "@"); ok {
		return valid(a.Local()+"@"+domain, beyondASCII(a))
	}
	local, domain := field, r.cfg.Origin
	if i := strings.LastIndexByte(field, '@'); i >= 0 {
		local, domain = field[:i], field[i+1:]
	}
	if own := a.Local(); p == withoutExtension {
		extension := own[len(r.withoutExtension(own)):]
		if strings.HasPrefix(local, `"`) {
			local = strings.TrimSuffix(local, `"`) + extension + `"`
		} else {
			local += extension
		}
	}
	return valid(local+"@"+domain, beyondASCII(a))
}

// longLocal is the longest local part of a result.
const longLocal = 200

// valid returns a text as an address, "" if it is none. Those beyond ASCII need SMTPUTF8,
// for which the sender must have asked; then the address to be replaced may need it, too.
func valid(text string, utf8 bool) mail.Address {
	p, rest, fault := smtp.ParsePath([]byte("<"+text+">"), smtp.PathRules{Underscore: true, LocalMax: longLocal})
	if fault != smtp.FaultNone || len(rest) > 0 || p.NonASCII && !utf8 {
		return ""
	}
	return p.Address
}

func beyondASCII(a mail.Address) bool {
	return strings.IndexFunc(string(a), func(r rune) bool { return r >= 0x80 }) >= 0
}

// addresses are the fields of a value, with commas or white space between them.
func addresses(value string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for from := 0; from < len(value); {
			n := fieldLength(value[from:])
			if n > 0 && !yield(value[from:from+n]) {
				return
			}
			from += n + 1
		}
	}
}

// fieldLength returns the length of the field at the front of a value. What is in double
// quotes is one field.
func fieldLength(value string) int {
	quoted := false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\t' || c == ','):
			return i
		}
	}
	return len(value)
}

// firstAddress returns the first field of a value.
func firstAddress(value string) string {
	for field := range addresses(value) {
		return field
	}
	return ""
}

// sameAddress reports whether two addresses differ in nothing that matters to maps.
func sameAddress(a, b mail.Address) bool { return strings.EqualFold(string(a), string(b)) }

func folded(a mail.Address) mail.Address { return mail.Address(strings.ToLower(string(a))) }

// CheckValue returns the reason why a value cannot be that of a map, or nil. One address is
// allowed, or several. Values of expressions, with $1 in them, are checked when they are
// used.
func CheckValue(value string, several bool) error {
	n := 0
	for field := range addresses(value) {
		n++
		if strings.Contains(field, "$") {
			continue
		}
		text := field
		switch {
		case strings.HasPrefix(field, "|") || strings.HasPrefix(field, "/") || strings.HasPrefix(field, ":include:"):
			return fmt.Errorf("%q is a program or a file, and mail is only sent to addresses", field)
		case field == "@":
			return errors.New(`"@" has no domain`)
		case strings.HasPrefix(field, "@"):
			text = "x" + field
		case !strings.Contains(field, "@"):
			text = field + "@x.example"
		}
		if valid(text, false) == "" {
			return fmt.Errorf("%q is not an address", field)
		}
	}
	switch {
	case n == 0:
		return errors.New("there is no address")
	case n > 1 && !several:
		return fmt.Errorf("there are %d addresses, and this map has one for each key", n)
	}
	return nil
}
