package top

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/admin/client"
	"github.com/posthaste-mta/posthaste/admin/live"
)

// modelOf returns a model that has read a sample.
func modelOf(t *testing.T, width, height int) *model {
	t.Helper()
	m := newModel(t.Context(), nil, time.Second)
	m.width, m.height = width, height
	m.take(readMsg{reading: reading{sample: exampleSample()}, at: time.Now()})
	return m
}

// The screen has as many lines as the terminal, none wider than it, in every view and with
// everything that can be wrong.
func TestScreenFits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 60}, {widthMin, heightMin}, {widthMin - 1, 5}, {1, 1}} {
		m := modelOf(t, size[0], size[1])
		offline := time.Now()
		m.reading.sample.Totals.Offline, m.reading.sample.Totals.Behind, m.reading.sample.Unready = &offline, true, "no room on the disk"
		m.reading.alarms = []admin.Alarm{{Text: strings.Repeat("a file is damaged ", 10)}}
		m.take(readMsg{err: errors.New("connection refused"), at: time.Now()})
		for v := range viewCount {
			m.view = v
			for _, draw := range []func(){func() {}, func() { m.openHelp() }, func() { m.page = page{}; m.askTime(admin.SuspendOrder{Scope: "site", Value: "example.net"}) }} {
				draw()
				screen := m.screen()
				if size[0] >= widthMin && len(screen) != size[1] {
					t.Errorf("%v, %v: %d lines", size, v, len(screen))
				}
				for _, line := range screen {
					if w := lipgloss.Width(line); w > size[0] {
						t.Errorf("%v, %v: %d columns: %q", size, v, w, line)
					}
				}
			}
			m.prompt = prompt{}
		}
	}
}

// Every key of the help does something in the place where it is offered, and no key has two
// meanings there.
func TestKeysAreUnique(t *testing.T) {
	for _, onPage := range []bool{false, true} {
		seen := map[string]bool{}
		for _, b := range bindings() {
			if onPage && !b.onPage || !onPage && !b.onList {
				continue
			}
			if b.do == nil && b.shown != "1-5" {
				t.Errorf("%s does nothing", b.shown)
			}
			for _, key := range b.keys {
				if seen[key] {
					t.Errorf("%s has two meanings", key)
				}
				seen[key] = true
			}
		}
	}
}

// Preemptions per second come from the totals of the last seconds; a restart of the daemon
// begins anew and gives no negative rate.
func TestPreemptionRate(t *testing.T) {
	var h history
	start := time.Unix(1_800_000_000, 0)
	for i := range 20 {
		h.add(start.Add(time.Duration(i)*time.Second), uint64(100+3*i))
	}
	if got := h.rate(); got != 3 || len(h.at) > 7 {
		t.Errorf("rate %v of %d values", got, len(h.at))
	}
	h.add(start.Add(20*time.Second), 5)
	if got := h.rate(); got != 0 {
		t.Errorf("rate %v after a restart", got)
	}
	h.add(start.Add(22*time.Second), 9)
	if got := h.rate(); got != 2 {
		t.Errorf("rate %v, 2 s after a restart", got)
	}
}

// A reading keeps the alarms and messages of before if it was not to read them, and a failed
// one keeps everything.
func TestTakeKeeps(t *testing.T) {
	m := modelOf(t, 80, 24)
	m.take(readMsg{reading: reading{sample: exampleSample(), alarms: []admin.Alarm{{Text: "damaged"}}, messages: []admin.Summary{{ID: "1"}}}, want: want{alarms: true, messages: &admin.Filter{}}, at: time.Now()})
	m.take(readMsg{reading: reading{sample: exampleSample()}, at: time.Now()})
	m.take(readMsg{err: errors.New("x"), at: time.Now()})
	if len(m.reading.alarms) != 1 || len(m.lists[viewMessages].rows) != 1 || len(m.lists[viewSites].rows) != 3 {
		t.Errorf("%d alarms, %d messages, %d sites", len(m.reading.alarms), len(m.lists[viewMessages].rows), len(m.lists[viewSites].rows))
	}
	if all := m.troubles(time.Now()); len(all) != 2 || !strings.HasPrefix(all[0], "NO ANSWER") {
		t.Errorf("%q", all)
	}
}

// What is suspended is marked where it is listed: a site also by its domain or transport.
func TestSuspendedRows(t *testing.T) {
	for _, c := range []struct {
		scope, value string
		marked       int
	}{{"site", "example.net", 1}, {"domain", "example.net", 1}, {"transport", "smtp", 3}, {"transport", "bulk", 0}, {"tenant", "example.net", 0}} {
		r := reading{sample: exampleSample(), suspensions: []admin.Suspension{{Scope: c.scope, Value: c.value}}}
		marked := 0
		for _, one := range siteRows(&r) {
			if one.cells[1].text == "suspended" && strings.HasPrefix(one.cells[0].text, "*") {
				marked++
			}
		}
		if marked != c.marked {
			t.Errorf("%s %s: %d sites are marked, want %d", c.scope, c.value, marked, c.marked)
		}
	}
}

// Conditions on messages are those of "posthaste queue list"; a word alone is a part of a
// recipient, and a condition that does not exist is an error rather than ignored.
func TestParseFilter(t *testing.T) {
	f, err := parseFilter("jane sender:@shop.example site:mx.example.net older:2h")
	if err != nil || !slices.Equal(f.Recipient, []string{"*jane*"}) || !slices.Equal(f.Sender, []string{"@shop.example"}) || !slices.Equal(f.Site, []string{"mx.example.net"}) || f.Older != "2h" {
		t.Errorf("%+v, %v", f, err)
	}
	for text, want := range map[string]string{"nothing:x": "nothing: is no condition", "sender:": "no value", "older:soon": "not a time"} {
		if _, err := parseFilter(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A target selects its own mail only, whatever characters its name has.
func TestTargetFilter(t *testing.T) {
	f := target{kind: targetFlow, name: "a*b@x.example", class: "", tenant: "t"}.filter()
	if f.Flow[0] != `/^a\*b@x\.example$/` || f.Class[0] != "-" || f.Tenant[0] != "/^t$/" {
		t.Errorf("%+v", f)
	}
	if f := (target{kind: targetSite, name: "smtp:[10.0.0.1]:25"}).filter(); f.Site[0] != `/^\[10\.0\.0\.1\]:25$/` {
		t.Errorf("%+v", f)
	}
	if (target{kind: targetTransport, name: "smtp"}).filter() != nil {
		t.Error("a transport has a filter")
	}
}

// A window over time is drawn to scale; a dead destination is a dot.
func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values []int
		want   string
	}{{nil, ""}, {[]int{0, 0}, "··"}, {[]int{1, 2, 4, 8}, "▁▂▄█"}, {[]int{5, 0, 5}, "█·█"}} {
		if got := sparkline(c.values); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
	if got := sparkline(make([]int, 100)); len([]rune(got)) != 30 {
		t.Errorf("%d columns", len([]rune(got)))
	}
}

// What was said by others is shown without its control characters.
func TestPlainTexts(t *testing.T) {
	m := modelOf(t, 200, 60)
	evil := "x\x1b[2Jx"
	s := exampleSample()
	s.Sites[0].Name, s.Sites[0].Moved.Text, s.Sites[1].Reason, s.Transports[0].Reason = evil, evil, evil, evil
	s.Flows[0] = live.FlowSample{Class: evil, Tenant: evil, Flow: evil}
	m.take(readMsg{reading: reading{sample: s, alarms: []admin.Alarm{{Text: evil}}, suspensions: []admin.Suspension{{Scope: "site", Value: evil, By: evil, Reason: evil}},
		messages: []admin.Summary{{ID: "1", Sender: evil, Reason: evil, Damage: evil, Recipients: []admin.Recipient{{Address: evil}}}}}, want: want{alarms: true, messages: &admin.Filter{}}, at: time.Now()})
	m.palette = palette{}
	for v := range viewCount {
		m.view = v
		m.page = page{}
		if screen := strings.Join(m.screen(), "\n"); strings.Contains(screen, "\x1b[2J") {
			t.Errorf("%v: %q", v, screen)
		}
		m.openCurrent()
		if screen := strings.Join(m.screen(), "\n"); strings.Contains(screen, "\x1b[2J") {
			t.Errorf("page of %v: %q", v, screen)
		}
		m.page = page{}
		m.askSuspend()
		if screen := strings.Join(m.screen(), "\n"); strings.Contains(screen, "\x1b[2J") {
			t.Errorf("question about %v: %q", v, screen)
		}
		m.prompt = prompt{}
	}
	for _, line := range m.plain(0) {
		if strings.Contains(line, "\x1b") {
			t.Errorf("%q", line)
		}
	}
}

// A question fits, however long the reason in it is: a rule's has the reply of a receiver, up to 4 KB, and an operator's
// has up to 400 characters.
func TestLongQuestionFits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {widthMin, heightMin}} {
		for _, reason := range []string{strings.Repeat("try again ", 400), strings.Repeat("x", 4000), strings.Repeat("a\n", 2000), strings.Repeat("\u754c\u200d", 800)} {
			m := modelOf(t, size[0], size[1])
			m.view = viewSuspensions
			s := admin.Suspension{Scope: "site", Value: strings.Repeat("v", 300), Rule: "slow", Reason: reason}
			m.take(readMsg{reading: reading{sample: exampleSample(), suspensions: []admin.Suspension{s}}, at: time.Now()})
			m.askResume()
			if !m.prompt.open() {
				t.Fatal("nothing is asked")
			}
			m.prompt.wrong = reason
			screen := m.screen()
			if len(screen) != size[1] || !strings.Contains(screen[len(screen)-1], "y yes") {
				t.Errorf("%v: %d lines, the last is %q", size, len(screen), screen[len(screen)-1])
			}
			for _, line := range screen {
				if w := lipgloss.Width(line); w > size[0] {
					t.Errorf("%v: %d columns: %q", size, w, line)
				}
			}
		}
	}
}

// What has been done is said without control characters, too.
func TestPlainResults(t *testing.T) {
	evil := "x\x1b[2J\u202e\u061cx"
	m := modelOf(t, 200, 60)
	m.palette = palette{}
	shows := func(what string) {
		if screen := strings.Join(m.screen(), "\n"); strings.ContainsAny(screen, "\u202e\u061c") || strings.Contains(screen, "\x1b[2J") {
			t.Errorf("%s: %q", what, screen)
		}
	}
	of := target{kind: targetSite, name: "smtp:" + evil}
	m.counted(countedMsg{of: of})
	shows("nothing to try")
	m.working = &work{what: "Counting the mail of " + of.String()}
	shows("an order under way")
	m.working = nil
	text, err := goneText(of, &client.Problem{Status: 404, Detail: evil})
	if err != nil {
		t.Fatal(err)
	}
	m.page = page{of: of, title: of.String(), text: text}
	shows("a page")
}
