package replies

import "encoding/binary"

// fold writes a text with ASCII letters in lower case, and one space for any number of
// spaces and line ends, and returns its length. There must be room for the text as it was.
// Eight octets are taken at a time where they stay eight.
func fold(to []byte, text string) (n int) {
	space := uint64(0) // 0x80 if the last octet was one
	i := 0
	for ; i+8 <= len(text); i += 8 {
		word := binary.LittleEndian.Uint64([]byte(text[i : i+8]))
		spaces := zeros(word ^ ' '*ones)
		if spaces&(spaces<<8|space) != 0 || zeros(word^'\n'*ones) != 0 { // a line end, or a space behind another
			n, space = foldOctets(to, n, text[i:i+8], space)
			continue
		}
		binary.LittleEndian.PutUint64(to[n:n+8], lower(word))
		n, space = n+8, spaces>>56
	}
	n, _ = foldOctets(to, n, text[i:], space)
	return n
}

// foldOctets folds a text, octet by octet, behind the n octets that are there.
func foldOctets(to []byte, n int, text string, space uint64) (int, uint64) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == ' ' || c == '\n':
			if space != 0 {
				continue
			}
			space = 0x80
			c = ' '
		default:
			if 'A' <= c && c <= 'Z' {
				c |= 0x20
			}
			space = 0
		}
		to[n] = c
		n++
	}
	return n, space
}

// Constants with the same octet eight times.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// lower returns eight octets with ASCII letters in lower case. Its sums, of seven bits of
// each octet, have the eighth bit if the octet is at least 'A', and if it is above 'Z'.
func lower(word uint64) uint64 {
	low := word &^ highs
	upper := (low + (0x80-'A')*ones) &^ (low + (0x7f-'Z')*ones) &^ word & highs
	return word | upper>>2
}

// zeros returns the high bit of each octet that is 0.
func zeros(word uint64) uint64 { return ^((word&^highs + 0x7f*ones) | word) & highs }
