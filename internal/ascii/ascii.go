// Package ascii changes the case of ASCII letters and leaves all other octets as they are. Local parts are compared
// like this: only the owner of a domain knows whether the case of other letters matters (RFC 6532 3.1), and text
// that is not UTF-8 stays what it was.
package ascii

// Lower returns s with its ASCII letters in lower case. It does not allocate if there are none to change.
func Lower(s string) string {
	for i := range len(s) {
		if isUpper(s[i]) {
			return lowerFrom(s, i)
		}
	}
	return s
}

func lowerFrom(s string, i int) string {
	b := []byte(s)
	for ; i < len(b); i++ {
		b[i] = LowerByte(b[i])
	}
	return string(b)
}

// LowerByte returns an ASCII letter in lower case, and any other octet as it is.
func LowerByte(c byte) byte {
	if isUpper(c) {
		c += 'a' - 'A'
	}
	return c
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
