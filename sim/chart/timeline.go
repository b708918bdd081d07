package chart

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/sim"
)

// Heights of the two parts of a timeline.
const (
	upperHeight = 110.0
	lowerHeight = 34.0
)

// timeline draws what happened over time: above, the windows that were in
// force (the mean as a line, all of them as a band) and the most connections at
// once, and lookups if there are any; below, attempts and, in front of them, those
// that failed for the site; then the connections to each host and those that carried
// something of each class, and the deliveries of each class and from each source, as far as
// these were followed.
func (c *canvas) timeline(p *sim.Pictures, top float64) float64 {
	s := &p.Series
	if len(s.Points) == 0 {
		return top
	}
	points, step := condense(s, int((chartRight-chartLeft)/2))
	most, attempts, lookups := 1, 1, 0
	for i := range points {
		most = max(most, points[i].WindowMax, points[i].Connections, points[i].Lookups)
		lookups = max(lookups, points[i].Lookups)
		attempts = max(attempts, points[i].Attempts)
	}
	x := scale{low: 0, high: step * float64(len(points)), from: chartLeft, to: chartRight}
	y := scale{low: 0, high: float64(most), from: top + 16 + upperHeight, to: top + 16}
	c.timelineLegend(top+10, lookups > 0)
	for _, v := range y.ticks(4) {
		c.line(chartLeft, y.at(v), chartRight, y.at(v), colourGrid)
		c.text(chartLeft-8, y.at(v)+4, "ytick", fmt.Sprintf("%g", v))
	}
	c.windows(points, step, x, y)
	low := scale{low: 0, high: float64(attempts), from: y.from + 8 + lowerHeight, to: y.from + 8}
	c.attempts(points, step, x, low)
	c.line(chartLeft, low.from, chartRight, low.from, colourAxis)
	c.text(chartLeft-8, low.to+9, "ytick", rate(float64(attempts)/step))
	end := c.strips(points, step, x, "connections to each host, the most at once", p.Hosts,
		func(p *sim.Point) []int { return p.Hosts }, low.from)
	if len(points[0].Classes) > 0 {
		end = c.strips(points, step, x, "connections that carry something of each class, the most at once", p.Classes,
			func(p *sim.Point) []int { return p.Classes }, end)
	}
	if len(points[0].Starts) > 0 {
		end = c.strips(points, step, x, "deliveries of each class that begin", p.Classes, func(p *sim.Point) []int { return p.Starts }, end)
	}
	if len(points[0].Sources) > 0 {
		end = c.strips(points, step, x, "deliveries from each source that begin", p.Sources, func(p *sim.Point) []int { return p.Sources }, end)
	}
	for _, v := range x.timeTicks(12) {
		c.line(x.at(v), end, x.at(v), end+4, colourAxis)
		c.text(x.at(v), end+15, "tick", seconds(v))
	}
	return end + 26
}

// rate writes a number per second for an axis.
func rate(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f/s", v)
	}
	return fmt.Sprintf("%.2g/s", v)
}

func (c *canvas) timelineLegend(y float64, lookups bool) {
	x := chartLeft
	entries := []struct{ colour, name string }{
		{colourWindow, "window: mean, and all"}, {colourConnection, "connections, the most at once"},
		{colourAttempts, "attempts"}, {colourFailures, "of them failed for the whole site"},
	}
	if lookups {
		entries[3].name = "of them failed"
		entries = append(entries, struct{ colour, name string }{colourLookups, "lookups, the most at once"})
	}
	for _, l := range entries {
		c.rect(x, y-8, 10, 9, l.colour)
		c.text(x+14, y, "note", l.name)
		x += 6*float64(len(l.name)) + 44
	}
}

// windows draws the upper part. Times in which no attempt ended have no window.
func (c *canvas) windows(points []sim.Point, step float64, x, y scale) {
	var above, below, mean, connections, lookups []place
	for i := range points {
		p := &points[i]
		at := x.at((float64(i) + 0.5) * step)
		connections = append(connections, place{at, y.at(float64(p.Connections))})
		if p.Lookups > 0 {
			lookups = append(lookups, place{at, y.at(float64(p.Lookups))})
		}
		if p.Windows == 0 {
			continue
		}
		above = append(above, place{at, y.at(float64(p.WindowMax))})
		below = append(below, place{at, y.at(float64(p.WindowMin))})
		mean = append(mean, place{at, y.at(p.WindowSum / float64(p.Windows))})
	}
	for i := len(below) - 1; i >= 0; i-- {
		above = append(above, below[i])
	}
	c.polygon(above, colourWindowBand)
	c.polyline(connections, colourConnection, 1)
	c.polyline(lookups, colourLookups, 1)
	c.polyline(mean, colourWindow, 1.6)
}

func (c *canvas) attempts(points []sim.Point, step float64, x, y scale) {
	for i := range points {
		p := &points[i]
		if p.Attempts == 0 {
			continue
		}
		left, right := x.at(float64(i)*step), x.at(float64(i+1)*step)
		c.rect(left, y.at(float64(p.Attempts)), right-left, y.from-y.at(float64(p.Attempts)), colourAttempts)
		if p.Failures > 0 {
			c.rect(left, y.at(float64(p.Failures)), right-left, y.from-y.at(float64(p.Failures)), colourFailures)
		}
	}
}

// condense joins points until there are no more than so many, and returns them
// and their length in seconds.
func condense(s *sim.Series, most int) ([]sim.Point, float64) {
	points, step := s.Points, s.Step.Seconds()
	group := (len(points) + most - 1) / most
	if group <= 1 {
		return points, step
	}
	var out []sim.Point
	for i := range points {
		if i%group == 0 {
			out = append(out, points[i])
		} else {
			out[len(out)-1].Join(&points[i])
		}
	}
	return out, step * float64(group)
}
