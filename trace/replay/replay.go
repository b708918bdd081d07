package replay

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/posthaste-mta/posthaste/mail"
	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/trace"
)

// A Result is what a replay came to.
type Result struct {
	Events, Actions int // replayed and equal
	// Missing is the number of actions of the last event that were not recorded, because
	// the program was killed meanwhile.
	Missing    int
	Difference *Difference // nil if there is none
}

// A Difference is where the core does something else than was recorded.
type Difference struct {
	Line     int    // of the recorded action; of the event if no action was recorded there
	Event    string // the line of the event
	Recorded string // the line of the action; "" if none was recorded
	Got      string // "" if the core does nothing more
	// Panic is what the core says if it gives up, Stack where it does.
	Panic, Stack string
	Before       []string // lines of the events before, the latest last

	event         trace.Record
	recorded, got qmgr.Action // nil where there is none
}

// contextLines is the number of events before a difference that are shown.
const contextLines = 10

// Run replays what is left in a reader. An error means that the trace is bad, or
// cannot be read.
func Run(r *trace.Reader) (Result, error) {
	core, err := newCore(r)
	if err != nil {
		return Result{}, err
	}
	v := verifier{core: core, lines: r.Head().Format().Encoder()}
	step, err := r.Step()
	for err == nil {
		var next trace.Step
		next, err = r.Step()
		if err != nil && !errors.Is(err, io.EOF) {
			break
		}
		last := err != nil
		if v.step(step, last && !r.Complete()); v.result.Difference != nil {
			return v.result, nil
		}
		step = next
	}
	if !errors.Is(err, io.EOF) {
		return v.result, err
	}
	return v.result, nil
}

// newCore makes a core as a trace's head says.
func newCore(r *trace.Reader) (*qmgr.Qmgr, error) {
	core, err := qmgr.New(r.Head().Config, r.Head().Seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name(), err)
	}
	return core, nil
}

// A verifier compares what a core does with what was recorded.
type verifier struct {
	core   *qmgr.Qmgr
	lines  *trace.Encoder
	result Result
	before window
	text   []byte
}

// step gives the core an event. If what was recorded of it may be cut off, the
// core may do more.
func (v *verifier) step(s trace.Step, cutOff bool) {
	actions, crash := stepCore(v.core, s.Event.Now, s.Event.Event)
	if crash != nil {
		v.differ(s, len(s.Actions), nil, crash)
		return
	}
	for i := range max(len(actions), len(s.Actions)) {
		switch {
		case i >= len(s.Actions) && cutOff:
			v.result.Missing++
		case i >= len(actions):
			v.differ(s, i, nil, nil)
			return
		case i >= len(s.Actions) || !v.equal(s.Actions[i], actions[i]):
			v.differ(s, i, actions[i], nil)
			return
		default:
			v.result.Actions++
		}
	}
	v.result.Events++
	v.before.add(s.Event.Text)
}

// equal compares in the form that is written today: an older program may have
// written the same in another way.
func (v *verifier) equal(recorded trace.Record, got qmgr.Action) bool {
	v.text = v.lines.AppendAction(v.text[:0], recorded.Now, got)
	return recorded.Text == string(v.text) || string(v.lines.AppendAction(nil, recorded.Now, recorded.Action)) == string(v.text)
}

func (v *verifier) differ(s trace.Step, i int, got qmgr.Action, c *crash) {
	d := &Difference{Line: s.Event.Number, Event: s.Event.Text, Before: v.before.lines(), event: s.Event, got: got}
	if i < len(s.Actions) {
		d.Line, d.Recorded, d.recorded = s.Actions[i].Number, s.Actions[i].Text, s.Actions[i].Action
	}
	if got != nil {
		d.Got = string(v.lines.AppendAction(nil, s.Event.Now, got))
	}
	if c != nil {
		d.Panic, d.Stack = c.text, c.stack
	}
	v.result.Difference = d
}

// A crash is what a core's panic leaves.
type crash struct{ text, stack string }

// stepCore steps a core, and survives its panic: to find what leads to one is
// what a replay is for.
func stepCore(core *qmgr.Qmgr, now mail.Instant, ev qmgr.Event) (actions []qmgr.Action, c *crash) {
	defer func() {
		if p := recover(); p != nil {
			c = &crash{fmt.Sprint(p), string(debug.Stack())}
		}
	}()
	return core.Step(now, ev), nil
}

// A window is the last lines of those that were added.
type window struct {
	ring [contextLines]string
	n    int
}

func (w *window) add(line string) {
	w.ring[w.n%contextLines] = line
	w.n++
}

func (w *window) lines() []string {
	var out []string
	for i := max(0, w.n-contextLines); i < w.n; i++ {
		out = append(out, w.ring[i%contextLines])
	}
	return out
}
