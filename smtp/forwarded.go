package smtp

import (
	"bytes"
	"net/netip"
	"strings"
)

// A Forwarded is what XCLIENT or XFORWARD say of a client (Postfix's XCLIENT_README and
// XFORWARD_README). Both commands have a list of attributes; what is not in it is not set.
type Forwarded struct {
	Given  Attributes // those in the list
	Addr   netip.Addr // not valid if it is unknown
	Name   string     // "" if it is unknown
	Helo   string     // likewise
	Proto  string     // "SMTP" or "ESMTP", or "" if it is unknown
	Ident  string     // the message's ID at the client; "" if it is unknown
	Source string     // "LOCAL" or "REMOTE"; "" if it is unknown
	Login  string     // the user that the client has logged in as; "" if it has not
}

// Attributes is a set of attributes.
type Attributes uint16

const (
	AttrAddr Attributes = 1 << iota
	AttrName
	AttrPort // its value is checked and forgotten
	AttrHelo
	AttrProto
	AttrDestAddr // as AttrPort
	AttrDestPort // as AttrPort
	AttrIdent
	AttrSource
	AttrLogin
)

// Attributes of the two commands, as EHLO offers them.
const (
	XClientAttributes  = AttrName | AttrAddr | AttrPort | AttrProto | AttrHelo | AttrLogin | AttrDestAddr | AttrDestPort
	XForwardAttributes = AttrName | AttrAddr | AttrPort | AttrProto | AttrHelo | AttrIdent | AttrSource
)

var attributeNames = [...]struct {
	name string
	a    Attributes
}{
	{"NAME", AttrName}, {"ADDR", AttrAddr}, {"PORT", AttrPort}, {"PROTO", AttrProto}, {"HELO", AttrHelo}, {"LOGIN", AttrLogin},
	{"DESTADDR", AttrDestAddr}, {"DESTPORT", AttrDestPort}, {"IDENT", AttrIdent}, {"SOURCE", AttrSource},
}

// String returns the names with spaces between them, as EHLO offers them.
func (a Attributes) String() string {
	var all []string
	for _, n := range attributeNames {
		if a&n.a != 0 {
			all = append(all, n.name)
		}
	}
	return strings.Join(all, " ")
}

// Values for what is not known, and for what is not known at the moment.
const (
	unavailable     = "[UNAVAILABLE]"
	tempUnavailable = "[TEMPUNAVAIL]"
)

// forwardedMax is the longest value, after decoding.
const forwardedMax = DomainMax

// ParseForwarded parses the argument of XCLIENT or XFORWARD: attributes of the given set,
// each at most once, with values in xtext. wrong names the first that is not allowed, and
// is "" if all are.
func ParseForwarded(arg []byte, allowed Attributes) (f Forwarded, wrong string) {
	if len(arg) == 0 {
		return f, "no attributes"
	}
	for word := range bytes.SplitSeq(arg, []byte(" ")) {
		name, value, found := strings.Cut(string(word), "=")
		a := attributeOf(name) & allowed
		if name == "" {
			return Forwarded{}, "one without a name"
		}
		if !found || a == 0 || f.Given&a != 0 || !f.set(a, value) {
			return Forwarded{}, strings.ToUpper(name)
		}
		f.Given |= a
	}
	return f, ""
}

// Merge adds what a later command says.
func (f *Forwarded) Merge(later *Forwarded) {
	before := *f
	*f = *later
	f.Given |= before.Given
	if later.Given&AttrAddr == 0 {
		f.Addr = before.Addr
	}
	for _, one := range []struct {
		a        Attributes
		to, from *string
	}{{AttrName, &f.Name, &before.Name}, {AttrHelo, &f.Helo, &before.Helo}, {AttrProto, &f.Proto, &before.Proto},
		{AttrIdent, &f.Ident, &before.Ident}, {AttrSource, &f.Source, &before.Source}} {
		if later.Given&one.a == 0 {
			*one.to = *one.from
		}
	}
}

func attributeOf(name string) Attributes {
	for _, n := range attributeNames {
		if strings.EqualFold(n.name, name) {
			return n.a
		}
	}
	return 0
}

// set sets an attribute; false means that the value is not allowed.
func (f *Forwarded) set(a Attributes, xtext string) bool {
	value, ok := DecodeXtext(xtext)
	if !ok || value == "" || len(value) > forwardedMax || !printable(value) {
		return false
	}
	if strings.EqualFold(value, unavailable) || strings.EqualFold(value, tempUnavailable) {
		return true
	}
	switch a {
	case AttrAddr:
		f.Addr, ok = parseForwardedAddr(value)
	case AttrDestAddr:
		_, ok = parseForwardedAddr(value)
	case AttrPort, AttrDestPort:
		var n int64
		n, ok = parseDecimal([]byte(value))
		ok = ok && n <= 65535
	case AttrName:
		f.Name, ok = value, strings.IndexByte(value, ' ') < 0
	case AttrHelo:
		f.Helo = value
	case AttrLogin:
		f.Login, ok = value, strings.IndexByte(value, ' ') < 0
	case AttrProto:
		f.Proto = strings.ToUpper(value)
		ok = f.Proto == "SMTP" || f.Proto == "ESMTP"
	case AttrIdent:
		f.Ident = value
	case AttrSource:
		f.Source = strings.ToUpper(value)
		ok = f.Source == "LOCAL" || f.Source == "REMOTE"
	}
	return ok
}

// parseForwardedAddr parses an IPv4 address, or an IPv6 address behind "IPV6:".
func parseForwardedAddr(text string) (netip.Addr, bool) {
	const prefix = "IPV6:"
	six := len(text) > len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
	if six {
		text = text[len(prefix):]
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" || a.Is4() == six || a.IsUnspecified() || a.IsMulticast() {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

func printable(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
