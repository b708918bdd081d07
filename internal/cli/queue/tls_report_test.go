package queue

import "testing"

// If a day has no counts, the answer lists the days that have some.
func TestOtherDays(t *testing.T) {
	if got := otherDays(nil); got != "" {
		t.Errorf("%q", got)
	}
	if got := otherDays([]string{"2026-11-22", "2026-11-23"}); got != " There are counts of 2026-11-22, 2026-11-23." {
		t.Errorf("%q", got)
	}
}
