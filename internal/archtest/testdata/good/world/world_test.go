package world

import (
	"testing"
	"testing/synctest"
	"time"

	"good.example/good/core"

	"example.org/checks"
)

// A bubble's sleep costs nothing. A TODO in a test is a note.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		core.Run(nil, 1, 2)
		checks.All(Age())
	})
}
