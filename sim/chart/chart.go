package chart

import (
	"fmt"
	"io"

	"github.com/posthaste-mta/posthaste/sim"
)

// Draw writes a picture of a report, in SVG. With several seeds, slots and
// timelines are those of the first.
func Draw(w io.Writer, r *sim.Report) error {
	c := &canvas{}
	c.text(margin, 34, "title", r.Scenario)
	c.text(margin, 52, "note", fmt.Sprintf("seed %d", r.Seed))
	top := 74.0
	rows := 10
	if len(r.Runs) > 3 {
		rows = 3
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		c.rect(margin, top-2, 10, 12, palette(i))
		c.text(margin+16, top+9, "head", run.Name)
		c.text(margin+16, top+25, "note", summary(run))
		top = c.slots(&run.Pictures, top+34, rows)
		top = c.timeline(&run.Pictures, top) + 16
	}
	top = c.delays(r, top)
	_, err := io.WriteString(w, c.finish(top+margin))
	return err
}

// DrawDelays writes the last part of that picture alone: which part of the recipients was delivered within which
// time, for each class of arrival and each run.
func DrawDelays(w io.Writer, r *sim.Report) error {
	c := &canvas{}
	bottom := c.delays(r, margin)
	_, err := io.WriteString(w, c.finish(bottom+margin))
	return err
}

func summary(r *sim.RunReport) string {
	all := r.DelayMS["all"]
	return fmt.Sprintf("%d deliveries, %.2f %% deferred at first, %.4g recipients/s, window %.2f ± %.2f, delay p50 %s, p99 %s",
		r.Deliveries, r.DeferredPct, r.GoodputPerS, r.WindowMean, r.WindowStddev, seconds(all.P50/1e3), seconds(all.P99/1e3))
}
