package dsn

import (
	"strconv"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A replyLine is one line of a reply: its prefix (code, separator and status) and
// the text.
type replyLine struct {
	prefix, text string
}

// replyLines splits a reply into the lines seen on the wire. The reply's code is 0
// for text that is not an SMTP reply; then there is one line.
func replyLines(r mail.Reply) []replyLine {
	if r.Code == 0 {
		return []replyLine{{"", r.Text}}
	}
	lines := make([]replyLine, 0, 1+strings.Count(r.Text, "\n"))
	code, status := strconv.Itoa(int(r.Code)), r.Status.String()
	if status != "" {
		status += " "
	}
	for rest, more := r.Text, true; more; {
		var text string
		separator := " "
		if text, rest, more = strings.Cut(rest, "\n"); more {
			separator = "-"
		}
		lines = append(lines, replyLine{code + separator + status, text})
	}
	return lines
}

// String returns the line. A separator with nothing after it is dropped, so
// that no line ends in a space.
func (l replyLine) String() string {
	if l.text == "" {
		return strings.TrimRight(l.prefix, " ")
	}
	return l.prefix + l.text
}

// encoded is like String, with the text encoded for a field.
func (l replyLine) encoded(utf8OK bool) string {
	if s := l.String(); plainText(s, utf8OK) {
		return s
	}
	return l.prefix + encodeWords(l.text)
}

// parseReply assembles a reply from its lines. The status is that of the first line
// if its class matches the code, and is removed from every line that repeats it, as
// RFC 2034 4 requires servers to do. Parsing the result of replyLines for any reply
// yields a value that does not change when this is repeated; Clean relies on it.
func parseReply(lines []replyLine) mail.Reply {
	var r mail.Reply
	texts := make([]string, len(lines))
	for i, l := range lines {
		line := l.String()
		code, rest, ok := cutCode(line)
		if !ok || i > 0 && code != r.Code {
			rest = line // text that is not an SMTP reply
		}
		if i == 0 {
			r.Code = code
		}
		s, after, found := mail.ParseStatus(rest)
		if r.Code != 0 && i == 0 && found && s.Class == r.Code/100 {
			r.Status = s
		}
		if found && s == r.Status {
			rest = after
		}
		texts[i] = rest
	}
	r.Text = strings.Join(texts, "\n")
	return r
}

// cutCode removes a reply code and its separator from a line.
func cutCode(line string) (code uint16, rest string, ok bool) {
	if len(line) < 3 || line[0] < '2' || line[0] > '5' {
		return 0, line, false
	}
	for i := 0; i < 3; i++ {
		if line[i] < '0' || line[i] > '9' {
			return 0, line, false
		}
		code = code*10 + uint16(line[i]-'0')
	}
	switch {
	case len(line) == 3:
		return code, "", true
	case line[3] == ' ' || line[3] == '-':
		return code, line[4:], true
	}
	return 0, line, false
}

// The types of Diagnostic-Code fields that we write: for replies of the next hop,
// and for our own (RFC 3464 2.1.2 reserves names that begin with "X-").
const (
	diagnosticSMTP = "smtp"
	diagnosticOurs = "x-posthaste"
)

// diagnostic writes the Diagnostic-Code field, with the reply's line ends as folds.
func (o *output) diagnostic(r mail.Reply, utf8OK bool) {
	if r.IsZero() && r.Text == "" {
		return
	}
	kind := diagnosticOurs
	if r.By != "" {
		kind = diagnosticSMTP
	}
	const name = "Diagnostic-Code: "
	o.text(name, kind, ";")
	column := len(name) + len(kind) + 1
	for i, l := range replyLines(r) {
		if i > 0 {
			o.text("\r\n")
			column = 0
		}
		o.text(" ")
		o.folded(column+1, l.encoded(utf8OK))
	}
	o.text("\r\n")
}

// parseDiagnostic parses the value of a Diagnostic-Code field whose folds are kept
// as line ends: a folded line that continues with the code of the previous line is
// a line of the reply.
func parseDiagnostic(value string) mail.Reply {
	if _, after, ok := strings.Cut(value, ";"); ok {
		value = after
	}
	var lines []replyLine
	var line strings.Builder
	for physical := range strings.SplitSeq(value, "\n") {
		if startsLine(strings.TrimLeft(line.String(), " \t"), strings.TrimLeft(physical, " \t")) {
			lines = append(lines, replyLine{text: strings.TrimLeft(line.String(), " \t")})
			line.Reset()
		}
		line.WriteString(physical)
	}
	r := parseReply(append(lines, replyLine{text: strings.TrimLeft(line.String(), " \t")}))
	texts := strings.Split(r.Text, "\n")
	for i, t := range texts {
		texts[i] = decodeWords(t)
	}
	r.Text = strings.Join(texts, "\n")
	return r
}

// startsLine reports whether next is the reply line that must follow last.
func startsLine(last, next string) bool {
	if len(last) < 4 || last[3] != '-' {
		return false
	}
	promised, _, _ := cutCode(last)
	code, _, ok := cutCode(next)
	return ok && code == promised
}
