package smtp

import (
	"bytes"
	"math"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// ValidDomain reports whether text is a domain name as defined in RFC 5321
// 4.1.2: labels of letters, digits and inner hyphens, no trailing dot, a last
// label that is not a number. A-labels must decode.
func ValidDomain(text string) bool {
	nonASCII, f := checkDomain([]byte(text), false)
	return f == FaultNone && !nonASCII
}

// checkDomain checks a domain label by label. Labels beyond ASCII are taken as
// U-labels (RFC 6531 3.3); whether they can be looked up is left to the
// resolver.
func checkDomain(domain []byte, underscore bool) (nonASCII bool, f Fault) {
	if len(domain) > DomainMax {
		return false, FaultDomainLong
	}
	rest, numeric := domain, false
	for more := true; more; {
		var label []byte
		label, rest, more = bytes.Cut(rest, []byte("."))
		beyond, ok := checkLabel(label, underscore)
		if !ok {
			return false, FaultDomain
		}
		nonASCII = nonASCII || beyond
		numeric = isNumber(label)
	}
	if numeric {
		return false, FaultDomain
	}
	if nonASCII {
		if _, ok := checkText(domain); !ok {
			return true, FaultCharset
		}
	}
	return nonASCII, FaultNone
}

func checkLabel(label []byte, underscore bool) (nonASCII, ok bool) {
	if len(label) == 0 || label[0] == '-' || label[len(label)-1] == '-' {
		return false, false
	}
	for _, c := range label {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		case c == '_':
			if !underscore {
				return false, false
			}
		case c >= utf8.RuneSelf:
			nonASCII = true
		default:
			return false, false
		}
	}
	if nonASCII {
		return true, true // the limit applies to its A-label, which the resolver checks
	}
	if len(label) > labelMax {
		return false, false
	}
	if len(label) >= 4 && strings.EqualFold(string(label[:4]), "xn--") {
		return false, decodesAsPunycode(label[4:])
	}
	return false, true
}

func isNumber(label []byte) bool {
	for _, c := range label {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// validLiteral checks the text between the brackets of an address literal
// (RFC 5321 4.1.3). No tag other than IPv6 is registered.
func validLiteral(inner []byte) bool {
	const tag = "IPv6:"
	if len(inner) > len("IPv6:ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255") {
		return false
	}
	if len(inner) > len(tag) && strings.EqualFold(string(inner[:len(tag)]), tag) {
		a, err := netip.ParseAddr(string(inner[len(tag):]))
		return err == nil && a.Is6() && a.Zone() == ""
	}
	a, err := netip.ParseAddr(string(inner))
	return err == nil && a.Is4()
}

// Parameters of RFC 3492 5.
const (
	punyBase        = 36
	punyTMin        = 1
	punyTMax        = 26
	punySkew        = 38
	punyDamp        = 700
	punyInitialBias = 72
	punyInitialN    = 128
)

// decodesAsPunycode reports whether text, an A-label without its prefix, is the
// encoding of some text beyond ASCII (RFC 3492 6.2). It computes only the
// values of the code points, not their positions, so it needs no memory.
func decodesAsPunycode(text []byte) bool {
	basic := max(bytes.LastIndexByte(text, '-'), 0)
	deltas := text[basic:]
	if basic > 0 {
		deltas = text[basic+1:]
	}
	if len(deltas) == 0 {
		return false
	}
	n, i, bias, length := int64(punyInitialN), int64(0), int64(punyInitialBias), int64(basic)
	for len(deltas) > 0 {
		delta, used, ok := punyDelta(deltas, bias)
		if !ok {
			return false
		}
		deltas = deltas[used:]
		length++
		bias = punyAdapt(delta, length, i == 0 && n == punyInitialN)
		i += delta
		n += i / length
		i = i%length + 1
		if n > math.MaxInt32 || !utf8.ValidRune(rune(n)) {
			return false
		}
	}
	return true
}

// punyDelta parses one variable-length integer.
func punyDelta(text []byte, bias int64) (delta int64, used int, ok bool) {
	weight := int64(1)
	for k := int64(punyBase); used < len(text); k += punyBase {
		digit := punyDigit(text[used])
		used++
		if digit < 0 || digit > (math.MaxInt32-delta)/weight {
			return 0, 0, false
		}
		delta += digit * weight
		t := min(max(k-bias, punyTMin), punyTMax)
		if digit < t {
			return delta, used, true
		}
		if weight > math.MaxInt32/(punyBase-t) {
			return 0, 0, false
		}
		weight *= punyBase - t
	}
	return 0, 0, false
}

func punyDigit(c byte) int64 {
	switch {
	case 'a' <= c && c <= 'z':
		return int64(c - 'a')
	case 'A' <= c && c <= 'Z':
		return int64(c - 'A')
	case '0' <= c && c <= '9':
		return int64(c-'0') + 26
	}
	return -1
}

func punyAdapt(delta, length int64, first bool) int64 {
	if first {
		delta /= punyDamp
	} else {
		delta /= 2
	}
	delta += delta / length
	k := int64(0)
	for delta > (punyBase-punyTMin)*punyTMax/2 {
		delta /= punyBase - punyTMin
		k += punyBase
	}
	return k + (punyBase-punyTMin+1)*delta/(delta+punySkew)
}
