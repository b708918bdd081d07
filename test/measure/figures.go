package measure

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// A figure is something that was measured.
type figure struct {
	name, value, budget string
	missed              bool
}

// Figures are in the order in which they were measured. The zero value is
// ready.
type Figures struct{ all []figure }

// Note adds a figure without a budget.
func (f *Figures) Note(name, format string, args ...any) {
	f.add(figure{name: name, value: fmt.Sprintf(format, args...)})
}

// AtMost adds a figure that must not be greater than its budget.
func (f *Figures) AtMost(name string, value, budget float64, unit string) {
	f.add(figure{name, number(value) + " " + unit, "≤ " + number(budget) + " " + unit, !(value <= budget)})
}

// AtLeast adds a figure that must not be less than its budget.
func (f *Figures) AtLeast(name string, value, budget float64, unit string) {
	f.add(figure{name, number(value) + " " + unit, "≥ " + number(budget) + " " + unit, !(value >= budget)})
}

// Within adds a time that must not be longer than its budget.
func (f *Figures) Within(name string, took, budget time.Duration) {
	f.add(figure{name, Brief(took), "≤ " + Brief(budget), took > budget})
}

// Exactly adds a count that must be what it has to be.
func (f *Figures) Exactly(name string, value, want int) {
	f.add(figure{name, fmt.Sprint(value), fmt.Sprintf("= %d", want), value != want})
}

// add keeps a figure and shows it at once, for a run takes minutes.
func (f *Figures) add(g figure) {
	f.all = append(f.all, g)
	fmt.Printf("  %s: %s %s\n", g.name, g.value, map[bool]string{true: "MISSED, " + g.budget}[g.missed])
}

// number writes a value with about three digits.
func number(v float64) string {
	if v < 10 && v > -10 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Brief writes a time with about three digits.
func Brief(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// Print writes the table as docs/performance.md has it.
func (f *Figures) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintf(t, "\n| figure\t| measured\t| budget\t|\n|---\t|---\t|---\t|\n")
	for _, g := range f.all {
		budget := g.budget
		if g.missed {
			budget += " **missed**"
		}
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t|\n", g.name, g.value, budget)
	}
	t.Flush() //nolint:errcheck // an error cannot be reported anywhere
}

// Verdict returns an error for every budget that was missed.
func (f *Figures) Verdict() error {
	var missed []error
	for _, g := range f.all {
		if g.missed {
			missed = append(missed, fmt.Errorf("budget missed: %s: %s, want %s", g.name, g.value, g.budget))
		}
	}
	return errors.Join(missed...)
}
