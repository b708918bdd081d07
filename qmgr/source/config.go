package source

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/posthaste-mta/posthaste/internal/mistakes"
)

// Config is the sources and the pools. The zero value has none, and chooses none.
type Config struct {
	Sources []Source
	Pools   []Pool // in the order in which they are tried
}

// A Source is one of our identities towards receivers.
type Source struct {
	Name string
	// Addresses are where its connections come from, at most one of each family. A host
	// of a family of which it has none cannot be reached from it.
	Addresses []netip.Addr
	// Hello is its name in EHLO; "" for that of all connections.
	Hello string
}

// A Pool is sources that share mail by their weights.
type Pool struct {
	Name    string
	Members []Member
	Match   Match
}

// A Member is a source in a pool.
type Member struct {
	Source string
	Weight int // relative to those of the other members, from 1 to WeightMax
}

// WeightMax is the largest weight of a Member, and MembersMax the largest number of them in
// a pool.
const (
	WeightMax  = 1000
	MembersMax = 1000
)

// A Match has conditions of several kinds. A message must meet one of each kind that is
// given; without any, all mail is meant.
type Match struct {
	Classes []string // names of classes (mail.Flow.Class)
	Tenants []string // patterns (package glob) for mail.Flow.Tenant
	// Senders are patterns for the envelope sender: an address, a domain, .domain for the
	// domains below it, or <> for the null sender.
	Senders []string
	// Routes are where the mail goes: the pattern of a transport, and behind a colon that
	// of a nexthop, or .domain for all below a domain; without one, any nexthop is meant.
	Routes []string
}

// Lists are the conditions by their kind, in a fixed order.
func (m *Match) Lists() iter.Seq2[string, *[]string] {
	return func(yield func(string, *[]string) bool) {
		_ = yield("class", &m.Classes) && yield("tenant", &m.Tenants) && yield("sender", &m.Senders) &&
			yield("route", &m.Routes)
	}
}

// Given reports whether there is a condition.
func (m *Match) Given() bool {
	for _, list := range m.Lists() {
		if len(*list) > 0 {
			return true
		}
	}
	return false
}

// Clone returns a copy that shares no memory with c.
func (c Config) Clone() Config {
	c.Sources, c.Pools = slices.Clone(c.Sources), slices.Clone(c.Pools)
	for i := range c.Sources {
		s := &c.Sources[i]
		s.Addresses = slices.Clone(s.Addresses)
	}
	for i := range c.Pools {
		p := &c.Pools[i]
		p.Members = slices.Clone(p.Members)
		for _, list := range p.Match.Lists() {
			*list = slices.Clone(*list)
		}
	}
	return c
}

// Equal reports whether two configurations are the same.
func (c Config) Equal(other Config) bool {
	return slices.EqualFunc(c.Sources, other.Sources, func(a, b Source) bool {
		return a.Name == b.Name && a.Hello == b.Hello && slices.Equal(a.Addresses, b.Addresses)
	}) && slices.EqualFunc(c.Pools, other.Pools, func(a, b Pool) bool {
		return a.Name == b.Name && slices.Equal(a.Members, b.Members) && a.Match.equal(&b.Match)
	})
}

func (m *Match) equal(other *Match) bool {
	return slices.Equal(m.Classes, other.Classes) && slices.Equal(m.Tenants, other.Tenants) &&
		slices.Equal(m.Senders, other.Senders) && slices.Equal(m.Routes, other.Routes)
}

// Validate returns everything that is wrong.
func (c Config) Validate() error {
	var wrong mistakes.List
	names := make(map[string]bool)
	for i := range c.Sources {
		s := &c.Sources[i]
		wrong.Unless(!names[s.Name], "source %s is there twice", s.Name)
		names[s.Name] = true
		wrong.AddOf("source "+s.Name, s.validate())
	}
	pools := make(map[string]bool)
	for i := range c.Pools {
		p := &c.Pools[i]
		wrong.Unless(!pools[p.Name], "pool %s is there twice", p.Name)
		pools[p.Name] = true
		wrong.AddOf("pool "+p.Name, p.validate(names))
	}
	return wrong.Join()
}

func (s *Source) validate() error {
	var wrong mistakes.List
	wrong.Unless(s.Name != "", "it has no name")
	wrong.Unless(len(s.Addresses) > 0, "it has no address")
	var families [2]bool
	for _, a := range s.Addresses {
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
			wrong.Add(fmt.Errorf("%s is not an address that connections can come from", a))
			continue
		}
		f := FamilyOf(a)
		wrong.Unless(!families[f], "it has two addresses of one family: %s", a)
		families[f] = true
	}
	return wrong.Join()
}

func (p *Pool) validate(sources map[string]bool) error {
	var wrong mistakes.List
	wrong.Unless(p.Name != "", "it has no name")
	wrong.Unless(len(p.Members) > 0 && len(p.Members) <= MembersMax, "it has %d sources: want 1 to %d", len(p.Members), MembersMax)
	seen := make(map[string]bool)
	for _, m := range p.Members {
		wrong.Unless(sources[m.Source], "there is no source %s", m.Source)
		wrong.Unless(!seen[m.Source], "source %s is there twice", m.Source)
		seen[m.Source] = true
		wrong.Unless(m.Weight >= 1 && m.Weight <= WeightMax, "weight %d of source %s is not between 1 and %d", m.Weight, m.Source, WeightMax)
	}
	for kind, list := range p.Match.Lists() {
		wrong.Unless(!slices.Contains(*list, ""), "a condition for the %s is empty", kind)
	}
	return wrong.Join()
}

// A Family is a family of addresses.
type Family uint8

// The families.
const (
	IPv4 Family = iota
	IPv6
	Families = iota
)

// String returns the family's usual name.
func (f Family) String() string { return [...]string{"IPv4", "IPv6"}[f] }

// FamilyOf returns the family in which packets to or from an address travel.
func FamilyOf(a netip.Addr) Family {
	if a.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// Address returns the source's address of a family; invalid if it has none.
func (s *Source) Address(f Family) netip.Addr {
	for _, a := range s.Addresses {
		if FamilyOf(a) == f {
			return a
		}
	}
	return netip.Addr{}
}
