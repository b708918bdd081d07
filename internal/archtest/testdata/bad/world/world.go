// Package world has a clock.
package world

import (
	"time"

	"bad.example/bad/other" // bad
)

// Now returns the time.
func Now() time.Time { return time.Now().Add(other.Offset) }
