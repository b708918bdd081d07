package smtp

import (
	"bytes"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// Maximum lengths of parameter values, in octets (RFC 3461 5.4, RFC 1870 3).
const (
	envidMax  = 100
	orcptMax  = 500
	notifyMax = 28
	authMax   = 500 // RFC 4954 3
	sizeMax   = 20
)

// A Mail is the argument of MAIL.
type Mail struct {
	Sender   mail.Address
	NonASCII bool  // the sender's address is not ASCII
	Size     int64 // SIZE (RFC 1870); 0 if it was not given
	Body     mail.BodyType
	SMTPUTF8 bool
	Ret      mail.Ret
	EnvID    string // still encoded
	// Auth reports whether AUTH was given (RFC 4954 5). Its value says who submitted the
	// message to the client; as nothing depends on that, it is checked and forgotten.
	Auth bool
	// Priority is MT-PRIORITY (RFC 6710), and Prioritized reports whether it was given.
	Priority    int8
	Prioritized bool
	// Hold is HOLDFOR or HOLDUNTIL (RFC 4865), and Held reports whether one was given.
	Hold       Hold
	Held       bool
	RequireTLS bool // REQUIRETLS (RFC 8689)
	// VERP is the value of XVERP (Postfix's VERP_README), which is not checked, "" if it has none,
	// and XVERP reports whether it was given.
	VERP  string
	XVERP bool
	By    By // BY (RFC 2852); its Mode is mail.ByNone if it was not given
}

// A Rcpt is the argument of RCPT.
type Rcpt struct {
	Recipient mail.Recipient // Index is 0
	NonASCII  bool           // the address is not ASCII
}

// ParseMail parses the argument of MAIL: "FROM:" path and parameters. It sets
// Null in rules, but not Postmaster: a report to a reverse path without a
// domain could not be delivered.
func ParseMail(arg []byte, rules PathRules) (Mail, Fault) {
	text, ok := cutKeyword(arg, "FROM:")
	if !ok {
		return Mail{}, FaultKeyword
	}
	rules.Null, rules.Postmaster = true, false
	path, rest, f := ParsePath(text, rules)
	if f != FaultNone {
		return Mail{}, f
	}
	m := Mail{Sender: path.Address, NonASCII: path.NonASCII}
	var seen paramSet
	for f == FaultNone && len(rest) > 0 {
		var p param
		if p, rest, f = cutParam(rest); f == FaultNone {
			f = m.set(p, &seen)
		}
	}
	if f == FaultNone && m.NonASCII && !m.SMTPUTF8 {
		f = FaultNotUTF8
	}
	return m, f
}

// ParseRcpt parses the argument of RCPT: "TO:" path and parameters. smtputf8
// reports whether MAIL had that parameter.
func ParseRcpt(arg []byte, rules PathRules, smtputf8 bool) (Rcpt, Fault) {
	text, ok := cutKeyword(arg, "TO:")
	if !ok {
		return Rcpt{}, FaultKeyword
	}
	rules.Null, rules.Postmaster = false, true
	path, rest, f := ParsePath(text, rules)
	if f != FaultNone {
		return Rcpt{}, f
	}
	if path.NonASCII && !smtputf8 {
		return Rcpt{}, FaultNotUTF8
	}
	r := Rcpt{Recipient: mail.Recipient{Address: path.Address}, NonASCII: path.NonASCII}
	var seen paramSet
	for f == FaultNone && len(rest) > 0 {
		var p param
		if p, rest, f = cutParam(rest); f == FaultNone {
			f = r.set(p, &seen, smtputf8)
		}
	}
	return r, f
}

// A paramSet records the parameters already seen, to reject repetitions.
type paramSet uint16

const (
	paramSize paramSet = 1 << iota
	paramBody
	paramUTF8
	paramRet
	paramEnvID
	paramNotify
	paramORcpt
	paramAuth
	paramPriority
	paramHold
	paramRequireTLS
	paramVERP
	paramBy
)

func (s *paramSet) add(p paramSet) Fault {
	if *s&p != 0 {
		return FaultParamTwice
	}
	*s |= p
	return FaultNone
}

// A param is one KEYWORD or KEYWORD=value; it shares memory with the line.
type param struct {
	keyword  []byte
	value    []byte
	hasValue bool
}

func (p param) is(keyword string) bool { return bytes.EqualFold(p.keyword, []byte(keyword)) }

// cutParam removes one parameter and the spaces around it from the front of
// text (RFC 5321 4.1.2: esmtp-param).
func cutParam(text []byte) (p param, rest []byte, f Fault) {
	text = bytes.TrimLeft(text, " ")
	word, rest, _ := bytes.Cut(text, []byte(" "))
	p.keyword, p.value, p.hasValue = bytes.Cut(word, []byte("="))
	if len(p.keyword) == 0 || p.keyword[0] == '-' || p.hasValue && len(p.value) == 0 {
		return p, rest, FaultParamSyntax
	}
	for _, c := range p.keyword {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		default:
			return p, rest, FaultParamSyntax
		}
	}
	return p, rest, FaultNone
}

func (m *Mail) set(p param, seen *paramSet) Fault {
	switch {
	case p.is("SIZE"):
		if f := seen.add(paramSize); f != FaultNone {
			return f
		}
		return m.setSize(p.value)
	case p.is("BODY"):
		if f := seen.add(paramBody); f != FaultNone {
			return f
		}
		return m.setBody(p.value)
	case p.is("SMTPUTF8"):
		if p.hasValue {
			return FaultParamValue
		}
		m.SMTPUTF8 = true
		return seen.add(paramUTF8)
	case p.is("RET"):
		switch {
		case bytes.EqualFold(p.value, []byte("FULL")):
			m.Ret = mail.RetFull
		case bytes.EqualFold(p.value, []byte("HDRS")):
			m.Ret = mail.RetHeaders
		default:
			return FaultParamValue
		}
		return seen.add(paramRet)
	case p.is("ENVID"):
		m.EnvID = string(p.value)
		if len(m.EnvID) == 0 || len(m.EnvID) > envidMax || !ValidXtext(m.EnvID) {
			return FaultParamValue
		}
		return seen.add(paramEnvID)
	case p.is("AUTH"):
		m.Auth = true
		if v := string(p.value); v != "<>" && (len(v) == 0 || len(v) > authMax || !ValidXtext(v)) {
			return FaultParamValue
		}
		return seen.add(paramAuth)
	case p.is("MT-PRIORITY"):
		var ok bool
		if m.Priority, ok = ParsePriority(p.value); !ok {
			return FaultParamValue
		}
		m.Prioritized = true
		return seen.add(paramPriority)
	case p.is("HOLDFOR"), p.is("HOLDUNTIL"):
		return m.setHold(p, seen)
	case p.is("REQUIRETLS"):
		if p.hasValue {
			return FaultParamValue
		}
		m.RequireTLS = true
		return seen.add(paramRequireTLS)
	case p.is("XVERP"):
		m.VERP, m.XVERP = string(p.value), true
		return seen.add(paramVERP)
	case p.is("BY"):
		var ok bool
		if m.By, ok = ParseBy(p.value); !ok {
			return FaultParamValue
		}
		return seen.add(paramBy)
	}
	return FaultParamUnknown
}

// setHold takes one of the two parameters, of which a message may have one.
func (m *Mail) setHold(p param, seen *paramSet) Fault {
	if f := seen.add(paramHold); f != FaultNone {
		return f
	}
	ok := false
	if m.Held = true; p.is("HOLDFOR") {
		m.Hold.For, ok = ParseHoldFor(p.value)
	} else {
		m.Hold.Until, ok = ParseHoldUntil(p.value)
	}
	if !ok {
		return FaultParamValue
	}
	return FaultNone
}

// ParsePriority parses the value of MT-PRIORITY (RFC 6710 4.1): one digit, with a minus sign for
// priorities below the usual one.
func ParsePriority(value []byte) (priority int8, ok bool) {
	digit, negative := bytes.CutPrefix(value, []byte("-"))
	if len(digit) != 1 || digit[0] < '0' || digit[0] > '9' || negative && digit[0] == '0' {
		return 0, false
	}
	if priority = int8(digit[0] - '0'); negative {
		priority = -priority
	}
	return priority, true
}

func (m *Mail) setSize(value []byte) (f Fault) {
	if len(value) == 0 || len(value) > sizeMax || !isNumber(value) {
		return FaultParamValue
	}
	// RFC 1870 allows 20 digits, which is more than 2^63.
	value = bytes.TrimLeft(value, "0")
	if len(value) == 0 {
		return FaultNone
	}
	var ok bool
	if m.Size, ok = parseDecimal(value); !ok {
		return FaultSizeRange
	}
	return FaultNone
}

// setBody recognizes BINARYMIME too, but only to reject it as not implemented:
// it is not offered, because a next hop without it could not be sent the message.
func (m *Mail) setBody(value []byte) Fault {
	switch {
	case bytes.EqualFold(value, []byte("7BIT")):
		m.Body = mail.Body7Bit
	case bytes.EqualFold(value, []byte("8BITMIME")):
		m.Body = mail.Body8BitMIME
	case bytes.EqualFold(value, []byte("BINARYMIME")):
		return FaultParamUnknown
	default:
		return FaultParamValue
	}
	return FaultNone
}

func (r *Rcpt) set(p param, seen *paramSet, smtputf8 bool) Fault {
	switch {
	case p.is("NOTIFY"):
		var ok bool
		if r.Recipient.Notify, ok = parseNotify(p.value); !ok {
			return FaultParamValue
		}
		return seen.add(paramNotify)
	case p.is("ORCPT"):
		r.Recipient.ORcpt = string(p.value)
		if !validORcpt(r.Recipient.ORcpt, smtputf8) {
			return FaultParamValue
		}
		return seen.add(paramORcpt)
	}
	return FaultParamUnknown
}

// parseNotify parses NEVER, or a list of SUCCESS, FAILURE and DELAY
// (RFC 3461 4.1).
func parseNotify(value []byte) (n mail.Notify, ok bool) {
	if len(value) > notifyMax {
		return 0, false
	}
	if bytes.EqualFold(value, []byte("NEVER")) {
		return mail.NotifyNever, true
	}
	for word := range bytes.SplitSeq(value, []byte(",")) {
		var bit mail.Notify
		switch {
		case bytes.EqualFold(word, []byte("SUCCESS")):
			bit = mail.NotifySuccess
		case bytes.EqualFold(word, []byte("FAILURE")):
			bit = mail.NotifyFailure
		case bytes.EqualFold(word, []byte("DELAY")):
			bit = mail.NotifyDelay
		}
		if bit == 0 || n&bit != 0 {
			return 0, false
		}
		n |= bit
	}
	return n, true
}

// validORcpt checks an ORCPT value: address type, ";", xtext (RFC 3461 4.2),
// or the forms that RFC 6533 3 adds for type utf-8.
func validORcpt(value string, smtputf8 bool) bool {
	kind, address, found := strings.Cut(value, ";")
	if !found || kind == "" || address == "" || len(value) > orcptMax {
		return false
	}
	for i := 0; i < len(kind); i++ {
		if !isAtext(kind[i]) || kind[i] >= 0x80 || kind[i] == '+' || kind[i] == '=' {
			return false
		}
	}
	if strings.EqualFold(kind, "utf-8") {
		return ValidUTF8Address(address, smtputf8)
	}
	return ValidXtext(address)
}
