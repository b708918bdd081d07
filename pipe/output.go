package pipe

import "strings"

// outputMax is how much of the end of a program's output is kept.
const outputMax = 4096

// An output is the end of what a program has written.
type output struct{ tail []byte }

// Write keeps the end of what was written until now.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	if n > outputMax {
		p = p[n-outputMax:]
	}
	if drop := len(o.tail) + len(p) - outputMax; drop > 0 {
		o.tail = append(o.tail[:0], o.tail[drop:]...)
	}
	o.tail = append(o.tail, p...)
	return n, nil
}

// lastLine returns the last line that is not blank.
func (o *output) lastLine() string {
	text := strings.TrimRight(string(o.tail), " \t\r\n")
	if i := strings.LastIndexAny(text, "\r\n"); i >= 0 {
		text = text[i+1:]
	}
	return strings.TrimSpace(strings.ReplaceAll(text, "\t", " "))
}
