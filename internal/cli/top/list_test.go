package top

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
)

// listOf returns a list of names with numbers.
func listOf(names ...string) *list {
	l := &list{columns: []column{{title: "NAME", left: true, upward: true}, {title: "N", rank: 1}, {title: "LENGTH", rank: 2}}, sortBy: 1}
	l.setRows(rowsOfNames(names), len(names))
	return l
}

func rowsOfNames(names []string) (rows []row) {
	for i, name := range names {
		rows = append(rows, row{key: name, cells: []cell{{text: name}, numberCell(i), numberCell(len(name))}})
	}
	return rows
}

func (l *list) keys() string {
	var keys []string
	for _, r := range l.shown {
		keys = append(keys, r.key)
	}
	return strings.Join(keys, " ")
}

// Numbers are sorted from the largest, names from A; reversed is the other way around.
func TestSort(t *testing.T) {
	l := listOf("b", "ccc", "a")
	for _, want := range []string{"a ccc b", "ccc a b", "a b ccc"} {
		if got := l.keys(); got != want {
			t.Errorf("by %s: %s, want %s", l.columns[l.sortBy].title, got, want)
		}
		l.sortNext(1)
	}
	l.sortNext(-1)
	l.reverse()
	if got := l.keys(); got != "ccc b a" {
		t.Errorf("names reversed: %s", got)
	}
}

// The cursor stays on what it is on, whatever the order becomes; if that is gone, it stays
// where it is. A filter that matches nothing does not lose it.
func TestCursorStays(t *testing.T) {
	l := listOf("a", "b", "c", "d")
	l.move(1)
	if l.current().key != "c" {
		t.Fatal(l.current().key)
	}
	l.setRows(rowsOfNames([]string{"c", "x", "d", "a"}), 4)
	if l.current().key != "c" || l.keys() != "a d x c" {
		t.Errorf("on %s of %s", l.current().key, l.keys())
	}
	l.setRows(rowsOfNames([]string{"x", "d", "a"}), 3)
	if l.current().key != "x" {
		t.Errorf("on %s of %s after it was gone", l.current().key, l.keys())
	}
	l.setFilter("nothing")
	if l.current() != nil || len(l.shown) != 0 {
		t.Errorf("on %v", l.current())
	}
	l.setFilter("D")
	if l.current() == nil || l.current().key != "d" {
		t.Errorf("on %v", l.current())
	}
}

// Whatever the size, no line is wider than the terminal, the list has no more lines than
// there is room for, and the cursor is on the screen.
func TestLinesFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"short", "日本語のドメイン.example", strings.Repeat("long", 30), "a\u0301ccent.example", "🙂.example"}
	for i := range 40 {
		names = append(names, fmt.Sprintf("site%d.example", i))
	}
	p := newPalette(true)
	for range 300 {
		l := listOf(names...)
		l.columns[0].most = 10 + r.IntN(20)
		width, height := 20+r.IntN(100), 2+r.IntN(50)
		l.move(r.IntN(len(names)))
		lines := l.lines(width, height, &p)
		if len(lines) > height {
			t.Fatalf("%d lines in %d", len(lines), height)
		}
		for _, line := range lines {
			if w := lipgloss.Width(line); w > width {
				t.Fatalf("%d columns in %d: %q", w, width, line)
			}
		}
		if at := l.cursor - l.first; at < 0 || at >= height-1 {
			t.Fatalf("the cursor is on line %d of %d", at, height-1)
		}
	}
}

// The columns of the highest rank go first; the first column stays, however narrow it is.
func TestNarrowColumns(t *testing.T) {
	l := listOf("first.example")
	for _, c := range []struct {
		width int
		want  []int
	}{{0, []int{13, 2, 7}}, {26, []int{13, 2, 7}}, {25, []int{13, 2, 0}}, {16, []int{13, 0, 0}}, {9, []int{9, 0, 0}}, {3, []int{8, 0, 0}}} {
		if got := l.widths(l.shown, c.width); !slices.Equal(got, c.want) {
			t.Errorf("width %d: %v, want %v", c.width, got, c.want)
		}
	}
}
