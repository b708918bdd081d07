package queue

import (
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/admin"
)

// What has not happened takes no room, and what has is there with its reasons, the most frequent first.
func TestWriteIntake(t *testing.T) {
	for _, c := range []struct {
		in   *admin.IntakeStatus
		want string
	}{
		{nil, ""},
		{&admin.IntakeStatus{}, "Intake  0 sessions open, 0 so far; 0 messages accepted for 0 recipients, 0 bytes\n"},
		{&admin.IntakeStatus{Open: 1, Sessions: 12345, Messages: 900, Recipients: 1000, Octets: 4096, Refusals: map[string]int64{"size": 2, "policy": 30, "address": 2},
			Refused: 3, LoginFailed: 1, Milters: []admin.MilterStatus{{Name: "spam", Messages: 900, Refused: 20, Failures: 1}, {Name: "idle"}}},
			"Intake  1 session open, 12,345 so far; 900 messages accepted for 1,000 recipients, 4.1 kB; 34 refusals: 30 policy, 2 address, 2 size\n" +
				"        3 refused connections, 1 failed login\n" +
				"Milter  spam: 900 messages passed; 20 refused, 1 failures\n" +
				"Milter  idle: 0 messages passed\n"},
	} {
		var b strings.Builder
		if writeIntake(&b, c.in); b.String() != c.want {
			t.Errorf("got\n%swant\n%s", b.String(), c.want)
		}
	}
}
