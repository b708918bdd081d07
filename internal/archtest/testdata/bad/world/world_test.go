package world

import (
	"testing"
	"time"

	"bad.example/bad/core"
	"example.org/mocks" // bad
)

func TestSleep(t *testing.T) {
	time.Sleep(time.Second) // bad
	core.Exported()
	mocks.Expect() // TODO: allowed in tests
}
