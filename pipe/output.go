package pipe

import (
	"bytes"
	"strings"
)

// outputMax is the size of the end of a program's output that is kept.
const outputMax = 4096

// headMax is the size of the beginning that is kept, for a status in front.
const headMax = 512

// An output is the end of what a program has written, and the beginning.
type output struct{ head, tail []byte }

// Write keeps the end of what was written until now.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	if len(o.head) == 0 { // blank lines are no beginning
		o.head = append(o.head, bytes.TrimLeft(p[:min(n, headMax)], " \t\r\n")...)
	} else {
		o.head = append(o.head, p[:min(n, headMax-len(o.head))]...)
	}
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
	return oneLine(text)
}

// firstLine returns the first line that is not blank.
func (o *output) firstLine() string {
	text := string(o.head)
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		text = text[:i]
	}
	return oneLine(text)
}

func oneLine(text string) string {
	return strings.TrimSpace(strings.ReplaceAll(text, "\t", " "))
}
