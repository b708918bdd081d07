package chart

import (
	"fmt"

	"github.com/posthaste-mta/posthaste/sim"
)

// Sizes of the cells.
const (
	cellWidth  = 11.0
	cellHeight = 14.0
	cellsInRow = 95
)

// slots draws deliveries in the order in which they were started, a cell for
// each: a colour and a digit for each message if these are few, else a colour
// for each class of arrival, lighter and darker by turns from one message to
// the next.
func (c *canvas) slots(p *sim.Pictures, top float64, rows int) float64 {
	if len(p.Slots) == 0 {
		return top
	}
	jobs := 0
	for _, s := range p.Slots {
		jobs = max(jobs, s.Job)
	}
	few := jobs <= paletteSize
	count := min(len(p.Slots), rows*cellsInRow)
	note := fmt.Sprintf("deliveries in the order in which they start: %d", count)
	if count < len(p.Slots) || p.Cut {
		note = fmt.Sprintf("the first %d deliveries in the order in which they start", count)
	}
	c.text(chartLeft, top+10, "note", note)
	c.slotLegend(p, few, top+10)
	top += 16
	for i, s := range p.Slots[:count] {
		x := chartLeft + float64(i%cellsInRow)*cellWidth
		y := top + float64(i/cellsInRow)*(cellHeight+3)
		if i%cellsInRow == 0 {
			c.text(chartLeft-8, y+cellHeight-3, "ytick", fmt.Sprint(i+1))
		}
		c.rect(x, y, cellWidth-1, cellHeight, slotColour(s, few))
		if few {
			c.text(x+(cellWidth-1)/2, y+cellHeight-3.5, "cell", string("123456789ABC"[s.Job-1]))
		}
	}
	return top + float64((count+cellsInRow-1)/cellsInRow)*(cellHeight+3) + 8
}

func slotColour(s sim.Slot, few bool) string {
	if few {
		return palette(s.Job - 1)
	}
	return lighter(palette(s.Class), 0.45*float64(s.Job%2))
}

// slotLegend names the colours, from the right end to the left.
func (c *canvas) slotLegend(p *sim.Pictures, few bool, y float64) {
	if few && len(p.Classes) < 2 {
		return
	}
	x := chartRight
	for i := len(p.Classes) - 1; i >= 0; i-- {
		name := p.Classes[i]
		colour := palette(i)
		if few {
			for _, s := range p.Slots {
				if s.Class == i {
					colour = palette(s.Job - 1)
					break
				}
			}
		}
		x -= 7*float64(len(name)) + 26
		c.rect(x, y-8, 10, 9, colour)
		c.text(x+14, y, "note", name)
	}
}
