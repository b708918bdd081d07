package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

// A Goal is what a smaller trace has to show as well.
type Goal struct {
	What string // in words
	// reached reports whether a step shows it.
	reached func(played) bool
	// keep are messages without which it would be something else.
	keep []mail.QueueID
	// judge, if not nil, decides instead, about a whole trace.
	judge func(text []byte) (bool, error)
}

// A played is a step of a player.
type played struct {
	line    int // of the recorded event; 0 if there is none
	now     mail.Instant
	actions []qmgr.Action
	crash   *crash
}

// Until returns the goal that the core does something whose line, written in
// the trace's format, matches.
func Until(what string, f trace.Format, matches func(line []byte) bool) Goal {
	var text []byte
	lines := f.Encoder()
	return Goal{What: what, reached: func(s played) bool {
		return slices.ContainsFunc(s.actions, func(a qmgr.Action) bool {
			text = lines.AppendAction(text[:0], s.now, a)
			return matches(text)
		})
	}}
}

// Judged returns the goal that judge accepts the trace itself.
func Judged(what string, judge func(text []byte) (bool, error)) Goal {
	return Goal{What: what, judge: judge}
}

// ErrNoFailure means that a trace replays as it was recorded.
var ErrNoFailure = errors.New("it replays as it was recorded: there is no failure to shrink to")

// FailureOf returns as a goal what goes wrong when a trace is replayed: the core
// panics, or does something else than was recorded.
//
// What the program that recorded the trace would have done with less is not
// known. So the second kind of goal is that this program does the same at the
// same event, and not what was recorded, while everything about the messages of
// both is left in place. To be exact, let that program judge (Judged).
func FailureOf(r *trace.Reader) (Goal, error) {
	result, err := Run(r)
	if err != nil {
		return Goal{}, err
	}
	d := result.Difference
	switch {
	case d == nil:
		return Goal{}, ErrNoFailure
	case d.Panic != "":
		return Goal{What: "the core panics: " + d.Panic, reached: func(s played) bool {
			return s.crash != nil && withoutNumbers(s.crash.text) == withoutNumbers(d.Panic)
		}}, nil
	}
	return d.goal(), nil
}

func (d *Difference) goal() Goal {
	g := Goal{keep: trace.Line{Event: d.event.Event}.Subject().Messages}
	lists := func(s played, a qmgr.Action) bool {
		return slices.ContainsFunc(s.actions, func(b qmgr.Action) bool { return sense(a) == sense(b) })
	}
	for _, a := range []qmgr.Action{d.recorded, d.got} {
		if a != nil {
			g.keep = append(g.keep, trace.Line{Action: a}.Subject().Messages...)
		}
	}
	g.reached = func(s played) bool {
		return s.line == d.event.Number && (d.got == nil || lists(s, d.got)) && (d.recorded == nil || !lists(s, d.recorded))
	}
	switch {
	case d.got == nil:
		g.What = fmt.Sprintf("the core does not %q", d.Recorded)
	case d.recorded == nil:
		g.What = fmt.Sprintf("the core does %q as well", d.Got)
	default:
		g.What = fmt.Sprintf("the core does %q instead of %q", d.Got, d.Recorded)
	}
	return g
}

// sense returns what an action means, whatever the run: without the numbers that
// the core counts.
func sense(a qmgr.Action) name {
	if q, asks := ask(a); asks {
		return q.key
	}
	_, text, _ := strings.Cut(string(trace.Format{}.AppendAction(nil, 0, a)), " ")
	return name{text: text}
}

// withoutNumbers makes texts equal that differ in numbers only.
func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}
