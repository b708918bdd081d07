package scenario

import "testing"

// A receiver refuses one of two addresses for half an hour. The mail leaves from the other one
// as if there were no first: none is deferred, and only what met the first refusals, which say
// little yet, waits some seconds. The checkers see to it that the refusals move nothing of
// the other address.
func TestRefusedSource(t *testing.T) {
	figures(t)
	t.Parallel()
	runs := byName(simulateOnce(t, "refused-source", 1))
	both, alone := runs["one of two refused"], runs["only the other"]
	if both.DeferredPct != 0 || both.DelayMS["all"].Max > 10_000 || both.DelayMS["all"].P99 > 1.05*alone.DelayMS["all"].P99 {
		t.Errorf("%.2f %% is deferred; the longest delay is %.0f ms, the 99th percentile %.1f ms and %.1f ms without the refused source",
			both.DeferredPct, both.DelayMS["all"].Max, both.DelayMS["all"].P99, alone.DelayMS["all"].P99)
	}
	if both.Refused == 0 || both.Refused > 20 {
		t.Errorf("%d connections are refused in half an hour", both.Refused)
	}
	var late, from int
	points := both.Pictures.Series.Points
	for _, p := range points[len(points)/2:] {
		late += p.Sources[0]
		from += p.Sources[0] + p.Sources[1]
	}
	if late*4 < from {
		t.Errorf("the source that is taken again sends %d of the last %d messages", late, from)
	}
}
