package sim

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// WriteTable writes a report for people: a line for each run, with lines below
// it for what others have found, and the differences; then delays by class of
// arrival, sequences of short runs, and what checkers complain about.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d", r.Scenario, r.Seed)
	if r.Seeds > 1 {
		fmt.Fprintf(&b, " and the next %d; figures are means, ± their standard deviation", r.Seeds-1)
	}
	b.WriteString("\n\n")
	runs := grid{{"run", "deliveries", "deferred %", "refused", "goodput/s", "window", "connections", "p50", "p90", "p99", "max"}}
	for i := range r.Runs {
		runs = append(runs, r.Runs[i].row(r.Seeds))
		runs = append(runs, r.Runs[i].comparison()...)
	}
	runs.write(&b)
	r.writeFates(&b)
	r.writeUnknown(&b)
	r.writeClasses(&b)
	r.writeLookups(&b)
	r.writeShares(&b)
	r.writeHosts(&b)
	r.writeSequences(&b)
	r.writeChecks(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *RunReport) row(seeds int) []string {
	deferred, goodput := fmt.Sprintf("%.2f", r.DeferredPct), fmt.Sprintf("%.2f", r.GoodputPerS)
	if d := r.Deviation; d != nil {
		deferred += fmt.Sprintf(" ± %.2f", d.DeferredPct)
		goodput += fmt.Sprintf(" ± %.2f", d.GoodputPerS)
	}
	row := []string{r.Name, fmt.Sprint(r.Deliveries / uint64(seeds)), deferred, fmt.Sprint(r.Refused / uint64(seeds)), goodput,
		fmt.Sprintf("%.2f/%.2f", r.WindowMean, r.WindowStddev), fmt.Sprint(r.ConnectionsPeak)}
	return append(row, r.DelayMS["all"].cells()...)
}

func (q Quantiles) cells() []string {
	if q.none {
		return []string{"-", "-", "-", "-"}
	}
	return []string{span(q.P50), span(q.P90), span(q.P99), span(q.Max)}
}

// span writes milliseconds in a unit that fits.
func span(ms float64) string {
	for _, u := range []struct {
		name string
		ms   float64
	}{{"d", 86400e3}, {"h", 3600e3}, {"m", 60e3}, {"s", 1e3}} {
		if ms >= 2*u.ms {
			return fmt.Sprintf("%.1f%s", ms/u.ms, u.name)
		}
	}
	return fmt.Sprintf("%.1fms", ms)
}

// comparison is a row for each reference, with the difference to the run.
func (r *RunReport) comparison() [][]string {
	var rows [][]string
	for _, f := range r.References {
		if f.DeferredPct == nil && f.WindowMean == nil {
			continue
		}
		row := []string{"  " + f.Source, "", "", "", "", ""}
		if f.DeferredPct != nil {
			row[2] = fmt.Sprintf("%.2f (%+.2f)", *f.DeferredPct, r.DeferredPct-*f.DeferredPct)
		}
		if f.WindowMean != nil {
			row[5] = fmt.Sprintf("%.2f", *f.WindowMean)
			if f.WindowStddev != nil {
				row[5] += fmt.Sprintf("/%.2f", *f.WindowStddev)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// writeFates writes what has become of the recipients, if not all were delivered.
func (r *Report) writeFates(b *strings.Builder) {
	rows := grid{{"run", "recipients", "delivered", "failed", "expired", "left"}}
	all := true
	for i := range r.Runs {
		run := &r.Runs[i]
		row := []string{run.Name}
		for _, n := range []uint64{run.Recipients, run.Delivered, run.Failed, run.Expired, run.Left} {
			row = append(row, fmt.Sprint(n/uint64(r.Seeds)))
		}
		rows = append(rows, row)
		all = all && run.Delivered == run.Recipients
	}
	if !all {
		b.WriteByte('\n')
		rows.write(b)
	}
}

// writeUnknown writes of how many recipients it was not known whether a receiver had
// the message, and who got it twice for that, if there were any.
func (r *Report) writeUnknown(b *strings.Builder) {
	rows := grid{{"run", "outcome unknown", "delivered twice"}}
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Unknown+run.Duplicates > 0 {
			rows = append(rows, []string{run.Name, fmt.Sprint(run.Unknown / uint64(r.Seeds)), fmt.Sprint(run.Duplicates / uint64(r.Seeds))})
		}
	}
	if len(rows) > 1 {
		b.WriteByte('\n')
		rows.write(b)
	}
}

// writeClasses writes the delays by class, if there is more than one.
func (r *Report) writeClasses(b *strings.Builder) {
	if len(r.Runs) == 0 || len(r.Runs[0].Pictures.Classes) < 2 {
		return
	}
	classes := grid{{"delay of", "run", "p50", "p90", "p99", "max"}}
	for _, class := range r.Runs[0].Pictures.Classes {
		for i := range r.Runs {
			classes = append(classes, append([]string{class, r.Runs[i].Name}, r.Runs[i].DelayMS[class].cells()...))
		}
	}
	b.WriteByte('\n')
	classes.write(b)
}

// writeLookups writes how many lookups each class had under way at once, if there
// were any.
func (r *Report) writeLookups(b *strings.Builder) {
	rows := grid{{"lookups of", "run", "most at once"}}
	for i := range r.Runs {
		for _, class := range r.Runs[i].Pictures.Classes {
			if most := r.Runs[i].LookupsPeak[class]; most > 0 {
				rows = append(rows, []string{class, r.Runs[i].Name, fmt.Sprint(most)})
			}
		}
	}
	if len(rows) > 1 {
		b.WriteByte('\n')
		rows.write(b)
	}
}

// writeShares writes how many of the core's connections carried something of each
// class, if there is more than one.
func (r *Report) writeShares(b *strings.Builder) {
	rows := grid{{"connections of", "run", "mean", "most"}}
	for i := range r.Runs {
		for _, class := range r.Runs[i].Pictures.Classes {
			if s, ok := r.Runs[i].Classes[class]; ok {
				rows = append(rows, []string{class, r.Runs[i].Name, fmt.Sprintf("%.1f", s.Mean), fmt.Sprint(s.Peak)})
			}
		}
	}
	if len(rows) > 1 && len(r.Runs[0].Pictures.Classes) > 1 {
		b.WriteByte('\n')
		rows.write(b)
	}
}

// writeHosts writes what happened at each host, if there are several and not too
// many.
func (r *Report) writeHosts(b *strings.Builder) {
	rows := grid{{"host", "run", "deliveries", "failures", "connections: mean", "most"}}
	for i := range r.Runs {
		for _, h := range r.Runs[i].Hosts {
			rows = append(rows, []string{h.Name, r.Runs[i].Name, fmt.Sprint(h.Deliveries), fmt.Sprint(h.Failures), fmt.Sprintf("%.2f", h.ConnectionsMean), fmt.Sprint(h.ConnectionsPeak)})
		}
	}
	if n := len(rows) - 1; n > len(r.Runs) && n <= hostsListed*len(r.Runs) {
		b.WriteByte('\n')
		rows.write(b)
	}
}

// hostsListed is the number of hosts the table names at most.
const hostsListed = 16

func (r *Report) writeSequences(b *strings.Builder) {
	var rows grid
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Sequence == "" {
			continue
		}
		rows = append(rows, []string{run.Name, run.Sequence})
		for _, f := range run.References {
			if f.Sequence != "" {
				verdict := "the same"
				if f.Sequence != run.Sequence {
					verdict = "differs"
				}
				rows = append(rows, []string{"  " + f.Source, f.Sequence, verdict})
			}
		}
	}
	if len(rows) > 0 {
		b.WriteByte('\n')
		append(grid{{"deliveries in order", ""}}, rows...).write(b)
	}
}

func (r *Report) writeChecks(b *strings.Builder) {
	checked := make(map[string]bool)
	fine := true
	for i := range r.Runs {
		run := &r.Runs[i]
		for _, name := range slices.Sorted(maps.Keys(run.Checks)) {
			checked[name] = true
			if text := run.Checks[name]; text != ok {
				fmt.Fprintf(b, "\nVIOLATION of %s in run %q: %s\n", name, run.Name, text)
				fine = false
			}
		}
	}
	if fine {
		fmt.Fprintf(b, "\nchecked: %s\n", strings.Join(slices.Sorted(maps.Keys(checked)), ", "))
	}
}

// A grid is a table of texts; its first row is the heading. The first column is
// aligned to the left, others to the right if they look like numbers.
type grid [][]string

func (g grid) write(b *strings.Builder) {
	widths := []int{}
	numbers := []bool{}
	for n, row := range g {
		for i, cell := range row {
			if i == len(widths) {
				widths, numbers = append(widths, 0), append(numbers, true)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			if n > 0 && cell != "" && !strings.ContainsRune("0123456789-+", rune(cell[0])) {
				numbers[i] = false
			}
		}
	}
	for _, row := range g {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 && numbers[i] {
				line += pad + cell + "  "
			} else {
				line += cell + pad + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
