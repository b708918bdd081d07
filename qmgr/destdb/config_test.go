package destdb

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// All errors of a configuration are returned at once, and its zero value is valid.
func TestValidate(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
	for want, cfg := range map[string]Config{
		"retry min -1":           {RetryMin: -1},
		"host limit -1":          {HostLimit: -1},
		"longer than retry max":  {RetryMin: 2 * time.Hour},
		"longer than step-down":  {StepDownTTL: 15 * 24 * time.Hour},
		"at most 87600h":         {FactsTTL: 100 * 365 * 24 * time.Hour},
		"tarpit factor -3":       {TarpitFactor: -3},
		"step-up connections -1": {StepUpConns: -1, StepUpMessages: -2},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among: %v", want, err)
		}
	}
}

// A limit that is lowered takes effect at once.
func TestConfigure(t *testing.T) {
	db := New(Config{}, 1)
	for _, name := range []string{"a", "b", "c"} {
		db.Succeeded(key(name), epoch)
	}
	db.Configure(Config{HostLimit: 1})
	db.check()
	if _, known := db.Record(key("c")); !known || db.Len() != 1 {
		t.Errorf("%d hosts are left, the last one: %v", db.Len(), known)
	}
}

// Names are shown to operators.
func TestNames(t *testing.T) {
	for want, state := range []State{Unused, InUse, Closed, RetryLater, RetryDue, 5} {
		if got := state.String(); got != []string{"unused", "in-use", "closed", "retry-later", "retry-due", "state 5"}[want] {
			t.Errorf("state %d prints %q", state, got)
		}
	}
	k := Key{Addr: key("a").Addr, Source: "e", Security: "s"}
	if got := k.String(); got != "192.0.2.1:25 source=e security=s" {
		t.Errorf("the key prints %q", got)
	}
}

// A connection that is shut must have been opened: a wrong count is detected where
// it arises.
func TestShutPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(Config{}, 1).Shut(key("a"), Life{}, epoch)
}

// The admin interface lists all hosts; their views equal those of View.
func TestAll(t *testing.T) {
	db := New(Config{}, 1)
	for _, name := range []string{"a", "b", "c"} {
		db.Open(key(name), epoch)
	}
	n := 0
	for k, v := range db.each(epoch) {
		if v != db.View(k, epoch) || v.State != InUse {
			t.Errorf("%v: %+v", k, v)
		}
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d hosts", n)
	}
}

// An operator's order makes hosts that failed before it be tried the next time they
// are needed; a host that has failed since then is not tried, however many messages
// the order finds.
func TestRetryReset(t *testing.T) {
	db := New(Config{}, 1)
	key, now := key("a"), epoch
	fail := func() { db.Failed(key, now, now, mail.Reply{Code: 450}) }
	fail()
	reset := db.NewRetryReset()
	db.ResetRetry(key, reset-1, now)
	if db.RetryAt(key, now) == 0 {
		t.Error("a reset before the failure clears it")
	}
	now = now.Add(time.Second)
	db.ResetRetry(key, reset, now)
	if at := db.RetryAt(key, now); at != 0 {
		t.Errorf("a host that was reset is left alone until %v", at)
	}
	fail()
	db.ResetRetry(key, reset, now)
	if db.RetryAt(key, now) == 0 {
		t.Error("a host that has failed since the reset is reset")
	}
	db.ResetRetry(key, db.NewRetryReset(), now)
	if at := db.RetryAt(key, now); at != 0 {
		t.Errorf("after another reset it is left alone until %v", at)
	}
}
