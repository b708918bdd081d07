package simulation

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/sim"
)

// A simProgress is a line on a terminal with the progress of a simulation.
type simProgress struct {
	w     io.Writer
	width int
	next  time.Time // when to write it again
	shown bool
}

// The line appears when a simulation takes long, and changes no faster than people can
// read.
const (
	simProgressAfter = time.Second
	simProgressEvery = 200 * time.Millisecond
)

// newSimProgress returns nil, which shows nothing, if w is not a terminal.
func newSimProgress(w io.Writer) *simProgress {
	width := command.Terminal(w)
	if width == 0 {
		return nil
	}
	return &simProgress{w: w, width: width, next: time.Now().Add(simProgressAfter)}
}

func (p *simProgress) show(at sim.Progress) {
	now := time.Now()
	if now.Before(p.next) || at.Run == "" {
		return
	}
	p.next, p.shown = now.Add(simProgressEvery), true
	fmt.Fprintf(p.w, "\r%-*s", p.width-1, simProgressText(at, p.width-1))
}

// simProgressText is the line, in at most so many columns.
func simProgressText(at sim.Progress, width int) string {
	text := fmt.Sprintf("%d of %d recipients settled, %v of virtual time", at.Settled, at.Accepted, at.At.Round(time.Second))
	if at.Of > 1 {
		text = fmt.Sprintf("%d of %d runs done; %s: %s", at.Done, at.Of, at.Run, text)
	}
	if line := []rune(text); len(line) > width {
		return string(line[:max(width, 0)])
	}
	return text
}

// clear takes the line away before anything else is written.
func (p *simProgress) clear() {
	if p != nil && p.shown {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width-1))
	}
}
