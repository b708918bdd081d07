// Package proxy parses the header by which a proxy says for whom it has opened a
// connection: the PROXY protocol of HAProxy, versions 1 (a line of text) and 2 (binary).
//
// Procedure. A host calls Parse with nothing, reads as many bytes as it asks for, calls
// it again with all bytes so far, and so on until it asks for no more. So it never reads
// beyond the header, behind which TLS may begin, and a header takes no buffer of its own.
//
// Everything that the specification does not allow is an error, after which the only thing
// to do is to close the connection: what follows cannot be found.
package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// A Header is what a proxy says of a connection.
type Header struct {
	// Source and Destination are the ends of the connection to the proxy. They are not
	// valid if the proxy speaks for itself, as in a health check (LOCAL), or does not
	// know (UNKNOWN, UNSPEC, a unix socket).
	Source, Destination netip.AddrPort
}

// The longest headers. The specification allows 107 bytes for version 1, and 65,551 for
// version 2, of which addresses take 52; the rest are extensions that are skipped here. Those
// that proxies send (names, certificates' subjects) fit into 536 bytes, which the
// specification asks senders not to exceed without need.
const (
	line1Max   = 107
	header2    = 16
	Header2Max = 536
)

// firstRead is the length of the shortest header, "PROXY UNKNOWN" with its line end.
const firstRead = 15

// signature2 begins version 2.
const signature2 = "\r\n\r\n\x00\r\nQUIT\n"

// ErrSyntax means that the bytes are no header.
var ErrSyntax = errors.New("not a header of the PROXY protocol")

// ErrLong means that a header of version 2 is longer than Header2Max.
var ErrLong = errors.New("the header of the PROXY protocol is too long")

// Parse parses the beginning of a connection. If more is not 0, in is not the whole header,
// which has at least so many bytes more. Otherwise in is the header and nothing else.
func Parse(in []byte) (h Header, more int, err error) {
	switch {
	case len(in) < firstRead:
		if !possible(in) {
			return Header{}, 0, ErrSyntax
		}
		return Header{}, firstRead - len(in), nil
	case bytes.HasPrefix(in, []byte(signature2)):
		return parse2(in)
	case bytes.HasPrefix(in, []byte("PROXY ")):
		return parse1(in)
	}
	return Header{}, 0, ErrSyntax
}

// possible reports whether a header may begin so.
func possible(in []byte) bool {
	begins := func(text string) bool {
		return bytes.Equal(in[:min(len(in), len(text))], []byte(text)[:min(len(in), len(text))])
	}
	return begins("PROXY ") || begins(signature2)
}

func parse1(in []byte) (Header, int, error) {
	line, ended := bytes.CutSuffix(in, []byte("\r\n"))
	switch {
	case bytes.IndexByte(line, '\n') >= 0, len(in) > line1Max:
		return Header{}, 0, ErrSyntax
	case !ended && len(in) == line1Max:
		return Header{}, 0, ErrSyntax
	case !ended:
		return Header{}, 1, nil // byte by byte, as its end is only known when it is there
	}
	fields := strings.Split(string(line), " ")
	if len(fields) >= 2 && fields[1] == "UNKNOWN" {
		return Header{}, 0, nil // the rest of the line must be ignored
	}
	if len(fields) != 6 {
		return Header{}, 0, ErrSyntax
	}
	four := fields[1] == "TCP4"
	if !four && fields[1] != "TCP6" {
		return Header{}, 0, ErrSyntax
	}
	var h Header
	for i, end := range []*netip.AddrPort{&h.Source, &h.Destination} {
		addr, err := netip.ParseAddr(fields[2+i])
		port, ok := parsePort(fields[4+i])
		if err != nil || !ok || addr.Zone() != "" || addr.Is4() != four {
			return Header{}, 0, ErrSyntax
		}
		*end = netip.AddrPortFrom(addr.Unmap(), port)
	}
	return h.checked()
}

// parsePort reads a decimal number without sign or leading zeros.
func parsePort(text string) (uint16, bool) {
	if text == "" || text[0] == '+' || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil
}

// Commands and families of version 2.
const (
	commandLocal = 0x20
	commandProxy = 0x21
	familyNone   = 0x00
	familyTCP4   = 0x11
	familyTCP6   = 0x21
	familyUnix   = 0x31
)

func parse2(in []byte) (Header, int, error) {
	if len(in) < header2 {
		return Header{}, header2 - len(in), nil
	}
	command, family, size := in[12], in[13], int(binary.BigEndian.Uint16(in[14:]))
	switch {
	case header2+size > Header2Max:
		return Header{}, 0, ErrLong
	case command != commandLocal && command != commandProxy:
		return Header{}, 0, ErrSyntax
	case len(in) < header2+size:
		return Header{}, header2 + size - len(in), nil
	case len(in) > header2+size:
		return Header{}, 0, ErrSyntax
	}
	rest := in[header2:]
	if command == commandLocal {
		return Header{}, 0, nil // the addresses must be ignored
	}
	width := map[byte]int{familyTCP4: 4, familyTCP6: 16, familyUnix: 108, familyNone: 0}
	octets, known := width[family]
	ends := 2 * octets
	if family == familyTCP4 || family == familyTCP6 {
		ends += 4 // ports
	}
	if !known || len(rest) < ends || family != familyNone && !validExtensions(rest[ends:]) {
		return Header{}, 0, ErrSyntax
	}
	if family == familyUnix || family == familyNone {
		return Header{}, 0, nil
	}
	source, _ := netip.AddrFromSlice(rest[:octets])
	destination, _ := netip.AddrFromSlice(rest[octets : 2*octets])
	ports := rest[2*octets:]
	h := Header{
		Source:      netip.AddrPortFrom(source.Unmap(), binary.BigEndian.Uint16(ports)),
		Destination: netip.AddrPortFrom(destination.Unmap(), binary.BigEndian.Uint16(ports[2:])),
	}
	return h.checked()
}

// validExtensions reports whether what follows the addresses is a list of extensions: a
// type, a length, and so many bytes, each.
func validExtensions(rest []byte) bool {
	for len(rest) > 0 {
		if len(rest) < 3 {
			return false
		}
		size := 3 + int(binary.BigEndian.Uint16(rest[1:]))
		if len(rest) < size {
			return false
		}
		rest = rest[size:]
	}
	return true
}

// checked refuses a source address from which no client can have connected.
func (h Header) checked() (Header, int, error) {
	if a := h.Source.Addr(); a.IsUnspecified() || a.IsMulticast() {
		return Header{}, 0, ErrSyntax
	}
	return h, 0, nil
}
