package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// A work is an order under way. It may take minutes, and can be stopped.
type work struct {
	what   string // "Counting the mail of site smtp:example.net"
	done   atomic.Int64
	cancel context.CancelFunc
}

func (w *work) text() string {
	return fmt.Sprintf("%s: %s so far … Esc stops.", w.what, human.Count(w.done.Load(), "message"))
}

// The results of orders.
type (
	orderMsg struct {
		text string // what has been done
		err  error
	}
	countedMsg struct {
		of    target
		found admin.Ordered
		err   error
	}
)

// askFilter asks for the text of the filter.
func (m *model) askFilter() tea.Cmd {
	question := "Show only lines that contain"
	if m.view == viewMessages {
		question = "Show only messages with: sender: recipient: domain: site: flow: tenant: error: older: …"
	}
	return m.askText(question, m.list().filter, func(text string) (tea.Cmd, error) {
		if m.view == viewMessages {
			if _, err := parseFilter(text); err != nil {
				return nil, err
			}
		}
		m.filterBy(strings.TrimSpace(text))
		return m.readNow(), nil
	})
}

// askSuspend asks what to suspend, for how long and why.
func (m *model) askSuspend() tea.Cmd {
	t := m.chosen()
	scopes := t.scopes()
	switch len(scopes) {
	case 0:
		m.say(toneWarn, "Choose a site, a flow or a transport to suspend it.")
		return nil
	case 1:
		return m.askTime(admin.SuspendOrder{Scope: scopes[0][0], Value: scopes[0][1]})
	}
	var parts []string
	for i, s := range scopes {
		parts = append(parts, fmt.Sprintf("%d %s %s", i+1, s[0], s[1]))
	}
	m.askChoice("Suspend what: "+strings.Join(parts, " · "), len(scopes), func(choice int) tea.Cmd {
		return m.askTime(admin.SuspendOrder{Scope: scopes[choice][0], Value: scopes[choice][1]})
	})
	return nil
}

// defaultTime is the time of a suspension that is proposed.
const defaultTime = "10m"

func (m *model) askTime(o admin.SuspendOrder) tea.Cmd {
	return m.askText("Suspend "+o.Scope+" "+o.Value+" for how long? (30m, 4h, 2d; nothing: until it is resumed)", defaultTime, func(text string) (tea.Cmd, error) {
		o.For = strings.TrimSpace(text)
		if o.For != "" {
			if d, err := admin.ParseAge(o.For); err != nil || d <= 0 {
				return nil, fmt.Errorf("%q is not a time such as 30m, 4h or 2d", o.For)
			}
		}
		return m.askReason(o), nil
	})
}

func (m *model) askReason(o admin.SuspendOrder) tea.Cmd {
	return m.askText("Why? Others see it with the mail that waits.", "", func(text string) (tea.Cmd, error) {
		if o.Reason = strings.TrimSpace(text); o.Reason == "" {
			return nil, errors.New("a reason is needed")
		}
		how := "for " + o.For
		if o.For == "" {
			how = "until it is resumed"
		}
		m.askConfirm(fmt.Sprintf("Suspend %s %s %s (%s)? No more deliveries start; its mail is deferred, and tried at once when the suspension ends.", o.Scope, o.Value, how, o.Reason), func() tea.Cmd {
			return m.order(func(ctx context.Context) (string, error) {
				done, err := m.client.Suspend(ctx, o)
				if err != nil {
					return "", err
				}
				text := "Suspended " + done.Suspension.Scope + " " + done.Suspension.Value + "."
				if done.Warning != "" {
					text += " Warning: " + done.Warning
				}
				return text, nil
			})
		})
		return nil, nil
	})
}

// suspensionOf returns what keeps the mail of a target; nil if nothing is suspended.
func (m *model) suspensionOf(t target) *admin.Suspension {
	r := &m.reading
	switch t.kind {
	case targetSite:
		for i := range r.sample.Sites {
			if s := &r.sample.Sites[i]; s.Name == t.name {
				return r.suspendedSite(s)
			}
		}
		return r.suspensionOf("site", t.nexthop())
	case targetFlow:
		if s := r.suspensionOf("tenant", t.tenant); s != nil {
			return s
		}
		return r.suspensionOf("class", t.class)
	case targetTransport:
		return r.suspensionOf("transport", t.name)
	case targetSuspension:
		return r.suspensionOf(t.scope, t.name)
	}
	return nil
}

// noSuspension says that no suspension is known of a target.
func (m *model) noSuspension(t target) string {
	for i := range m.reading.sample.Sites {
		if s := &m.reading.sample.Sites[i]; t.kind == targetSite && s.Name == t.name && s.State == "suspended" {
			return "Its suspension is not among those read, or is of a source. \"posthaste queue suspensions\" lists all."
		}
	}
	return "It is not suspended. View 5 has the suspensions."
}

// askResume asks whether to end the suspension of what is chosen.
func (m *model) askResume() tea.Cmd {
	t := m.chosen()
	s := m.suspensionOf(t)
	if s == nil {
		m.say(toneWarn, m.noSuspension(t))
		return nil
	}
	o := admin.ResumeOrder{Scope: s.Scope, Value: s.Value}
	m.askConfirm(fmt.Sprintf("Resume %s? The mail that it has kept waiting is tried at once.", s.Text()), func() tea.Cmd {
		return m.order(func(ctx context.Context) (string, error) {
			_, err := m.client.Resume(ctx, o)
			return "Resumed " + o.Scope + " " + o.Value + ".", err
		})
	})
	return nil
}

// askRetry counts the mail of what is chosen, and asks whether to try it.
func (m *model) askRetry() tea.Cmd {
	t := m.chosen()
	filter := t.filter()
	switch {
	case filter == nil:
		m.say(toneWarn, "Choose a site, a flow or a message to try its mail.")
		return nil
	case m.working != nil:
		m.say(toneWarn, "An order is under way; Esc stops it.")
		return nil
	}
	w, ctx := m.begin("Counting the mail of " + t.String())
	c := m.client
	return guarded(func() tea.Msg {
		found, err := c.Order(ctx, client.Retry, admin.Order{Filter: filter, DryRun: true}, w.note)
		return countedMsg{of: t, found: found, err: err}
	})
}

// begin starts a work.
func (m *model) begin(what string) (*work, context.Context) {
	ctx, cancel := context.WithCancel(m.ctx)
	m.working = &work{what: what, cancel: cancel}
	return m.working, ctx
}

// note is called with the totals so far.
func (w *work) note(o *admin.Ordered) { w.done.Store(int64(o.Matched)) }

// end forgets the work that has ended.
func (m *model) end() {
	if m.working != nil {
		m.working.cancel()
		m.working = nil
	}
}

// counted asks whether to try the mail that was counted.
func (m *model) counted(msg countedMsg) tea.Cmd {
	m.end()
	switch {
	case msg.err != nil:
		return m.ordered(orderMsg{err: msg.err})
	case msg.found.Matched == 0:
		m.say(toneWarn, "There is no mail of "+msg.of.String()+" to try.")
		return nil
	}
	o := admin.Order{Filter: msg.of.filter()}
	m.askConfirm(fmt.Sprintf("Try %s of %s now? What is deferred is tried before it is due, also at sites that are dead.", human.Count(msg.found.Matched, "message"), msg.of.String()), func() tea.Cmd {
		w, ctx := m.begin("Trying the mail of " + msg.of.String())
		c := m.client
		return guarded(func() tea.Msg {
			done, err := c.Order(ctx, client.Retry, o, w.note)
			text := "Trying " + human.Count(done.Done+done.Pending, "message") + "."
			if errors.Is(err, context.Canceled) {
				err = fmt.Errorf("stopped after %s", human.Count(done.Matched, "message"))
			}
			return orderMsg{text: text, err: err}
		})
	})
	return nil
}

// order carries out a short order.
func (m *model) order(do func(context.Context) (string, error)) tea.Cmd {
	ctx := m.ctx
	return guarded(func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, orderTime)
		defer cancel()
		text, err := do(ctx)
		return orderMsg{text: text, err: err}
	})
}

// orderTime is the longest time that a short order may take.
const orderTime = 30 * time.Second

// ordered says what an order has done, and reads its effect.
func (m *model) ordered(msg orderMsg) tea.Cmd {
	m.end()
	if msg.err != nil {
		m.say(toneBad, "Not done: "+human.Plain(msg.err.Error()))
		return nil
	}
	m.say(toneGood, human.Plain(msg.text))
	return m.readNow()
}
