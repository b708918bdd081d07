package smtp

import "bytes"

// A Verb is the first word of a command line.
type Verb uint8

const (
	VerbUnknown Verb = iota // not a word of SMTP
	VerbEHLO
	VerbHELO
	VerbMAIL
	VerbRCPT
	VerbDATA
	VerbBDAT
	VerbRSET
	VerbNOOP
	VerbVRFY
	VerbEXPN
	VerbHELP
	VerbQUIT
	VerbSTARTTLS
	VerbAUTH
	VerbXCLIENT
	VerbXFORWARD
	VerbETRN
	VerbRare    // a word of SMTP that is not implemented here: ATRN, TURN, BURL …
	VerbForeign // the start of a request in another protocol, usually HTTP
)

// verbMax is the length of the longest word that ParseCommand looks up.
const verbMax = len("STARTTLS")

// ParseCommand splits a command line, given without its line end, into verb and
// argument. Verbs are recognized in any case (RFC 5321 2.4) and only at the
// very start of the line. One space separates the verb from the argument, which
// is returned without trailing white space (RFC 5321 4.1.1 asks for that
// tolerance). The argument shares memory with line.
func ParseCommand(line []byte) (Verb, []byte) {
	word, arg, _ := bytes.Cut(bytes.TrimRight(line, " \t"), []byte(" "))
	if len(word) > 1 && word[len(word)-1] == ':' {
		// "Host:" or another header line of HTTP, sent by a browser that was
		// made to connect here (cross-protocol attack).
		return VerbForeign, arg
	}
	if len(word) < 3 || len(word) > verbMax {
		return VerbUnknown, arg
	}
	var upper [verbMax]byte
	for i, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	return lookUpVerb(upper[:len(word)]), arg
}

func lookUpVerb(word []byte) Verb {
	switch string(word) {
	case "MAIL":
		return VerbMAIL
	case "RCPT":
		return VerbRCPT
	case "DATA":
		return VerbDATA
	case "BDAT":
		return VerbBDAT
	case "EHLO":
		return VerbEHLO
	case "HELO":
		return VerbHELO
	case "RSET":
		return VerbRSET
	case "NOOP":
		return VerbNOOP
	case "QUIT":
		return VerbQUIT
	case "VRFY":
		return VerbVRFY
	case "EXPN":
		return VerbEXPN
	case "HELP":
		return VerbHELP
	case "STARTTLS":
		return VerbSTARTTLS
	case "AUTH":
		return VerbAUTH
	case "ETRN":
		return VerbETRN
	case "ATRN", "TURN", "SEND", "SOML", "SAML", "BURL", "LHLO":
		return VerbRare
	case "XCLIENT":
		return VerbXCLIENT
	case "XFORWARD":
		return VerbXFORWARD
	case "GET", "POST", "PUT", "HEAD", "CONNECT", "OPTIONS", "DELETE", "PATCH", "TRACE":
		return VerbForeign
	}
	return VerbUnknown
}

// EndsGroup reports whether the verb must be the last of a pipelined group of
// commands, so that any input after it was sent without waiting for the reply
// (RFC 2920 3.1; HELP is not listed there and is treated like VRFY).
func (v Verb) EndsGroup() bool {
	switch v {
	case VerbMAIL, VerbRCPT, VerbRSET, VerbBDAT, VerbXFORWARD, VerbUnknown:
		return false
	}
	return true
}

// ParseChunk parses the argument of BDAT: a decimal number of octets below
// 2^63, and LAST for the last chunk of a message (RFC 3030 2). If ok is false,
// the start of the next command is unknown.
func ParseChunk(arg []byte) (size int64, last, ok bool) {
	number, rest, more := bytes.Cut(arg, []byte(" "))
	if more {
		if last = bytes.EqualFold(rest, []byte("LAST")); !last {
			return 0, false, false
		}
	}
	size, ok = parseDecimal(number)
	return size, last, ok
}

// parseDecimal parses digits only: no sign, no space, no overflow.
func parseDecimal(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 19 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
		if n < 0 { // 19 digits reach 10^19-1, just beyond 2^63
			return 0, false
		}
	}
	return n, true
}

// cutKeyword removes a keyword, in any case, and the spaces that follow it from
// the front of an argument. "FROM: <a@b>" is common and harmless and is
// accepted; "FROM :<a@b>" is neither allowed nor seen in practice.
func cutKeyword(arg []byte, keyword string) (rest []byte, ok bool) {
	if len(arg) < len(keyword) || !bytes.EqualFold(arg[:len(keyword)], []byte(keyword)) {
		return arg, false
	}
	return bytes.TrimLeft(arg[len(keyword):], " "), true
}
