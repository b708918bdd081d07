package qmgr_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// Most of what these tests allocate lives for one step: collecting it less often
// saves a quarter of their time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
