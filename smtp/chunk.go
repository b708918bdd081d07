package smtp

import "bytes"

// Chunk returns the content of a whole message in the form that BDAT needs:
// every line end is CRLF, and the content ends in one. Nearly always content
// already has this form and is returned itself, otherwise a copy. A bare LF
// becomes CRLF and a bare CR a space, as in a Stuffer: BDAT counts octets, so
// neither could end the message here, but the next hop may have to use DATA.
// Empty content becomes an empty line.
func Chunk(content []byte) []byte {
	if bytes.HasSuffix(content, []byte("\r\n")) && crlfOnly(content) {
		return content
	}
	out := make([]byte, 0, len(content)+len(content)/32+2)
	for i, c := range content {
		switch {
		case c == '\n' && (i == 0 || content[i-1] != '\r'):
			out = append(out, '\r', '\n')
		case c == '\r' && i+1 < len(content) && content[i+1] != '\n':
			out = append(out, ' ')
		default:
			out = append(out, c)
		}
	}
	switch {
	case bytes.HasSuffix(out, []byte("\r\n")):
	case bytes.HasSuffix(out, []byte("\r")):
		out = append(out, '\n')
	default:
		out = append(out, '\r', '\n')
	}
	return out
}

// crlfOnly reports whether every LF follows a CR and every CR is followed by
// an LF.
func crlfOnly(content []byte) bool {
	ends := 0
	for rest := content; ; ends++ {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		if i == 0 || rest[i-1] != '\r' {
			return false
		}
		rest = rest[i+1:]
	}
	return bytes.Count(content, []byte{'\r'}) == ends
}
