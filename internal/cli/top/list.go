package top

import (
	"cmp"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// A column is one column of a list.
type column struct {
	title   string
	left    bool // aligned to the left; numbers are aligned to the right
	most    int  // greatest width; 0: no limit
	rank    int  // the columns of the highest rank are left out first if there is no room
	upward  bool // sorted from the smallest by default, as names are
	meaning string
}

// A cell is one field of a row.
type cell struct {
	text  string
	order float64 // what it is sorted by; cells with equal ones are sorted by their text
	tone  tone
}

// A row is one line of a list.
type row struct {
	key   string // what it is about: the cursor stays on it when the list changes
	cells []cell // one for each column
}

// A list has rows, of which it shows those that match, sorted by one column.
type list struct {
	columns  []column
	rows     []row
	shown    []*row // those that match the filter, sorted
	sortBy   int    // index of a column
	reversed bool
	filter   string
	cursor   int    // index in shown
	first    int    // index in shown of the first line on the screen
	at       string // the key that the cursor is on
	total    int    // of all there are, if rows has only some of them
}

// setRows replaces the rows; the cursor stays on what it is on if that is still there.
func (l *list) setRows(rows []row, total int) {
	l.rows, l.total = rows, total
	l.arrange()
}

// setFilter shows only rows with a text; case does not matter.
func (l *list) setFilter(text string) {
	l.filter = text
	l.arrange()
}

// arrange filters and sorts the rows.
func (l *list) arrange() {
	l.shown = l.shown[:0]
	want := strings.ToLower(l.filter)
	for i := range l.rows {
		if r := &l.rows[i]; want == "" || r.contains(want) {
			l.shown = append(l.shown, r)
		}
	}
	slices.SortStableFunc(l.shown, func(a, b *row) int {
		x, y := a.cells[l.sortBy], b.cells[l.sortBy]
		order := cmp.Or(cmp.Compare(x.order, y.order), strings.Compare(x.text, y.text))
		if l.columns[l.sortBy].upward == l.reversed {
			order = -order
		}
		return cmp.Or(order, strings.Compare(a.key, b.key))
	})
	if i := slices.IndexFunc(l.shown, func(r *row) bool { return r.key == l.at }); i >= 0 {
		l.cursor = i
	}
	l.move(0)
}

func (r *row) contains(want string) bool {
	return slices.ContainsFunc(r.cells, func(c cell) bool { return strings.Contains(strings.ToLower(c.text), want) }) ||
		strings.Contains(strings.ToLower(r.key), want)
}

// move moves the cursor down, or up if by is negative, as far as there are rows.
func (l *list) move(by int) {
	l.cursor = max(min(l.cursor+by, len(l.shown)-1), 0)
	l.at = ""
	if r := l.current(); r != nil {
		l.at = r.key
	}
}

// current returns the row that the cursor is on; nil if there is none.
func (l *list) current() *row {
	if l.cursor >= len(l.shown) {
		return nil
	}
	return l.shown[l.cursor]
}

// sortNext sorts by the next column, or one further to the left.
func (l *list) sortNext(step int) {
	n := len(l.columns)
	l.sortBy, l.reversed = (l.sortBy+step+n)%n, false
	l.arrange()
}

// reverse turns the order around.
func (l *list) reverse() {
	l.reversed = !l.reversed
	l.arrange()
}

// lines draws the list in a box of the terminal: the titles of the columns and the rows
// around the cursor.
func (l *list) lines(width, height int, p *palette) []string {
	rows := height - 1
	if rows < 1 {
		return nil
	}
	l.first = max(min(l.first, l.cursor, len(l.shown)-rows), l.cursor-rows+1, 0)
	visible := l.shown[l.first:min(l.first+rows, len(l.shown))]
	widths := l.widths(l.shown, width)
	lines := []string{p[toneTitle].Render(fit(l.titles(widths), width))}
	for i, r := range visible {
		if l.first+i == l.cursor {
			lines = append(lines, selected().Render(pad(fit(rowText(r, l.columns, widths, nil), width), width)))
			continue
		}
		lines = append(lines, fit(rowText(r, l.columns, widths, p), width))
	}
	return lines
}

// gap is the space between two columns.
const gap = "  "

// titles returns the line above the rows. The column that they are sorted by has an arrow.
func (l *list) titles(widths []int) string {
	head := row{}
	for i, c := range l.columns {
		text := c.title
		if i == l.sortBy {
			text += map[bool]string{false: "▼", true: "▲"}[c.upward != l.reversed]
		}
		head.cells = append(head.cells, cell{text: text})
	}
	return rowText(&head, l.columns, widths, nil)
}

// widths returns the width of each column, 0 for those for which there is no room. Without a
// width of the terminal there is room for all.
func (l *list) widths(rows []*row, width int) []int {
	widths := make([]int, len(l.columns))
	for i, c := range l.columns {
		widths[i] = lipgloss.Width(c.title) + 1 // the arrow
		for _, r := range rows {
			widths[i] = max(widths[i], lipgloss.Width(r.cells[i].text))
		}
		if c.most > 0 && width > 0 {
			widths[i] = min(widths[i], c.most)
		}
	}
	for width > 0 && sum(widths) > width {
		last := -1
		for i, c := range l.columns {
			if widths[i] > 0 && c.rank > 0 && (last < 0 || c.rank >= l.columns[last].rank) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		widths[last] = 0
	}
	l.stretch(widths, width)
	return widths
}

// stretch shortens the first column if what cannot be left out does not fit, and otherwise
// lengthens columns that are cut off as far as there is room.
func (l *list) stretch(widths []int, width int) {
	if width == 0 {
		return
	}
	if over := sum(widths) - width; over > 0 {
		widths[0] = max(widths[0]-over, 8)
		return
	}
	for i := range l.columns {
		if widths[i] == 0 || l.columns[i].most == 0 {
			continue
		}
		need := widths[i]
		for _, r := range l.shown {
			need = max(need, lipgloss.Width(r.cells[i].text))
		}
		widths[i] += min(need-widths[i], width-sum(widths))
	}
}

// sum returns the width of a line.
func sum(widths []int) int {
	total := 0
	for _, w := range widths {
		if w > 0 {
			total += w + len(gap)
		}
	}
	return max(total-len(gap), 0)
}

// rowText returns the cells of a row in one line; without a palette, unstyled.
func rowText(r *row, columns []column, widths []int, p *palette) string {
	var b strings.Builder
	for i, c := range r.cells {
		w := widths[i]
		if w == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(gap)
		}
		text := fit(c.text, w)
		space := strings.Repeat(" ", w-lipgloss.Width(text))
		if p != nil && c.tone != toneNone {
			text = p[c.tone].Render(text)
		}
		if columns[i].left {
			b.WriteString(text + space)
		} else {
			b.WriteString(space + text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// fit cuts a text to a number of columns of the terminal, with an ellipsis; 0 is no limit. A
// wide character takes two columns.
func fit(text string, width int) string {
	if width <= 0 {
		return text
	}
	return ansi.Truncate(text, width, "…")
}

// pad fills a line up with spaces.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-lipgloss.Width(text), 0))
}
