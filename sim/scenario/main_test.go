package scenario

import (
	"os"
	"runtime/debug"
	"testing"
)

// Most of what a simulation allocates lives for one step. The tests collect it as
// seldom as the command does, which saves a quarter of their time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
