package mail

import (
	"testing"
	"time"
)

// Every day that an Instant can have, some of them by the standard library's calendar.
func TestCalendar(t *testing.T) {
	for second := int64(-9_223_372_036); second <= 9_223_372_036; second += 86_400*41 + 7 {
		want := time.Unix(second, 0).UTC()
		year, month, day, s := Date(second)
		if year != int64(want.Year()) || month != int64(want.Month()) || day != int64(want.Day()) || s != int64(want.Hour()*3600+want.Minute()*60+want.Second()) {
			t.Fatalf("%d is %d-%d-%d %d, want %v", second, year, month, day, s, want)
		}
		if got := DayOf(year, month, day)*secondsPerDay + s; got != second {
			t.Fatalf("%d becomes %d", second, got)
		}
	}
}
