package sink

import (
	"bytes"
	"slices"
	"strings"
)

// extensions returns what a session offers.
func extensions() []string {
	return []string{"PIPELINING", "SIZE", "8BITMIME", "SMTPUTF8", "DSN", "ENHANCEDSTATUSCODES", "LIMITS", "CHUNKING"}
}

// withhold removes extensions from a reply if it is the one to EHLO, which is
// known by our name on the first of several lines. It works in place.
func withhold(reply []byte, hostname string, withheld []string) []byte {
	if !bytes.HasPrefix(reply, []byte("250-"+hostname+"\r\n")) {
		return reply
	}
	kept, last := reply[:0], 0
	for rest := reply; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\r\n"))
		final := len(line) > 3 && line[3] == ' '
		name, _, _ := strings.Cut(string(line[min(4, len(line)):]), " ")
		if !slices.ContainsFunc(withheld, func(w string) bool { return strings.EqualFold(w, name) }) {
			last = len(kept)
			kept = append(append(kept, line...), "\r\n"...)
		}
		rest = after
		if final {
			kept[last+3] = ' '
			return append(kept, rest...)
		}
	}
	return kept
}
