package trace

import (
	"fmt"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
)

// A Format says how IDs and instants are written. The zero Format writes both
// in full.
type Format struct {
	// Name writes a message's ID, and ID reads it back; nil means the ID's own
	// text.
	Name func(mail.QueueID) string
	ID   func(string) (mail.QueueID, error)
	// Epoch is the instant that is written as 0s.
	Epoch mail.Instant
}

// AppendEvent appends the line of an event, without the line's end.
func (f Format) AppendEvent(b []byte, now mail.Instant, ev qmgr.Event) []byte {
	c := codec{format: f, now: now, out: b, writing: true}
	c.out = append(c.out, f.instant(now)...)
	c.out = append(c.out, " >"...)
	c.event(&ev)
	return c.out
}

// AppendAction appends the line of an action, without the line's end.
func (f Format) AppendAction(b []byte, now mail.Instant, a qmgr.Action) []byte {
	c := codec{format: f, now: now, out: b, writing: true}
	c.out = append(c.out, f.instant(now)...)
	c.action(&a)
	return c.out
}

// A Line is one line of a trace: an event or an action.
type Line struct {
	Now    mail.Instant
	Event  qmgr.Event  // nil if it is an action
	Action qmgr.Action // nil if it is an event
}

// Parse reads a line.
func (f Format) Parse(text string) (Line, error) {
	words, err := split(text)
	if err != nil {
		return Line{}, err
	}
	if len(words) < 2 || words[0].key != "" {
		return Line{}, fmt.Errorf("trace line %q: want an instant and a name", text)
	}
	var l Line
	if l.Now, err = f.parseInstant(words[0].value); err != nil {
		return Line{}, fmt.Errorf("trace line %q: %w", text, err)
	}
	c := codec{format: f, now: l.Now, in: words[1:]}
	if w := c.in[0]; w.key == "" && w.value == ">" && !w.quoted {
		c.in = c.in[1:]
		c.event(&l.Event)
	} else {
		c.action(&l.Action)
	}
	if c.err == nil && len(c.in) > 0 {
		c.fail("%s is not expected there", c.in[0])
	}
	if c.err != nil {
		return Line{}, fmt.Errorf("trace line %q: %w", text, c.err)
	}
	return l, nil
}

func (f Format) instant(i mail.Instant) string {
	if i == mail.Never {
		return i.String()
	}
	return (i - f.Epoch).String()
}

func (f Format) parseInstant(text string) (mail.Instant, error) {
	if text == mail.Never.String() {
		return mail.Never, nil
	}
	number, ok := strings.CutSuffix(text, "s")
	whole, fraction, fractional := strings.Cut(number, ".")
	s, err := parseInt(whole)
	n := int64(0)
	if err == nil && fractional {
		n, err = parseInt(fraction)
		ok = ok && len(fraction) == 9 && n > 0
	}
	const second = 1_000_000_000
	if !ok || err != nil || s > (1<<63-1)/second-1 || s < -((1<<63-1)/second-1) {
		return 0, fmt.Errorf("%q is not an instant", text)
	}
	return mail.Instant(s*second+n) + f.Epoch, nil
}
