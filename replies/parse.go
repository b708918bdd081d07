package replies

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// ParseReply reads a reply as people copy it from a log: a code, perhaps an enhanced status
// code, and a text whose further lines may repeat both.
func ParseReply(text string) (mail.Reply, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) == 1 {
		lines = strings.Split(lines[0], " / ") // as in the log
	}
	var r mail.Reply
	for i, line := range lines {
		rest := strings.TrimSpace(line)
		code, after, ok := cutCode(rest)
		switch {
		case i == 0 && !ok:
			return mail.Reply{}, fmt.Errorf("%q does not begin with a reply code from 200 to 599", rest)
		case i == 0:
			r.Code, rest = code, after
		case ok && code == r.Code:
			rest = after
		}
		if s, after, ok := mail.ParseStatus(rest); ok && s.Class == r.Code/100 && (i == 0 || s == r.Status) {
			r.Status, rest = s, after
		}
		lines[i] = rest
	}
	r.Text = mail.CleanText(strings.Join(lines, "\n"))
	return r, nil
}

// cutCode cuts a code and the separator behind it from a line.
func cutCode(line string) (code uint16, rest string, ok bool) {
	if len(line) < 3 || len(line) > 3 && line[3] != ' ' && line[3] != '-' {
		return 0, line, false
	}
	n, err := strconv.ParseUint(line[:3], 10, 16)
	if err != nil || n < 200 || n > 599 {
		return 0, line, false
	}
	return uint16(n), line[min(4, len(line)):], true
}
