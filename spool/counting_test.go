package spool

import (
	"fmt"
	"testing"
)

// Every change of mode that the table does not allow panics, and the others are made. A spool
// that counts can only come to the right sums by counting, and nothing that is right becomes
// unfinished but by beginning anew.
func TestCountTransitions(t *testing.T) {
	try := func(from, to countMode) (made bool) {
		var c countState
		c.mode.Store(uint32(from))
		defer func() { made = recover() == nil && c.at() == to }()
		c.become(to)
		return true
	}
	allowed := ""
	for from := range countMode(countModes) {
		for to := range countMode(countModes) {
			if try(from, to) {
				allowed += fmt.Sprintf(" %d-%d", from, to)
			}
		}
	}
	if want := " 0-0 0-1 0-2 1-0 1-1 1-2 2-0 2-1"; allowed != want {
		t.Errorf("changes of mode are%s, want%s", allowed, want)
	}
}
