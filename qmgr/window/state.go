package window

import "github.com/posthaste-mta/posthaste/internal/assert"

// A State is whether a window allows deliveries.
//
// Postfix encodes it in the window's size, as 0 and negative numbers; here it is a
// field of its own, so that arithmetic on sizes need not check for it.
type State uint8

const (
	Ready     State = iota // Size deliveries at once
	Dead                   // none: too many cohorts have failed, or the owner has closed it
	Suspended              // none: the delay between two deliveries
)

// String returns the state's name.
func (s State) String() string { return [...]string{"ready", "dead", "suspended"}[s] }

// transitions[from][to] is whether a change is allowed. Only Ready leads to states
// other than Ready: a dead window that must be suspended is revived first, and a
// suspended one has no failures, as nothing runs.
var transitions = [...][3]bool{
	Ready:     {Dead: true, Suspended: true},
	Dead:      {Ready: true},
	Suspended: {Ready: true},
}

func (w *Window) enter(s State) {
	assert.That(transitions[w.state][s], "a window that is %v cannot become %v", w.state, s)
	w.state = s
}
