package qmgr_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/qmgr"
	"github.com/posthaste-mta/posthaste/qmgr/fair"
)

// A configuration passes through several hands, each of which fills in the
// defaults: "none" must not become the default on the way.
func TestWithDefaultsTwice(t *testing.T) {
	cfg := qmgr.Config{DefaultTransport: qmgr.TransportConfig{
		RecipientLimit: -1, SlotCost: -1, SlotLoan: -1, SlotDiscount: -1, MinimumSlots: -1, RecipientPool: -1, ExtraRecipients: -1, RefillDelay: -1}}
	cfg.DefaultTransport.Window.Limit, cfg.DefaultTransport.Window.FailedCohortLimit = -1, -1
	cfg.Backoff.JitterPercent, cfg.Backoff.MaximalQueueLifetime = -1, -1
	once := cfg.WithDefaults()
	twice := once.WithDefaults()
	if !reflect.DeepEqual(once, twice) {
		t.Errorf("once:  %+v\ntwice: %+v", once, twice)
	}
	if err := twice.Validate(); err != nil {
		t.Error(err)
	}
}

// Each mistake names the transport that has it, however many there are of one kind.
func TestEachMistakeNamesItsTransport(t *testing.T) {
	cfg := qmgr.Config{}.WithDefaults()
	bad := cfg.DefaultTransport
	bad.RefillLimit = -1
	bad.Window.Limit, bad.Window.Initial = 5, -1
	bad.Connections.Initial, bad.Connections.CountLimit, bad.Connections.InFlight = -1, -1, -1
	cfg.Transports = map[string]qmgr.TransportConfig{"slow": bad}
	err := cfg.Validate()
	if err == nil {
		t.Fatal("the configuration is valid")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, "transport slow: ") {
			t.Errorf("%q does not name the transport", line)
		}
	}
	if len(lines) != 5 {
		t.Errorf("%d mistakes are reported:\n%v", len(lines), err)
	}
}

// Nothing of a configuration is the caller's any more once it is completed: the core keeps it.
func TestSharesAreCopied(t *testing.T) {
	cfg := qmgr.Config{Shares: fair.Rules{Classes: []fair.Class{{Name: "c", Weight: 2}}, Tenants: map[string]int{"t": 3}, Flows: map[string]int{"f": 4}}}
	got := cfg.WithDefaults().Shares
	cfg.Shares.Classes[0].Weight, cfg.Shares.Tenants["t"], cfg.Shares.Flows["f"] = 9, 9, 9
	if got.Classes[0].Weight != 2 || got.Tenants["t"] != 3 || got.Flows["f"] != 4 {
		t.Errorf("the configuration has changed with the caller's: %+v", got)
	}
}
