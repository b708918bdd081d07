package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/admin"
)

// A line about a suspension can be copied: it ends in the command that resumes, with a value that a shell
// takes as it is. Control characters of an operator do not reach the terminal.
func TestSuspensionText(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	until := now.Add(2 * time.Hour)
	for _, c := range []struct {
		s    admin.Suspension
		want []string
	}{
		{admin.Suspension{Scope: "domain", Value: "a.test", By: "jo", Reason: "complaints", Until: &until}, []string{"domain a.test is suspended by jo until ", " (in 2h): complaints; posthaste queue resume --domain a.test"}},
		{admin.Suspension{Scope: "site", Value: "{mx1,mx2;mx3}", By: "jo"}, []string{"site {mx1,mx2;mx3} is suspended by jo until it is resumed; posthaste queue resume --site '{mx1,mx2;mx3}'"}},
		{admin.Suspension{Scope: "tenant", Value: "o'neill\x1b[2J", By: "jo"}, []string{`--tenant 'o'\''neill`}},
		{admin.Suspension{Scope: "site", Value: "[192.0.2.1]:25", By: "jo"}, []string{"--site '[192.0.2.1]:25'"}},
	} {
		got := suspensionText(&c.s, now)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		}
		if strings.ContainsRune(got, '\x1b') {
			t.Errorf("a control character is written: %q", got)
		}
	}
}
