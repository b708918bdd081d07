package flows

import (
	"testing"
	"time"
)

// However many deliveries there were, the quantiles are those of all of them, and small
// counts beside a full one are not lost at once.
func TestFullCounts(t *testing.T) {
	var c counts
	const most = 1 << 16
	for range most / 8 {
		c.StartedAfter(time.Hour)
	}
	for range most {
		c.StartedAfter(0)
	}
	if got := c.quantile(500); got != time.Millisecond {
		t.Errorf("half of the deliveries have waited up to %v, want 1ms", got)
	}
	if got, want := c.quantile(990), time.Millisecond<<22; got != want {
		t.Errorf("99 of 100 have waited up to %v, want %v", got, want)
	}
	for range 20 * most {
		c.StartedAfter(0)
	}
	if got := c.quantile(990); got != time.Millisecond {
		t.Errorf("after many more, 99 of 100 have waited up to %v, want 1ms", got)
	}
	if want := uint64(most/8 + 21*most); c.started != want {
		t.Errorf("%d deliveries, want %d", c.started, want)
	}
}
