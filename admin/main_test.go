package admin_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// Each test makes servers that live for one request. To collect so much of what is used once less
// often saves a quarter of the tests' processor time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
