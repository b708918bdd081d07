package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/live"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// A view is one of the lists.
type view uint8

const (
	viewSites view = iota
	viewFlows
	viewTransports
	viewMessages
	viewSuspensions
	viewCount // the number of views
)

// String returns the name of a view, as the screen shows it.
func (v view) String() string {
	return [viewCount]string{"Sites", "Flows", "Transports", "Messages", "Suspensions"}[v]
}

// newLists returns the lists of all views, without rows.
func newLists() (all [viewCount]list) {
	for v, columns := range [viewCount][]column{siteColumns(), flowColumns(), transportColumns(), messageColumns(), suspensionColumns()} {
		all[v].columns = columns
		all[v].sortBy = map[view]int{viewSites: 4, viewFlows: 4, viewTransports: 4, viewMessages: 3}[view(v)]
	}
	return all
}

// rowsOf returns the rows of a view, and how many there are including those that were not
// read.
func rowsOf(v view, r *reading) (rows []row, total int) {
	switch v {
	case viewSites:
		return siteRows(r), max(r.sample.SitesKnown, len(r.sample.Sites))
	case viewFlows:
		return flowRows(r), max(r.sample.FlowsKnown, len(r.sample.Flows))
	case viewTransports:
		return transportRows(r), len(r.sample.Transports)
	case viewMessages:
		return messageRows(r), len(r.messages)
	default:
		return suspensionRows(r), max(r.suspended, len(r.suspensions))
	}
}

// The columns that several views have.
func ratesColumns(rank int) []column {
	return []column{
		{title: "SENT/S", rank: rank, meaning: "recipients whose mail was accepted, per second"},
		{title: "DEFER/S", rank: rank + 1, meaning: "recipients that were put off until a later attempt, per second"},
		{title: "BOUNCE/S", rank: rank + 2, meaning: "recipients that were refused for good, per second"},
	}
}

func ratesCells(r live.Rates) []cell {
	return []cell{rateCell(r.Sent, toneGood), rateCell(r.Deferred, toneWarn), rateCell(r.Bounced, toneBad)}
}

func siteColumns() []column {
	return append(append([]column{
		{title: "SITE", left: true, most: 24, upward: true, meaning: "transport and next hop of the mail; a * in front: it is suspended"},
		{title: "STATE", left: true, upward: true, meaning: "ready, opening connections, full (at a limit), rate-limited, paused, dead (not reached), or suspended"},
		{title: "WINDOW", meaning: "limit of concurrent connections or deliveries, moved by the replies"},
		{title: "BUSY", meaning: "deliveries under way"},
		{title: "WAITING", meaning: "deliveries in core that wait"},
		{title: "OLDEST", rank: 1, meaning: "age of the oldest waiting message in core"},
	}, ratesColumns(2)...),
		column{title: "CONNS", rank: 5, meaning: "open connections, and + those that are being opened"},
		column{title: "MESSAGES", rank: 7, meaning: "messages with waiting recipients"},
		column{title: "RCPTS", rank: 8, meaning: "recipients that wait"},
		column{title: "5 MINUTES", left: true, rank: 9, meaning: "the window over the last five minutes"},
		column{title: "LAST MOVE", left: true, most: 40, rank: 10, upward: true, meaning: "what has moved the window last"})
}

func siteRows(r *reading) []row {
	rows := make([]row, 0, len(r.sample.Sites))
	for i := range r.sample.Sites {
		s := &r.sample.Sites[i]
		name, state := human.Plain(s.Name), cell{text: s.State, tone: stateTone(s.State)}
		if s.State == "suspended" || r.suspendedSite(s) != nil {
			name, state = "*"+name, cell{text: "suspended", tone: toneWarn}
		}
		cells := []cell{{text: name}, state, numberCell(s.Window), numberCell(s.Busy), numberCell(s.Waiting), ageCell(s.Oldest, r.now())}
		cells = append(cells, ratesCells(s.Rates)...)
		cells = append(cells, connectionsCell(s.Connections, s.Connecting), numberCell(s.Messages), numberCell(s.Recipients),
			cell{text: sparkline(s.Trend), tone: toneFaint}, cell{text: moveText(s, r.now()), tone: toneFaint})
		rows = append(rows, row{key: s.Name, cells: cells})
	}
	return rows
}

// stateTone is what a destination's state means.
func stateTone(state string) tone {
	switch state {
	case "ready", "opening", "alive":
		return toneGood
	case "dead":
		return toneBad
	}
	return toneWarn
}

// moveText says why a site is dead, or what has moved its window last.
func moveText(s *live.SiteSample, now time.Time) string {
	switch {
	case s.State == "dead" && s.Until != nil:
		return human.Plain("until " + s.Until.Local().Format("15:04:05") + ": " + s.Reason)
	case s.Moved != nil:
		text := fmt.Sprintf("%s ago %s %d→%d", human.Age(now.Sub(s.Moved.At)), s.Moved.Cause, s.Moved.From, s.Moved.To)
		if s.Moved.Text != "" {
			text += ": " + human.Plain(s.Moved.Text)
		}
		return text
	}
	return ""
}

// sparkline draws values as a line of bars. A value of 0 is a dot.
func sparkline(values []int) string {
	const most = 30
	values = values[max(len(values)-most, 0):]
	top := 0
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	bars := []rune("▁▂▃▄▅▆▇█")
	for _, v := range values {
		if v <= 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune(bars[(v*len(bars)-1)/top])
	}
	return b.String()
}

func flowColumns() []column {
	return []column{
		{title: "FLOW", left: true, most: 28, upward: true, meaning: "the sender of a mailing, or what flow_key selects"},
		{title: "CLASS", left: true, most: 12, upward: true, rank: 1, meaning: "the class of its mail; a *: it or the tenant is suspended"},
		{title: "TENANT", left: true, most: 16, upward: true, rank: 2, meaning: "the tenant that it belongs to"},
		{title: "BUSY", meaning: "deliveries under way"},
		{title: "WAITING", meaning: "deliveries in core that wait for their turn"},
		{title: "START/S", meaning: "deliveries started, per second"},
		{title: "MESSAGES", rank: 3, meaning: "messages in core"},
		{title: "STARTED", rank: 4, meaning: "deliveries started so far"},
	}
}

func flowRows(r *reading) []row {
	rows := make([]row, 0, len(r.sample.Flows))
	for i := range r.sample.Flows {
		f := &r.sample.Flows[i]
		class := cell{text: human.Plain(cmp.Or(f.Class, "-"))}
		if r.suspendedFlow(f) != nil {
			class = cell{text: "*" + class.text, tone: toneWarn}
		}
		rows = append(rows, row{key: flowKey(f), cells: []cell{{text: human.Plain(cmp.Or(f.Flow, "-"))}, class, {text: human.Plain(cmp.Or(f.Tenant, "-"))},
			numberCell(f.Busy), numberCell(f.Waiting), rateCell(f.Rate, toneGood), numberCell(f.Messages), numberCell(int(f.Started))}})
	}
	return rows
}

func flowKey(f *live.FlowSample) string { return f.Class + "\n" + f.Tenant + "\n" + f.Flow }

func transportColumns() []column {
	return append(append([]column{
		{title: "TRANSPORT", left: true, most: 20, upward: true, meaning: "how mail is delivered; retry and error have what is being deferred and returned"},
		{title: "STATE", left: true, upward: true, meaning: "alive; dead: nothing can be delivered by it, and its mail is deferred"},
		{title: "MESSAGES", rank: 2, meaning: "messages with something to deliver by it"},
		{title: "BUSY", meaning: "deliveries under way"},
		{title: "WAITING", meaning: "deliveries in core that wait"},
		{title: "SITES", meaning: "its destinations in core"},
		{title: "DEAD", meaning: "those of them that cannot be reached"},
	}, ratesColumns(3)...),
		column{title: "WINDOW", rank: 7, meaning: "sum of the windows of its destinations"},
		column{title: "CONNS", rank: 1, meaning: "open connections, and + those that are being opened"},
		column{title: "SENT", rank: 8, meaning: "recipients since the start"},
		column{title: "DEFERRED", rank: 9, meaning: "recipients since the start, once for each attempt"},
		column{title: "BOUNCED", rank: 10, meaning: "recipients since the start"},
		column{title: "WHY", left: true, most: 40, rank: 11, upward: true, meaning: "why it is dead"})
}

func transportRows(r *reading) []row {
	rows := make([]row, 0, len(r.sample.Transports))
	for i := range r.sample.Transports {
		t := &r.sample.Transports[i]
		name, state := human.Plain(t.Name), cell{text: t.State, tone: stateTone(t.State)}
		if r.suspensionOf("transport", t.Name) != nil {
			name, state = "*"+name, cell{text: "suspended", tone: toneWarn}
		}
		cells := []cell{{text: name}, state, numberCell(t.Jobs), numberCell(t.Busy), numberCell(t.Waiting), numberCell(t.Destinations), numberCell(t.Dead)}
		cells = append(cells, ratesCells(t.Rates)...)
		cells = append(cells, numberCell(t.Window), connectionsCell(t.Connections, t.Connecting),
			numberCell(int(t.Sent)), numberCell(int(t.Deferred)), numberCell(int(t.Bounced)), cell{text: human.Plain(t.Reason), tone: toneBad})
		rows = append(rows, row{key: t.Name, cells: cells})
	}
	return rows
}

func messageColumns() []column {
	return []column{
		{title: "QUEUE ID", left: true, upward: true, meaning: "the name of the message"},
		{title: "STATE", left: true, upward: true, meaning: "active: in core; otherwise the area that it rests in"},
		{title: "SIZE", rank: 5, meaning: "of the content, in bytes"},
		{title: "AGE", meaning: "since it arrived"},
		{title: "NEXT", rank: 1, upward: true, meaning: "time until its next attempt"},
		{title: "SENDER", left: true, most: 24, upward: true, rank: 2, meaning: "the envelope sender"},
		{title: "RECIPIENT", left: true, most: 24, upward: true, meaning: "the first recipient that waits, and how many others do"},
		{title: "WHY", left: true, most: 40, upward: true, rank: 6, meaning: "why it waits"},
	}
}

func messageRows(r *reading) []row {
	rows := make([]row, 0, len(r.messages))
	for i := range r.messages {
		m := &r.messages[i]
		sender := cmp.Or(m.Sender, "<>")
		recipient := human.Count(m.Total, "recipient")
		if len(m.Recipients) > 0 {
			recipient = m.Recipients[0].Address
			if m.Waiting > 1 {
				recipient += " +" + human.Number(m.Waiting-1)
			}
		}
		why := m.Reason
		if m.WaitReason != nil {
			why = m.WaitReason.Text
		}
		state := cell{text: string(m.State)}
		if m.State == admin.StateCorrupt || m.Damage != "" {
			state.tone = toneBad
		}
		rows = append(rows, row{key: m.ID, cells: []cell{{text: m.ID}, state, {text: human.Size(m.Size), order: float64(m.Size)}, ageCell(&m.Arrived, r.now()),
			dueCell(m, r.now()), {text: human.Plain(sender)}, {text: human.Plain(recipient)}, {text: human.Plain(cmp.Or(m.Damage, why)), tone: toneFaint}}})
	}
	return rows
}

// dueCell is the time until the next attempt.
func dueCell(m *admin.Summary, now time.Time) cell {
	at := m.Due
	if m.WaitReason != nil && m.WaitReason.Until != nil {
		at = m.WaitReason.Until
	}
	switch {
	case at != nil:
		d := max(at.Sub(now), 0)
		return cell{text: human.Age(d), order: d.Seconds()}
	case m.Wait == admin.WaitCore || m.Wait == admin.WaitRoom:
		return cell{text: "now"}
	}
	return cell{text: "-", order: 1e18}
}

func suspensionColumns() []column {
	return []column{
		{title: "SCOPE", left: true, upward: true, meaning: "site, domain, transport, source, tenant or class"},
		{title: "VALUE", left: true, most: 32, upward: true, meaning: "what is suspended"},
		{title: "ENDS IN", upward: true, meaning: "time until it ends by itself"},
		{title: "SINCE", rank: 1, meaning: "time since it began"},
		{title: "BY", left: true, most: 16, rank: 2, upward: true, meaning: "who has ordered it"},
		{title: "REASON", left: true, most: 40, rank: 3, upward: true, meaning: "what the operator has said"},
	}
}

func suspensionRows(r *reading) []row {
	rows := make([]row, 0, len(r.suspensions))
	for i := range r.suspensions {
		s := &r.suspensions[i]
		ends := cell{text: "resumed", order: 1e18}
		if s.Until != nil {
			left := max(s.Until.Sub(r.now()), 0)
			ends = cell{text: human.Span(left), order: left.Seconds()}
		}
		rows = append(rows, row{key: s.Scope + "\n" + s.Value, cells: []cell{{text: s.Scope}, {text: human.Plain(s.Value)}, ends, ageCell(&s.Since, r.now()), {text: human.Plain(s.By)}, {text: human.Plain(s.Reason)}}})
	}
	return rows
}

func numberCell(n int) cell {
	c := cell{text: human.Number(n), order: float64(n)}
	if n == 0 {
		c.tone = toneFaint
	}
	return c
}

func rateCell(perSecond float64, t tone) cell {
	if perSecond < 0.05 {
		return cell{text: "-", tone: toneFaint}
	}
	return cell{text: rateText(perSecond), order: perSecond, tone: t}
}

// rateText is a rate in few characters.
func rateText(perSecond float64) string {
	switch {
	case perSecond < 0.05:
		return "0"
	case perSecond < 99.95:
		return fmt.Sprintf("%.1f", perSecond)
	}
	return human.Number(int(perSecond + 0.5))
}

func ageCell(since *time.Time, now time.Time) cell {
	if since == nil {
		return cell{text: "-", order: -1, tone: toneFaint}
	}
	age := max(now.Sub(*since), 0)
	return cell{text: human.Span(age), order: age.Seconds()}
}

func connectionsCell(open, opening int) cell {
	c := cell{text: human.Number(open), order: float64(open)}
	if opening > 0 {
		c.text += "+" + human.Number(opening)
	}
	if open+opening == 0 {
		c.tone = toneFaint
	}
	return c
}
