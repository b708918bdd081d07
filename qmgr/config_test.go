package qmgr_test

import (
	"reflect"
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
