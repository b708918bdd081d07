package source

import (
	"net/netip"
	"testing"
	"time"

	"github.com/posthaste-mta/posthaste/mail"
)

const noon = mail.Instant(1_750_000_000_000_000_000)

func configured(addresses ...string) *State {
	s := &State{}
	now := Source{Name: "s"}
	for _, a := range addresses {
		now.Addresses = append(now.Addresses, netip.MustParseAddr(a))
	}
	s.Configure(now)
	return s
}

// Every state of an address is reached, and can be left.
func TestAddressStates(t *testing.T) {
	reached := map[AddressState]bool{AddressNone: true}
	for range addressStates {
		for from := range AddressState(addressStates) {
			for to := range AddressState(addressStates) {
				if reached[from] && addressTransitions[from][to] {
					reached[to] = true
				}
			}
		}
	}
	for s := range AddressState(addressStates) {
		if !reached[s] || addressTransitions[s] == [addressStates]bool{} {
			t.Errorf("%v: reached: %t, can be left: %v", s, reached[s], addressTransitions[s])
		}
	}
}

// An address that fails is withdrawn for five seconds, and for twice as long each time that it fails when it is tried, up to five
// minutes. The first failure of all is what the operator is told of, and since when.
func TestWithdrawals(t *testing.T) {
	s := configured("192.0.2.1")
	why := mail.Reply{Code: 451, Text: "cannot assign requested address"}
	now := noon
	for i, want := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		first, ok := s.Withdraw(IPv4, why, now)
		pause := s.Of(IPv4).Until.Sub(now)
		if pause != want*time.Second || first != (i == 0) || !ok || s.Up() || s.Of(IPv4).Since != noon {
			t.Fatalf("failure %d: a pause of %v, first: %t, taken: %t, up: %t, since %v", i+1, pause, first, ok, s.Up(), s.Of(IPv4).Since)
		}
		if _, again := s.Withdraw(IPv4, why, now); again {
			t.Fatal("a dial from before counts")
		}
		if s.WhyDown() != why.Text {
			t.Errorf("down because of %q", s.WhyDown())
		}
		now = now.Add(pause)
		if s.Try(IPv4); !s.Up() {
			t.Fatal("it cannot be tried")
		}
	}
	if !s.Restore(IPv4) || s.Restore(IPv4) || *s.Of(IPv4) != (Address{State: AddressUsed}) {
		t.Errorf("restored as %+v", s.Of(IPv4))
	}
	if first, _ := s.Withdraw(IPv4, why, now); s.Of(IPv4).Until != now.Add(5*time.Second) || !first {
		t.Errorf("it fails anew: a pause until %v", s.Of(IPv4).Until)
	}
}

// A source reaches the hosts of the families of which it has a usable address. Mail without a source reaches all.
func TestReaches(t *testing.T) {
	four, six := mail.Host{Addr: netip.MustParseAddrPort("192.0.2.9:25")}, mail.Host{Addr: netip.MustParseAddrPort("[2001:db8::9]:25")}
	set := mail.HostSet{Tiers: [][]mail.Host{{four}, {six}}, Until: noon}
	s := configured("2001:db8::1")
	if s.Reaches(four) || !s.Reaches(six) {
		t.Error("the families are mixed up")
	}
	got := s.Reachable(set)
	if len(got.Tiers) != 1 || got.Tiers[0][0] != six || got.Until != noon || len(set.Tiers) != 2 {
		t.Errorf("reachable: %+v", got)
	}
	var none *State
	if !none.Reaches(four) || len(none.Reachable(set).Tiers) != 2 {
		t.Error("mail without a source does not reach all")
	}
}

// After a reload a withdrawn address that stays is tried, another in its place is used, and one without a successor is
// gone. Connections end where they would come from another address, or with another name.
func TestReload(t *testing.T) {
	for _, tc := range []struct {
		now     Source
		changed bool
		state   AddressState
	}{
		{Source{Name: "s", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, false, AddressTried},
		{Source{Name: "s", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}}, true, AddressUsed},
		{Source{Name: "s", Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::1")}}, true, AddressNone},
		{Source{Name: "s", Hello: "a.test", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, true, AddressTried},
	} {
		s := configured("192.0.2.1")
		s.Withdraw(IPv4, mail.Reply{Text: "down"}, noon)
		if changed := s.Configure(tc.now); changed != tc.changed || s.Of(IPv4).State != tc.state {
			t.Errorf("%+v: changed: %t, %v", tc.now, changed, s.Of(IPv4).State)
		}
	}
}

// What was sent is counted by the day.
func TestTally(t *testing.T) {
	var tally Tally
	tally.Add(mail.Delivered, noon)
	tally.Add(mail.Failed, noon.Add(time.Hour))
	if tally.Since != noon || tally.Count[mail.Delivered] != 1 || tally.Count[mail.Failed] != 1 {
		t.Errorf("%+v", tally)
	}
	tomorrow := noon.Add(24 * time.Hour)
	if next := tally.At(tomorrow); next.Since != tomorrow-tomorrow%day || next.Count != [results]uint64{} || tally.Count[mail.Failed] != 1 {
		t.Errorf("the next day: %+v", next)
	}
	tally.Add(mail.Deferred, tomorrow)
	if tally.Count != [results]uint64{mail.Deferred: 1} {
		t.Errorf("%+v", tally)
	}
}
