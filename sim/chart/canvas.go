package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A canvas gathers SVG elements.
type canvas struct{ b strings.Builder }

// num writes a coordinate, to a tenth of a pixel.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

func (c *canvas) rect(x, y, w, h float64, fill string) {
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`+"\n", num(x), num(y), num(w), num(h), fill)
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke string) {
	fmt.Fprintf(&c.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s"/>`+"\n", num(x1), num(y1), num(x2), num(y2), stroke)
}

// text writes a text; class is one of the style sheet's.
func (c *canvas) text(x, y float64, class, s string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" class="%s">%s</text>`+"\n", num(x), num(y), class, escape(s))
}

// A place is a point of the picture.
type place struct{ x, y float64 }

func path(points []place) string {
	var b strings.Builder
	for i, p := range points {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(num(p.x) + "," + num(p.y))
	}
	return b.String()
}

func (c *canvas) polyline(points []place, stroke string, width float64) {
	if len(points) > 0 {
		fmt.Fprintf(&c.b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%s"/>`+"\n", path(points), stroke, num(width))
	}
}

func (c *canvas) polygon(points []place, fill string) {
	if len(points) > 0 {
		fmt.Fprintf(&c.b, `<polygon points="%s" fill="%s"/>`+"\n", path(points), fill)
	}
}

// The size of the picture, and where charts are in it.
const (
	pageWidth  = 1180.0
	chartLeft  = 70.0
	chartRight = pageWidth - 20
	margin     = 20.0
)

const style = `<style>
text { font: 12px sans-serif; fill: #222 }
.title { font-size: 20px; font-weight: bold }
.head { font-size: 14px; font-weight: bold }
.note, .tick, .ytick, .cell, .label { font-size: 10.5px; fill: #555 }
.label { fill: #111 }
.tick, .cell { text-anchor: middle }
.ytick { text-anchor: end }
.cell { fill: #fff; font-weight: bold; font-size: 9.5px }
</style>
`

// finish returns the whole picture.
func (c *canvas) finish(height float64) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s">`+"\n", num(pageWidth), num(height)) +
		style + `<rect width="100%" height="100%" fill="#fff"/>` + "\n" + c.b.String() + "</svg>\n"
}

// The colours of lines and grids.
const (
	colourGrid       = "#e3e3e3"
	colourAxis       = "#888"
	colourWindow     = "#0072b2"
	colourWindowBand = "#b8d6ea"
	colourConnection = "#e69f00"
	colourAttempts   = "#c9c9c9"
	colourFailures   = "#d1242f"
	colourLookups    = "#009e73"
)

// palette is colours that most people can tell apart (after Okabe and Ito, and
// some darker ones).
func palette(i int) string {
	colours := [...]string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7a5c00", "#5b2a86",
		"#8c8c00", "#a01c4b", "#2f5d62", "#4d4d4d"}
	return colours[i%len(colours)]
}

// paletteSize is how many there are.
const paletteSize = 12

// lighter mixes a colour with white.
func lighter(colour string, part float64) string {
	v, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	if err != nil {
		return colour
	}
	mix := func(shift uint) uint64 {
		c := float64(v >> shift & 0xff)
		return uint64(math.Round(c + (255-c)*part))
	}
	return fmt.Sprintf("#%02x%02x%02x", mix(16), mix(8), mix(0))
}
