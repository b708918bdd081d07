package report

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
	"github.com/posthaste-mta/posthaste/internal/cli/exit"
)

// A day, a number of days, or a mistake.
func TestFirstDay(t *testing.T) {
	now := time.Date(2026, 11, 24, 1, 0, 0, 0, time.FixedZone("", 3600*3)) // still the 23rd in UTC
	for since, want := range map[string]string{"": "", "2026-11-01": "2026-11-01", "1d": "2026-11-23", "7d": "2026-11-17"} {
		if got, err := firstDay(since, now); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", since, got, err, want)
		}
	}
	for _, since := range []string{"x", "0d", "-1d", "7", "7dd", "2026-13-01"} {
		if got, err := firstDay(since, now); err == nil {
			t.Errorf("%q is %q", since, got)
		}
	}
}

// What an operator sees with reports, without any, and without addresses.
func TestPrintPage(t *testing.T) {
	var b strings.Builder
	page := admin.FeedbackPage{Addresses: []string{"bounces@shop.example"}}
	if err := printPage(&b, &page, "class", false); err != nil || b.String() != "No reports came to bounces@shop.example.\n" {
		t.Errorf("%v, %s", err, b.String())
	}
	b.Reset()
	page.Rows, page.More = []admin.FeedbackRow{{Kind: "bounced", Name: "no-such-user", Count: 12345}, {Kind: "auto-reply", Count: 2}}, 1
	if err := printPage(&b, &page, "class", false); err != nil || b.String() != "RECIPIENTS  REPORT      CLASS\n12,345      bounced     no-such-user\n2           auto-reply  -\nand 1 row more\n" {
		t.Errorf("%v\n%s", err, b.String())
	}
	if _, code, err := run(t, "", "feedback", "--since", "soon"); code != exit.Usage {
		t.Errorf("%v", err)
	}
	if err := printPage(&b, &admin.FeedbackPage{}, "class", false); err == nil || !strings.Contains(err.Error(), "feedback.addresses") {
		t.Errorf("%v", err)
	}
}
