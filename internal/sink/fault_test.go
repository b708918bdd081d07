package sink

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/posthaste-mta/posthaste/mail"
)

// A user who does not exist does not exist at the next attempt, on no other
// connection; and as many do not exist as was asked for.
func TestUnknownRecipients(t *testing.T) {
	faults := []Fault{{Stage: AtRecipient, Kind: RefuseForGood, Share: 0.3}}
	one, other := newFate(7, 1), newFate(7, 2)
	const n = 20000
	unknown := 0
	for i := range n {
		address := mail.Address(fmt.Sprintf("user%d@example.test", i))
		kind := one.draw(faults, netip.Addr{}, AtRecipient, address)
		if again := other.draw(faults, netip.Addr{}, AtRecipient, address); kind != again {
			t.Fatalf("%s: %s, then %s", address, kind, again)
		}
		if kind != 0 {
			unknown++
		}
	}
	// Five standard deviations of the binomial distribution.
	if off := math.Abs(float64(unknown) - 0.3*n); off > 5*math.Sqrt(n*0.3*0.7) {
		t.Errorf("%d of %d addresses do not exist, want about %d", unknown, n, 3*n/10)
	}
}

// A failing run must fail again with its seed.
func TestFateIsRepeatable(t *testing.T) {
	faults := []Fault{{Stage: AtMail, Kind: Drop, Share: 0.5}, {Stage: AtMail, Kind: RefuseForNow, Share: 0.5}}
	sequence := func(seed, connection uint64) string {
		f := newFate(seed, connection)
		var s string
		for range 64 {
			s += fmt.Sprint(f.draw(faults, netip.Addr{}, AtMail, ""))
		}
		return s
	}
	first := sequence(1, 1)
	if again := sequence(1, 1); again != first {
		t.Errorf("the same seed and connection give %s, then %s", first, again)
	}
	if sequence(2, 1) == first || sequence(1, 2) == first {
		t.Error("another seed, or connection, gives the same faults")
	}
}
