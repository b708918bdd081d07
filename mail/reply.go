package mail

import (
	"strconv"
	"strings"
)

// A Status is an enhanced mail system status code, class.subject.detail
// (RFC 3463). The zero Status means that none was given.
type Status struct {
	Class, Subject, Detail uint16
}

// String returns the text form, as in "4.4.1"; "" for the zero Status.
func (s Status) String() string {
	if s == (Status{}) {
		return ""
	}
	var room [len("5.999.999")]byte
	return string(s.append(room[:0]))
}

func (s Status) append(to []byte) []byte {
	to = append(strconv.AppendUint(to, uint64(s.Class), 10), '.')
	to = append(strconv.AppendUint(to, uint64(s.Subject), 10), '.')
	return strconv.AppendUint(to, uint64(s.Detail), 10)
}

// ParseStatus parses a status code at the front of text and returns what
// follows it and one space. Its class must be 2, 4 or 5, its other numbers at
// most 999 and without leading zeros (RFC 3463 2).
func ParseStatus(text string) (s Status, rest string, ok bool) {
	word, rest, _ := strings.Cut(text, " ")
	class, word, ok1 := parseStatusPart(word, '.')
	subject, word, ok2 := parseStatusPart(word, '.')
	detail, _, ok3 := parseStatusPart(word, 0)
	if !ok1 || !ok2 || !ok3 || class != 2 && class != 4 && class != 5 {
		return Status{}, text, false
	}
	return Status{class, subject, detail}, rest, true
}

// parseStatusPart parses a number of up to three digits that ends with end, or
// with the text if end is 0.
func parseStatusPart(text string, end byte) (n uint16, rest string, ok bool) {
	i := 0
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		n = n*10 + uint16(text[i]-'0')
		if i == 3 {
			return 0, "", false
		}
	}
	switch {
	case i == 0 || i > 1 && text[0] == '0':
		return 0, "", false
	case end == 0:
		return n, "", i == len(text)
	case i == len(text) || text[i] != end:
		return 0, "", false
	}
	return n, text[i+1:], true
}

// A Reply is the answer of an SMTP server, or of this program itself, about a
// command, a recipient or a host. The zero Reply means that there is none.
//
// Text is one line or several separated by "\n"; it has no other control
// characters, is valid UTF-8 and is at most ReplyTextMax octets long. Callers
// clean text from a remote end with CleanText first, so that it can be logged and
// quoted in reports without further care.
//
// By distinguishes a verdict of the other end from one of our own: among outcomes
// other than Delivered, the core takes only one with By as evidence that the host
// works (package qmgr).
type Reply struct {
	Code   uint16 // 200…599; for our own verdicts the code that a server would give
	Status Status
	Text   string // without code and status
	By     string // the remote host that sent it, as "name[address]"; "" if this program did
}

// Prefixes precede the reason in the replies of recipients that are deferred
// without an attempt, because their destination is dead, or because too much mail
// already waits for it. Code, status and the rest of the text are those of the
// reply that was the reason.
const (
	SuspendedPrefix = "delivery temporarily suspended: "
	StuckPrefix     = "too much mail waits for a destination that does not answer: "
)

// Said returns the reply without a prefix, that is, the original words.
func (r Reply) Said() Reply {
	for _, prefix := range [...]string{SuspendedPrefix, StuckPrefix} {
		r.Text = strings.TrimPrefix(r.Text, prefix)
	}
	return r
}

// PutOff returns the reason for deferring mail without asking the host again, if
// Text begins with one; otherwise "".
func (r Reply) PutOff() string {
	for _, prefix := range [...]string{SuspendedPrefix, StuckPrefix} {
		if strings.HasPrefix(r.Text, prefix) {
			return strings.TrimSuffix(prefix, ": ")
		}
	}
	return ""
}

// ReplyTextMax is the maximum length of Reply.Text, in octets. A host's reply is
// evidence, and few are longer.
const ReplyTextMax = 4096

// IsZero reports whether there is no reply.
func (r Reply) IsZero() bool { return r.Code == 0 }

// Positive reports whether the reply is 2xx or 3xx.
func (r Reply) Positive() bool { return r.Code >= 200 && r.Code < 400 }

// Temporary reports whether the reply is 4xx.
func (r Reply) Temporary() bool { return r.Code >= 400 && r.Code < 500 }

// Permanent reports whether the reply is 5xx.
func (r Reply) Permanent() bool { return r.Code >= 500 }

// String returns code, status and text on one line, in which " / " stands for the end
// of a line.
func (r Reply) String() string { return strings.ReplaceAll(r.Lines(), "\n", " / ") }

// Lines returns code, status and text, in as many lines as the text has.
func (r Reply) Lines() string {
	if r.IsZero() {
		return ""
	}
	var room [len("250 2.0.0 ") + 118]byte
	b := append(strconv.AppendUint(room[:0], uint64(r.Code), 10), ' ')
	if r.Status != (Status{}) {
		b = append(r.Status.append(b), ' ')
	}
	return string(append(b, r.Text...))
}

// CleanText makes text from a remote end safe to log, store and quote:
// control characters except "\n" and octets that are not UTF-8 become "?",
// and text longer than ReplyTextMax octets is truncated by CutText.
func CleanText(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
		case r < 0x20, r >= 0x7f && r < 0xa0, r == 0xfffd, r == 0x2028, r == 0x2029:
			r = '?'
		}
		if b.WriteRune(r); b.Len() > ReplyTextMax {
			break
		}
	}
	return CutText(b.String(), ReplyTextMax)
}

// CutMark is the end of a truncated text.
const CutMark = " [...]"

// CutText truncates a text to at most most octets, but no fewer than CutMark has, at
// a character boundary and with CutMark at the end. The result does not keep the
// rest of a longer text in memory.
func CutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := most - len(CutMark)
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n] + CutMark
}
