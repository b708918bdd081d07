package top

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/posthaste-mta/posthaste/internal/human"
)

// head returns the lines above the list: what the daemon does, and what is wrong.
func (m *model) head(width int) []string {
	lines := []string{m.title(width)}
	if m.reading.sample.Number > 0 {
		for _, text := range m.figures() {
			lines = append(lines, fit(text, width))
		}
	}
	for _, text := range m.troubles(time.Now()) {
		for _, line := range human.Wrap(human.Plain(text), width) {
			lines = append(lines, m.palette[toneBad].Render(fit(line, width)))
		}
	}
	return lines
}

// title names the program and the daemon, and has the daemon's clock on the right.
func (m *model) title(width int) string {
	left, right := "posthaste top", ""
	if m.client != nil {
		left += "  " + human.Plain(m.client.Server())
	}
	if m.reading.sample.Number > 0 {
		right = m.reading.now().Local().Format("15:04:05")
	}
	if width == 0 {
		return m.palette[toneTitle].Render(left) + "  " + right
	}
	left = fit(left, max(width-len(right)-1, 1))
	return m.palette[toneTitle].Render(left) + strings.Repeat(" ", max(width-lipgloss.Width(left)-len(right), 1)) + right
}

// figures returns the totals in three lines.
func (m *model) figures() []string {
	t := &m.reading.sample.Totals
	name := func(text string) string { return m.palette[toneTitle].Render(text) }
	rates := name("Rates/s ") + fmt.Sprintf("in %s · sent %s · deferred %s · bounced %s · preempted %s (%s)",
		rateText(t.ArrivedRate), rateText(t.Rates.Sent), rateText(t.Rates.Deferred), rateText(t.Rates.Bounced), rateText(m.history.rate()), human.Number(t.Preemptions))
	queue := name("Queue   ") + "being counted"
	if s := t.Spool; s != nil {
		queue = name("Queue   ") + fmt.Sprintf("%s incoming · %s deferred · %s held", human.Number(s.Incoming), human.Number(s.Deferred), human.Number(s.Hold))
		if s.Corrupt > 0 {
			queue += m.palette[toneBad].Render(fmt.Sprintf(" · %s damaged", human.Number(s.Corrupt)))
		}
		if s.Oldest != nil {
			queue += " · oldest " + human.Span(m.reading.now().Sub(*s.Oldest))
		}
	}
	queue += " · " + human.Bytes(t.Free) + " free"
	core := name("Core    ") + fmt.Sprintf("%s · %s waiting · %s under way · %s", human.Count(t.CoreMessages, "message"), human.Number(t.Waiting),
		human.Number(t.Busy), human.Count(t.Connections, "connection"))
	if t.Connecting > 0 {
		core += fmt.Sprintf(" +%s", human.Number(t.Connecting))
	}
	if t.Lookups > 0 {
		core += " · " + human.Count(t.Lookups, "lookup")
	}
	core += " · " + human.Count(t.Sessions, "client")
	return []string{rates, queue, core}
}

// troubles are what a person has to know, the worst first.
func (m *model) troubles(now time.Time) (all []string) {
	if m.lost.err != nil {
		text := fmt.Sprintf("NO ANSWER for %s: %v. Trying again.", human.Span(now.Sub(m.lost.since)), m.lost.err)
		if m.reading.sample.Number > 0 {
			text += " The figures are those of before."
		}
		all = append(all, text)
	}
	s := &m.reading.sample
	if s.Unready != "" {
		all = append(all, "NO MAIL IS ACCEPTED: "+s.Unready)
	}
	if s.Totals.Offline != nil {
		all = append(all, "OFFLINE: hardly any host can be reached since "+human.When(*s.Totals.Offline, m.reading.now())+"; our own network seems to be down")
	}
	for i := range m.reading.alarms {
		all = append(all, "ALARM: "+m.reading.alarms[i].Text)
	}
	if s.Totals.Behind {
		all = append(all, "The core is full: new mail waits in the spool.")
	}
	return all
}
