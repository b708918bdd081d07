//go:build !race

package golden

// Race reports whether the race detector is on. A test that does one goroutine's work has
// the same result there, ten times as late, and may do less of it.
const Race = false
