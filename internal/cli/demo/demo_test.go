package demo

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/internal/sink"
	"github.com/posthaste-mta/posthaste/mail"
)

// The whole demonstration in small: the first thing that a newcomer runs must
// not fail, must count right, and must leave nothing behind. It needs real
// sockets, because the daemon's are real.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var out bytes.Buffer
	plan := demoPlan{recipients: 300, rate: 100, lead: 200 * time.Millisecond, seed: 1}
	if err := demo(t.Context(), plan, newDemoScreen(&out)); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	text := out.String()
	for _, want := range []string{"300 of 300 recipients of the bulk", "none of them twice", "--seed 1\n", "limited"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if width := utf8.RuneCountInString(line) - 1; width > demoWidthMin && !strings.Contains(line, " | ") {
			t.Errorf("a line has %d columns, which does not fit the smallest terminal:\n%s", width, line)
		}
	}
	if strings.Contains(text, "error:") || strings.Contains(text, "\x1b") {
		t.Errorf("an alarm, or escape sequences without a terminal:\n%s", text)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// On the smallest terminal on which the display is drawn, nothing of it may be
// cut off.
func TestDemoWidth(t *testing.T) {
	var now demoSnapshot
	var windows []demoWindow
	for range demoSites() {
		slow := []time.Duration{150 * time.Millisecond, 9999 * time.Millisecond}
		now.sites = append(now.sites, demoCount{bulk: 3000, bulkTaken: 2999, deferred: 1250, before: slow, during: slow})
		windows = append(windows, demoWindow{size: 20, busy: 20})
	}
	for _, line := range (&demoScreen{full: "#", empty: "."}).block(now, windows) {
		if width := utf8.RuneCountInString(line); width > demoWidthMin {
			t.Errorf("%d columns:\n%s", width, line)
		}
	}
}

// A machine that is busy with other things takes tens of seconds over a message, and
// has everything deferred at first. The table of the end has room for that.
func TestDemoRowWidth(t *testing.T) {
	for _, slow := range []time.Duration{7 * time.Millisecond, 9999 * time.Millisecond, 99 * time.Second, 100 * time.Second, 59 * time.Minute} {
		c := demoCount{bulk: 3000, bulkTaken: 3000, singles: 200, singleTaken: 200, deferred: 3200,
			before: []time.Duration{slow}, during: []time.Duration{slow / 2, slow}, done: slow}
		row := (&demoScreen{}).row("limited", c, sink.Stats{Peak: 20, TurnedAway: 99999})
		if width := utf8.RuneCountInString(row) - 1; width > demoWidthMin {
			t.Errorf("%d columns:\n%s", width, row)
		}
	}
}

// A user presses Ctrl-C in the middle, and nothing is left behind then either.
func TestDemoInterrupted(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	plan := demoPlan{recipients: 3000, rate: 100, lead: 100 * time.Millisecond, seed: 1}
	if err := demo(ctx, plan, newDemoScreen(&out)); err == nil {
		t.Error("no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if !strings.Contains(out.String(), "recipients of the bulk") {
		t.Errorf("no table:\n%s", out.String())
	}
}

// A wrong percentile would show a scheduler that is not there.
func TestDemoPercentile(t *testing.T) {
	ms := func(values ...int) []time.Duration {
		var all []time.Duration
		for _, v := range values {
			all = append(all, time.Duration(v)*time.Millisecond)
		}
		return all
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, test := range []struct {
		latencies []time.Duration
		percent   int
		want      string
	}{
		{nil, 50, "-"},
		{ms(7), 50, "7.0"}, {ms(7), 99, "7.0"},
		{ms(30, 10, 20), 50, "20"}, {ms(30, 10, 20), 99, "30"},
		{ms(hundred...), 50, "50"}, {ms(hundred...), 99, "99"}, {ms(hundred...), 100, "100"},
	} {
		if got := demoPercentile(test.latencies, test.percent); got != test.want {
			t.Errorf("%d %% of %v: %s, want %s", test.percent, test.latencies, got, test.want)
		}
	}
}

// A site may have all of the bulk before its sender has read that it was accepted. No
// length of time begins at an instant that is not known.
func TestDemoBulkTakenBeforeItsReply(t *testing.T) {
	tally := newDemoTally()
	tally.expectBulk(0, 2)
	now := time.Now()
	for i, to := range []mail.Address{"a@x", "b@x"} {
		tally.taken(0, sink.Delivery{Key: bulkKey, Recipients: []mail.Address{to}, At: now.Add(time.Duration(i) * time.Second)})
	}
	tally.taken(0, sink.Delivery{Key: "of another sender", Recipients: []mail.Address{"a@x"}, At: now})
	tally.bulkAccepted()
	s := tally.snapshot()
	if s.bulkTotal != time.Second || s.sites[0].done != time.Second || len(s.sites[0].before)+len(s.sites[0].during) != 0 {
		t.Errorf("total %v, site %v, latencies %v %v", s.bulkTotal, s.sites[0].done, s.sites[0].before, s.sites[0].during)
	}
}
