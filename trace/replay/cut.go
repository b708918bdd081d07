package replay

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

// A Selection says what of a trace is wanted. The zero Selection is all of it.
type Selection struct {
	// Messages are the messages that are wanted; none means all, unless
	// Destinations names some.
	Messages []mail.QueueID
	// Destinations are transports and nexthops; a message of which a recipient is
	// routed to one of them is wanted, with all its recipients.
	Destinations []Destination
	// ToLine is the line of the last event that is wanted, or of one of its
	// actions; 0 means the last one.
	ToLine int
}

// A Destination is a transport's nexthop; "" means any.
type Destination struct{ Transport, Nexthop string }

// A CutResult counts the parts of a trace that Cut kept and added.
type CutResult struct {
	Messages  int // that are wanted; 0 if all are
	Events    int // recorded
	Given     int // of them that the new core was given
	Wakes     int // that it was given besides, because it asked for them
	Questions int // that stayed unanswered
	Answers   int // that no question asked for
	Crash     string
}

// prompt is the lateness of wakes for a core whose recorded wakes are left out:
// none. patient is for one that mostly gets its recorded ones: only if the one that
// it wants is missing, since a daemon is always a little late.
const (
	prompt  time.Duration = 0
	patient               = time.Second
)

// Cut replays what is wanted of a trace and records it anew. open opens the
// trace, and is called twice if messages have to be looked for first.
func Cut(open func() (*trace.Reader, error), want Selection, to io.Writer, comments ...string) (CutResult, error) {
	messages, err := want.messages(open)
	if err != nil {
		return CutResult{}, err
	}
	r, err := open()
	if err != nil {
		return CutResult{}, err
	}
	lateness := patient
	if messages != nil {
		lateness = prompt
	}
	w := trace.NewWriter(to, r.Head(), comments...)
	p, err := newPlayer(r.Head(), w, lateness)
	if err != nil {
		return CutResult{}, fmt.Errorf("%s: %w", r.Name(), err)
	}
	var result CutResult
	steps := 0
	p.stepped = func(step played) bool {
		steps++
		if step.crash != nil {
			result.Crash = step.crash.text
		}
		return false
	}
	s, some := newScript(r), wanted(func(id mail.QueueID) bool { return messages[id] })
	for ok := true; !p.over; {
		c, err := s.next()
		if errors.Is(err, io.EOF) || err == nil && want.ToLine > 0 && c.line > want.ToLine {
			break
		}
		if err != nil {
			return result, err
		}
		result.Events++
		if messages != nil && result.Events > 1 { // the first Step scans the spool
			if c, ok = some.filter(c); !ok {
				continue
			}
			switch c.event.(type) {
			case qmgr.Wake: // a core with less to do wants to be woken at other instants
				continue
			case qmgr.Verify: // for mail that has not come yet
				continue
			}
		}
		p.play(c)
	}
	result.Messages, result.Given, result.Wakes = len(messages), p.given, steps-p.given
	result.Questions, result.Answers = p.unanswered()
	if result.Crash != "" {
		return result, w.Flush()
	}
	return result, w.End()
}

// wanted reports whether a message is wanted; nil means that all are.
type wanted func(mail.QueueID) bool

// messages returns the messages that are wanted.
func (want *Selection) messages(open func() (*trace.Reader, error)) (map[mail.QueueID]bool, error) {
	if len(want.Messages)+len(want.Destinations) == 0 {
		return nil, nil
	}
	set := make(map[mail.QueueID]bool)
	for _, id := range want.Messages {
		set[id] = true
	}
	if len(want.Destinations) == 0 {
		return set, nil
	}
	r, err := open()
	if err != nil {
		return nil, err
	}
	follower := trace.NewFollower()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) || err == nil && want.ToLine > 0 && line.Number > want.ToLine {
			return set, nil
		}
		if err != nil {
			return nil, err
		}
		if subject := follower.Subject(line.Line); want.isTo(subject) {
			for _, id := range subject.Messages {
				set[id] = true
			}
		}
	}
}

// isTo reports whether a line is about one of the destinations.
func (want *Selection) isTo(s trace.Subject) bool {
	return slices.ContainsFunc(want.Destinations, func(d Destination) bool {
		return (d.Transport == "" || slices.Contains(s.Transports, d.Transport)) && (d.Nexthop == "" || slices.Contains(s.Nexthops, d.Nexthop))
	})
}

// filter leaves of a cue what is about wanted messages; false if that is nothing.
func (w wanted) filter(c cue) (cue, bool) {
	switch ev := c.event.(type) {
	case qmgr.Found:
		ev.Found.Cursors = slices.DeleteFunc(slices.Clone(ev.Found.Cursors), func(k mail.Cursor) bool { return !w(k.ID) })
		c.event = ev
		return c, true
	case qmgr.Hold:
		ev.IDs = w.only(ev.IDs)
		c.event = ev
		return c, len(ev.IDs) > 0
	case qmgr.Release:
		ev.IDs = w.only(ev.IDs)
		c.event = ev
		return c, len(ev.IDs) > 0
	case qmgr.Drop:
		ev.IDs = w.only(ev.IDs)
		c.event = ev
		return c, len(ev.IDs) > 0
	case qmgr.Retry:
		ev.IDs = w.only(ev.IDs)
		c.event = ev
		return c, len(ev.IDs) > 0
	}
	return c, len(c.about) == 0 || slices.ContainsFunc(c.about, w)
}

func (w wanted) only(ids []mail.QueueID) []mail.QueueID {
	return slices.DeleteFunc(slices.Clone(ids), func(id mail.QueueID) bool { return !w(id) })
}
