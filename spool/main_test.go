package spool

import (
	"os"
	"runtime/debug"
	"testing"
)

// Each test opens stores that live for a moment. To collect so much of what is used once less
// often saves a fifth of the tests' processor time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
