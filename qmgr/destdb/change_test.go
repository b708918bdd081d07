package destdb

import (
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// Whatever is to outlive the process, or to be known to other nodes, is among the
// changes: each call that alters a record lists it, and a success lists only the end of
// failures, since there is one with every connection.
func TestWhatIsAChange(t *testing.T) {
	reason := mail.Reply{Code: 451, Text: "no answer"}
	fail := func(db *DB, k Key) { db.Failed(k, epoch, epoch, reason) }
	for _, c := range []struct {
		name   string
		before func(*DB, Key)
		change func(*DB, Key)
		listed bool
	}{
		{"failure", nil, fail, true},
		{"success after a failure", fail, func(db *DB, k Key) { db.Succeeded(k, epoch) }, true},
		{"success after a success", func(db *DB, k Key) { db.Succeeded(k, epoch) }, func(db *DB, k Key) { db.Succeeded(k, epoch+1) }, false},
		{"reset", fail, func(db *DB, k Key) {
			if !db.ResetRetry(k, db.NewRetryReset(), epoch+1) {
				t.Error("a host that has failed is not reset")
			}
		}, true},
		{"reset of nothing", nil, func(db *DB, k Key) {
			if db.ResetRetry(k, db.NewRetryReset(), epoch+1) {
				t.Error("a host that has not failed is reset")
			}
		}, false},
		{"step down", nil, func(db *DB, k Key) { db.StepDown(k, mail.LevelOverlap, epoch) }, true},
		{"hold for ever", nil, func(db *DB, k Key) { db.HoldForever(k, mail.LevelGroup, epoch) }, true},
		{"probe", nil, func(db *DB, k Key) { db.Probed(k, mail.ProofPassed, epoch) }, true},
		{"connection that was made", func(db *DB, k Key) { db.Open(k, epoch) }, func(db *DB, k Key) { db.Shut(k, Life{MadeAt: epoch}, epoch) }, true},
		{"connection that was not", func(db *DB, k Key) { db.Open(k, epoch) }, func(db *DB, k Key) { db.Shut(k, Life{}, epoch) }, false},
	} {
		db := New(Config{}, 1)
		feed := db.NewFeed()
		k := key("a")
		db.ObserveCaps(k, 0, 0, epoch) // it is known
		if c.before != nil {
			c.before(db, k)
		}
		feed.Changed(nil, 10)
		c.change(db, k)
		if got := feed.Changed(nil, 10); (len(got) == 1 && got[0].Key == k && !got[0].Gone) != c.listed {
			t.Errorf("%s: the changes are %+v, want the host to be there: %v", c.name, got, c.listed)
		}
	}
}

// A host works if it has been seen to answer and has not failed since; only one that has
// failed says when.
func TestWorks(t *testing.T) {
	db := New(Config{}, 1)
	k := key("a")
	works := func(when string, want bool) {
		t.Helper()
		if got := db.Works(k); got != want {
			t.Errorf("%s: works %v", when, got)
		}
		if v := db.View(k, epoch+1); (v.FailedAt != 0) != (v.Failures > 0) {
			t.Errorf("%s: %d failures, the last at %v", when, v.Failures, v.FailedAt)
		}
	}
	works("before it is known", false)
	db.Succeeded(k, epoch)
	works("connected", false)
	db.ObserveRTT(k, time.Millisecond, epoch)
	works("answered", true)
	db.Failed(k, epoch, epoch, mail.Reply{Code: 451})
	works("failed", false)
	db.Succeeded(k, epoch+1)
	works("answered again", true)
}

// Each thing that was learned of a host keeps its record for as long as facts are kept,
// though nothing is known of its states.
func TestFactsAreKept(t *testing.T) {
	for name, r := range map[string]Record{
		"nothing": {},
		"levels":  {Levels: Levels{Strikes: 1}},
		"limit":   {Limit: Limit{Messages: 5, At: epoch}},
		"proof":   {Proof: Proof{At: epoch, Result: mail.ProofFailed}},
		"pace":    {Pace: Pace{At: epoch, RTT: time.Second, RTTMin: time.Second}},
		"caps":    {Caps: Caps{At: epoch, SizeMax: 1000}},
	} {
		r.Used = epoch
		for after, want := range map[time.Duration]bool{0: name != "nothing", 30*24*time.Hour - 1: name != "nothing", 30 * 24 * time.Hour: false} {
			db := New(Config{}, 1)
			db.Learn(key("a"), r, epoch)
			db.Collect(epoch.Add(after), 10)
			if _, known := db.Record(key("a")); known != want {
				t.Errorf("%s, after %v: known %v", name, after, known)
			}
		}
	}
}

// Observations are at least a nanosecond, so that none looks as if there were none, and
// at most ten minutes.
func TestObservationsAreBounded(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{-time.Second: 1, 0: 1, time.Hour: 10 * time.Minute} {
		db := New(Config{}, 1)
		db.ObserveRTT(key("a"), d, epoch)
		db.ObserveService(key("a"), d, epoch)
		if v := db.View(key("a"), epoch); v.RTT != want || v.RTTMin != want || v.Service != want {
			t.Errorf("%v is observed as %v, %v and %v, want %v", d, v.RTT, v.RTTMin, v.Service, want)
		}
	}
}

// After how many messages a host closes connections is learned from three in a row, and
// again when it is not believed any more; connections that are dropped in their first
// message, or outlived by another, show nothing.
func TestLearnedAgain(t *testing.T) {
	db := New(Config{}, 1)
	k, now := key("a"), epoch
	shut := func(messages uint32, why mail.CloseReason, outlived bool) {
		db.Open(k, now)
		db.Shut(k, Life{MadeAt: now, Messages: messages, Why: why, Outlived: outlived}, now)
		now++
	}
	known := func(when string, want int) {
		t.Helper()
		if got := db.View(k, now).MessagesMax; got != want {
			t.Errorf("%s: closes after %d messages, want %d", when, got, want)
		}
	}
	for n, want := range []int{0, 0, 5} {
		known("before", 0)
		shut(5, []mail.CloseReason{mail.CloseLost, mail.CloseBusy}[n%2], false)
		known("after some", want)
	}
	for range 3 {
		shut(0, mail.CloseLost, false)
	}
	known("after three that were dropped at once", 5)
	now = now.Add(limitTTL)
	known("a day later", 0)
	for _, want := range []int{0, 0, 5} {
		shut(5, mail.CloseLost, false)
		known("after some more", want)
	}
	now = now.Add(limitTTL)
	shut(5, mail.CloseLost, false)
	shut(5, mail.CloseLost, false)
	shut(5, mail.CloseLost, true)
	shut(5, mail.CloseLost, false)
	shut(5, mail.CloseLost, false)
	known("with one that was outlived among five", 0)
	shut(5, mail.CloseLost, false)
	known("after the next", 5)
}

// Limits may be equal where one must not be above the other.
func TestEqualBounds(t *testing.T) {
	if err := (Config{RetryMin: time.Hour, RetryMax: time.Hour, StepDownTTL: time.Hour, StepDownMax: time.Hour}).Validate(); err != nil {
		t.Error(err)
	}
	want := Config{RetryMin: time.Minute, RetryMax: time.Hour, RetryGrace: 15 * time.Minute, FailureTTL: 24 * time.Hour, ClosedTTL: 10 * time.Minute,
		FactsTTL: 30 * 24 * time.Hour, HostLimit: 200_000, StepDownTTL: 24 * time.Hour, StepDownMax: 14 * 24 * time.Hour, StepUpMessages: 50, StepUpConns: 3, TarpitFactor: 3}
	if got := (Config{}).WithDefaults(); got != want {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
}
