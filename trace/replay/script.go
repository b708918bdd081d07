package replay

import (
	"errors"
	"io"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

// A cue is a recorded event, loosened from the numbers of its run.
type cue struct {
	now    mail.Instant
	event  qmgr.Event
	line   int
	answer bool // it answers the question of that key
	key    name
	handle name           // what the question was called in its run
	about  []mail.QueueID // none: about no message, or about many
}

// messages returns the messages that a cue is about, by what it says and what it
// answers.
func (c *cue) messages() []mail.QueueID {
	switch c.key.kind {
	case entryKind: // whose message only the question names
		return []mail.QueueID{mail.QueueID(c.key.id)}
	case "fetch": // about those that it finds, and all others
		return nil
	}
	return trace.Line{Event: c.event}.Subject().Messages
}

// A script reads a trace as cues.
type script struct {
	r     *trace.Reader
	asked map[name][]name // questions that wait for their answers: handle to keys, oldest first
}

func newScript(r *trace.Reader) *script { return &script{r: r, asked: make(map[name][]name)} }

// next returns the next cue; io.EOF behind the last one.
func (s *script) next() (cue, error) {
	step, err := s.r.Step()
	if err != nil {
		return cue{}, err
	}
	c := cue{now: step.Event.Now, event: step.Event.Event, line: step.Event.Number}
	for _, h := range handles(c.event) {
		if keys := s.asked[h]; len(keys) > 0 {
			c.answer, c.key, c.handle = true, keys[0], h
			s.take(h)
			break
		}
	}
	c.about = c.messages()
	for _, a := range step.Actions {
		if q, asks := ask(a.Action); asks {
			s.asked[q.handle] = append(s.asked[q.handle], q.key)
		}
	}
	return c, nil
}

func (s *script) take(handle name) {
	if keys := s.asked[handle]; len(keys) > 1 {
		s.asked[handle] = keys[1:]
		return
	}
	delete(s.asked, handle)
}

// all reads all cues.
func (s *script) all() ([]cue, error) {
	var cues []cue
	for {
		c, err := s.next()
		if errors.Is(err, io.EOF) {
			return cues, nil
		}
		if err != nil {
			return nil, err
		}
		cues = append(cues, c)
	}
}
