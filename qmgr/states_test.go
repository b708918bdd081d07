package qmgr

import (
	"testing"
)

// Every state can be left but for those that end a life, and every state can be reached:
// a table that misses a row would make a state a trap, or dead.
func TestStatesAreReachedAndLeft(t *testing.T) {
	check := func(name string, n, first int, allowed func(from, to int) bool, last map[int]bool) {
		reached := map[int]bool{first: true}
		for range n {
			for from := range n {
				for to := range n {
					if reached[from] && allowed(from, to) {
						reached[to] = true
					}
				}
			}
		}
		for s := range n {
			left := last[s]
			for to := range n {
				left = left || to != s && allowed(s, to)
			}
			if !reached[s] || !left {
				t.Errorf("%s: state %d is reached: %t, left: %t", name, s, reached[s], left)
			}
		}
	}
	check("stage", stages, int(stageOpening), func(from, to int) bool { return stageTransitions[from][to] }, map[int]bool{int(stageClosing): true})
	check("deadline", overdues, int(overdueNot), func(from, to int) bool { return overdueTransitions[from][to] }, map[int]bool{int(overdueDone): true})
}
