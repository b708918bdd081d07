package conns

import (
	"testing"
	"time"
)

// What odds remember is halved as a whole, so that the share of refusals stays.
func TestOddsForgetBothKinds(t *testing.T) {
	var o odds
	for i := range 40 {
		now := epoch.Add(time.Duration(i) * time.Second)
		o.accepts(5, now)
		o.byChance(1, now) // beside fewer than were accepted a moment ago
	}
	if share := float64(o.noise) / float64(o.noise+o.accepted); share < 0.4 || share > 0.6 || o.noise+o.accepted >= oddsMemory {
		t.Errorf("%d accepted, %d refused: half of each is remembered as %.2f", o.accepted, o.noise, share)
	}
}

// So many refusals in a row do not come by chance, whatever the odds.
func TestOddsEndAtSixteen(t *testing.T) {
	o := odds{noise: 60}
	n := 1
	for o.byChance(0, epoch) {
		n++
	}
	if n != 16 {
		t.Errorf("the host is taken to be full after %d refusals, want 16", n)
	}
}

// The most connections that were accepted lately are counted from the last time that
// there were so many.
func TestOddsMostIsKeptUp(t *testing.T) {
	var o odds
	o.accepts(5, epoch)
	o.accepts(5, epoch.Add(2*time.Second))
	if !o.byChance(4, epoch.Add(4*time.Second)) {
		t.Error("a refusal beside four, two seconds after a fifth was accepted, is not taken for chance")
	}
}
