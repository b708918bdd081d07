package mail

import (
	"slices"
	"testing"
)

// Every value of an enumeration has a word of its own: a log line with an empty
// or a wrong word is worse than none.
func TestWords(t *testing.T) {
	var areas, ops, reports, results []string
	for a := AreaNone; a <= AreaCorrupt; a++ {
		areas = append(areas, a.String())
	}
	for op := ChangeRecord; op <= ChangeLapse; op++ {
		ops = append(ops, op.String())
	}
	for k := ReportNone; k <= ReportRelayed; k++ {
		reports = append(reports, k.String())
	}
	for r := Pending; r <= Failed; r++ {
		results = append(results, r.String())
	}
	for _, c := range []struct{ got, want []string }{
		{areas, []string{"none", "incoming", "deferred", "hold", "corrupt"}},
		{ops, []string{"record", "defer", "remove", "hold", "release", "expire", "warn", "reported", "corrupt", "lapse"}},
		{reports, []string{"", "failed", "delayed", "delivered", "relayed"}},
		{results, []string{"pending", "sent", "deferred", "bounced"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// A level is written in configurations and read back from them.
func TestLevelNames(t *testing.T) {
	for want, name := range []string{"lockstep", "group", "overlap", "stream"} {
		var l Level
		if err := l.UnmarshalText([]byte(name)); err != nil || l != Level(want) {
			t.Errorf("%s is level %d: %v", name, l, err)
		}
		if text, _ := l.MarshalText(); string(text) != name {
			t.Errorf("level %d prints %q", l, text)
		}
	}
	for _, name := range []string{"", "Group", "level 4", "4"} {
		l := LevelGroup
		if err := l.UnmarshalText([]byte(name)); err == nil || l != LevelGroup {
			t.Errorf("%q is level %d", name, l)
		}
	}
	if got := Level(9).String(); got != "level 9" {
		t.Errorf("an unknown level prints %q", got)
	}
}

// A recipient is settled once no further attempt is needed.
func TestSettled(t *testing.T) {
	for r, want := range map[Result]bool{Pending: false, Delivered: true, Deferred: false, Failed: true} {
		if r.Settled() != want {
			t.Errorf("%v: settled %v", r, r.Settled())
		}
	}
}

// The deferred area is read in the order of buckets, then of due instants, and of IDs where
// these are equal; a cursor that comes before itself would read for ever.
func TestCursorOrder(t *testing.T) {
	order := []Cursor{{}, {0, 0, 1}, {0, 0, 2}, {0, 1, 0}, {0, 1, 5}, {0, 2, 0}, {0, Never, 0}, {0, Never, 1}, {1, 0, 0}, {1, 0, 1}, {1, Never, 0}, {2, 0, 5}}
	for i, a := range order {
		for j, b := range order {
			if a.Before(b) != (i < j) {
				t.Errorf("%v before %v: %v", a, b, a.Before(b))
			}
		}
	}
}
