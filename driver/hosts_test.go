package driver

import "testing"

// A disk stays full for an hour, and what cannot be saved is tried every three seconds: the log has a line for the first failure, and at
// ever longer intervals. When it works again, it is known how often it failed, and the next failure is a first one.
//
// Seen failing: a line every three seconds.
func TestFailuresAreLoggedLessOften(t *testing.T) {
	var f failures
	lines := 0
	for range 1200 {
		if f.worthALine() {
			lines++
		}
	}
	if lines != 11 {
		t.Errorf("%d lines for 1200 failures", lines)
	}
	if n := f.end(); n != 1200 || f.end() != 0 {
		t.Errorf("%d failures are known", n)
	}
	if !f.worthALine() {
		t.Error("the next failure has no line")
	}
}
