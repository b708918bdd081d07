package mail

import (
	"testing"
	"time"
)

func TestSuspendAfter(t *testing.T) {
	for _, c := range []struct {
		first, most time.Duration
		want        [4]time.Duration
	}{
		{0, time.Hour, [4]time.Duration{time.Hour, time.Hour, time.Hour, time.Hour}},
		{10 * time.Minute, time.Hour, [4]time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, time.Hour}},
		{30 * time.Minute, time.Hour, [4]time.Duration{30 * time.Minute, time.Hour, time.Hour, time.Hour}},
		{2 * time.Hour, time.Hour, [4]time.Duration{time.Hour, time.Hour, time.Hour, time.Hour}},
		{time.Hour, Indefinitely, [4]time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}},
	} {
		m := Measure{Suspend: c.most, SuspendFirst: c.first}
		for earlier, want := range c.want {
			if got := m.SuspendAfter(earlier); got != want {
				t.Errorf("%v up to %v, after %d: %v, want %v", c.first, c.most, earlier, got, want)
			}
		}
		if got := m.SuspendAfter(1 << 20); got != c.most {
			t.Errorf("%v up to %v, at last: %v", c.first, c.most, got)
		}
	}
}
