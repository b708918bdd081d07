package queue

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/internal/human"
)

// tableLook is the number of rows that decide the widths of a table's columns.
const tableLook = 200

// A table lays out rows in columns. The first rows decide the widths; a wider cell of a
// later row sticks out.
type table struct {
	out   *bufio.Writer
	width int   // of the terminal; 0 if there is none
	left  []int // columns aligned to the left; the others are aligned to the right

	rows   []row // not yet written, the header first
	widths []int // nil before the first row is written
}

// A row is the cells of a table's row and the lines of text below it.
type row struct{ cells, below []string }

func newTable(out *bufio.Writer, width int, left []int, header ...string) *table {
	return &table{out: out, width: width, left: left, rows: []row{{cells: header}}}
}

func (t *table) add(r row) error {
	if t.rows = append(t.rows, r); t.widths == nil && len(t.rows) <= tableLook {
		return nil
	}
	return t.flush()
}

// flush writes the rows that were added.
func (t *table) flush() (err error) {
	if t.widths == nil {
		t.widths = make([]int, len(t.rows[0].cells))
		for _, r := range t.rows {
			for i, cell := range r.cells {
				t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, r := range t.rows {
		_, err = fmt.Fprintln(t.out, human.Shorten(t.line(r.cells), t.width))
		for _, text := range r.below {
			_, err = fmt.Fprintln(t.out, human.Shorten("    "+text, t.width))
		}
	}
	t.rows = t.rows[:0]
	return err
}

func (t *table) line(cells []string) string {
	var b strings.Builder
	for i, cell := range cells {
		width := t.widths[i]
		if slices.Contains(t.left, i) {
			width = -width
		}
		fmt.Fprintf(&b, "%*s  ", width, cell)
	}
	return strings.TrimRight(b.String(), " ")
}
