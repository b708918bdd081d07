package server

import (
	"net/netip"
	"strconv"
)

// appendReceived appends the Received field that records this hop
// (RFC 5321 4.4, RFC 3848, RFC 8314 4.3). FOR is given only for a single recipient, because
// with several it would disclose each of them to the others (7.2).
func (s *Session) appendReceived(dst []byte) []byte {
	client := s.client()
	dst = append(dst, "Received: from "...)
	dst = appendHelo(dst, client.Helo)
	dst = append(dst, " ("...)
	dst = appendOrigin(dst, client.Addr)
	dst = append(dst, ")\r\n\t"...)
	if s.cfg.ShowUser && s.user != "" {
		dst = append(dst, "(Authenticated sender: "...)
		dst = appendUser(dst, s.user)
		dst = append(dst, ")\r\n\t"...)
	}
	dst = append(dst, "by "...)
	dst = append(dst, s.cfg.Hostname...)
	dst = append(dst, " (Posthaste) with "...)
	dst = append(dst, client.Proto...)
	dst = append(dst, " id "...)
	dst = append(dst, s.tx.id.String()...)
	if s.tx.mail.Priority != 0 { // RFC 6710 8
		dst = append(dst, "\r\n\tpriority "...)
		dst = strconv.AppendInt(dst, int64(s.tx.mail.Priority), 10)
	}
	if s.tx.distinct == 1 {
		dst = append(dst, "\r\n\tfor <"...)
		dst = append(dst, s.tx.first.Address...)
		dst = append(dst, '>')
	}
	if s.security.Encrypted() {
		dst = append(dst, "\r\n\ttls "...)
		dst = append(dst, s.security.Cipher...)
		dst = append(dst, " ("...)
		dst = append(dst, s.security.Version...)
		dst = append(dst, ')')
	}
	if s.tx.distinct == 1 && !s.security.Encrypted() {
		dst = append(dst, "; "...)
	} else {
		dst = append(dst, ";\r\n\t"...)
	}
	dst = append(dst, s.tx.date...)
	return append(dst, "\r\n"...)
}

// appendHelo appends the client's EHLO name, with everything replaced that could
// be taken for another part of the field.
func appendHelo(dst []byte, helo string) []byte {
	for i := 0; i < len(helo); i++ {
		c := helo[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '-', c == '_', c == ':', c == '[', c == ']':
		default:
			c = '?'
		}
		dst = append(dst, c)
	}
	return dst
}

// appendUser appends a user's name, with everything replaced that cannot be in a comment.
func appendUser(dst []byte, user string) []byte {
	for i := 0; i < len(user); i++ {
		c := user[i]
		if c <= ' ' || c > '~' || c == '(' || c == ')' || c == '\\' {
			c = '?'
		}
		dst = append(dst, c)
	}
	return dst
}

// appendOrigin appends the address as a literal (RFC 5321 4.1.3).
func appendOrigin(dst []byte, addr netip.Addr) []byte {
	switch addr = addr.Unmap(); {
	case !addr.IsValid():
		return append(dst, "local socket"...)
	case addr.Is4():
		dst = append(dst, '[')
	default:
		dst = append(dst, "[IPv6:"...)
	}
	dst = addr.WithZone("").AppendTo(dst)
	return append(dst, ']')
}
