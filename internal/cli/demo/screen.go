package demo

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/posthaste-mta/posthaste/internal/cli/command"
	"github.com/posthaste-mta/posthaste/internal/human"
	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/qmgr/window"
)

// A demoScreen shows the demonstration: a block that is drawn over and over in
// place on a terminal, a line each second elsewhere.
type demoScreen struct {
	w      io.Writer
	live   bool // draw in place
	bold   bool
	full   string // a bar's cells
	empty  string
	width  int
	drawn  int // lines of the block that stand there
	recent demoRate
}

// The smallest terminal on which the block is drawn.
const (
	demoWidthMin  = 76
	demoHeightMin = 16
)

func newDemoScreen(w io.Writer) *demoScreen {
	s := &demoScreen{w: w, full: "#", empty: ".", width: demoWidthMin}
	f, ok := command.File(w)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	width, height, err := term.GetSize(int(f.Fd()))
	s.live = err == nil && width >= demoWidthMin && height >= demoHeightMin && os.Getenv("TERM") != "dumb"
	s.width = width
	s.bold = s.live && os.Getenv("NO_COLOR") == ""
	if demoUnicode() {
		s.full, s.empty = "█", "░"
	}
	return s
}

// demoUnicode reports whether the locale is one of UTF-8. The first of these
// variables that is set decides (POSIX 8.2).
func demoUnicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// interval is the time between calls of show.
func (s *demoScreen) interval() time.Duration {
	if s.live {
		return 100 * time.Millisecond
	}
	return time.Second
}

// Escape sequences before and after the block is drawn: they hide the cursor, and cut
// long lines, since wrapped ones would spoil the count of lines.
const (
	demoDrawing = "\x1b[?25l\x1b[?7l"
	demoDrawn   = "\x1b[?25h\x1b[?7h"
)

// begin says what is about to happen.
func (s *demoScreen) begin(plan demoPlan) {
	var b strings.Builder
	b.WriteString("\nPosthaste runs here, on a temporary spool, and sends to three receivers:\n\n")
	for _, site := range demoSites() {
		fmt.Fprintf(&b, "  %s %s\n", s.strong(fmt.Sprintf("%-8s", site.name)), site.about)
	}
	fmt.Fprintf(&b, "\nSingle messages come all the time, %d a second. After %.0f seconds comes one\nmessage to %s recipients, who are spread over the three.\n\n",
		plan.rate, plan.lead.Seconds(), human.Number(plan.recipients))
	if s.live {
		b.WriteString(demoDrawing)
	}
	io.WriteString(s.w, b.String()) //nolint:errcheck // a user sees what is missing
}

// show draws how things stand.
func (s *demoScreen) show(now demoSnapshot, windows []demoWindow) {
	if windows == nil {
		windows = make([]demoWindow, len(now.sites))
	}
	s.recent.note(now)
	if !s.live {
		fmt.Fprintln(s.w, s.line(now, windows)) //nolint:errcheck // as above
		return
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	lines := s.block(now, windows)
	for _, line := range lines {
		b.WriteString("\r" + line + "\x1b[K\n")
	}
	s.drawn = len(lines)
	io.WriteString(s.w, b.String()) //nolint:errcheck // as above
}

// block returns the lines of the live display.
func (s *demoScreen) block(now demoSnapshot, windows []demoWindow) []string {
	lines := []string{s.strong(fmt.Sprintf("  %-8s %-28s %8s %6s %4s %14s", "site", "bulk delivered", "deferred", "window", "busy", "p50 / p99 ms"))}
	for i, site := range demoSites() {
		c := now.sites[i]
		lines = append(lines, fmt.Sprintf("  %s %s %-13s %8s %6s %4d %14s", s.strong(fmt.Sprintf("%-8s", site.name)),
			s.bar(c.bulkTaken, c.bulk), human.Number(c.bulkTaken)+"/"+human.Number(c.bulk), human.Number(c.deferred),
			windows[i].text(), windows[i].busy, demoPair(c.latencies(now))))
	}
	return append(lines, "", "  "+s.status(now), "",
		"  deferred  recipients refused at first, for now; they are tried again soon",
		"  window    deliveries at once that a site gets; its answers move it",
		"  busy      deliveries under way",
		"  p50, p99  from submission to delivery, of singles: they overtake the bulk")
}

// text is how the block shows a window: "-" if the core has no mail for the
// site and so no window.
func (w demoWindow) text() string {
	switch {
	case w.state == "":
		return "-"
	case w.state != window.Ready.String():
		return w.state
	}
	return strconv.Itoa(w.size)
}

// latencies are those shown: during the bulk, if there is one yet.
func (c *demoCount) latencies(now demoSnapshot) []time.Duration {
	if now.bulkFrom == 0 {
		return c.before
	}
	return c.during
}

// status says in a sentence what goes on.
func (s *demoScreen) status(now demoSnapshot) string {
	taken, expected, singles := now.totals()
	at := fmt.Sprintf("%4.1f s  ", now.at.Seconds())
	switch {
	case now.bulkFrom == 0:
		return at + fmt.Sprintf("%d single messages so far; the bulk comes soon", singles)
	case taken == expected:
		return at + fmt.Sprintf("the bulk is through, %s recipients in %.1f s", human.Number(expected), now.bulkTotal.Seconds())
	}
	return at + fmt.Sprintf("the bulk: %s of %s recipients, %s a second", human.Number(taken), human.Number(expected), human.Number(s.recent.perSecond()))
}

// line is what is shown each second where there is no terminal.
func (s *demoScreen) line(now demoSnapshot, windows []demoWindow) string {
	parts := []string{fmt.Sprintf("%4.1f s", now.at.Seconds())}
	for i, site := range demoSites() {
		c := now.sites[i]
		parts = append(parts, fmt.Sprintf("%s %d/%d deferred %d window %s busy %d singles %s", site.name,
			c.bulkTaken, c.bulk, c.deferred, windows[i].text(), windows[i].busy, demoPair(c.latencies(now))))
	}
	return strings.Join(parts, " | ")
}

// barCells is how long a bar is.
const barCells = 14

func (s *demoScreen) bar(n, of int) string {
	cells := 0
	if of > 0 {
		cells = barCells * n / of
	}
	return strings.Repeat(s.full, cells) + strings.Repeat(s.empty, barCells-cells)
}

func (s *demoScreen) strong(text string) string {
	if s.bold {
		return "\x1b[1m" + text + "\x1b[0m"
	}
	return text
}

// end gives the cursor back and shows what it came to.
func (s *demoScreen) end(now demoSnapshot, world *demoWorld, plan demoPlan) {
	var b strings.Builder
	if s.live {
		b.WriteString(demoDrawn)
	}
	b.WriteString("\n" + s.strong(fmt.Sprintf("  %-8s %6s %6s %11s %5s %6s %21s %4s", "", "", "", "deferred at", "peak", "turned", "singles, p50 / p99 ms", "bulk")) + "\n")
	b.WriteString(s.strong(fmt.Sprintf("  %-8s %6s %6s %11s %5s %6s %10s %10s %4s", "site", "rcpts", "done", "first try", "conns", "away", "alone", "meanwhile", "in s")) + "\n")
	for i, site := range demoSites() {
		b.WriteString(s.row(site.name, now.sites[i], world.sinks[i].Stats()))
	}
	b.WriteString("\n" + demoVerdict(now, plan))
	for _, alarm := range now.alarms {
		fmt.Fprintf(&b, "  error: %s\n", alarm)
	}
	io.WriteString(s.w, b.String()) //nolint:errcheck // as above
}

func (s *demoScreen) row(name string, c demoCount, at sink.Stats) string {
	expected := c.bulk + c.singles
	share, decimals := 0.0, 1
	if expected > 0 {
		share = 100 * float64(c.deferred) / float64(expected)
	}
	if share >= 99.95 {
		decimals = 0
	}
	bulk := "-"
	if c.done > 99949*time.Millisecond {
		bulk = demoLong(c.done)
	} else if c.done > 0 {
		bulk = strconv.FormatFloat(max(c.done.Seconds(), 0.1), 'f', 1, 64)
	}
	return fmt.Sprintf("  %s %6s %6s %5s %4.*f%% %5d %6d %10s %10s %4s\n", s.strong(fmt.Sprintf("%-8s", name)),
		human.Number(expected), human.Number(c.bulkTaken+c.singleTaken), human.Number(c.deferred), decimals, share,
		at.Peak, at.TurnedAway, demoPair(c.before), demoPair(c.during), bulk)
}

// demoVerdict sums up.
func demoVerdict(now demoSnapshot, plan demoPlan) string {
	taken, expected, singles := now.totals()
	handed := 0
	for _, c := range now.sites {
		handed += c.singles
	}
	text := fmt.Sprintf("  Delivered in %.1f s: %s of %s recipients of the bulk\n  and %s of %s single messages, ",
		now.at.Seconds(), human.Number(taken), human.Number(expected), human.Number(singles), human.Number(handed))
	if now.twice == 0 {
		text += "none of them twice.\n"
	} else {
		text += fmt.Sprintf("%s of them twice.\n", human.Number(now.twice))
	}
	return text + fmt.Sprintf("  The same order of recipients again: posthaste demo --seed %d\n", plan.seed)
}

// totals are bulk recipients delivered and expected, and singles delivered.
func (d demoSnapshot) totals() (taken, expected, singles int) {
	for _, c := range d.sites {
		taken += c.bulkTaken
		expected += c.bulk
		singles += c.singleTaken
	}
	return taken, expected, singles
}

// A demoRate is the speed of the bulk over the last second.
type demoRate struct {
	at    []time.Duration
	taken []int
}

func (r *demoRate) note(now demoSnapshot) {
	taken, _, _ := now.totals()
	r.at, r.taken = append(r.at, now.at), append(r.taken, taken)
	for len(r.at) > 2 && now.at-r.at[1] >= time.Second {
		r.at, r.taken = r.at[1:], r.taken[1:]
	}
}

func (r *demoRate) perSecond() int {
	last := len(r.at) - 1
	if last < 1 || r.at[last] == r.at[0] {
		return 0
	}
	return int(float64(r.taken[last]-r.taken[0]) / (r.at[last] - r.at[0]).Seconds())
}

// demoPair prints median and 99th percentile, in milliseconds.
func demoPair(latencies []time.Duration) string {
	if len(latencies) == 0 {
		return "-"
	}
	half, most := demoPercentile(latencies, 50), demoPercentile(latencies, 99)
	if len(half)+len(most) > 7 {
		return half + "/" + most // ten columns is what the tables have for it
	}
	return half + " / " + most
}

// demoPercentile prints a percentile by nearest rank, in milliseconds, or with its
// unit if it is ten seconds or more; "-" if there is nothing to take it from.
func demoPercentile(latencies []time.Duration, percent int) string {
	if len(latencies) == 0 {
		return "-"
	}
	sorted := slices.Sorted(slices.Values(latencies))
	rank := max((percent*len(sorted)+99)/100, 1)
	ms := float64(sorted[rank-1]) / float64(time.Millisecond)
	switch {
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 1, 64)
	case ms < 9999.5:
		return strconv.FormatFloat(ms, 'f', 0, 64)
	}
	return demoLong(sorted[rank-1])
}

// demoLong prints a time on a machine that is too slow for milliseconds to matter,
// in no more columns than there are for them.
func demoLong(d time.Duration) string {
	if d < 99500*time.Millisecond {
		return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + "s"
	}
	return strconv.FormatFloat(d.Minutes(), 'f', 0, 64) + "m"
}
