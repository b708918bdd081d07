package top

import (
	"strings"

	"github.com/posthaste-mta/posthaste/internal/human"
)

// A page is a text over the list, which can be scrolled: what is known of a site, a flow or a
// message, or the help.
type page struct {
	of     target // targetNone: the help, or no page
	title  string // "": no page is open
	text   string
	folded []string // the text in lines that fit the screen
	width  int      // for which it was folded
	first  int      // index in folded of the first line on the screen
	rows   int      // lines that the screen had for the text when it was drawn
}

func (p *page) open() bool { return p.title != "" }

// set replaces the text; the screen stays where it is in it.
func (p *page) set(text string) { p.text, p.folded = text, nil }

// fold breaks the text into lines that fit. What follows the first line of a long one is
// indented, so that it is not taken for a line of its own.
func (p *page) fold(width int) {
	if p.folded != nil && p.width == width {
		return
	}
	p.folded, p.width = []string{}, width
	for line := range strings.Lines(strings.TrimRight(p.text, "\n")) {
		line = strings.TrimRight(line, "\n")
		for i, part := range human.Wrap(human.Plain(line), width) {
			if i > 0 {
				part = "    " + part
			}
			p.folded = append(p.folded, part)
		}
	}
}

// move scrolls down, or up if by is negative, as far as there is text.
func (p *page) move(by int) {
	p.first = max(min(p.first+by, len(p.folded)-p.rows), 0)
}

// lines draws the page in a box of the terminal.
func (p *page) lines(width, height int, styles *palette) []string {
	p.fold(max(width-4, 1))
	p.rows = max(height-1, 1)
	p.move(0)
	title, end := human.Plain(p.title), min(p.first+p.rows, len(p.folded))
	if len(p.folded) > p.rows {
		title += "   lines " + human.Number(p.first+1) + "–" + human.Number(end) + " of " + human.Number(len(p.folded))
	}
	lines := []string{styles[toneTitle].Render(fit(title, width))}
	for _, text := range p.folded[p.first:end] {
		lines = append(lines, fit(text, width))
	}
	return lines
}
