package source

import (
	"iter"
	"slices"
	"time"

	"github.com/posthaste-mta/posthaste/internal/assert"
	"github.com/posthaste-mta/posthaste/mail"
)

// A Fleet is all our sources and pools. The zero value has none, and is ready to use.
type Fleet struct {
	byName  map[string]*State
	all     []*State // in the order of the configuration, then those that it does not have any more
	table   *Table   // nil without pools
	turns   Turns
	members map[*Pool][]*State // the sources of each pool, in its order
	next    mail.Instant       // the end of the first pause; Never if none goes on
	// stranded is when mail was first deferred because no source of its pool could be used,
	// since an address was tried again; 0: none was.
	stranded mail.Instant
}

// Configure puts sources and pools in force, and returns the sources that are others now, so that their connections must
// end. Those that are not configured any more stay, since mail may be under way from them.
func (f *Fleet) Configure(cfg *Config) (changed []*State) {
	f.table, f.members = nil, make(map[*Pool][]*State, len(cfg.Pools))
	f.turns.Configure(cfg.Pools)
	if len(cfg.Pools) > 0 {
		f.table = NewTable(cfg)
	}
	if f.byName == nil {
		f.byName = make(map[string]*State)
	}
	old := f.all
	f.all = nil
	for _, s := range old {
		s.Configured = false
	}
	for i := range cfg.Sources {
		s := f.byName[cfg.Sources[i].Name]
		if s == nil {
			s = &State{}
			f.byName[cfg.Sources[i].Name] = s
		}
		f.all = append(f.all, s)
		if s.Configure(cfg.Sources[i]) {
			changed = append(changed, s)
		}
	}
	for _, s := range old {
		if !s.Configured {
			f.all = append(f.all, s)
		}
	}
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		for _, m := range p.Members {
			f.members[p] = append(f.members[p], f.byName[m.Source])
		}
	}
	f.findNext()
	return changed
}

// HasPools reports whether sources are chosen at all.
func (f *Fleet) HasPools() bool { return f.table != nil }

// All returns all sources, in the order of the configuration, then those that it does not have any more.
func (f *Fleet) All() []*State { return f.all }

// Place returns the place of a source in that order; -1 for no source.
func (f *Fleet) Place(s *State) int { return slices.Index(f.all, s) }

// Named returns the source of a name; nil if there is none.
func (f *Fleet) Named(name string) *State { return f.byName[name] }

// Pool returns the first pool that mail may use, nil if there is none.
func (f *Fleet) Pool(w Way) *Pool {
	if f.table == nil {
		return nil
	}
	return f.table.Pool(w)
}

// Members returns the sources of a pool, in its order.
func (f *Fleet) Members(p *Pool) []*State { return f.members[p] }

// A Use is whether mail may leave from a source for a destination.
type Use uint8

// The uses, the better the higher.
const (
	UseNot  Use = iota // no
	UseDead            // as UseWell, but the destination is dead from this source
	UseWell            // yes
)

// A Choice is about the source of one message for a destination.
type Choice struct {
	Pool            *Pool
	Transport, Name string
	Message         uint64           // its number, not 0
	Beside          iter.Seq[*State] // the sources from which further recipients of it wait
}

// Choose returns a source; nil if mail may leave from none of the pool now. The sources take turns (Turns). Passed over are those
// that must not be used, and those from which the destination is dead, as long as it is not from another one. Further recipients of a
// message go where the first ones do.
func (f *Fleet) Choose(c Choice, use func(*State) Use) *State {
	members := f.members[c.Pool]
	var dead bool // one may be used but for that
	alive := func(member int) bool {
		u := use(members[member])
		dead = dead || u == UseDead
		return u == UseWell
	}
	if i, ok := f.turns.Last(c.Pool, c.Transport, c.Name, c.Message); ok && alive(i) {
		return members[i]
	}
	if c.Beside != nil {
		for s := range c.Beside {
			if slices.Contains(members, s) && use(s) == UseWell {
				return s
			}
		}
	}
	i, ok := f.turns.Next(c.Pool, c.Transport, c.Name, c.Message, alive)
	if !ok && dead {
		i, ok = f.turns.Next(c.Pool, c.Transport, c.Name, c.Message, func(member int) bool { return use(members[member]) != UseNot })
	}
	if !ok {
		return nil
	}
	return members[i]
}

// Strand notes that mail is deferred because no source of its pool can be used.
func (f *Fleet) Strand(now mail.Instant) {
	if f.stranded == 0 {
		f.stranded = now
	}
}

// Rescue returns since when mail was deferred because no source of its pool could be used; 0 if none was. An address
// may be used again, and the mail is tried.
func (f *Fleet) Rescue() mail.Instant {
	since := f.stranded
	f.stranded = 0
	return since
}

// Withdraw takes an address out of use from which a connection could not be opened (State.Withdraw).
func (f *Fleet) Withdraw(s *State, family Family, why mail.Reply, now mail.Instant) (first, ok bool) {
	first, ok = s.Withdraw(family, why, now)
	f.findNext()
	return first, ok
}

// Next returns when a withdrawn address is tried next; Never if there is none.
func (f *Fleet) Next() mail.Instant {
	if f.next == 0 {
		return mail.Never
	}
	return f.next
}

func (f *Fleet) findNext() {
	f.next = mail.Never
	for _, s := range f.all {
		for family := range s.addresses {
			if a := &s.addresses[family]; a.State == AddressWithdrawn {
				f.next = min(f.next, a.Until)
			}
		}
	}
}

// together is how close the ends of pauses are that end together. What the first trial finds is not
// looked for again for some minutes: if that trial fails, the mail would wait so long though another
// address was tried a moment later.
const together = time.Second

// TryDue lets those withdrawn addresses be tried again whose pauses are over, and others whose pauses are nearly over. It returns
// their sources; none before Next.
func (f *Fleet) TryDue(now mail.Instant) (tried []*State) {
	if f.Next() > now {
		return nil
	}
	for _, s := range f.all {
		due := false
		for family := range s.addresses {
			if a := &s.addresses[family]; a.State == AddressWithdrawn && a.Until <= now.Add(together) {
				s.Try(Family(family))
				due = true
			}
		}
		if due {
			tried = append(tried, s)
		}
	}
	f.findNext()
	return tried
}

// Check checks the invariants.
func (f *Fleet) Check() {
	next := f.Next()
	f.findNext()
	assert.That(f.next == next, "the first pause ends at %v, expected at %v", f.next, next)
	for _, s := range f.all {
		assert.That(f.byName[s.Name] == s, "source %s is not found by its name", s.Name)
		for family := range s.addresses {
			a := &s.addresses[family]
			assert.That((a.State == AddressWithdrawn) == (a.Until != 0), "source %s: an address is %v, and its pause ends at %v", s.Name, a.State, a.Until)
		}
	}
}
