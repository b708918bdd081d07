package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// A binding is what keys do.
type binding struct {
	keys   []string // as bubbletea names them
	shown  string   // as people write them
	hint   string   // at the foot of the screen; "": only in the help
	help   string
	onList bool
	onPage bool
	do     func(*model) tea.Cmd
}

// bindings are all keys, in the order of the help.
func bindings() []binding {
	all := []binding{
		{keys: []string{"1", "2", "3", "4", "5"}, shown: "1-5", help: "choose a view", onList: true},
		{keys: []string{"tab"}, shown: "Tab", help: "the next view", onList: true, do: func(m *model) tea.Cmd { return m.show((m.view + 1) % viewCount) }},
		{keys: []string{"shift+tab"}, shown: "Shift-Tab", help: "the view before", onList: true, do: func(m *model) tea.Cmd { return m.show((m.view + viewCount - 1) % viewCount) }},
		{keys: []string{"down", "j"}, shown: "↓ j", help: "down", onList: true, onPage: true, do: scroll(func(*model) int { return 1 })},
		{keys: []string{"up", "k"}, shown: "↑ k", help: "up", onList: true, onPage: true, do: scroll(func(*model) int { return -1 })},
		{keys: []string{"pgdown", "space", "ctrl+f"}, shown: "PgDn Space", help: "a screen down", onList: true, onPage: true, do: scroll(func(m *model) int { return max(m.height-10, 1) })},
		{keys: []string{"pgup", "ctrl+b"}, shown: "PgUp", help: "a screen up", onList: true, onPage: true, do: scroll(func(m *model) int { return -max(m.height-10, 1) })},
		{keys: []string{"home", "g"}, shown: "Home g", help: "to the first line", onList: true, onPage: true, do: scroll(func(*model) int { return -1 << 20 })},
		{keys: []string{"end", "G"}, shown: "End G", help: "to the last line", onList: true, onPage: true, do: scroll(func(*model) int { return 1 << 20 })},
		{keys: []string{"enter", "right"}, shown: "Enter", hint: "open", help: "open what the cursor is on: what is known of it, and why its mail waits", onList: true, do: (*model).openCurrent},
		{keys: []string{"m"}, shown: "m", help: "list the messages of a site or a flow", onList: true, onPage: true, do: (*model).showMessages},
		{keys: []string{"s", ">"}, shown: "s >", hint: "sort", help: "sort by the next column", onList: true, do: func(m *model) tea.Cmd { m.list().sortNext(1); return nil }},
		{keys: []string{"<"}, shown: "<", help: "sort by the column before", onList: true, do: func(m *model) tea.Cmd { m.list().sortNext(-1); return nil }},
		{keys: []string{"r"}, shown: "r", help: "reverse the order", onList: true, do: func(m *model) tea.Cmd { m.list().reverse(); return nil }},
		{keys: []string{"/"}, shown: "/", hint: "filter", help: "show only what contains a text; among messages, what meets conditions", onList: true, do: func(m *model) tea.Cmd { return m.askFilter() }},
		{keys: []string{"S"}, shown: "S", hint: "suspend", help: "suspend a site, a transport, or the tenant or class of a flow, after questions", onList: true, onPage: true, do: (*model).askSuspend},
		{keys: []string{"U"}, shown: "U", help: "resume what is suspended, after a question", onList: true, onPage: true, do: (*model).askResume},
		{keys: []string{"R"}, shown: "R", hint: "retry", help: "try mail of a site, a flow, or a message now, after it was counted and a question", onList: true, onPage: true, do: (*model).askRetry},
		{keys: []string{"p"}, shown: "p", help: "pause, and go on", onList: true, onPage: true, do: func(m *model) tea.Cmd { m.paused = !m.paused; return nil }},
		{keys: []string{"?", "h", "f1"}, shown: "?", hint: "help", help: "this help", onList: true, onPage: true, do: (*model).openHelp},
		{keys: []string{"esc", "left", "backspace"}, shown: "Esc", help: "close a page, stop an order, end a filter", onList: true, onPage: true, do: (*model).back},
		{keys: []string{"q"}, shown: "q", hint: "quit", help: "close a page, or quit", onList: true, onPage: true, do: (*model).leave},
		{keys: []string{"ctrl+c"}, shown: "Ctrl-C", help: "quit", onList: true, onPage: true, do: func(*model) tea.Cmd { return tea.Quit }},
		{keys: []string{"ctrl+z"}, shown: "Ctrl-Z", help: "stop the program for a while, as the shell's jobs", onList: true, onPage: true, do: func(*model) tea.Cmd { return tea.Suspend }},
	}
	return all
}

// press does what a key is bound to.
func (m *model) press(key tea.KeyPressMsg) tea.Cmd {
	if m.prompt.open() {
		return m.pressPrompt(key)
	}
	name := key.String()
	m.said = ""
	onPage := m.page.open()
	if v := int(name[0] - '1'); !onPage && len(name) == 1 && v >= 0 && v < int(viewCount) {
		return m.show(view(v))
	}
	for _, b := range bindings() {
		if b.do != nil && (onPage && b.onPage || !onPage && b.onList) && slices.Contains(b.keys, name) {
			return b.do(m)
		}
	}
	return nil
}

// scroll moves the cursor, or the page that is open.
func scroll(by func(*model) int) func(*model) tea.Cmd {
	return func(m *model) tea.Cmd {
		if m.page.open() {
			m.page.move(by(m))
		} else {
			m.list().move(by(m))
		}
		return nil
	}
}

// chosen is what the open page is about, or what the cursor is on.
func (m *model) chosen() target {
	if m.page.open() {
		return m.page.of
	}
	return targetOf(m.view, m.list().current())
}

// openCurrent opens the page of what the cursor is on.
func (m *model) openCurrent() tea.Cmd {
	t := m.chosen()
	switch t.kind {
	case targetNone:
		return nil
	case targetTransport:
		m.lists[viewSites].setFilter(t.name + ":")
		m.say(toneNone, "The sites of transport "+human.Plain(t.name)+"; Esc shows all.")
		return m.show(viewSites)
	case targetSuspension:
		m.say(toneNone, "U resumes it.")
		return nil
	}
	title := t.String()
	m.page = page{of: t, title: strings.ToUpper(title[:1]) + title[1:], text: "Reading …"}
	return m.readNow()
}

// showMessages lists the messages of a site or a flow.
func (m *model) showMessages() tea.Cmd {
	t := m.chosen()
	text := ""
	switch t.kind {
	case targetSite:
		text = "site:" + exactly(t.nexthop(), true)
	case targetFlow:
		text = "flow:" + exactly(t.name, true)
		if t.tenant != "" {
			text += " tenant:" + exactly(t.tenant, true)
		}
	default:
		m.say(toneWarn, "Choose a site or a flow to see its messages.")
		return nil
	}
	m.page = page{}
	m.lists[viewMessages].filter = text
	m.forgetMessages()
	m.view = viewMessages
	return m.readNow()
}

// forgetMessages empties the list of messages until others were read.
func (m *model) forgetMessages() {
	m.reading.messages = nil
	m.lists[viewMessages].setRows(nil, 0)
}

// openHelp shows all keys and the columns of the view.
func (m *model) openHelp() tea.Cmd {
	var b strings.Builder
	for _, one := range bindings() {
		fmt.Fprintf(&b, "  %s %s\n", pad(one.shown, 11), one.help)
	}
	fmt.Fprintf(&b, "\nColumns of %s\n\n", m.view)
	for _, c := range m.list().columns {
		for i, text := range human.Wrap(c.meaning, max(m.width-20, 20)) {
			title := c.title
			if i > 0 {
				title = ""
			}
			fmt.Fprintf(&b, "  %s %s\n", pad(title, 16), text)
		}
	}
	fmt.Fprintf(&b, "\nSites and flows are the %d and %d with the most waiting; a filter finds others.\nColumns that do not fit are left out; a wider terminal shows more.\n"+
		"Conditions on messages: sender: recipient: domain: site: class: tenant: flow: error:\nid: older: younger: with a value, as in \"posthaste queue list\"; a word alone is a\npart of a recipient.\n", sitesMax, flowsMax)
	m.page = page{title: "Keys", text: b.String()}
	return nil
}

// back undoes one thing: the open page, an order that is under way, or the filter.
func (m *model) back() tea.Cmd {
	switch {
	case m.working != nil:
		m.working.cancel()
	case m.page.open():
		m.page = page{}
	case m.list().filter != "":
		m.filterBy("")
		return m.readNow()
	}
	return nil
}

// leave closes the page, or quits.
func (m *model) leave() tea.Cmd {
	if m.page.open() {
		m.page = page{}
		return nil
	}
	return tea.Quit
}

// filterBy shows what matches a text.
func (m *model) filterBy(text string) {
	if m.view == viewMessages { // the daemon filters them
		m.lists[viewMessages].filter = text
		m.forgetMessages()
		return
	}
	m.list().setFilter(text)
}

// hints returns the keys for the foot of the screen.
func hints(onPage bool, v view) string {
	var parts []string
	for _, b := range bindings() {
		if b.hint == "" || onPage && !b.onPage || v == viewMessages && b.shown == "S" {
			continue
		}
		parts = append(parts, strings.Fields(b.shown)[0]+" "+b.hint)
	}
	if onPage {
		parts = append([]string{"Esc back"}, parts...)
	}
	return strings.Join(parts, " · ")
}

// parseFilter returns the conditions on messages of a text: words with a name and a value, as
// in sender:@example.com, or a part of a recipient alone.
func parseFilter(text string) (f admin.Filter, err error) {
	lists := map[string]*[]string{"sender": &f.Sender, "recipient": &f.Recipient, "domain": &f.Domain, "class": &f.Class, "tenant": &f.Tenant,
		"flow": &f.Flow, "site": &f.Site, "error": &f.Error, "id": &f.IDs, "area": &f.Areas}
	for _, word := range strings.Fields(text) {
		name, value, named := strings.Cut(word, ":")
		switch list := lists[name]; {
		case !named:
			f.Recipient = append(f.Recipient, "*"+word+"*")
		case value == "":
			return f, fmt.Errorf("%s: has no value", human.Plain(name))
		case list != nil:
			*list = append(*list, value)
		case name == "older":
			f.Older = value
		case name == "younger":
			f.Younger = value
		default:
			return f, fmt.Errorf("%s: is no condition", human.Plain(name))
		}
	}
	return f, cmp.Or(checkAge(f.Older), checkAge(f.Younger))
}

func checkAge(text string) error {
	if text == "" {
		return nil
	}
	if _, err := admin.ParseAge(text); err != nil {
		return fmt.Errorf("%s is not a time such as 30m or 4h", human.Plain(text))
	}
	return nil
}
