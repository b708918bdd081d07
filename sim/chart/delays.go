package chart

import (
	"fmt"
	"math"

	"github.com/posthaste-mta/posthaste/sim"
)

// Sizes of the charts of delays, of which two are side by side.
const (
	delayHeight = 190.0
	delayWidth  = (chartRight-chartLeft)/2 - 50
)

// delays draws, for each class of arrival, which part of the recipients was
// delivered within which time: a curve for each run.
func (c *canvas) delays(r *sim.Report, top float64) float64 {
	if len(r.Runs) == 0 {
		return top
	}
	classes := r.Runs[0].Pictures.Classes
	c.text(margin, top+14, "head", "Delay from arrival to delivery")
	c.text(margin+240, top+14, "note", "part of the delivered recipients, by class of arrival; the time is logarithmic")
	top += 26
	bottom := top
	for i, class := range classes {
		left := chartLeft + float64(i%2)*(delayWidth+100)
		y := top + float64(i/2)*(delayHeight+60)
		c.delay(r, i, class, left, y)
		bottom = y + delayHeight + 56
	}
	return c.runLegend(r, bottom)
}

func (c *canvas) delay(r *sim.Report, class int, name string, left, top float64) {
	low, high := math.Inf(1), 0.0
	for i := range r.Runs {
		if h := &r.Runs[i].Pictures.Delays[class]; h.Count() > 0 {
			low = min(low, inSeconds(h.Quantile(0)))
			high = max(high, inSeconds(h.Max()))
		}
	}
	c.text(left, top+10, "note", name)
	if high == 0 {
		c.text(left+delayWidth/2, top+delayHeight/2, "tick", "nothing was delivered")
		return
	}
	x := scale{low: max(low, high/1e6) / 1.2, high: high * 1.05, from: left, to: left + delayWidth, log: true}
	y := scale{low: 0, high: 1, from: top + 16 + delayHeight, to: top + 16}
	for _, v := range [...]float64{0, 0.25, 0.5, 0.75, 0.9, 1} {
		c.line(left, y.at(v), x.to, y.at(v), colourGrid)
		c.text(left-6, y.at(v)+4, "ytick", fmt.Sprintf("%g%%", v*100))
	}
	for _, v := range x.logTicks() {
		c.line(x.at(v), y.from, x.at(v), y.to, colourGrid)
		c.text(x.at(v), y.from+14, "tick", seconds(v))
	}
	c.text(x.to, y.from+26, "ytick", "max "+seconds(high))
	for i := range r.Runs {
		c.polyline(curve(&r.Runs[i].Pictures.Delays[class], x, y), palette(i), 1.5)
	}
}

// curve is the cumulative distribution as steps fine enough to look smooth.
func curve(h *sim.Histogram, x, y scale) []place {
	const steps = 200
	var points []place
	if h.Count() == 0 {
		return nil
	}
	for i := range steps + 1 {
		p := float64(i) / steps
		points = append(points, place{x.at(inSeconds(h.Quantile(p))), y.at(p)})
	}
	return points
}

func (c *canvas) runLegend(r *sim.Report, top float64) float64 {
	x := chartLeft
	for i := range r.Runs {
		width := 6.4*float64(len(r.Runs[i].Name)) + 40
		if x+width > chartRight {
			x, top = chartLeft, top+16
		}
		c.rect(x, top-8, 10, 9, palette(i))
		c.text(x+14, top, "note", r.Runs[i].Name)
		x += width
	}
	return top + 20
}
