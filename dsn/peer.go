package dsn

import "strings"

// A peer is a host at the other end of a connection: a name, an address, or
// both. Elsewhere in the program it is one text, "name[address]"; in a report
// it is the name with the address as a comment (RFC 3464 2.2.4), or an address
// literal.
type peer struct {
	name, addr string
}

// hostMax is the longest domain name (RFC 5321 4.5.3.1.2).
const hostMax = 255

// parsePeer parses "name[address]", "name" or "[address]". What follows the
// bracket, a port, is dropped.
func parsePeer(s string) peer {
	name, addr := s, ""
	if i, j := strings.LastIndexByte(s, '['), strings.LastIndexByte(s, ']'); i > 0 && j > i {
		name, addr = s[:i], s[i+1:j]
	} else if i == 0 && j > 0 {
		name = s[:j+1]
	}
	return peer{cleanPeerName(name), hostLetters(addr)}.trim()
}

// trim moves an address without a name to the name, as a literal.
func (p peer) trim() peer {
	if p.name == "" && p.addr != "" {
		return peer{name: cleanPeerName("[" + p.addr + "]")}
	}
	return p
}

// String returns the form that parsePeer parses.
func (p peer) String() string {
	if p.addr == "" {
		return p.name
	}
	return p.name + "[" + p.addr + "]"
}

// field returns the form for a report.
func (p peer) field() string {
	name := p.name
	if p.isLiteral() && strings.Contains(name, ":") {
		name = "[IPv6:" + name[1:] // RFC 5321 4.1.3
	}
	if p.addr == "" {
		return name
	}
	return name + " (" + p.addr + ")"
}

// parsePeerField parses the result of field, and the variants of other programs:
// "name (other-name [address])", "name ([address])".
func parsePeerField(text string) peer {
	name, comment, _ := strings.Cut(text, "(")
	addr, _, _ := strings.Cut(comment, ")")
	if i := strings.LastIndexByte(addr, '['); i >= 0 {
		addr, _, _ = strings.Cut(addr[i+1:], "]")
	}
	return peer{cleanPeerName(strings.Trim(name, " \t")), hostLetters(strings.Trim(addr, " \t"))}.trim()
}

func (p peer) isLiteral() bool {
	return strings.HasPrefix(p.name, "[")
}

// cleanPeerName cleans a name, or an address literal, which hosts without a name
// send in EHLO.
func cleanPeerName(s string) string {
	if n := len(s); n > 2 && s[0] == '[' && s[n-1] == ']' {
		s = s[1 : n-1]
		for len(s) > 5 && strings.EqualFold(s[:5], "IPv6:") {
			s = s[5:]
		}
		return "[" + hostLetters(s) + "]"
	}
	return hostLetters(s)
}

// cleanHostName cleans the name of this host. It is required.
func cleanHostName(s string) string {
	if s = hostLetters(s); s == "" || !dotAtom(s) {
		return "unknown"
	}
	return s
}

// hostLetters replaces every character that could end a name, open a comment or
// be taken for a field's syntax by "?".
func hostLetters(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`()[]<>;,"\`, r) {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), hostMax)]
}
