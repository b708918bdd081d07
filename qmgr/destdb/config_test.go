package destdb

import (
	"strings"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

// A configuration is told everything that is wrong with it at once, and its
// zero value is right.
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

// Names are what operators see.
func TestNames(t *testing.T) {
	for want, state := range []State{Unused, InUse, Closed, RetryLater, RetryDue, 5} {
		if got := state.String(); got != []string{"unused", "in-use", "closed", "retry-later", "retry-due", "state 5"}[want] {
			t.Errorf("state %d prints %q", state, got)
		}
	}
	k := Key{Addr: key("a").Addr, Egress: "e", Security: "s"}
	if got := k.String(); got != "192.0.2.1:25 egress=e security=s" {
		t.Errorf("the key prints %q", got)
	}
}

// What is shut must have been opened: a count that is wrong is found where it
// goes wrong.
func TestShutPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(Config{}, 1).Shut(key("a"), Life{}, epoch)
}

// The admin interface lists all hosts; their views are those that View gives.
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

// An operator's order has hosts tried that failed before it, whenever they are wanted;
// one that has failed since then is left alone, however many messages the order finds.
func TestPardon(t *testing.T) {
	db := New(Config{}, 1)
	key, now := key("a"), epoch
	fail := func() { db.Failed(key, now, now, mail.Reply{Code: 450}) }
	fail()
	amnesty := db.Amnesty()
	db.Pardon(key, amnesty-1, now)
	if db.RetryAt(key, now) == 0 {
		t.Error("an amnesty before the failure forgives it")
	}
	now = now.Add(time.Second)
	db.Pardon(key, amnesty, now)
	if at := db.RetryAt(key, now); at != 0 {
		t.Errorf("a pardoned host is left alone until %v", at)
	}
	fail()
	db.Pardon(key, amnesty, now)
	if db.RetryAt(key, now) == 0 {
		t.Error("a host that has failed since the amnesty is pardoned")
	}
	db.Pardon(key, db.Amnesty(), now)
	if at := db.RetryAt(key, now); at != 0 {
		t.Errorf("after another amnesty it is left alone until %v", at)
	}
}
