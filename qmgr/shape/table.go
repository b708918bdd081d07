package shape

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-mta/posthaste/mail"
)

// A Destination is the configuration of one receiver.
type Destination struct {
	Name     string         // name given by the operator
	Domains  []string       // patterns; see CheckDomain
	MX       []string       // patterns; see CheckMX
	Networks []netip.Prefix // without bits set after the prefix
	Limits   Limits
}

// A Table finds the limits of destinations. It is immutable. A nil Table is empty.
type Table struct {
	entries []Destination
	domains map[string]int // to an index in entries
	below   map[string]int // by the domain without its dot
	hosts   map[string]int
	globs   map[string][]glob // by the domain after the last star
	nets    map[netip.Prefix]int
	bits    [2][]int // prefix lengths in use, longest first: of IPv4, of IPv6
}

// Clone returns a copy that shares no memory with d.
func (d Destination) Clone() Destination {
	d.Domains, d.MX, d.Networks = slices.Clone(d.Domains), slices.Clone(d.MX), slices.Clone(d.Networks)
	return d
}

// NewTable compiles a table. It keeps a reference to the slices in all. The error joins all errors:
// invalid patterns, and those that two destinations have.
func NewTable(all []Destination) (*Table, error) {
	t := &Table{
		entries: slices.SortedFunc(slices.Values(all), func(a, b Destination) int { return strings.Compare(a.Name, b.Name) }),
		domains: make(map[string]int), below: make(map[string]int), hosts: make(map[string]int),
		globs: make(map[string][]glob), nets: make(map[netip.Prefix]int),
	}
	b := builder{t: t, owner: make(map[string]int)}
	for i := range t.entries {
		b.add(i)
	}
	for family := range t.bits {
		slices.SortFunc(t.bits[family], func(a, b int) int { return b - a })
		t.bits[family] = slices.Compact(t.bits[family])
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	return t, nil
}

// A builder fills a table.
type builder struct {
	t     *Table
	owner map[string]int // destination of each pattern, whose key begins with its kind
	errs  []error
}

func (b *builder) add(i int) {
	d := &b.t.entries[i]
	if i > 0 && b.t.entries[i-1].Name == d.Name {
		b.fail(d, errors.New("there are two of this name"))
	}
	if len(d.Domains)+len(d.MX)+len(d.Networks) == 0 {
		b.fail(d, errors.New("it matches nothing"))
	}
	for _, p := range d.Domains {
		if b.claim(i, "domain ", p, CheckDomain(p)) {
			if domain, found := strings.CutPrefix(p, "."); found {
				b.t.below[domain] = i
			} else {
				b.t.domains[p] = i
			}
		}
	}
	for _, p := range d.MX {
		if b.claim(i, "MX ", p, CheckMX(p)) {
			b.addMX(p, i)
		}
	}
	for _, p := range d.Networks {
		if b.claim(i, "network ", p.String(), CheckNetwork(p)) {
			b.t.nets[p] = i
			b.t.bits[family(p.Addr())] = append(b.t.bits[family(p.Addr())], p.Bits())
		}
	}
}

func (b *builder) addMX(pattern string, i int) {
	if !strings.HasPrefix(pattern, ".") && !strings.Contains(pattern, "*") {
		b.t.hosts[pattern] = i
		return
	}
	domain, g := newGlob(pattern, i)
	b.t.globs[domain] = append(b.t.globs[domain], g)
}

// claim reports whether a pattern may be used for a destination.
func (b *builder) claim(i int, kind, pattern string, wrong error) bool {
	key := kind + pattern
	if kind == "MX " && strings.HasPrefix(pattern, ".") {
		key = kind + "*" + pattern // an equivalent form
	}
	owner, taken := b.owner[key]
	switch {
	case wrong != nil:
		b.fail(&b.t.entries[i], fmt.Errorf("%s%q: %w", kind, pattern, wrong))
	case taken && owner == i:
		b.fail(&b.t.entries[i], fmt.Errorf("%s%s is there twice", kind, pattern))
	case taken:
		b.fail(&b.t.entries[i], fmt.Errorf("%s%s also belongs to destination %s", kind, pattern, b.t.entries[owner].Name))
	default:
		b.owner[key] = i
	}
	return wrong == nil && !taken
}

func (b *builder) fail(d *Destination, err error) {
	b.errs = append(b.errs, fmt.Errorf("destination %s: %w", d.Name, err))
}

// CheckNetwork returns why a network is invalid, nil if it is valid. IPv4 addresses
// in IPv6 form are compared as IPv4, so a network of these would never match.
func CheckNetwork(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return errors.New("it is not a network")
	case p.Addr().Is4In6():
		return errors.New("it is a network of IPv4, in the form of IPv6")
	case p != p.Masked():
		return errors.New("it has bits set behind the prefix")
	}
	return nil
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// A Match is the result of a lookup.
type Match struct {
	Limits Limits
	Names  []string // of the destinations that match, most specific first
}

// Lookup finds the limits for mail to a nexthop by way of some hosts: those of the
// tier that mail goes to, for limits of a queue; a single one, for limits of a
// host. Either may be left out. Names must be in lower case.
func (t *Table) Lookup(nexthop string, hosts []mail.Host) Match {
	if t == nil || len(t.entries) == 0 {
		return Match{}
	}
	f := t.find(nexthop, hosts)
	return f.match()
}

// find returns all matching destinations, the most specific one first.
func (t *Table) find(nexthop string, hosts []mail.Host) finder {
	f := finder{t: t, hits: make([]hit, 0, 8)}
	f.domain(hostOf(nexthop))
	for i := range hosts {
		f.mx(strings.TrimSuffix(hosts[i].Name, "."))
		f.network(hosts[i].Addr.Addr().Unmap())
	}
	slices.SortFunc(f.hits, compareHits)
	return f
}

// Names reports whether the domain of a nexthop names a destination. Such a domain
// needs a queue of its own: in one that it shares with other domains, its limits
// would hold for these, too, or not at all.
func (t *Table) Names(nexthop string) bool {
	if t == nil {
		return false
	}
	var room [8]hit
	f := finder{t: t, hits: room[:0]}
	f.domain(hostOf(nexthop))
	return len(f.hits) > 0
}

// hostOf returns the domain or the host's name of a nexthop: without brackets
// and port, and of several nexthops the first.
func hostOf(nexthop string) string {
	if strings.HasPrefix(nexthop, "{") {
		return "" // a site, which is many domains
	}
	nexthop, _, _ = strings.Cut(nexthop, ",")
	if rest, found := strings.CutPrefix(nexthop, "["); found {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(nexthop, ":")
	return host
}

// A reason is why a destination matches, the most specific first.
type reason uint8

const (
	byDomain reason = iota
	bySuffix
	byHost
	byPattern
	byNetwork
)

// A hit is a destination that matches. Among equal reasons the larger weight is
// the more specific one.
type hit struct {
	entry  int
	why    reason
	weight int
}

type finder struct {
	t    *Table
	hits []hit
}

// hit keeps the best reason that a destination has to match.
func (f *finder) hit(entry int, why reason, weight int) {
	h := hit{entry, why, weight}
	i := slices.IndexFunc(f.hits, func(o hit) bool { return o.entry == entry })
	switch {
	case i < 0:
		f.hits = append(f.hits, h)
	case compareHits(h, f.hits[i]) < 0:
		f.hits[i] = h
	}
}

func compareHits(a, b hit) int {
	return cmp.Or(cmp.Compare(a.why, b.why), cmp.Compare(b.weight, a.weight), cmp.Compare(a.entry, b.entry))
}

func (f *finder) domain(name string) {
	if i, ok := f.t.domains[name]; ok {
		f.hit(i, byDomain, 0)
	}
	for parent := range parents(name) {
		if i, ok := f.t.below[parent]; ok {
			f.hit(i, bySuffix, len(parent))
		}
	}
}

func (f *finder) mx(name string) {
	if i, ok := f.t.hosts[name]; ok {
		f.hit(i, byHost, 0)
	}
	for parent := range parents(name) {
		globs := f.t.globs[parent]
		for i := range globs {
			if globs[i].matches(name) {
				f.hit(globs[i].entry, byPattern, globs[i].literal())
			}
		}
	}
}

func (f *finder) network(a netip.Addr) {
	if !a.IsValid() {
		return
	}
	a = a.WithZone("")
	for _, bits := range f.t.bits[family(a)] {
		p, _ := a.Prefix(bits) // the lengths are those of networks of this family
		if i, ok := f.t.nets[p]; ok {
			f.hit(i, byNetwork, bits)
		}
	}
}

// parents yields the parent domains of a name, the longest first.
func parents(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			_, rest, found := strings.Cut(name, ".")
			if !found || !yield(rest) {
				return
			}
			name = rest
		}
	}
}

// Source returns the name of the destination that a limit comes from, "" if it is
// the transport's; set reports whether Limits contain it. Otherwise it is as for
// Lookup.
func (t *Table) Source(nexthop string, hosts []mail.Host, set func(*Limits) bool) string {
	if t == nil || len(t.entries) == 0 {
		return ""
	}
	f := t.find(nexthop, hosts)
	for _, h := range f.hits {
		if d := &t.entries[h.entry]; set(&d.Limits) {
			return d.Name
		}
	}
	return ""
}

func (f *finder) match() (m Match) {
	for _, h := range f.hits {
		d := &f.t.entries[h.entry]
		m.Limits = m.Limits.Over(d.Limits)
		m.Names = append(m.Names, d.Name)
	}
	return m
}
