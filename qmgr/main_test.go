package qmgr_test

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/posthaste-mta/posthaste/internal/golden"
)

// Most of what these tests allocate lives for one step: collecting it less often
// saves a quarter of their time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// checkOfMany returns World.CheckEvery for a test of thousands of Steps: a plain run
// checks the invariants after each 32nd Step, one with POSTHASTE_RUNS after each.
func checkOfMany() int {
	if golden.Runs(0) > 0 {
		return 1
	}
	return 32
}
