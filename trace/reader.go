package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Reader reads a trace file, line by line, so that its size does not matter.
// It belongs to one goroutine.
//
// A program that was killed leaves a file that ends without its last line, or within
// a line. Such a file is read up to that point; see Complete and Torn.
type Reader struct {
	name string
	in   *bufio.Reader
	long []byte // a line that is longer than in's buffer
	most int    // the octets of the longest line that is read
	line int    // lines read
	head Head

	format   Format
	now      mail.Instant // of the last record
	begun    bool         // there has been an event
	ahead    *Record      // read, but not returned: the first record of the next step
	complete bool
	torn     bool
}

// A Record is a line of a trace file that holds an event or an action.
type Record struct {
	Line
	Number int    // of the line in the file, from 1 on
	Text   string // of the line
}

// A Step is an event and the actions that it led to.
type Step struct {
	Event   Record
	Actions []Record
}

// A SyntaxError describes an error in a trace file, and its position.
type SyntaxError struct {
	Name string // of the file
	Line int    // from 1 on
	Err  error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Name, e.Line, e.Err) }

// Unwrap returns the error without its position.
func (e *SyntaxError) Unwrap() error { return e.Err }

// lineMax is the longest line, in octets. An Arrived names no more than
// mail.ArrivalRecipients recipients and a batch no more than some thousand.
const lineMax = 64 << 20

// NewReader returns a reader that has read the head. name is the file's, for
// errors, which are *SyntaxError unless reading itself has failed.
func NewReader(in io.Reader, name string) (*Reader, error) {
	r := &Reader{name: name, in: bufio.NewReaderSize(in, 64<<10), most: lineMax}
	text, err := r.text()
	switch {
	case errors.Is(err, io.EOF) && r.line == 0 && !r.torn:
		return nil, &SyntaxError{name, 1, errors.New("the file is empty")}
	case errors.Is(err, io.EOF):
		return nil, &SyntaxError{name, max(r.line, 1), errNoTrace}
	case err != nil:
		return nil, err
	}
	if r.head, err = parseHead(text); err != nil {
		return nil, r.wrong(err)
	}
	if text, err = r.text(); errors.Is(err, io.EOF) {
		return nil, &SyntaxError{name, r.line + 1, errors.New("the file ends before the configuration")}
	} else if err != nil {
		return nil, err
	}
	if r.head.Config, err = parseConfig(text); err != nil {
		return nil, r.wrong(err)
	}
	r.format, r.now = r.head.Format(), r.head.Epoch
	return r, nil
}

// Name returns the name that the reader was given.
func (r *Reader) Name() string { return r.name }

// Head returns the head.
func (r *Reader) Head() Head { return r.head }

// Complete reports whether the last line has been read, which means that the
// program wrote the complete trace.
func (r *Reader) Complete() bool { return r.complete }

// Torn reports whether the file ended within a line, which was not returned.
func (r *Reader) Torn() bool { return r.torn }

// Next returns the next event or action; io.EOF behind the last one.
func (r *Reader) Next() (Record, error) {
	if r.ahead != nil {
		next := *r.ahead
		r.ahead = nil
		return next, nil
	}
	text, err := r.recordText()
	if err != nil {
		return Record{}, err
	}
	l, err := r.format.parse(text)
	if err == nil {
		err = r.follows(l)
	}
	if err != nil {
		return Record{}, r.wrong(err)
	}
	return Record{l, r.line, text}, nil
}

// recordText returns the text of the next event or action.
func (r *Reader) recordText() (string, error) {
	if r.complete {
		return "", io.EOF
	}
	text, err := r.text()
	if err != nil || text != endWord {
		return text, err
	}
	r.complete = true
	if _, err = r.text(); err == nil {
		return "", r.wrong(errors.New("there is something behind the end"))
	}
	return "", err
}

// follows returns an error if a line is not allowed at its position. Time that goes
// backward would make the core panic.
func (r *Reader) follows(l Line) error {
	switch {
	case l.Event == nil && !r.begun:
		return errors.New("an action before the first event")
	case l.Event == nil && l.Now != r.now:
		return errors.New("an action at another instant than its event")
	case l.Now < r.now && r.begun:
		return errors.New("time goes back")
	}
	r.now, r.begun = l.Now, true
	return nil
}

// Step returns the next event with its actions; io.EOF behind the last one. The
// last step of a file that is not complete may lack some of its actions.
func (r *Reader) Step() (Step, error) {
	event, err := r.Next()
	if err != nil {
		return Step{}, err
	}
	s := Step{Event: event}
	for {
		next, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return s, nil
		case err != nil:
			return s, err
		case next.Event != nil:
			r.ahead = &next
			return s, nil
		}
		s.Actions = append(s.Actions, next)
	}
}

func (r *Reader) wrong(err error) error { return &SyntaxError{r.name, r.line, err} }

// text returns the next line that is neither empty nor a comment, without its
// end.
func (r *Reader) text() (string, error) {
	for {
		line, err := r.readLine()
		if err != nil {
			return "", err
		}
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			return text, nil
		}
	}
}

// readLine returns the next line. One without an end is torn, and not returned:
// even if it makes sense, something may be missing.
func (r *Reader) readLine() (string, error) {
	r.long = r.long[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		switch {
		case err == nil && len(r.long) == 0:
			r.line++
			return string(part[:len(part)-1]), nil
		case err == nil:
			r.line++
			return string(append(r.long, part[:len(part)-1]...)), nil
		case errors.Is(err, io.EOF):
			r.torn = r.torn || len(r.long)+len(part) > 0
			return "", io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", fmt.Errorf("read %s: %w", r.name, err)
		}
		if r.long = append(r.long, part...); len(r.long) > r.most {
			r.line++
			return "", r.wrong(fmt.Errorf("the line has more than %d octets", r.most))
		}
	}
}
