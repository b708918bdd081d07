package top

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// A model is the state of the program.
type model struct {
	ctx      context.Context
	client   *client.Client
	interval time.Duration

	width, height int
	palette       palette

	view    view
	lists   [viewCount]list
	reading reading
	history history
	paused  bool

	lastAlarms time.Time // when they were read
	lost       loss
	page       page
	prompt     prompt
	working    *work  // an order under way; nil: none
	said       string // the result of the last key or order
	saidTone   tone
}

// A loss is why and since when the daemon does not answer.
type loss struct {
	err   error // nil: it answers
	since time.Time
}

// A history has the totals of the last readings, for rates that a sample does not have.
type history struct {
	at          []time.Time
	preemptions []uint64
}

// historySpan is the time over which rates are averaged.
const historySpan = 5 * time.Second

func newModel(ctx context.Context, c *client.Client, interval time.Duration) *model {
	return &model{ctx: ctx, client: c, interval: interval, palette: newPalette(true), lists: newLists()}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	return tea.Batch(tea.RequestBackgroundColor, m.read())
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m, nil
	case tea.BackgroundColorMsg:
		m.palette = newPalette(msg.IsDark())
		return m, nil
	case tickMsg:
		if m.paused {
			return m, m.tick()
		}
		return m, m.read()
	case readMsg:
		m.take(msg)
		if msg.extra {
			return m, nil
		}
		return m, m.tick()
	case countedMsg:
		return m, m.counted(msg)
	case orderMsg:
		return m, m.ordered(msg)
	case panicMsg:
		panic(msg.text) // where bubbletea restores the terminal first
	case tea.KeyPressMsg:
		return m, m.press(msg)
	}
	return m, m.prompt.update(msg)
}

// read asks the daemon again.
func (m *model) read() tea.Cmd { return read(m.ctx, m.client, m.want(), false) }

// readNow asks beside the readings that follow each other, so that a key has its effect at
// once.
func (m *model) readNow() tea.Cmd { return read(m.ctx, m.client, m.want(), true) }

// tick waits for the next reading.
func (m *model) tick() tea.Cmd {
	wait := m.interval
	if m.lost.err != nil {
		wait = max(wait, lostInterval)
	}
	return tea.Tick(wait, func(time.Time) tea.Msg { return tickMsg{} })
}

const (
	lostInterval  = time.Second      // between attempts to reach a daemon that is gone
	alarmInterval = 10 * time.Second // between two readings of the alarms, for which the spool is counted
)

// want returns what the next reading should have.
func (m *model) want() want {
	w := want{alarms: time.Since(m.lastAlarms) >= alarmInterval, page: m.page.of, width: m.width,
		sites: m.lists[viewSites].filter, flows: m.lists[viewFlows].filter}
	if m.view == viewMessages {
		if f, err := parseFilter(m.lists[viewMessages].filter); err == nil {
			w.messages = &f
		}
	}
	return w
}

// take shows what was read, or keeps the old figures if it could not be read.
func (m *model) take(msg readMsg) {
	if msg.err != nil {
		if m.lost.err == nil {
			m.lost.since = msg.at
		}
		m.lost.err = msg.err
		return
	}
	if m.lost.err != nil {
		m.say(toneGood, "The daemon answers again.")
	}
	m.lost = loss{}
	next := msg.reading
	if msg.want.alarms {
		m.lastAlarms = msg.at
	} else {
		next.alarms = m.reading.alarms
	}
	if msg.want.messages == nil {
		next.messages = m.reading.messages
	}
	m.reading = next
	m.history.add(next.sample.At, next.sample.Totals.Preemptions)
	for v := range viewCount {
		rows, total := rowsOf(v, &m.reading)
		m.lists[v].setRows(rows, total)
	}
	if m.page.of == next.pageOf && next.pageOf.kind != targetNone {
		m.page.set(next.page)
	}
}

// add notes a total. It begins anew when the daemon was started again.
func (h *history) add(at time.Time, preemptions uint64) {
	if n := len(h.at); n > 0 && (preemptions < h.preemptions[n-1] || !at.After(h.at[n-1])) {
		if preemptions >= h.preemptions[n-1] {
			return
		}
		*h = history{}
	}
	h.at, h.preemptions = append(h.at, at), append(h.preemptions, preemptions)
	for len(h.at) > 2 && at.Sub(h.at[1]) >= historySpan {
		h.at, h.preemptions = slices.Delete(h.at, 0, 1), slices.Delete(h.preemptions, 0, 1)
	}
}

// rate returns preemptions per second.
func (h *history) rate() float64 {
	n := len(h.at)
	if n < 2 {
		return 0
	}
	return float64(h.preemptions[n-1]-h.preemptions[0]) / h.at[n-1].Sub(h.at[0]).Seconds()
}

// say shows a text below the list until the next key.
func (m *model) say(t tone, text string) { m.said, m.saidTone = text, t }

// list returns the list of the chosen view.
func (m *model) list() *list { return &m.lists[m.view] }

// show chooses a view.
func (m *model) show(v view) tea.Cmd {
	changed := m.view != v
	m.view = v
	if changed && v == viewMessages {
		return m.readNow()
	}
	return nil
}

// listMin is the number of lines that troubles leave for the list.
const listMin = 7

// Smallest terminal that is drawn on.
const (
	widthMin  = 40
	heightMin = 12
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "posthaste top"
	return v
}

// screen returns the lines of the screen, as many as it has.
func (m *model) screen() []string {
	if m.width < widthMin || m.height < heightMin {
		return m.small()
	}
	foot := m.foot()
	lines := m.head(m.width)
	room := m.height - len(foot)
	switch {
	case m.page.open():
		lines = append(lines[:1], m.page.lines(m.width, room-1, &m.palette)...)
	case m.reading.sample.Number == 0:
		lines = append(lines, "", fit("Waiting for the first figures …", m.width))
	default:
		lines = append(lines[:min(len(lines), max(room-listMin, 1))], m.tabs(), "")
		lines = append(lines, m.list().lines(m.width, room-len(lines), &m.palette)...)
		if len(m.list().shown) == 0 {
			lines = append(lines, m.palette[toneFaint].Render(fit(m.emptyText(), m.width)))
		}
	}
	for len(lines) < room {
		lines = append(lines, "")
	}
	return append(lines[:room], foot...)
}

// small is the screen of a terminal that is too small: what counts most comes first, and the queue if there is room.
func (m *model) small() []string {
	lines := human.Wrap(fmt.Sprintf("Terminal too small: %d×%d, needs %d×%d. q quits.", m.width, m.height, widthMin, heightMin), max(m.width, 1))
	if s := m.reading.sample.Totals.Spool; s != nil {
		lines = append(lines, human.Wrap(fmt.Sprintf("%s incoming, %s deferred, %s held", human.Number(s.Incoming), human.Number(s.Deferred), human.Number(s.Hold)), max(m.width, 1))...)
	}
	for i := range lines {
		lines[i] = fit(lines[i], m.width)
	}
	return lines[:min(len(lines), max(m.height, 1))]
}

// emptyText says why a list has no rows.
func (m *model) emptyText() string {
	if m.list().filter != "" {
		return "Nothing matches the filter; Esc ends it."
	}
	return [viewCount]string{"No site has mail in core.", "No flow has mail in core.", "There are no transports.", "There are no messages.", "Nothing is suspended."}[m.view]
}

// tabs names the views.
func (m *model) tabs() string {
	var parts []string
	for v := range viewCount {
		text := fmt.Sprintf("%d %s", v+1, v)
		if n := m.lists[v].total; v != viewMessages {
			text += " " + human.Number(n)
		}
		if v == m.view {
			text = m.palette[toneTitle].Render("[" + text + "]")
		} else {
			text = m.palette[toneFaint].Render(" " + text + " ")
		}
		parts = append(parts, text)
	}
	return fit(strings.Join(parts, ""), m.width)
}

// foot returns the last lines of the screen: what is asked, what was said, and the keys.
func (m *model) foot() []string {
	if m.prompt.open() {
		return m.prompt.lines(m.width, m.height/2, &m.palette)
	}
	text := m.palette[m.saidTone].Render(fit(human.Plain(m.said), m.width))
	switch {
	case m.working != nil:
		text = m.palette[toneWarn].Render(fit(human.Plain(m.working.text()), m.width))
	case m.said == "" && !m.page.open():
		text = m.palette[toneFaint].Render(fit(m.listText(), m.width))
	}
	return []string{text, m.palette[toneFaint].Render(fit(hints(m.page.open(), m.view), m.width))}
}

// listText says what of the list is shown.
func (m *model) listText() string {
	l := m.list()
	var parts []string
	if n := len(l.shown); n < l.total || l.filter != "" {
		parts = append(parts, human.Number(n)+" of "+human.Number(l.total))
	}
	if l.filter != "" {
		parts = append(parts, "filter: "+human.Plain(l.filter))
	}
	if m.paused {
		parts = append(parts, "paused; p goes on")
	}
	return strings.Join(parts, " · ")
}
