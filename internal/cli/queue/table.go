package queue

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// tableLook is the number of rows that decide the widths of a table's columns.
const tableLook = 200

// A table lays out rows in columns. The first rows decide the widths; a wider cell of a
// later row sticks out.
type table struct {
	whole bool // the lines below a row are wrapped, and not shortened
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
			lines := []string{text}
			if t.whole {
				lines = human.Wrap(text, max(t.width-6, 0))
			}
			for i, line := range lines {
				_, err = fmt.Fprintln(t.out, human.Shorten([]string{"    ", "      "}[min(i, 1)]+line, t.width))
			}
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

// writeRows writes rows as JSON, one object per line, or as text does for a terminal of a width.
func writeRows[T any](to io.Writer, asJSON bool, rows []T, text func(out *bufio.Writer, width int) error) error {
	out := bufio.NewWriterSize(to, 64<<10)
	if !asJSON {
		if err := text(out, command.Terminal(to)); err != nil {
			return err
		}
		return out.Flush()
	}
	e := json.NewEncoder(out)
	for i := range rows {
		if err := e.Encode(&rows[i]); err != nil {
			return err
		}
	}
	return out.Flush()
}
