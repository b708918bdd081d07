package queue

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/human"
)

// On a terminal no line is wider than it, whatever the addresses are; in a
// pipe nothing is cut off, since a program may read it.
func TestTableWidths(t *testing.T) {
	long := strings.Repeat("ä", 300) + "@example.com"
	for _, width := range []int{0, 40, 80, 200, -80, -200} { // negative: with flows
		var b bytes.Buffer
		flows := width < 0
		width = max(width, -width)
		l := newMessageLister(bufio.NewWriter(&b), width, flows)
		for i := range tableLook + 10 {
			sender := "a@b"
			if i%3 == 0 {
				sender = long
			}
			m := admin.Summary{ID: fmt.Sprintf("%013d", i), State: admin.StateDeferred, Sender: sender, Class: "bulk", Tenant: sender, Flow: sender, Total: 1, Waiting: 1,
				Recipients: []admin.Recipient{{Address: long}}, Reason: long}
			if err := l.message(&m); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.end(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
		want := tableLook + 10 + 3
		if l.twoLines() {
			want += tableLook + 10
		}
		if len(lines) != want {
			t.Errorf("width %d: %d lines, want %d", width, len(lines), want)
		}
		for _, line := range lines {
			if width > 0 && utf8.RuneCountInString(line) > width {
				t.Fatalf("width %d: %d columns in %q", width, utf8.RuneCountInString(line), line)
			}
		}
		if width == 0 && !strings.Contains(b.String(), long+"  "+long) {
			t.Error("an address was cut off in a pipe")
		}
	}
}

// A domain's row counts by age in columns that double; beyond a bound on
// memory domains are added up.
func TestShape(t *testing.T) {
	s := shape{now: time.Unix(1e9, 0), domains: map[string]*shapeRow{}}
	for _, ago := range []time.Duration{0, 4 * time.Minute, 5 * time.Minute, 19 * time.Minute, 1279 * time.Minute, 1280 * time.Minute, 1e6 * time.Minute} {
		s.add("a.example", s.now.Add(-ago))
	}
	s.add("b.example", s.now)
	want := [shapeColumns]int{2, 1, 1, 0, 0, 0, 0, 0, 1, 2}
	if got := s.domains["a.example"].byAge; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	var b strings.Builder
	s.write(&b, 1)
	if lines := strings.Split(b.String(), "\n"); len(lines) != 4 || !strings.HasSuffix(lines[0], "1280  1280+") || !strings.HasPrefix(lines[1], "    TOTAL      8      3") ||
		!strings.HasPrefix(lines[2], "a.example      7      2") {
		t.Errorf("\n%s", b.String())
	}
	for i := range shapeDomains + 10 {
		s.add(fmt.Sprintf("%d.example", i), s.now)
	}
	if len(s.domains) != shapeDomains+1 || s.domains[shapeOthers].all != 12 {
		t.Errorf("%d domains", len(s.domains))
	}
}

// A report that could not be delivered is held after its first attempt, which
// is not counted as one that deferred it. "None yet" would be a lie beside the
// reply that put it there.
func TestShowAttempts(t *testing.T) {
	for _, test := range []struct {
		waiting uint32
		want    bool
	}{{1, true}, {0, false}} {
		var out bytes.Buffer
		d := admin.Detail{Summary: admin.Summary{ID: "00AX7VVSG0003", State: admin.StateHold, Total: 1, Waiting: test.waiting}}
		(&shower{out: &out}).head(&d, time.Now())
		if got := strings.Contains(out.String(), "Attempts    none yet"); got != test.want {
			t.Errorf("%d of 1 recipients waiting:\n%s", test.waiting, out.String())
		}
	}
}

// An order that waits for deliveries is shown, since it is not visible elsewhere.
func TestShowOrdered(t *testing.T) {
	for ordered, want := range map[string]string{"hold": "Ordered     will be held when", "some": "Ordered     some recipients will be given up, held, rerouted or requeued when", "reroute": "Ordered     recipients will be rerouted when the deliveries in progress end, unless they get it from these\n",
		"requeue": "Ordered     recipients will be requeued, under a new ID, when the deliveries in progress end, unless they get it from these\n", "": "\nSender"} {
		var out bytes.Buffer
		d := admin.Detail{Summary: admin.Summary{ID: "00AX7VVSG0003", State: admin.StateActive, Total: 1, Waiting: 1, Ordered: ordered}}
		if (&shower{out: &out}).head(&d, time.Now()); !strings.Contains(out.String(), want) || strings.Contains(out.String(), "Ordered") != (ordered != "") {
			t.Errorf("%s:\n%s", ordered, out.String())
		}
		out.Reset()
		want = strings.TrimPrefix(strings.TrimSuffix(strings.Replace(want, "Ordered     ", "Ordered   ", 1), "\n"), "\nSender")
		if WriteExplanation(&out, &admin.Explanation{Subject: "message x", Ordered: ordered}, 0, time.Now()); !strings.Contains(out.String(), want) || strings.Contains(out.String(), "Ordered") != (ordered != "") {
			t.Errorf("%s is explained as\n%s", ordered, out.String())
		}
		want = map[string]string{"reroute": "ordered: reroute; its turn", "": "its turn"}[ordered]
		if got := listReason(&admin.Summary{Ordered: ordered, Reason: "its turn"}); want != "" && got != want {
			t.Errorf("%s is listed as %q", ordered, got)
		}
	}
}

// The deadline of a message is shown, with what happens after it and whether the sender has been notified.
func TestShowDeadline(t *testing.T) {
	now := time.Now()
	at := now.Add(90 * time.Second)
	for want, d := range map[string]admin.Detail{
		"\nDeliver by  " + human.When(at, now) + ", or it is returned\nRecipients":                                      {DeliverBy: &at, ByMode: "return"},
		"\nDeliver by  " + human.When(at, now) + "; released after that, it is returned\n":                              {DeliverBy: &at, ByMode: "return", Summary: admin.Summary{State: admin.StateHold}},
		", or its sender is notified; each server reports that it has passed it on\nRecipients":                         {DeliverBy: &at, ByMode: "notify", ByTrace: true},
		"\nDeliver by  " + human.When(at, now) + "\nReports     the sender was notified that its deadline has passed\n": {DeliverBy: &at, ByMode: "notify", Late: true},
		"\nReports     the sender was notified of the delay, and that its deadline has passed\n":                        {DeliverBy: &at, ByMode: "notify", Late: true, Warned: true},
		"\nAttempts    none yet\nRecipients":                                                                            {},
	} {
		d.ID, d.Total, d.Waiting = "00AX7VVSG0003", 1, 1
		var out bytes.Buffer
		if (&shower{out: &out}).head(&d, now); !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}

// What a host has said is shown line by line, or on one line where there is only one;
// nothing in it reaches the terminal that could act on it.
func TestLinesOfAReply(t *testing.T) {
	r := admin.Recipient{Address: "a@b.test", Result: "deferred", Reply: "550 5.7.1 blocked\nsee \x1b[31m\u202ehttps://b.test/", By: "mx[192.0.2.1]"}
	var out bytes.Buffer
	(&shower{out: &out}).recipient(&r, 8, time.Now())
	if want := "  a@b.test  deferred\n      550 5.7.1 blocked\n      see ?[31m?https://b.test/\n      said by mx[192.0.2.1]\n"; out.String() != want {
		t.Errorf("shown as\n%s\nwant\n%s", out.String(), want)
	}
	if got, want := human.Plain(reasonOf(&r)), "host mx[192.0.2.1] said: 550 5.7.1 blocked / see ?[31m?https://b.test/"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A route that an operator has ordered is one that can be taken back only for recipients that wait.
func TestShowRoute(t *testing.T) {
	for result, want := range map[string]string{"pending": "bob has it go to smtp:[x]", "deferred": "takes it back", "sent": "      rerouted to smtp:[x] (", "bounced": "      rerouted to smtp:[x] ("} {
		var out bytes.Buffer
		r := admin.Recipient{Address: "a@b", Result: result, Route: &admin.Reroute{To: "smtp:[x]", By: "bob"}}
		if (&shower{out: &out}).recipient(&r, 10, time.Now()); !strings.Contains(out.String(), want) || strings.Contains(out.String(), "--clear") != (result == "pending" || result == "deferred") {
			t.Errorf("%s:\n%s", result, out.String())
		}
	}
}

// What "queue show" says of attempts that are not remembered.
func TestShowMissingAttempts(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	since := now.Add(-time.Hour)
	attempts := []admin.Attempt{{Number: 4, Result: "deferred", Recipient: "a@a.test", Reply: "451 one\ntwo"}, {Number: 5, Result: "deferred", Recipient: "a@a.test", Reply: "451 three"}}
	for _, c := range []struct {
		arrived time.Time
		history []admin.Attempt
		older   int
		missing int
		want    string
	}{
		{since.Add(-time.Hour), attempts, 0, 3, "3 attempts before the start of the daemon (1h ago, "},
		{since.Add(-time.Hour), attempts[:1], 0, 1, ") is not shown; the log has it.\n\n"},
		{since.Add(time.Minute), attempts, 7, 2, "2 attempts forgotten in favor of later ones are not shown; the log has them.\nAttempts that are remembered:\n  … and 7 outcomes before these\n"},
		{since.Add(time.Minute), attempts, 0, 0, "      451 one\n      two\n"},
	} {
		d := admin.Detail{Summary: admin.Summary{ID: "6C34ED1CB5G00", Arrived: c.arrived, Attempts: 5}, History: c.history, Older: c.older, Forgotten: c.missing}
		if c.missing > 0 {
			d.Since = &since
		}
		var out strings.Builder
		(&shower{out: &out}).history(&d, now)
		if got := out.String(); !strings.Contains(got, c.want) || !strings.HasSuffix(got, "\n\n") || strings.HasSuffix(got, "\n\n\n") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
