package trace

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

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
	// Instant writes an instant that will not be read back; nil means seconds from
	// Epoch.
	Instant func(mail.Instant) string
}

// AppendEvent appends the line of an event, without the line's end.
func (f Format) AppendEvent(b []byte, now mail.Instant, ev qmgr.Event) []byte {
	return f.Encoder().AppendEvent(b, now, ev)
}

// AppendAction appends the line of an action, without the line's end.
func (f Format) AppendAction(b []byte, now mail.Instant, a qmgr.Action) []byte {
	return f.Encoder().AppendAction(b, now, a)
}

// An Encoder appends lines in one format, as Format does, but uses its memory
// again. It belongs to one goroutine.
type Encoder struct{ c codec }

// Encoder returns an encoder for the format.
func (f Format) Encoder() *Encoder { return &Encoder{codec{format: f, writing: true}} }

// AppendEvent appends the line of an event, without the line's end.
func (e *Encoder) AppendEvent(b []byte, now mail.Instant, ev qmgr.Event) []byte {
	e.c.now, e.c.out = now, append(e.c.format.appendInstant(b, now), " >"...)
	e.c.event(&ev)
	return e.c.out
}

// AppendAction appends the line of an action, without the line's end.
func (e *Encoder) AppendAction(b []byte, now mail.Instant, a qmgr.Action) []byte {
	e.c.now, e.c.out = now, e.c.format.appendInstant(b, now)
	e.c.action(&a)
	return e.c.out
}

// A Line is one line of a trace: an event or an action.
type Line struct {
	Now    mail.Instant
	Event  qmgr.Event  // nil if it is an action
	Action qmgr.Action // nil if it is an event
}

// Kind returns the name of the event or action.
func (l Line) Kind() string {
	if l.Event != nil {
		return nameOf(eventKinds, l.Event)
	}
	return nameOf(actionKinds, l.Action)
}

// Append appends the line, without its end.
func (f Format) Append(b []byte, l Line) []byte {
	if l.Event != nil {
		return f.AppendEvent(b, l.Now, l.Event)
	}
	return f.AppendAction(b, l.Now, l.Action)
}

// line writes what follows the instant.
func (c *codec) line(l *Line) {
	if l.Event != nil {
		c.event(&l.Event)
		return
	}
	c.action(&l.Action)
}

// Types returns a zero value of each type of event and of action.
func Types() (events []qmgr.Event, actions []qmgr.Action) {
	for _, k := range eventKinds {
		events = append(events, k.zero)
	}
	for _, k := range actionKinds {
		actions = append(actions, k.zero)
	}
	return events, actions
}

// Parse reads a line.
func (f Format) Parse(text string) (Line, error) {
	l, err := f.parse(text)
	if err != nil {
		return Line{}, fmt.Errorf("trace line %q: %w", text, err)
	}
	return l, nil
}

func (f Format) parse(text string) (l Line, err error) {
	words, err := split(text)
	if err != nil {
		return Line{}, err
	}
	if len(words) < 2 || words[0].key != "" {
		return Line{}, errors.New("want an instant and a name")
	}
	if l.Now, err = f.parseInstant(words[0].value); err != nil {
		return Line{}, err
	}
	c := codec{format: f, now: l.Now, in: words[1:]}
	if w := c.in[0]; w.key == "" && w.value == ">" && !w.quoted {
		c.in = c.in[1:]
		c.event(&l.Event)
	} else {
		c.action(&l.Action)
	}
	if err := c.finish(); err != nil {
		return Line{}, err
	}
	return l, nil
}

// finish returns what was wrong with the words, one too many among it.
func (c *codec) finish() error {
	if c.err == nil && len(c.in) > 0 {
		c.fail("%s is not expected there", c.in[0])
	}
	return c.err
}

func (f Format) instant(i mail.Instant) string {
	if f.Instant != nil {
		return f.Instant(i)
	}
	return string(f.appendInstant(nil, i))
}

// appendInstant appends what mail.Instant's String returns, for the instant as
// seen from Epoch.
func (f Format) appendInstant(b []byte, i mail.Instant) []byte {
	if i == mail.Never {
		return append(b, i.String()...)
	}
	i -= f.Epoch
	s := i.Seconds()
	b = strconv.AppendInt(b, s, 10)
	n := int64(i) - s*int64(time.Second)
	if n == 0 {
		return append(b, 's')
	}
	const lead = int64(time.Second) // a digit in front of the nine
	at := len(b)
	b = strconv.AppendInt(b, lead+n, 10)
	b[at] = '.'
	return append(b, 's')
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
	const second = int64(time.Second)
	if !ok || err != nil || s > math.MaxInt64/second-1 || s < -(math.MaxInt64/second-1) {
		return 0, fmt.Errorf("%q is not an instant", text)
	}
	return mail.Instant(s*second+n) + f.Epoch, nil
}
