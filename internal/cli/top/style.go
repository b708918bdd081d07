package top

import (
	"charm.land/lipgloss/v2"
)

// A tone is what a text means to its reader. It is never said by color alone: with NO_COLOR
// the words remain.
type tone uint8

const (
	toneNone  tone = iota
	toneGood       // mail flows
	toneWarn       // it is slowed down
	toneBad        // it does not flow, or something needs a person
	toneFaint      // of little importance
	toneTitle      // of the table, and the chosen view
	toneCount      // the number of tones
)

// A palette has a style for each tone.
type palette [toneCount]lipgloss.Style

// newPalette returns the styles for a dark or a light terminal. The colors of one are hard
// to read on the other.
func newPalette(dark bool) palette {
	pick := lipgloss.LightDark(dark)
	color := func(light, dark string) lipgloss.Style {
		return lipgloss.NewStyle().Foreground(pick(lipgloss.Color(light), lipgloss.Color(dark)))
	}
	var p palette
	p[toneGood] = color("28", "78")
	p[toneWarn] = color("130", "215")
	p[toneBad] = color("160", "203").Bold(true)
	p[toneFaint] = color("242", "246")
	p[toneTitle] = color("25", "117").Bold(true)
	return p
}

// selected is the style of the line that the cursor is on, for any terminal.
func selected() lipgloss.Style { return lipgloss.NewStyle().Reverse(true) }
