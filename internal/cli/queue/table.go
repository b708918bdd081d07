package queue

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/internal/human"
)

type destinationRow struct {
	cells []string
	lines []string // below it
}

// A table lays out cells in columns.
type table struct {
	widths []int
	left   []int // columns whose cells stand on the left; numbers stand on the right
}

// fit makes the columns wide enough for a row.
func (t *table) fit(cells []string) {
	for i, cell := range cells {
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
	}
}

// line returns a row.
func (t *table) line(cells []string) string {
	var b strings.Builder
	for i, cell := range cells {
		format := "%*s  "
		for _, left := range t.left {
			if left == i {
				format = "%-*s  "
			}
		}
		fmt.Fprintf(&b, format, t.widths[i], cell)
	}
	return trimRight(b.String())
}

// writeTable writes rows, the first of which is the header, each with lines below it.
func writeTable(out io.Writer, width int, left []int, rows []destinationRow) {
	t := table{left: left}
	for _, row := range rows {
		t.fit(row.cells)
	}
	for _, row := range rows {
		fmt.Fprintln(out, human.Shorten(t.line(row.cells), width))
		for _, line := range row.lines {
			fmt.Fprintln(out, human.Shorten("    "+line, width))
		}
	}
}

func trimRight(text string) string {
	for len(text) > 0 && text[len(text)-1] == ' ' {
		text = text[:len(text)-1]
	}
	return text
}
