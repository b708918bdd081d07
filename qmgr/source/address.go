package source

import (
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// An AddressState is whether connections can come from an address.
type AddressState uint8

const (
	AddressNone      AddressState = iota // the source has none of this family
	AddressUsed                          // as far as is known they can
	AddressWithdrawn                     // they could not
	AddressTried                         // they could not, and the next ones will show whether they can again
	addressStates    = iota
)

// addressTransitions[from][to] reports which changes there are. A reload may make any
// address a new one.
var addressTransitions = [addressStates][addressStates]bool{
	AddressNone:      {AddressUsed: true},
	AddressUsed:      {AddressNone: true, AddressWithdrawn: true},
	AddressWithdrawn: {AddressNone: true, AddressUsed: true, AddressTried: true},
	AddressTried:     {AddressNone: true, AddressUsed: true, AddressWithdrawn: true},
}

// String returns the word that views show.
func (s AddressState) String() string {
	return [...]string{"none", "in use", "withdrawn", "tried"}[s]
}

// An Address is one address of a source, and what is known of it.
//
// Invariant: Why, Since and pause are zero unless it is withdrawn or tried, and Until unless it is withdrawn.
type Address struct {
	State AddressState
	Why   mail.Reply    // AddressWithdrawn, AddressTried: what the system said
	Since mail.Instant  // likewise: when it said so first
	pause time.Duration // likewise: the last
	Until mail.Instant  // AddressWithdrawn: when it is tried
}

func (a *Address) become(s AddressState) {
	assert.That(addressTransitions[a.State][s], "an address in state %d comes to state %d", a.State, s)
	a.State = s
}

// usable reports whether connections may be opened from the address.
func (a *Address) usable() bool { return a.State == AddressUsed || a.State == AddressTried }

// The pause after which a withdrawn address is tried again, first and at most. A dial that
// fails for it costs a system call.
const (
	firstWithdrawal = 5 * time.Second
	lastWithdrawal  = 5 * time.Minute
)

// A State is a source, and whether mail can leave from it. A nil State is mail without a source, which
// leaves from the address that the system chooses. An address that cannot be used on this machine any more is withdrawn
// until it may be tried again.
type State struct {
	Source
	Configured bool // false: a reload has removed it, and mail is still under way from it
	Today      Tally
	addresses  [Families]Address
}

// Of returns what is known of the address of a family.
func (s *State) Of(f Family) *Address { return &s.addresses[f] }

// String returns the source's name; "" for no source.
func (s *State) String() string {
	if s == nil {
		return ""
	}
	return s.Name
}

// Up reports whether the source is configured and has an address that can be used.
func (s *State) Up() bool {
	if !s.Configured {
		return false
	}
	for f := range s.addresses {
		if s.addresses[f].usable() {
			return true
		}
	}
	return false
}

// Reaches reports whether the source has an address for a host. Mail without a source has
// one for each.
func (s *State) Reaches(h mail.Host) bool {
	return s == nil || s.addresses[FamilyOf(h.Addr.Addr())].usable()
}

// Reachable returns the hosts that the source reaches.
func (s *State) Reachable(set mail.HostSet) mail.HostSet {
	if s == nil {
		return set
	}
	all := set.Tiers
	set.Tiers = nil
	for _, hosts := range all {
		var reached []mail.Host
		for _, h := range hosts {
			if s.Reaches(h) {
				reached = append(reached, h)
			}
		}
		if len(reached) > 0 {
			set.Tiers = append(set.Tiers, reached)
		}
	}
	return set
}

// WhyDown is why the source cannot be used.
func (s *State) WhyDown() string {
	for f := range s.addresses {
		if a := &s.addresses[f]; a.State == AddressWithdrawn {
			return a.Why.Text
		}
	}
	return "not configured any more"
}

// Withdraw takes an address out of use from which a connection could not be opened, until the end of a pause that doubles each
// time. It reports false if it is out of use already: the connection was dialed before this was known. First means that the
// address was in use until now, and was not being tried.
func (s *State) Withdraw(f Family, why mail.Reply, now mail.Instant) (first, ok bool) {
	a := &s.addresses[f]
	switch a.State {
	case AddressUsed:
		first, a.Since, a.pause = true, now, firstWithdrawal
	case AddressTried:
		a.pause = min(2*a.pause, lastWithdrawal)
	default:
		return false, false
	}
	a.become(AddressWithdrawn)
	a.Why, a.Until = why, now.Add(a.pause)
	return first, true
}

// Try lets a withdrawn address be tried again.
func (s *State) Try(f Family) {
	s.addresses[f].become(AddressTried)
	s.addresses[f].Until = 0
}

// Restore notes that an address can be used, and reports whether that was not known.
func (s *State) Restore(f Family) bool {
	a := &s.addresses[f]
	if a.State != AddressTried {
		return false
	}
	*a = Address{State: AddressTried}
	a.become(AddressUsed)
	return true
}

// Configure puts in force what the source is now, and reports whether connections from it are not what they would be
// now. A withdrawn address that stays is tried: an operator who reloads may have put it right.
func (s *State) Configure(now Source) (changed bool) {
	was := s.Source
	s.Source, s.Configured = now, true
	for f := range s.addresses {
		a, family := &s.addresses[f], Family(f)
		switch has, same := now.Address(family).IsValid(), was.Address(family) == now.Address(family); {
		case a.State == AddressWithdrawn && same:
			s.Try(family)
		case has && (a.State == AddressNone || !same):
			*a = Address{State: AddressUsed}
		case !has:
			*a = Address{}
		}
	}
	return was.Name != "" && (was.Hello != now.Hello || !slices.Equal(was.Addresses, now.Addresses))
}
