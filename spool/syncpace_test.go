package spool

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

func TestSyncPace(t *testing.T) {
	const ms = time.Millisecond
	fast := 8 * ms / paceCommits
	for _, c := range []struct {
		name     string
		interval time.Duration
		drafts   int
		commits  int
		every    time.Duration
		later    time.Duration // after the last commit
		want     time.Duration
	}{
		{"a crowd", ms, 12, 16, fast, 0, ms},
		{"for a long time", ms, 12, 1000, fast, 0, ms},
		{"few drafts", ms, 11, 1000, fast, 0, 0},
		{"few commits", ms, 12, 15, fast, 0, 0},
		{"commits now and then", ms, 1000, 1000, ms, 0, 0},
		{"commits long ago", ms, 1000, 1000, fast, 8 * ms, 0},
		{"commits lately", ms, 1000, 1000, ms / 10, 6 * ms, ms},
		{"switched off", 0, 1000, 1000, fast, 0, 0},
	} {
		var p syncPace
		p.begin(c.interval)
		for range c.drafts {
			p.opened()
		}
		now := time.Hour
		for range c.commits {
			now += c.every
			p.committedAt(now)
		}
		if got := p.pauseAt(now + c.later); got != c.want {
			t.Errorf("%s: waits for %v, want %v", c.name, got, c.want)
		}
	}
}

// However a draft ends, it is not counted as open any longer.
func TestSyncPaceCountsDrafts(t *testing.T) {
	s := open(t, Config{Settings: Settings{Dir: t.TempDir(), SyncInterval: time.Millisecond}})
	begin := func() *Draft {
		d, err := s.Begin(ctxTest)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	kept, aborted, empty, twice := begin(), begin(), begin(), begin()
	if got := s.pace.drafts.Load(); got != 4 {
		t.Fatalf("%d drafts are open, want 4", got)
	}
	for _, d := range []*Draft{kept, twice} {
		if err := d.AddRecipient(mail.Recipient{Address: "a@example.org"}); err != nil {
			t.Fatal(err)
		}
		if err := d.Commit(ctxTest, mail.Envelope{}); err != nil {
			t.Fatal(err)
		}
	}
	twice.Abort()
	aborted.Abort()
	aborted.Abort()
	if err := empty.Commit(ctxTest, mail.Envelope{}); err == nil {
		t.Fatal("a message without recipients was committed")
	}
	if got := s.pace.drafts.Load(); got != 0 {
		t.Errorf("%d drafts are open, want none", got)
	}
	if got := s.pace.n.Load(); got != 2 {
		t.Errorf("%d commits were counted, want 2", got)
	}
}
