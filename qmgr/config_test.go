package qmgr_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/posthaste-mta/posthaste/qmgr"
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
