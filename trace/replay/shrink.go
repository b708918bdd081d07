package replay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/trace"
)

// ErrNotReached means that a trace, played with answers that follow the core, does
// not show what a smaller one is to show.
var ErrNotReached = errors.New("the trace does not show it once the core gets answers to its own questions")

// A ShrinkResult is the size of a trace before and after.
type ShrinkResult struct {
	Before, After int // events
	Tries         int
	// Interrupted means that ctx ended before all tries: the result reaches the
	// goal, but may not be the smallest.
	Interrupted bool
}

// Shrink looks for the fewest events of a trace that still reach a goal, and
// records what they lead to. It first leaves out whole messages, then single
// events, in halves, quarters and so on (Zeller's delta debugging, without its
// tries of small parts alone: what a core does depends on what was before, so
// those hardly ever succeed). The events are kept in memory.
//
// When ctx ends, the best that was found is written. progress, if not nil, is
// told of each try.
func Shrink(ctx context.Context, r *trace.Reader, goal Goal, to io.Writer, progress func(events, tries int)) (ShrinkResult, error) {
	cues, err := newScript(r).all()
	if err != nil {
		return ShrinkResult{}, err
	}
	s := shrinker{ctx: ctx, head: r.Head(), goal: goal, progress: progress}
	s.result.Before = len(cues)
	best, ok := s.try(cues)
	switch {
	case s.err != nil:
		return s.result, s.err
	case !ok:
		return s.result, ErrNotReached
	}
	best = s.leaveOut(best, byMessage)
	for n := 0; n != len(best) && s.runs(); {
		n = len(best)
		best = s.leaveOut(best, alone)
	}
	if s.err != nil && ctx.Err() == nil { // an interrupt may have struck the judge, too
		return s.result, s.err
	}
	s.result.After, s.result.Interrupted = len(best), ctx.Err() != nil
	_, _, err = s.play(best, to, "shrunk to: "+goal.What)
	return s.result, err
}

// A shrinker looks for a smaller script.
type shrinker struct {
	ctx      context.Context
	head     trace.Head
	goal     Goal
	progress func(events, tries int)
	result   ShrinkResult
	err      error
}

func (s *shrinker) runs() bool { return s.ctx.Err() == nil && s.err == nil }

// A grouping says which cues are left out together.
type grouping uint8

const (
	byMessage grouping = iota // those about one message
	alone                     // each by itself
)

// of returns the number of a cue's group: a message or a line. It is false for a
// cue that stays.
func (g grouping) of(c *cue) (uint64, bool) {
	if g == alone {
		return uint64(c.line), true
	}
	if len(c.about) != 1 {
		return 0, false
	}
	return uint64(c.about[0]), true
}

// leaveOut tries to do without groups of cues: half of them, then quarters, down
// to single ones.
func (s *shrinker) leaveOut(cues []cue, group grouping) []cue {
	order := s.groups(cues, group)
	for size := (len(order) + 1) / 2; size > 0 && s.runs(); size /= 2 {
		for at := 0; at < len(order) && s.runs(); {
			end := min(at+size, len(order))
			smaller, ok := s.try(without(cues, group, order[at:end]))
			if !ok {
				at = end
				continue
			}
			cues = smaller
			left := s.groups(cues, group)
			at = countIn(order[:at], left)
			order = left
		}
	}
	return cues
}

// groups returns the groups that may be left out, in order of appearance.
func (s *shrinker) groups(cues []cue, group grouping) []uint64 {
	var order []uint64
	seen := make(map[uint64]bool)
	for i := range cues {
		g, ok := group.of(&cues[i])
		if !ok || seen[g] {
			continue
		}
		seen[g] = true
		if !s.kept(&cues[i]) {
			order = append(order, g)
		}
	}
	return order
}

// kept reports whether a cue is about a message that the goal needs.
func (s *shrinker) kept(c *cue) bool {
	return len(s.goal.keep) > 0 && slices.ContainsFunc(c.about, func(id mail.QueueID) bool { return slices.Contains(s.goal.keep, id) })
}

// countIn counts the elements of list that another list has.
func countIn(list, in []uint64) int {
	set := make(map[uint64]bool, len(in))
	for _, g := range in {
		set[g] = true
	}
	n := 0
	for _, g := range list {
		if set[g] {
			n++
		}
	}
	return n
}

// without returns the cues that are not in some groups. Where these are
// messages, lists in other cues do not name them, either.
func without(cues []cue, group grouping, out []uint64) []cue {
	leave := make(map[uint64]bool, len(out))
	for _, g := range out {
		leave[g] = true
	}
	stays := wanted(func(id mail.QueueID) bool { return !leave[uint64(id)] })
	rest := make([]cue, 0, len(cues))
	for i := range cues {
		if g, ok := group.of(&cues[i]); ok && leave[g] {
			continue
		}
		c, ok := cues[i], true
		if group == byMessage {
			c, ok = stays.filter(c)
		}
		if ok {
			rest = append(rest, c)
		}
	}
	return rest
}

// try reports whether cues reach the goal, and returns those of them that had a part
// in it.
func (s *shrinker) try(cues []cue) ([]cue, bool) {
	s.result.Tries++
	if s.progress != nil {
		s.progress(len(cues), s.result.Tries)
	}
	if s.goal.judge == nil {
		used, reached, err := s.play(cues, nil)
		s.err = err
		return used, reached
	}
	var text bytes.Buffer
	used, _, err := s.play(cues, &text)
	reached := false
	if err == nil {
		reached, err = s.goal.judge(text.Bytes())
	}
	s.err = err
	return used, reached && err == nil
}

// play gives cues to a core until the goal is reached, and returns those that it
// was given, and the last one, whose instant may have been what counted.
func (s *shrinker) play(cues []cue, to io.Writer, comments ...string) (used []cue, reached bool, err error) {
	var w *trace.Writer
	if to != nil {
		w = trace.NewWriter(to, s.head, comments...)
	}
	p, err := newPlayer(s.head, w, patient)
	if err != nil {
		return nil, false, err
	}
	given := make(map[int]bool, len(cues))
	crashed := false
	p.stepped = func(step played) bool {
		given[step.line] = true
		crashed = step.crash != nil
		reached = s.goal.reached != nil && s.goal.reached(step)
		return reached
	}
	last := 0
	for i := 0; i < len(cues) && !p.over; i++ {
		p.play(cues[i])
		last = cues[i].line
	}
	for i := range cues {
		if given[cues[i].line] || cues[i].line == last {
			used = append(used, cues[i])
		}
	}
	switch {
	case w == nil:
	case crashed:
		err = w.Flush()
	default:
		err = w.End()
	}
	return used, reached, err
}
