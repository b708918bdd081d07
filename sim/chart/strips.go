package chart

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/sim"
)

// Heights of a strip, of what it draws in, and of the least that is not nothing.
const (
	stripHeight = 28.0
	stripUpper  = 17.0
	stripLeast  = 2.0
)

// strips draws numbers over time, one strip below the other, all to
// the same scale. Lines in one chart would hide each other: hosts are used alike. It
// returns where the last strip ends.
func (c *canvas) strips(points []sim.Point, step float64, x scale, title string, names []string, of func(*sim.Point) []int, top float64) float64 {
	if len(names) == 0 {
		return top
	}
	most := 1
	for i := range points {
		for _, n := range of(&points[i]) {
			most = max(most, n)
		}
	}
	c.text(chartLeft, top+18, "note", title)
	c.text(chartRight, top+18, "ytick", fmt.Sprintf("full height: %d", most))
	top += 24
	for i, name := range names {
		base := top + stripHeight
		y := scale{low: 0, high: float64(most), from: base, to: base - stripUpper}
		c.line(chartLeft, base, chartRight, base, colourAxis)
		peak := c.strip(points, step, x, y, func(p *sim.Point) int { return of(p)[i] }, palette(i))
		c.text(chartLeft-8, base-2, "ytick", fmt.Sprint(peak))
		c.text(chartLeft+4, top+9, "label", name)
		top = base
	}
	return top
}

// strip draws one of them and returns its highest number.
func (c *canvas) strip(points []sim.Point, step float64, x, y scale, number func(*sim.Point) int, colour string) (peak int) {
	area := []place{{x.at(0), y.from}}
	for i := range points {
		n := number(&points[i])
		peak = max(peak, n)
		at := place{x.at((float64(i) + 0.5) * step), y.at(float64(n))}
		if n > 0 {
			at.y = min(at.y, y.from-stripLeast)
		}
		// Where three have the same height the middle one shows nothing.
		if k := len(area); k >= 2 && area[k-1].y == at.y && area[k-2].y == at.y {
			area = area[:k-1]
		}
		area = append(area, at)
	}
	last := area[len(area)-1]
	area = append(area, place{last.x, y.from})
	c.polygon(area, lighter(colour, 0.45))
	return peak
}
